//! `collie wal truncate-at`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use collie_base::Lsn;
use collie_env::Env;
use collie_wal::{Record, Truncation, inspect};
use serde_json::json;

use super::{count, data_dir, log_dir, output::Output, position, scan::Scan};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The new end of the log, as in 0/1A2F000 or in decimal: a position that `collie wal dump` prints.
    #[arg(value_name = "LSN", value_parser = position)]
    lsn: Lsn,
    /// Do not copy the removed part aside first.
    #[arg(long)]
    no_backup: bool,
    /// Show what would be removed and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The last commit on each side of the cut; for a log that belongs to no database, the last record.
#[derive(Default)]
struct Last {
    kept: Option<Record>,
    gone: Option<Record>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = log_dir(&args.dir);
    let scan = Scan::start(&dir, "checking");
    let context = || format!("nothing was changed in {}", dir.display());
    let data = data_dir(&dir);
    let database = data.is_some();
    let checkpoint = match &data {
        Some(data) => collie_engine::checkpoint_of(data, scan.env()).with_context(context)?,
        None => Lsn::ZERO,
    };
    let plan = Truncation::plan(scan.env(), &dir, args.lsn, checkpoint).with_context(context)?;
    scan.phase("reading");
    let last = last(scan.env(), &dir, args.lsn, database).with_context(context)?;
    drop(scan);
    let what = if database { "commit" } else { "record" };
    let (removed, mut out) = (plan.removed(), Output::new());
    // The removed part is shown before anything is changed.
    if !args.json {
        out.line(format_args!(
            "goes: {}, {}, from {} to {}; the last {what} among them: {}",
            count(removed.records, "record"),
            count(removed.stream_bytes, "byte"),
            args.lsn,
            removed.end,
            describe(last.gone.as_ref(), database)
        ))?;
        if removed.unreadable {
            out.line("goes: files behind the damage, whose frames cannot be read in order")?;
        }
        out.line(format_args!("stays: everything below; the last {what}: {}", describe(last.kept.as_ref(), database)))?;
        out.finish()?;
    }
    let (mut backup, mut next) = (None, None);
    if !args.dry_run {
        // The copy is on disk before the cut.
        if !args.no_backup {
            let without = "nothing was cut; make room, or leave the copy out with --no-backup";
            backup = plan.back_up().context(without)?;
        }
        next = Some(plan.cut().context("the cut was interrupted; run the same command again")?.next);
    }
    if args.json {
        let lsn_of = |record: Option<&Record>| record.map(|record| record.lsn.to_string());
        out.line(json!({
            "cut": next.is_some(),
            "lsn": args.lsn.to_string(),
            "old_end_lsn": removed.end.to_string(),
            "next_lsn": next.map(|next| next.to_string()),
            "removed_records": removed.records,
            "removed_stream_bytes": removed.stream_bytes,
            "removed_unreadable_files": removed.unreadable,
            "last_commit_removed_lsn": lsn_of(last.gone.as_ref().filter(|_| database)),
            "last_commit_kept_lsn": lsn_of(last.kept.as_ref().filter(|_| database)),
            "backup": backup.as_ref().map(|path| path.display().to_string()),
        }))?;
    } else {
        if let Some(backup) = &backup {
            out.line(format_args!("copied aside to {}; collie wal dump reads it", backup.display()))?;
        }
        match next {
            Some(next) => {
                out.line(format_args!("cut: the log ends at {}; new records come at or above {next}", args.lsn))?;
            }
            None => out.line("nothing was changed (--dry-run)")?,
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the last commits (or records) before the cut and after it.
fn last(env: &Env, dir: &Path, lsn: Lsn, database: bool) -> anyhow::Result<Last> {
    let mut last = Last::default();
    // Reading stops at damage, which the plan has reported.
    for record in inspect(env, dir)?.records(Lsn::ZERO).map_while(Result::ok) {
        if !database || collie_engine::is_commit_record(record.tag) {
            let side = if record.lsn >= lsn { &mut last.gone } else { &mut last.kept };
            *side = Some(record);
        }
    }
    Ok(last)
}

fn describe(record: Option<&Record>, database: bool) -> String {
    match record {
        Some(record) if !database => format!("{} tag {}, {} bytes", record.lsn, record.tag, record.body.len()),
        Some(record) => format!("{} {}", record.lsn, collie_engine::describe_record(record.tag, &record.body)),
        None => "none".to_owned(),
    }
}
