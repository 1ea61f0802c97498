//! The commands: each runs a benchmark, prints its table, and keeps the requested files.

mod index;
mod kept;
mod kv;
mod log;
mod programs;
mod replication;
mod serve_with;
mod tpcc;
mod training;
mod txn;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use collie_bench::{Plan, Report};
use indicatif::ProgressBar;

use self::kept::{Kept, Part};

/// The exit code is 0 even when targets are missed: misses are findings, not failures. A question that fails is
/// reported, the others are still answered, and the exit code is 1. `docs/bench` has a page for each benchmark.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the log: appends in memory compared with other protocols, and reading back.
    ///
    /// Takes about twenty minutes, or two with --quick.
    Log(log::Args),
    /// Measure transactions, in the engine on a disk that keeps nothing, and over the wire compared with PostgreSQL.
    ///
    /// PostgreSQL is started for it from /usr/lib/postgresql (as user postgres when this runs as root); pgbench is the
    /// client of both. Takes about forty minutes, ten of them with --old-snapshot 60, and about three with --quick.
    Txn(txn::Args),
    /// Measure ordered indexes of rows: inserts, lookups, scans in both directions, churn of keys, bytes per key.
    ///
    /// Takes about an hour, twenty minutes with --churn 60, and two with --quick.
    Index(index::Args),
    /// Fill one index and print how much memory it takes: the child process of `index`, of no use by itself.
    #[command(hide = true)]
    IndexMemory {
        /// Candidate, bytes per key, rows, milliseconds.
        arguments: Vec<String>,
    },
    /// Measure the embedded key-value engine under workloads of RocksDB's db_bench, and compare it with db_bench.
    ///
    /// Takes about ten minutes with --peer.
    Kv(kv::Args),
    /// Run TPC-C on the engine or its SQL in this process, on servers started for it, or on any server that speaks
    /// PostgreSQL's protocol.
    ///
    /// Tables are created and loaded unless the server of a URL has them already; all twelve consistency conditions of
    /// the specification are checked before and after. Several targets take turns, run by run. A warehouse takes about
    /// 100 MB.
    Tpcc(tpcc::Args),
    /// Measure replication: a primary and a replica started for it, compared with PostgreSQL and a streaming standby.
    ///
    /// Afterwards the rows of both are compared. Takes more than an hour, under 25 minutes with --short, a minute or
    /// two with --quick.
    Replication(replication::Args),
    /// Measure the cost of collecting for models, and what comes of it.
    ///
    /// Ratios of paired runs are given with 95 % intervals (keys that end in _ci95). All questions together take more
    /// than an hour, or some minutes with --short or --quick.
    Training(training::Args),
    /// Serve with changes that only benchmarks make: the child process of `training`, of no use by itself.
    #[command(hide = true)]
    ServeWith(serve_with::Changed),
}

impl Command {
    /// Returns whether it is a server.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::ServeWith(_))
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Log(args) => log::run(args),
        Command::Txn(args) => txn::run(args),
        Command::Index(args) => index::run(args),
        Command::IndexMemory { arguments } => index::memory(&arguments),
        Command::Kv(args) => kv::run(args),
        Command::Tpcc(args) => tpcc::run(args),
        Command::Replication(args) => replication::run(args),
        Command::Training(args) => training::run(args),
        Command::ServeWith(args) => serve_with::run(args),
    }
}

/// Measures as `plan` says, then prints and keeps the report.
fn measure(
    mut plan: Plan,
    bench: impl FnOnce(Plan) -> anyhow::Result<Report>,
    part: &Part,
    kept: Kept,
) -> anyhow::Result<ExitCode> {
    plan.program = Some(programs::own()?);
    let keeper = kept.read(part)?;
    let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let shown = bar.clone();
    plan.on_progress = Arc::new(move |what| {
        shown.set_message(what.to_owned());
        shown.tick();
    });
    let report = bench(plan)?;
    bar.finish_and_clear();
    keeper.keep(&report)
}

/// Parses a number of seconds, which may have a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
