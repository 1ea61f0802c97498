//! `collie-bench serve-with`: a server with changes that only benchmarks make.

use std::process::ExitCode;

use collie::serve;
use collie_bench::six_calls_with_samples;
use collie_server::log_lines;

use super::programs;

#[derive(clap::Args)]
pub(crate) struct Changed {
    #[command(flatten)]
    serve: serve::Args,
    /// While the node leads, sample every call of an operating unit wherever samples are taken.
    #[arg(long)]
    sample_everything: bool,
    /// Make six system calls with each sample.
    #[arg(long)]
    six_calls: bool,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Those of the server.
pub(super) fn run(args: Changed) -> anyhow::Result<ExitCode> {
    let Changed { serve, sample_everything, six_calls } = args;
    serve::run_with(serve, programs::collie().ok(), |server| {
        if six_calls {
            log_lines::note(&format_args!("{}", six_calls_with_samples()?));
        }
        if sample_everything {
            server.sample_everything();
        }
        Ok(())
    })
}
