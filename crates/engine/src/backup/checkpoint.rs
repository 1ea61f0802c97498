//! Makes a copy of an open database.
//!
//! The steps, in this order (K1 to K4): make every commit that has returned durable; pin the log; link the levels
//! while flushes and compactions wait; copy the log up to its durable end at that moment; write the control file;
//! write the list of files. Commits continue during the copy. The copied files are compared with the checksums
//! inside the levels and the log (K7). If a tree has rotted, it is rewritten from memory, and the copy starts
//! over.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use collie_base::Lsn;
use collie_env::{Env, Files};
use collie_store::{LevelSums, Levels, LevelsError};
use collie_wal::Log;

use super::manifest::Manifest;
use super::work::{CopyPhase, CopyWatch, Partial, Work, admit, make_dir, tree};
use super::{Backup, CheckpointOptions, LevelsCopy};
use crate::EngineError;
use crate::dir::control::Control;
use crate::log::no_log::NOTHING_TO_COPY;
use crate::shared::Shared;
use crate::shared::mode::Leading;

/// The directory inside the data directory that holds links to tables while they are copied elsewhere.
const STAGE: &str = "checkpoint.collie-partial";
/// The number of attempts to make a copy when each attempt finds another rotten tree.
const TRIES: u32 = 4;

impl Shared {
    /// Copies the database to `target`. See [`Db::checkpoint`](crate::Db::checkpoint).
    pub(crate) fn checkpoint(
        &self,
        target: &Path,
        options: CheckpointOptions,
        watch: CopyWatch<'_>,
    ) -> Result<Backup, EngineError> {
        self.mending_rot(|| self.checkpoint_as_it_is(target, options, &mut *watch))
    }

    /// Makes a copy. If rot in the source prevents that, repairs the tree and tries again (K7).
    fn mending_rot<R>(&self, mut copy: impl FnMut() -> Result<R, EngineError>) -> Result<R, EngineError> {
        for _ in 1..TRIES {
            match copy() {
                Ok(made) => return Ok(made),
                Err(error) => self.mend_for_copy(error)?,
            }
        }
        copy()
    }

    fn checkpoint_as_it_is(
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
        let Some(Leading { place, .. }) = self.mode.leading() else { return Err(EngineError::Closed) };
        let dirs: Vec<&Path> = place.dirs().collect();
        let data = dirs[0];
        let (target, partial) = admit(files, &dirs, target)?;
        let partial = Partial::make(files, partial)?;

        let returned = log.wait_published()?;
        log.wait_durable(returned)?;
        let pin = wal.pin(base.levels().log_start().max(Lsn::FIRST), "a checkpoint"); // K1
        let from = copy_levels(&mut work, base.levels(), wal, data, &Control::levels_dir(partial.dir()), options)?;

        // The mark gives the copy a time to which it can be restored.
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
        // K7: these are the checksums of the copied files, not of their source.
        let sums = LevelSums::of(&self.env, &Control::levels_dir(partial.dir())).map_err(EngineError::levels)?;
        let mut listed = Vec::with_capacity(names.len());
        for name in names {
            listed.push(work.sum(partial.dir(), name, &sums)?);
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
        self.mending_rot(|| self.copy_levels_as_they_are(target, options, &mut *watch))
    }

    fn copy_levels_as_they_are(
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
        let (Some(wal), Some(Leading { place, .. })) = (log.wal(), self.mode.leading()) else {
            return Err(EngineError::Closed);
        };
        let _one_at_a_time = self.checkpoints.lock();
        let mut work = Work::new(&self.env, watch);
        let dirs: Vec<&Path> = place.dirs().collect();
        let (target, partial) = admit(work.files(), &dirs, target)?;
        let partial = Partial::make(work.files(), partial)?;
        // Read before the links are made: the log that the linked tables need begins here or above (K1).
        let start = base.levels().log_start().max(Lsn::FIRST);
        let levels = Control::levels_dir(partial.dir());
        let from = copy_levels(&mut work, base.levels(), wal, dirs[0], &levels, options)?;
        check_levels_watched(&mut work, &levels)?;
        partial.finish(&target)?;
        Ok(LevelsCopy { start, from })
    }
}

/// Compares every file of the levels in `dir` with the checksums inside (K7).
fn check_levels_watched(work: &mut Work<'_>, dir: &Path) -> Result<(), EngineError> {
    let sums = LevelSums::of(work.env, dir).map_err(EngineError::levels)?;
    let (_names, bytes) = tree(work.files(), dir)?;
    work.phase(CopyPhase::Checking, bytes)?;
    let files = work.files();
    let faults = sums.read_all::<Stopped>(files, &mut |bytes| work.step(bytes).map_err(Stopped));
    let faults = faults.map_err(|Stopped(error)| error)?;
    faults.into_iter().next().map_or(Ok(()), |fault| Err(EngineError::levels(fault)))
}

/// Compares every file of the levels in `dir`, which no process has open, with the checksums inside. Succeeds if
/// there are no levels.
///
/// # Errors
/// [`EngineError::Levels`] names the first file that differs from what was written; [`EngineError::NewerFormat`],
/// [`EngineError::Io`].
pub(crate) fn check_levels(env: &Env, dir: &Path) -> Result<(), EngineError> {
    if env.files.list(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    check_levels_watched(&mut Work::new(env, &mut |_| ControlFlow::Continue(())), dir)
}

/// The error that stopped the reading.
struct Stopped(EngineError);

impl From<LevelsError> for Stopped {
    fn from(error: LevelsError) -> Self {
        Self(EngineError::levels(error))
    }
}

/// Links or copies the levels to `to`. Returns a durable position above every entry in them (K2).
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
    // The tables are linked next to the originals first, so that flushes wait only for the links, and then copied
    // from there.
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

/// Returns whether the error means that the copy's file system cannot link to the source's files.
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

/// Removes files that a copy interrupted by a crash left in the data directory. Best effort.
pub(crate) fn remove_leftovers(env: &Env, data: &Path) {
    let stage = stage_of(data);
    if env.files.list(&stage).is_ok() {
        // The next opening, or the next copy, tries again.
        let _best_effort = env.files.remove_dir_all(&stage);
    }
}

/// Removes the lock file that work on a closed log has left; no process holds it.
pub(super) fn remove_lock_file(files: &dyn Files, log_dir: &Path) -> Result<(), EngineError> {
    let path = log_dir.join("LOCK");
    match files.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(EngineError::io("remove", path, error)),
        _ => Ok(()),
    }
}
