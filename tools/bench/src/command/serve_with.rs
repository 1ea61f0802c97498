//! `collie-bench serve-with`: a server with changes that only benchmarks make.

use std::process::ExitCode;

use collie::serve;
use collie_bench::beside_samples;
use collie_server::log_lines;

use super::programs;

#[derive(clap::Args)]
pub(crate) struct Changed {
    #[command(flatten)]
    serve: serve::Args,
    /// Record in commits what replay in the order of transaction starts needs.
    #[arg(long)]
    note_commit_times: bool,
    /// While the node leads, sample every call of an operating unit wherever samples are taken.
    #[arg(long)]
    sample_everything: bool,
    /// Do this much extra work with each sample: own:TIMES or six-calls:TIMES.
    #[arg(long, value_name = "KIND:TIMES")]
    beside_samples: Option<String>,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Those of the server; another kind of extra work.
pub(super) fn run(args: Changed) -> anyhow::Result<ExitCode> {
    let Changed { serve, note_commit_times, sample_everything, beside_samples: what } = args;
    serve::run_with(serve, programs::collie().ok(), |server| {
        if let Some(what) = &what {
            log_lines::note(&format_args!("{}", beside_samples(what)?));
        }
        if sample_everything {
            server.sample_everything();
        }
        if note_commit_times {
            server.note_commit_times();
        }
        Ok(())
    })
}
