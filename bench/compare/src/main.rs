//! `collie-compare`: Collie's log beside other log libraries, from one program, on one disk, in one run.
//!
//! Each peer gets the same records from the same threads and is asked for the same durability; a level that it does not
//! have is left out. Slices of the floor (write 4 KiB over a filled file and sync) lie between the cases. What each one
//! does with its files (fills them before, or grows them) is on its row, because a sync of a grown file costs more.

mod load;
mod peers;
mod table;

use std::{io::IsTerminal, path::PathBuf, sync::Arc};

use anyhow::Context;
use clap::Parser;
use collie_bench::{Pace, Plan, write_between};

/// Of the section that `--readme` adds.
const HEADING: &str = "Beside other logs";

/// Measure Collie's log beside raft-engine, wal-db, okaywal and two small logs of the usual kinds.
///
/// Prints a table with every figure beside the disk's own speed. Exit code 0 also when a target is missed.
#[derive(Parser)]
#[command(name = "collie-compare", version)]
struct Args {
    /// Three short runs a case instead of five long ones.
    #[arg(long)]
    quick: bool,
    /// Directory for the files that are measured, on the disk in question. They are removed at the end.
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
    // Before the measuring: a document that cannot be written should not cost the time.
    readme.as_ref().map(|text| write_between(text, "peers", HEADING, "")).transpose()?;
    let report = load::measure(&plan)?;
    print!("{}", report.table());
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", report.json());
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(path), Some(text)) = (&args.readme, readme) {
        let text = write_between(&text, "peers", HEADING, &table::peers(&report))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
