//! Makes a directory from a copy. Every byte is compared with its checksums, in the copy's list and inside the
//! files (K7), before anything is opened.

use std::path::{Path, PathBuf};

use collie_base::Lsn;
use collie_env::Env;
use collie_wal::{CutRefusal, TruncateOptions, WalError, give_new_id, inspect, truncate_at};

use super::Backup;
use super::checkpoint::remove_lock_file;
use super::inner::Inner;
use super::manifest::Manifest;
use super::verify::Check;
use super::work::{CopyPhase, CopyWatch, Partial, Work, admit, make_dir, sync_dir};
use crate::EngineError;
use crate::dir::control::Control;
use crate::dir::log_place::sign_closed;
use crate::redo::Redo;

/// How much of a copy is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreTo {
    /// All of it.
    End,
    /// The commits below a position, which is a boundary of its log's records.
    Lsn(Lsn),
    /// The commits up to a time, in microseconds since 1970, by the clock of the machine that made them. No later
    /// commit is included; commits of the last second before the time may be missing, since times are noted once a
    /// second.
    Time(i64),
}

impl From<Option<Lsn>> for RestoreTo {
    fn from(at: Option<Lsn>) -> Self {
        at.map_or(Self::End, Self::Lsn)
    }
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The copy that was restored.
    pub backup: Backup,
    /// The directory holds every commit below this position, and no other.
    pub end: Lsn,
}

/// Makes the directory `to` from the copy in `backup`, with all of its commits or with those up to `at`. The copy
/// is not changed. `to` may exist if it is empty; it opens as a database afterwards.
///
/// # Durability
/// The directory is durable on return. After an error or a crash `to` does not exist, or is empty as before.
///
/// # Progress
/// Blocks on reading and writing every byte of the copy.
///
/// # Errors
/// [`EngineError::BadBackup`] if a file is not as it was made, with the place; [`EngineError::NotInBackup`],
/// [`EngineError::TimeNotInBackup`]; an error of the log if `at` is not a record boundary;
/// [`EngineError::BadTarget`], [`EngineError::NewerFormat`], [`EngineError::Io`]; [`EngineError::Cancelled`] if
/// `watch` returns `Break`.
pub fn restore(
    backup: &Path,
    to: &Path,
    at: impl Into<RestoreTo>,
    env: &Env,
    watch: CopyWatch<'_>,
) -> Result<Restored, EngineError> {
    let mut work = Work::new(env, watch);
    let files = work.files();
    let manifest = Manifest::read(env, backup)?;
    let at = at.into();
    if let RestoreTo::Lsn(lsn) = at
        && !(manifest.from..=manifest.end).contains(&lsn)
    {
        return Err(EngineError::NotInBackup { lsn, from: manifest.from, end: manifest.end });
    }
    let (target, partial) = admit(files, &[backup], to)?;
    let partial = Partial::make(files, partial)?;
    work.phase(CopyPhase::Restoring, manifest.bytes())?;
    work.copies_levels_of(&Control::levels_dir(backup));
    let inner = Inner::of(env, backup);
    let mut dirs: Vec<PathBuf> = Vec::new();
    for listed in &manifest.files {
        let (from, to) = (backup.join(&listed.name), partial.dir().join(&listed.name));
        if let Some(above) = to.parent().filter(|above| dirs.last().is_none_or(|last| last != above)) {
            make_dir(files, above)?;
            dirs.push(above.to_owned());
        }
        let (mut check, mut table) = (Check::new(&from, listed), inner.check(&from));
        let copied = work.copy(&from, &to, &mut |at, piece| {
            check.piece(at, piece);
            table.iter_mut().for_each(|table| table.piece(piece));
            Ok(())
        });
        if let Some(fault) = check.end(copied)?.or_else(|| Inner::end(table)) {
            return Err(fault.into_error());
        }
    }
    if let Some(fault) = inner.rest(env, backup, &manifest)?.into_iter().next() {
        return Err(fault.into_error());
    }
    for dir in &dirs {
        sync_dir(files, dir)?;
    }
    let Some(control) = Control::read(env, partial.dir())? else {
        let what = "lists no control file".to_owned();
        return Err(EngineError::BadBackup { path: backup.to_owned(), offset: None, what });
    };
    let control = Control { node: env.random.u64(), ..control };
    control.write(env, partial.dir())?;
    let log_dir = Control::log_dir(partial.dir());
    give_new_id(env, &log_dir)?;
    sign_closed(env, &log_dir, &control, &target)?; // so that the log can be moved to its final place
    let mut end = match at {
        RestoreTo::End => manifest.end,
        RestoreTo::Lsn(lsn) => lsn,
        RestoreTo::Time(wall_us) => end_at(env, &log_dir, &manifest, wall_us)?,
    };
    if end < manifest.end {
        let options = || TruncateOptions { backup: false, checkpoint: manifest.from };
        match (at, truncate_at(env, &log_dir, end, options())) {
            // At a mark that is the first record of an incarnation, positions jump, so its position is not a
            // boundary.
            (RestoreTo::Time(_), Err(WalError::Cut { why: CutRefusal::NotABoundary { below, .. }, .. })) => {
                end = below;
                truncate_at(env, &log_dir, end, options())?;
            }
            (_, cut) => drop(cut?),
        }
        remove_lock_file(files, &log_dir)?;
    }
    partial.finish(&target)?;
    Ok(Restored { backup: manifest.summary(), end })
}

/// Returns the position at which to cut the log in `log_dir` so that it has nothing later than `wall_us`: the
/// position in the newest mark at or before that time. If there is no later mark, and the copy was made by then,
/// the copy has nothing later.
fn end_at(env: &Env, log_dir: &Path, manifest: &Manifest, wall_us: i64) -> Result<Lsn, EngineError> {
    let (mut newest, mut first_us, mut is_passed) = (None, None, false);
    for record in inspect(env, log_dir)?.records(manifest.start) {
        let record = record?;
        let Ok(Redo::Time { wall_us: at, below }) = Redo::decode(record.tag, &record.body) else { continue };
        if below < manifest.from {
            continue;
        }
        first_us.get_or_insert(at);
        if at <= wall_us {
            newest = Some(below);
        } else {
            is_passed = true;
        }
    }
    if !is_passed && manifest.wall_us <= wall_us {
        return Ok(manifest.end);
    }
    let newest = newest.map(|below| below.min(manifest.end));
    newest.ok_or(EngineError::TimeNotInBackup { wall_us, from_us: first_us, end_us: manifest.wall_us })
}
