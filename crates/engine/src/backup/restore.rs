//! A directory from a copy. Every byte is compared with its checksum before anything is opened.

use std::path::{Path, PathBuf};

use collie_base::Lsn;
use collie_env::Env;
use collie_wal::{TruncateOptions, give_new_id, truncate_at};

use super::Backup;
use super::checkpoint::remove_lock_file;
use super::manifest::Manifest;
use super::verify::Check;
use super::work::{CopyPhase, CopyWatch, Partial, Work, admit, make_dir, sync_dir};
use crate::EngineError;
use crate::control::Control;

/// What a restore made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The copy that it was made from.
    pub backup: Backup,
    /// It holds every commit below, and no other.
    pub end: Lsn,
}

/// Makes the directory `to` from the copy in `backup`: with every commit of it, or with those below `at`, a boundary of its log's
/// records. The copy stays as it is. `to` may be there if it is empty; it opens as a database afterwards.
///
/// # Durability
/// On disk when it returns. After an error or a crash there is no `to`, or it is empty as it was.
///
/// # Progress
/// Blocks on reading and writing every byte of the copy.
///
/// # Errors
/// [`EngineError::BadBackup`] when a file is not as it was made, with the place; [`EngineError::NotInBackup`]; the log's, when `at`
/// is no boundary; [`EngineError::BadTarget`], [`EngineError::NewerFormat`], [`EngineError::Io`]; [`EngineError::Cancelled`]
/// when `watch` says so.
pub fn restore(
    backup: &Path,
    to: &Path,
    at: Option<Lsn>,
    env: &Env,
    watch: CopyWatch<'_>,
) -> Result<Restored, EngineError> {
    let mut work = Work::new(env, watch);
    let files = work.files();
    let manifest = Manifest::read(env, backup)?;
    let end = at.unwrap_or(manifest.end);
    if !(manifest.from..=manifest.end).contains(&end) {
        let (from, end) = (manifest.from, manifest.end);
        return Err(EngineError::NotInBackup { lsn: at.unwrap_or(end), from, end });
    }
    let (target, partial) = admit(files, backup, to)?;
    let partial = Partial::make(files, partial)?;
    work.phase(CopyPhase::Restoring, manifest.bytes())?;
    let mut dirs: Vec<PathBuf> = Vec::new();
    for listed in &manifest.files {
        let (from, to) = (backup.join(&listed.name), partial.dir().join(&listed.name));
        if let Some(above) = to.parent().filter(|above| dirs.last().is_none_or(|last| last != above)) {
            make_dir(files, above)?;
            dirs.push(above.to_owned());
        }
        let mut check = Check::new(&from, listed);
        let copied = work.copy(&from, &to, &mut |at, piece| {
            check.piece(at, piece);
            Ok(())
        });
        if let Some(fault) = check.end(copied)? {
            return Err(fault.into_error());
        }
    }
    for dir in &dirs {
        sync_dir(files, dir)?;
    }
    let Some(control) = Control::read(env, partial.dir())? else {
        let what = "lists no control file".to_owned();
        return Err(EngineError::BadBackup { path: backup.to_owned(), offset: None, what });
    };
    Control { node: env.random.u64(), ..control }.write(env, partial.dir())?;
    let log_dir = Control::log_dir(partial.dir());
    give_new_id(env, &log_dir)?;
    if end < manifest.end {
        truncate_at(env, &log_dir, end, TruncateOptions { backup: false, checkpoint: manifest.from })?;
        remove_lock_file(files, &log_dir)?;
    }
    partial.finish(&target)?;
    Ok(Restored { backup: manifest.summary(), end })
}
