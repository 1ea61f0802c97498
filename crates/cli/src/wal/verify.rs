//! `collie wal verify`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use collie_wal::{Figures, Inspection, WalError, inspect};
use serde_json::{Value, json};

use super::{count, log_dir, output::Output, scan::Scan};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Rewrite damaged frames from a good copy of the log (not built yet).
    #[arg(long)]
    repair: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.repair {
        anyhow::bail!("--repair is not built yet: restore a backup, or cut the log below the damage (truncate-at)");
    }
    let dir = log_dir(&args.dir);
    let scan = Scan::start(&dir, "checking");
    let context = || format!("cannot read the log in {}", dir.display());
    let found = inspect(scan.env(), &dir).with_context(context)?;
    if found.segments().is_empty() && found.damage().is_none() {
        return Err(WalError::NoLog { path: dir }.into());
    }
    scan.phase("counting");
    let (figures, damage) = match found.figures() {
        Ok(figures) => (figures, found.damage()),
        Err(error @ WalError::Damaged { .. }) => (Figures::default(), Some(error)),
        Err(error) => return Err(anyhow::Error::new(error).context(context())),
    };
    drop(scan);
    let mut out = Output::new();
    if args.json {
        out.line(as_json(&found, &figures, damage.as_ref()))?;
    } else {
        out.line(format_args!(
            "{}, {}, {}, {} from {} to {}, durable to {} at least",
            count(figures.segments, "segment"),
            count(found.spares().0, "spare"),
            count(figures.frames, "frame"),
            count(figures.records, "record"),
            found.start(),
            found.end(),
            found.durable(),
        ))?;
        if damage.is_none() {
            out.line(outcome(&found))?;
        }
    }
    out.finish()?;
    damage.map_or(Ok(ExitCode::SUCCESS), |damage| Err(damage.into()))
}

/// Returns what an open would do with a log that is not damaged.
fn outcome(found: &Inspection) -> String {
    let end = found.end();
    match found.torn_note() {
        Some(note) => format!("opens with everything to {end}, and says: {note}"),
        None if found.is_clean() => format!("opens with everything: it was closed at {end}"),
        None => format!("opens with everything to {end}: it was not closed, or is open now"),
    }
}

fn as_json(found: &Inspection, figures: &Figures, damage: Option<&WalError>) -> Value {
    let ending = match (damage.is_some(), found.torn_bytes() > 0, found.is_clean()) {
        (true, ..) => "damaged",
        (_, true, _) => "torn",
        (.., true) => "clean",
        _ => "unclean",
    };
    let damage = damage.map(|error| {
        let mut facts = json!({ "message": error.to_string() });
        if let WalError::Damaged { lsn, durable, .. }
        | WalError::Shortened { lsn, durable, .. }
        | WalError::MissingSegment { lsn, durable, .. } = error
        {
            facts["lsn"] = lsn.to_string().into();
            facts["durable_lsn"] = durable.to_string().into();
        }
        if let WalError::Damaged { path, .. } | WalError::Shortened { path, .. } = error {
            facts["path"] = path.display().to_string().into();
        }
        if let WalError::Damaged { offset, stored, computed, .. } = error {
            facts["offset_bytes"] = (*offset).into();
            facts["stored_crc32c"] = format!("{stored:08x}").into();
            facts["computed_crc32c"] = format!("{computed:08x}").into();
        }
        facts
    });
    json!({
        "opens": damage.is_none(),
        "ending": ending,
        "start_lsn": found.start().to_string(),
        "end_lsn": found.end().to_string(),
        "durable_lsn": found.durable().to_string(),
        "incarnation": found.incarnation(),
        "segments": figures.segments,
        "spares": found.spares().0,
        "frames": figures.frames,
        "records": figures.records,
        "torn_bytes": found.torn_bytes(),
        "damage": damage,
    })
}
