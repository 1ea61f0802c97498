//! `collie-compare`: Collie's log compared with other log libraries, in one program, on one disk, in one run.
//!
//! Each peer gets the same records from the same threads, with the same durability; levels that it does not have are
//! left out. Slices of the floor (write 4 KiB over a filled file and sync) lie between the cases. Each row says how
//! the log manages its files (fills them in advance, or grows them), since a sync of a grown file costs more.

mod load;
mod peers;
mod table;

use std::{io::IsTerminal, path::PathBuf, sync::Arc};

use anyhow::Context;
use clap::Parser;
use collie_bench::{Pace, Plan, write_between};

/// The heading of the section that `--readme` adds.
const HEADING: &str = "Compared with other logs";

/// Measure Collie's log and compare it with raft-engine, wal-db, okaywal and two small logs of the usual kinds.
///
/// Prints a table that compares every figure with the disk's own speed. The exit code is 0 even if a target is missed.
#[derive(Parser)]
#[command(name = "collie-compare", version)]
struct Args {
    /// Run each case three times and short instead of five times and long.
    #[arg(long)]
    quick: bool,
    /// Directory for the measured files, on the disk under test. The files are removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the comparison into FILE, between the lines `<!-- bench peers begin -->` and `<!-- bench peers end -->`;
    /// a FILE without them gets a section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut plan = Plan::new(&args.dir, if args.quick { Pace::Quick } else { Pace::Full });
    if std::io::stderr().is_terminal() {
        plan.on_progress = Arc::new(|what| eprintln!("{what}"));
    }
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let readme = args.readme.as_ref().map(read).transpose()?;
    // Checked before measuring, so that a document that cannot be written does not waste the time.
    readme.as_ref().map(|text| write_between(text, "peers", HEADING, "")).transpose()?;
    let report = load::measure(&plan)?;
    print!("{}", report.table());
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(path), Some(text)) = (&args.readme, readme) {
        let text = write_between(&text, "peers", HEADING, &table::peers(&report))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
