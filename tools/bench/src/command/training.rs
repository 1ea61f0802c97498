//! `collie-bench training`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use collie_bench::{PairSettings, Plan, training_bench, training_questions};

use super::kept::{Kept, Part};
use super::{measure, programs, seconds};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ask only these questions: sample (the cost of one sample), overhead (of a primary that collects), rate (the
    /// arrival rate that a collecting replica keeps up with), time (how far behind it is), policies-model and policies
    /// (under disturbances, in a model and on a pair), accuracy and active (of models, and the samples that they need),
    /// decisions (the gain of a server that tunes itself, and whether wrong models do harm), safety (the state that
    /// faults in the middle of a decision leave), cost (everything that collecting takes on both machines).
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// Warehouses of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    warehouses: u32,
    /// Sessions of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    clients: u32,
    /// Length of a run.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,
    /// Runs of each arm, which make as many pairs.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    runs: u32,
    /// Do six runs of at most a second on one warehouse: intervals get wider.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Keep everything as short as possible, on one warehouse with a hundredth of the rows: shows that it works.
    #[arg(long)]
    quick: bool,
    /// Seed of the rows, the requests and the intervals.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for data, on the disk to be measured. Everything made there is removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    kept: Kept,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { questions, warehouses, clients, time, runs, seed, dir, kept, .. } = args;
    let server = Some(programs::collie()?);
    let settings = PairSettings { warehouses, clients, time, runs, seed, ..PairSettings::training(&dir) };
    let settings = match (args.quick, args.short) {
        (true, _) => settings.quick_training(),
        (_, true) => settings.short_training(),
        _ => settings,
    };
    let plan = Plan { only: questions, server, ..Plan::new(&dir, settings.plan.pace) };
    let part = Part { questions: training_questions().collect(), ..Part::new("training") };
    measure(plan, |plan| training_bench(&PairSettings { plan, ..settings }), &part, kept)
}
