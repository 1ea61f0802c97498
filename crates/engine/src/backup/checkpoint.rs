//! Making a copy of an open database.
//!
//! In this order (K1 to K4): everything that returned is made durable; the log is pinned; the levels are linked, while flushes and
//! compactions wait; the log is copied up to what is durable then; the control file; the list. Commits go on meanwhile.

use std::io;
use std::path::{Path, PathBuf};

use collie_base::Lsn;
use collie_env::{Env, Files};
use collie_store::{Levels, LevelsError};
use collie_wal::Log;

use super::manifest::Manifest;
use super::work::{CopyPhase, CopyWatch, Partial, Work, admit, make_dir, tree};
use super::{Backup, CheckpointOptions, LevelsCopy};
use crate::EngineError;
use crate::control::Control;
use crate::no_log::NOTHING_TO_COPY;
use crate::shared::Shared;

/// Where links to tables stand, in the data directory, while they are copied elsewhere.
const STAGE: &str = "checkpoint.collie-partial";

impl Shared {
    /// Copies the database to `target`. See [`Db::checkpoint`](crate::Db::checkpoint).
    pub(crate) fn checkpoint(
        &self,
        target: &Path,
        options: CheckpointOptions,
        watch: CopyWatch<'_>,
    ) -> Result<Backup, EngineError> {
        let log = self.txns.log();
        if self.has_no_log() {
            return Err(NOTHING_TO_COPY);
        }
        if log.followed().is_some() {
            return Err(EngineError::InvalidArgument { what: "a checkpoint of a replica: take it of its primary" });
        }
        let base = self.writable_base()?;
        let Some(wal) = log.wal() else { return Err(EngineError::Closed) };
        let _one_at_a_time = self.checkpoints.lock();
        let mut work = Work::new(&self.env, watch);
        let files = work.files();
        let Some(place) = self.place() else { return Err(EngineError::Closed) };
        let dirs: Vec<&Path> = place.dirs().collect();
        let data = dirs[0];
        let (target, partial) = admit(files, &dirs, target)?;
        let partial = Partial::make(files, partial)?;

        let returned = log.wait_published()?;
        log.wait_durable(returned)?;
        let pin = wal.pin(base.levels().log_start().max(Lsn::FIRST), "a checkpoint"); // K1
        let from = copy_levels(&mut work, base.levels(), wal, data, &Control::levels_dir(partial.dir()), options)?;

        // So that there is a time that it can be restored to.
        log.wait_durable(self.mark_time()?)?;
        let log_dir = Control::log_dir(partial.dir());
        make_dir(files, &log_dir)?;
        work.phase(CopyPhase::Log, wal.durable().bytes_since(base.levels().log_start()))?;
        let copied = pin.copy_to(&self.env, &log_dir, &mut |bytes| work.step(bytes))?;
        drop(pin);
        remove_lock_file(files, &log_dir)?;

        let control = Control { node: self.env.random.u64(), ..self.control().clone() }; // K6
        control.write(&self.env, partial.dir())?;

        let (names, bytes) = tree(files, partial.dir())?;
        work.phase(CopyPhase::Summing, bytes)?;
        let mut listed = Vec::with_capacity(names.len());
        for name in names {
            listed.push(work.sum(partial.dir(), name)?);
        }
        let manifest = Manifest {
            cluster: control.cluster,
            start: copied.start,
            from,
            end: copied.end,
            wall_us: self.env.clock.wall_us(),
            files: listed,
        };
        manifest.write(&self.env, partial.dir())?;
        partial.finish(&target)?;
        Ok(manifest.summary())
    }
}

impl Shared {
    /// Copies the levels alone to `target`. See [`Db::copy_levels`](crate::Db::copy_levels).
    pub(crate) fn copy_levels(
        &self,
        target: &Path,
        options: CheckpointOptions,
        watch: CopyWatch<'_>,
    ) -> Result<LevelsCopy, EngineError> {
        let log = self.txns.log();
        if self.has_no_log() {
            return Err(NOTHING_TO_COPY);
        }
        if log.followed().is_some() {
            return Err(EngineError::InvalidArgument { what: "a copy of a replica's levels: take it of its primary" });
        }
        let base = self.writable_base()?;
        let (Some(wal), Some(place)) = (log.wal(), self.place()) else { return Err(EngineError::Closed) };
        let _one_at_a_time = self.checkpoints.lock();
        let mut work = Work::new(&self.env, watch);
        let dirs: Vec<&Path> = place.dirs().collect();
        let (target, partial) = admit(work.files(), &dirs, target)?;
        let partial = Partial::make(work.files(), partial)?;
        // Read first: what the links say they need begins here or above (K1).
        let start = base.levels().log_start().max(Lsn::FIRST);
        let from = copy_levels(&mut work, base.levels(), wal, dirs[0], &Control::levels_dir(partial.dir()), options)?;
        partial.finish(&target)?;
        Ok(LevelsCopy { start, from })
    }
}

/// Links or copies the levels to `to`; returns a position that everything in them lies below, and that is durable (K2).
fn copy_levels(
    work: &mut Work<'_>,
    levels: &Levels,
    wal: &Log,
    data: &Path,
    to: &Path,
    options: CheckpointOptions,
) -> Result<Lsn, EngineError> {
    work.phase(CopyPhase::Levels, 0)?;
    if !options.copy {
        match levels.checkpoint(to) {
            Ok(()) => return Ok(wal.durable()),
            Err(error) if cannot_link(&error) => {
                let removed = work.files().remove_dir_all(to);
                removed.map_err(|error| EngineError::io("remove", to.to_owned(), error))?;
            }
            Err(error) => return Err(EngineError::levels(error)),
        }
    }
    // Linked beside the tables, so that flushes wait no longer than that takes; then copied from there.
    let stage = Partial::make(work.files(), stage_of(data))?;
    let linked = stage.dir().join("levels");
    levels.checkpoint(&linked).map_err(EngineError::levels)?;
    let from = wal.durable();
    let (_names, bytes) = tree(work.files(), &linked)?;
    work.phase(CopyPhase::Levels, bytes)?;
    work.copies_levels_of(&linked);
    work.copy_dir(&linked, to)?;
    Ok(from)
}

/// Returns whether a failure says that the file system of the copy has no links to the source's files.
fn cannot_link(error: &LevelsError) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    match error {
        LevelsError::Io { source, .. } => {
            matches!(source.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
        }
        _ => false,
    }
}

fn stage_of(data: &Path) -> PathBuf {
    data.join(STAGE)
}

/// Removes what a copy that a crash ended left in the data directory; as well as it goes.
pub(crate) fn remove_leftovers(env: &Env, data: &Path) {
    let stage = stage_of(data);
    if env.files.list(&stage).is_ok() {
        // The next open, or the next copy, tries again.
        let _best_effort = env.files.remove_dir_all(&stage);
    }
}

/// Removes the lock file of whoever worked on a closed log: it is nobody's.
pub(super) fn remove_lock_file(files: &dyn Files, log_dir: &Path) -> Result<(), EngineError> {
    let path = log_dir.join("LOCK");
    match files.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(EngineError::io("remove", path, error)),
        _ => Ok(()),
    }
}
