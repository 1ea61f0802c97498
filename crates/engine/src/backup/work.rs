//! `Work`: reads, copies and sums files piece by piece for a caller that watches and may stop it. [`Partial`] is a
//! directory that is removed unless it is finished.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use collie_base::{Lsn, checksum::crc32c};
use collie_env::{Access, Env, Files};
use collie_obs::{BackupChunk, Span, word};
use collie_store::{LevelSums, TableCheck};

use super::manifest::{ListedFile, PIECE_BYTES};
use super::table_rows::{TableRows, share};
use crate::EngineError;

/// The phase of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyPhase {
    /// The levels are linked or copied.
    Levels,
    /// The log is copied.
    Log,
    /// Checksums are computed.
    Summing,
    /// Files are compared with their checksums.
    Checking,
    /// Files are copied and, as they are read, compared with their checksums.
    Restoring,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// The current phase.
    pub phase: CopyPhase,
    /// Bytes of the phase that are done.
    pub bytes_done: u64,
    /// Total bytes of the phase; an estimate while the database is written to.
    pub bytes_total: u64,
}

/// Called after each piece of work. On `Break` the work ends with [`EngineError::Cancelled`], and everything that
/// it made is removed.
pub type CopyWatch<'a> = &'a mut dyn FnMut(&CopyProgress) -> ControlFlow<()>;

/// Called with each piece of a file and its offset. An error ends the reading.
pub(super) type EachPiece<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), EngineError>;

/// Work on files, in phases.
pub(super) struct Work<'a> {
    pub(super) env: &'a Env,
    watch: CopyWatch<'a>,
    now: CopyProgress,
    /// Rows of the files that are copied.
    rows: TableRows,
}

impl<'a> Work<'a> {
    pub(super) fn new(env: &'a Env, watch: CopyWatch<'a>) -> Self {
        let now = CopyProgress { phase: CopyPhase::Levels, bytes_done: 0, bytes_total: 0 };
        Self { env, watch, now, rows: TableRows::default() }
    }

    /// Sets the directory of the levels to be copied. All their files must be there.
    pub(super) fn copies_levels_of(&mut self, dir: &Path) {
        self.rows = TableRows::of(self.env, dir);
    }

    pub(super) fn files(&self) -> &'a dyn Files {
        &*self.env.files
    }

    /// Begins a phase.
    pub(super) fn phase(&mut self, phase: CopyPhase, bytes_total: u64) -> Result<(), EngineError> {
        self.now = CopyProgress { phase, bytes_done: 0, bytes_total };
        self.step(0)
    }

    /// Adds to the completed bytes and notifies the watcher.
    pub(super) fn step(&mut self, bytes: u64) -> Result<(), EngineError> {
        self.now.bytes_done += bytes;
        self.now.bytes_total = self.now.bytes_total.max(self.now.bytes_done);
        match (self.watch)(&self.now) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(EngineError::Cancelled),
        }
    }

    /// Passes the file to `visit` piece by piece. Returns its length.
    pub(super) fn read(&mut self, path: &Path, visit: EachPiece<'_>) -> Result<u64, EngineError> {
        self.pieces(path, visit, || None)
    }

    /// As [`Work::read`], but measures each piece, including the call of `visit`, if `start` returns a span.
    fn pieces(
        &mut self,
        path: &Path,
        visit: EachPiece<'_>,
        start: impl Fn() -> Option<Span<BackupChunk>>,
    ) -> Result<u64, EngineError> {
        let failed = |error| EngineError::io("read", path.to_owned(), error);
        let file = self.files().open(path, Access::Read).map_err(failed)?;
        let rows = self.rows.of_file(path);
        let file_bytes = if rows > 0 { file.len().map_err(failed)? } else { 0 };
        let (mut at, mut piece) = (0, vec![0; PIECE_BYTES]);
        loop {
            let span = start();
            let count = file.read_at(at, &mut piece).map_err(failed)?;
            if count == 0 {
                return Ok(at);
            }
            visit(at, &piece[..count])?;
            if let Some(span) = span {
                let ended = span.end();
                let rows = word(share(rows, file_bytes, (at, count)));
                ended.tell(Lsn::ZERO, BackupChunk { rows, bytes: word(count) }, []);
            }
            at += count as u64;
            self.step(count as u64)?;
        }
    }

    /// Returns the file's size and checksums. A table is compared with its checksum in `sums` first (K7).
    pub(super) fn sum(&mut self, dir: &Path, name: String, sums: &LevelSums) -> Result<ListedFile, EngineError> {
        let path = dir.join(&name);
        let (mut pieces, mut check) = (Vec::new(), sums.check(&path));
        let bytes = self.read(&path, &mut |_at, piece| {
            pieces.push(crc32c(piece));
            check.iter_mut().for_each(|check| check.piece(piece));
            Ok(())
        })?;
        check.map_or(Ok(()), TableCheck::end).map_err(EngineError::levels)?;
        Ok(ListedFile { name, bytes, pieces })
    }

    /// Copies a file to a new one. `check` sees each piece before it is written. The content is durable on return,
    /// the name is not.
    pub(super) fn copy(&mut self, from: &Path, to: &Path, check: EachPiece<'_>) -> Result<u64, EngineError> {
        let failed = |error| EngineError::io("write", to.to_owned(), error);
        let target = self.files().create(to).map_err(failed)?;
        let mut visit = |at, piece: &[u8]| {
            check(at, piece)?;
            target.write_at(at, piece).map_err(failed)
        };
        let bytes = self.pieces(from, &mut visit, collie_obs::start)?;
        target.sync_data().map_err(failed)?;
        Ok(bytes)
    }

    /// Copies a directory with everything in it to `to`, which is created if missing. Durable on return, apart
    /// from the name of `to`.
    pub(super) fn copy_dir(&mut self, from: &Path, to: &Path) -> Result<(), EngineError> {
        make_dir(self.files(), to)?;
        for name in list(self.files(), from)? {
            let (from, to) = (from.join(&name), to.join(&name));
            if is_dir(self.files(), &from) {
                self.copy_dir(&from, &to)?;
            } else {
                self.copy(&from, &to, &mut |_, _| Ok(()))?;
            }
        }
        sync_dir(self.files(), to)
    }
}

/// Returns the names in a directory.
pub(super) fn list(files: &dyn Files, dir: &Path) -> Result<Vec<String>, EngineError> {
    files.list(dir).map_err(|error| EngineError::io("list", dir.to_owned(), error))
}

/// Returns whether the path is a directory, that is, whether it can be listed.
fn is_dir(files: &dyn Files, path: &Path) -> bool {
    files.list(path).is_ok()
}

/// Creates a directory, which may exist already.
pub(super) fn make_dir(files: &dyn Files, dir: &Path) -> Result<(), EngineError> {
    files.create_dir_all(dir).map_err(|error| EngineError::io("create", dir.to_owned(), error))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(files: &dyn Files, dir: &Path) -> Result<(), EngineError> {
    files.sync_dir(dir).map_err(|error| EngineError::io("sync", dir.to_owned(), error))
}

/// Returns the names of all files below a directory, with parts separated by `/`, in ascending order, and their
/// total size in bytes.
pub(super) fn tree(files: &dyn Files, dir: &Path) -> Result<(Vec<String>, u64), EngineError> {
    let (mut found, mut bytes, mut todo) = (Vec::new(), 0, vec![String::new()]);
    while let Some(above) = todo.pop() {
        for name in list(files, &dir.join(&above))? {
            let name = if above.is_empty() { name } else { format!("{above}/{name}") };
            let path = dir.join(&name);
            if is_dir(files, &path) {
                todo.push(name);
            } else {
                let len = files.open(&path, Access::Read).and_then(|file| file.len());
                bytes += len.map_err(|error| EngineError::io("read", path, error))?;
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    Ok((found, bytes))
}

/// A directory that is being made under a temporary name. If it is dropped before it is finished, it is removed.
#[derive(Debug)]
pub(super) struct Partial<'a> {
    files: &'a dyn Files,
    dir: PathBuf,
    finished: bool,
}

impl<'a> Partial<'a> {
    /// Creates `dir`, empty. Removes the leftovers of an earlier attempt.
    pub(super) fn make(files: &'a dyn Files, dir: PathBuf) -> Result<Self, EngineError> {
        match files.remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(EngineError::io("remove", dir, error)),
            _ => {}
        }
        let partial = Self { files, dir, finished: false };
        make_dir(files, &partial.dir)?;
        Ok(partial)
    }

    /// Returns its present path.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Syncs the directory and renames it to `to` (K4), which does not exist or is an empty directory.
    pub(super) fn finish(mut self, to: &Path) -> Result<(), EngineError> {
        sync_dir(self.files, &self.dir)?;
        self.files.replace(&self.dir, to).map_err(|error| EngineError::io("finish", to.to_owned(), error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // The next attempt removes leftovers.
            let _best_effort = self.files.remove_dir_all(&self.dir);
        }
    }
}

/// The subdirectory of a data directory in which copies may be made; nothing of the database is in it.
const COPIES: &str = "copies";

/// Returns the resolved target of a copy and the temporary path under which it is made first. The target must not
/// be inside one of `sources`, except directly in its [`COPIES`], and must not hold anything.
///
/// # Errors
/// [`EngineError::BadTarget`], [`EngineError::Io`].
pub(super) fn admit(files: &dyn Files, sources: &[&Path], target: &Path) -> Result<(PathBuf, PathBuf), EngineError> {
    let resolve = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        files.resolve(path).map_err(|error| EngineError::io("look up", path.to_owned(), error))
    };
    let full = resolve(target)?;
    let refuse = |what| Err(EngineError::BadTarget { path: full.clone(), what });
    for source in sources {
        let source = resolve(source)?;
        if full.starts_with(&source) && full.parent() != Some(&source.join(COPIES)) {
            return refuse("lies inside the directory that is copied");
        }
    }
    let (Some(above), Some(name)) = (full.parent(), full.file_name()) else { return refuse("is a root directory") };
    match files.list(&full) {
        Ok(names) if names.is_empty() => {}
        Ok(_) => return refuse("is not empty"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return refuse("is a file, or lies below one"),
        Err(error) => return Err(EngineError::io("list", full, error)),
    }
    if !is_dir(files, above) {
        return refuse("lies in a directory that is not there or cannot be read");
    }
    let mut partial = name.to_owned();
    partial.push(".collie-partial");
    let partial = above.join(partial);
    Ok((full, partial))
}
