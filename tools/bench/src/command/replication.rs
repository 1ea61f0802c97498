//! `collie-bench replication`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use collie_bench::{Pace, PairSettings, Plan, replication_bench, replication_targets};

use super::kept::{Document, Kept, Part};
use super::{measure, programs, seconds};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ask only these questions: delay (whether the primary measures the delay that a client sees), rate (delay against
    /// the arrival rate of TPC-C), time (delay over time at 80 % of the primary's maximum rate), sync (the cost of the
    /// levels of synchronous_commit), capacity (replay at full speed compared with the peak rate that wrote the log),
    /// catchup (how fast a replica catches up, and an empty one is filled), failover (kill, promote, write, rejoin).
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// Warehouses of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    warehouses: u32,
    /// Sessions of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    clients: u32,
    /// Length of a run.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    time: Duration,
    /// Runs of each case; --short makes one.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    runs: u32,
    /// How often question failover kills a primary; --short five times.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    cycles: u32,
    /// Use fewer rates, numbers of clients and runs, each as long as usual: under 25 minutes on two idle cores.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Keep everything as short as possible, on one warehouse with a hundredth of the rows: shows that it works.
    #[arg(long)]
    quick: bool,
    /// Leave PostgreSQL out.
    #[arg(long)]
    no_peer: bool,
    /// Seed of the rows and the requests.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    kept: Kept,
    /// Write the targets and results in a few lines into FILE, between the lines `<!-- bench replication-targets begin
    /// -->` and `<!-- bench replication-targets end -->`.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { questions, warehouses, clients, time, runs, cycles, seed, dir, kept, .. } = args;
    let plan = Plan { only: questions, server: Some(programs::collie()?), ..Plan::new(&dir, Pace::Full) };
    let peer = !args.no_peer;
    let settings =
        PairSettings { warehouses, clients, time, runs, cycles, peer, seed, ..PairSettings::replication(&dir) };
    let settings = match (args.quick, args.short) {
        (true, _) => settings.quick(),
        (_, true) => settings.short(),
        _ => settings,
    };
    let text = |report: &_| Ok(replication_targets(report));
    let part = Part { heading: "Replication", text, ..Part::new("replication-targets") };
    let targets = Document::read(args.targets, &part)?;
    let bench = |plan| {
        let report = replication_bench(&PairSettings { plan, ..settings })?;
        targets.iter().try_for_each(|document| document.write(&report))?;
        Ok(report)
    };
    measure(plan, bench, &Part::new("replication"), kept)
}
