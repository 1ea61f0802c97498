//! `collie wal verify`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use collie_wal::{Figures, Inspection, Options, WalError, inspect, inspect_copies, repair_copies};
use serde_json::{Value, json};

use super::{count, log_dir, output::Output, scan::Scan};

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("copies").multiple(true).args(["copy", "config", "set"]))]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Another directory with a copy of the log (wal.copies); may be repeated.
    #[arg(long, value_name = "DIR")]
    copy: Vec<PathBuf>,
    /// TOML file of the server, which names the copies in wal.copies.
    #[arg(long, value_name = "FILE", conflicts_with = "copy")]
    config: Option<PathBuf>,
    /// One setting of the server, such as wal.copies=DIR; may be repeated, and overrides the file.
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "copy")]
    set: Vec<String>,
    /// Rewrite bad or missing parts of one directory from a good copy in another. For a stopped server.
    #[arg(long, requires = "copies")]
    repair: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = log_dir(&args.dir);
    let configured = collie::serve::settings(args.config.as_ref(), &args.set)?.engine.log.copies;
    let copies: Vec<PathBuf> = args.copy.iter().map(|copy| log_dir(copy)).chain(configured).collect();
    let scan = Scan::start(&dir, "checking");
    let context = || format!("cannot read the log in {}", dir.display());
    let mut repaired = None;
    if args.repair {
        let options = Options { copies: copies.clone(), ..Options::default() };
        let done = repair_copies(scan.env(), &dir, &options)?;
        // The repairs are reported even if the checks after them fail.
        done.notes.iter().for_each(|note| eprintln!("{note}"));
        repaired = Some(done.repaired);
        scan.phase("checking");
    }
    let each = if copies.is_empty() { Vec::new() } else { check_each(&scan, &dir, &copies) };
    let (found, lacking) = inspect_copies(scan.env(), &dir, &copies).with_context(context)?;
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
        let mut object = as_json(&found, &figures, damage.as_ref());
        let copies = each.iter().map(|(copy, bad)| {
            json!({ "dir": copy.display().to_string(), "bad": bad, "up_to_date": !lacking.contains(copy) })
        });
        object["copies"] = copies.collect();
        object["copies_configured"] = found.copies().into();
        object["repaired"] = json!(repaired);
        out.line(object)?;
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
        for (copy, bad) in &each {
            let said = bad.clone().unwrap_or_else(|| "every frame reads".to_owned());
            let stale = if lacking.contains(copy) { "; not up to date" } else { "" };
            out.line(format_args!("copy {}: {said}{stale}", copy.display()))?;
        }
        let looked_at = copies.len() as u64 + 1;
        if found.copies() > looked_at {
            out.line(format_args!(
                "copies: the log was opened with {} directories, {looked_at} of them looked at; name the others with \
                 --copy DIR, or the server's settings with --config FILE or --set wal.copies=DIR",
                found.copies()
            ))?;
        }
        if let Some(repaired) = repaired {
            out.line(format_args!("repaired: {repaired} frames, headers or files"))?;
        }
        if damage.is_none() {
            out.line(outcome(&found))?;
        }
    }
    out.finish()?;
    damage.map_or(Ok(ExitCode::SUCCESS), |damage| Err(damage.into()))
}

/// Reads every frame of each copy separately, and returns the error of each that has one.
fn check_each(scan: &Scan, dir: &Path, copies: &[PathBuf]) -> Vec<(PathBuf, Option<String>)> {
    let check = |dir: &Path| {
        let found = inspect(scan.env(), dir)?;
        found.figures()?;
        found.damage().map_or(Ok(()), Err)
    };
    let dirs = std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path));
    dirs.map(|dir| (dir.to_owned(), check(dir).err().map(|error: WalError| error.to_string()))).collect()
}

/// Returns what an open would do with an undamaged log.
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
