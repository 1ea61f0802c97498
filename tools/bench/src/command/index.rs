//! `collie-bench index`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use collie_bench::{Pace, Plan, index_bench, index_memory};

use super::kept::{Kept, Part, print};
use super::{measure, seconds};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these sections: fill, look, churn, memory.
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Do three short runs per case instead of five long ones, with a tenth of the rows.
    #[arg(long)]
    quick: bool,
    /// Rows in an index [default: 1000000].
    #[arg(long, value_name = "ROWS")]
    rows: Option<u64>,
    /// How long keys are inserted and deleted in each index of section memory [default: 600].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    churn: Option<Duration>,
    #[command(flatten)]
    kept: Kept,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(Path::new("."), Pace::quick_if(args.quick));
    let churn = args.churn.unwrap_or(plan.churn);
    let plan = Plan { only: args.sections, rows: args.rows, churn, ..plan };
    measure(plan, |plan| index_bench(&plan), &Part::new("index"), args.kept)
}

/// Measures the memory of one index in this process.
pub(super) fn memory(arguments: &[String]) -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", index_memory(&Plan::new(Path::new("."), Pace::Full), arguments)?))?;
    Ok(ExitCode::SUCCESS)
}
