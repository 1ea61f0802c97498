//! `collie wal dump`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use collie_base::Lsn;
use collie_wal::{Hole, Record, RecordKind, Salvaged, WalError, inspect, salvage};
use serde_json::json;

use super::{count, file_name, is_database, log_dir, output::Output, position, scan::Scan};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// First position, as in 0/1A2F000 or in decimal.
    #[arg(long, value_name = "LSN", default_value = "0/0", value_parser = position)]
    from: Lsn,
    /// End position; records at or above it are left out.
    #[arg(long, value_name = "LSN", value_parser = position)]
    to: Option<Lsn>,
    /// Print one JSON object per record.
    #[arg(long)]
    json: bool,
    /// Continue after damage: print everything that can be read, and a line for each stretch that is lost. For a
    /// stopped server.
    #[arg(long)]
    skip_bad: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = log_dir(&args.dir);
    let scan = Scan::start(&dir, "checking");
    let context = || format!("cannot read the log in {}", dir.display());
    if args.skip_bad {
        return skip_bad(args, &dir, scan).with_context(context);
    }
    let found = inspect(scan.env(), &dir).with_context(context)?;
    if found.segments().is_empty() && found.damage().is_none() {
        return Err(WalError::NoLog { path: dir }.into());
    }
    scan.phase("reading");
    let (mut out, database) = (Output::new(), is_database(&dir));
    for record in found.records(args.from) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                out.finish()?;
                return Err(error.into());
            }
        };
        if args.to.is_some_and(|to| record.lsn >= to) {
            break;
        }
        print(&mut out, args, &record, database)?;
    }
    out.finish()?;
    drop(scan);
    if let Some(note) = found.torn_note() {
        eprintln!("{note}");
    }
    match found.damage() {
        // The requested range may lie below the damage.
        Some(_) if args.to.is_some_and(|to| to <= found.end()) => Ok(ExitCode::SUCCESS),
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Prints the readable records and the holes.
fn skip_bad(args: &Args, dir: &Path, scan: Scan) -> anyhow::Result<ExitCode> {
    let salvaged = salvage(scan.env(), dir)?;
    scan.phase("reading");
    let (mut out, database) = (Output::new(), is_database(dir));
    let (mut holes, mut lost_bytes) = (0, 0);
    let to = args.to.unwrap_or(Lsn::MAX);
    for found in salvaged {
        match found? {
            Salvaged::Record(record) if record.lsn >= to => break,
            Salvaged::Record(record) if record.lsn < args.from => {}
            Salvaged::Record(record) => print(&mut out, args, &record, database)?,
            Salvaged::Hole(hole) if hole.to <= args.from || hole.from >= to => {}
            Salvaged::Hole(hole) => {
                (holes, lost_bytes) = (holes + 1, lost_bytes + hole.to.bytes_since(hole.from));
                out.line(if args.json { hole_as_json(&hole) } else { hole.to_string() })?;
            }
        }
    }
    out.finish()?;
    drop(scan);
    if holes > 0 {
        eprintln!("warning: {} lost in {}", count(lost_bytes, "byte"), count(holes, "hole"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut Output, args: &Args, record: &Record, database: bool) -> anyhow::Result<()> {
    let meaning = database.then(|| collie_engine::describe_record(record.tag, &record.body));
    out.line(if args.json { as_json(record, meaning) } else { as_text(record, meaning) })
}

fn hole_as_json(hole: &Hole) -> String {
    json!({
        "lsn": hole.from.to_string(),
        "end_lsn": hole.to.to_string(),
        "kind": "hole",
        "lost_bytes": hole.to.bytes_since(hole.from),
        "file": file_name(&hole.path),
        "offset_bytes": hole.offset,
        "stored_crc32c": format!("{:08x}", hole.stored),
        "computed_crc32c": format!("{:08x}", hole.computed),
    })
    .to_string()
}

fn kind(record: &Record) -> &'static str {
    match record.kind {
        RecordKind::Data => "data",
        RecordKind::Unlogged => "unlogged",
    }
}

fn as_text(record: &Record, meaning: Option<String>) -> String {
    let Record { lsn, end, tag, offset, .. } = record;
    let (kind, bytes, file) = (kind(record), record.body.len(), file_name(&record.path));
    let line = format!("{lsn} {end} {kind} tag {tag} {bytes} bytes {file}:{offset}");
    match meaning {
        Some(meaning) => format!("{line} {meaning}"),
        None => line,
    }
}

fn as_json(record: &Record, meaning: Option<String>) -> String {
    json!({
        "lsn": record.lsn.to_string(),
        "end_lsn": record.end.to_string(),
        "kind": kind(record),
        "tag": record.tag,
        "payload_bytes": record.body.len(),
        "file": file_name(&record.path),
        "frame_offset_bytes": record.offset,
        "meaning": meaning,
    })
    .to_string()
}
