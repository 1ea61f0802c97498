//! `collie-bench txn`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use collie_bench::{Pace, Plan, txn_bench};

use super::kept::{Kept, Part};
use super::{measure, programs, seconds};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these sections: snapshot, visibility, commits, commit-latency, hot-row, old-snapshot, savepoints,
    /// mixes, read-only, deadlock, long-statements.
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Do three short runs per case instead of five long ones, and keep an old snapshot of five seconds.
    #[arg(long)]
    quick: bool,
    /// How long the snapshot of section old-snapshot is held, three times: in the engine and on both servers [default:
    /// 600].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    old_snapshot: Option<Duration>,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    kept: Kept,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut plan = Plan { only: args.sections, ..Plan::new(&args.dir, Pace::quick_if(args.quick)) };
    plan.server = Some(programs::collie()?);
    plan.old_snapshot = args.old_snapshot.unwrap_or(plan.old_snapshot);
    measure(plan, |plan| txn_bench(&plan), &Part::new("txn"), args.kept)
}
