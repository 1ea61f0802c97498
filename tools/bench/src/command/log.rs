//! `collie-bench log`.

use std::path::PathBuf;
use std::process::ExitCode;

use collie_bench::{Pace, Plan, log_bench, protocols_table};

use super::kept::{Kept, Part};
use super::measure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do three short runs per case instead of five long ones.
    #[arg(long)]
    quick: bool,
    /// Directory for the measured files. They are removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run only this section (repeatable): append, threads, frozen, recovery. The table of --readme needs the first
    /// three.
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    #[command(flatten)]
    kept: Kept,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let part = Part { heading: "Compared with other protocols", text: protocols_table, ..Part::new("protocols") };
    let plan = Plan { only: args.only, ..Plan::new(&args.dir, Pace::quick_if(args.quick)) };
    measure(plan, |plan| log_bench(&plan), &part, args.kept)
}
