//! `collie wal dump`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use collie_base::Lsn;
use collie_wal::{Record, RecordKind, inspect};
use serde_json::json;

use super::{file_name, is_database, log_dir, output::Output, position, scan::Scan};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// First position, as in 0/01A2F000 or in decimal.
    #[arg(long, value_name = "LSN", default_value = "0/0", value_parser = position)]
    from: Lsn,
    /// End position; records at or above it are left out.
    #[arg(long, value_name = "LSN", value_parser = position)]
    to: Option<Lsn>,
    /// One JSON object per record.
    #[arg(long)]
    json: bool,
    /// Go on behind damage (not built yet).
    #[arg(long)]
    skip_bad: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.skip_bad {
        anyhow::bail!("--skip-bad is not built yet: without it, dump prints everything up to the damage");
    }
    let dir = log_dir(&args.dir);
    let scan = Scan::start(&dir, "checking");
    let context = || format!("cannot read the log in {}", dir.display());
    let found = inspect(scan.env(), &dir).with_context(context)?;
    if found.segments().is_empty() && found.damage().is_none() {
        return Err(collie_wal::WalError::NoLog { path: dir }.into());
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
        let meaning = database.then(|| collie_engine::describe_record(record.tag, &record.body));
        out.line(if args.json { as_json(&record, meaning) } else { as_text(&record, meaning) })?;
    }
    out.finish()?;
    drop(scan);
    if let Some(note) = found.torn_note() {
        eprintln!("{note}");
    }
    match found.damage() {
        // What was asked for may lie below it all the same.
        Some(_) if args.to.is_some_and(|to| to <= found.end()) => Ok(ExitCode::SUCCESS),
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
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
