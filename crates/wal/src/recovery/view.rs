//! `LogView`: the log that an opening would find, read without one. Nothing is written, and nothing is opened for
//! appends.
//!
//! For a database that is opened read-only, also from a medium that takes no writes: the recovery scan decides as for
//! an opening, and the shared ring of a dead process is read in place.
//!
//! # Invariants
//! - E1. Nothing is written, not even to a `LOCK`.
//! - E2. A view yields what an opening at this moment would find, record by record and up to the same end; it refuses
//!   what the opening would refuse.
//! - E3. While a [`ReadLock`] is held no process opens the log. If a directory has no `LOCK`, no log was ever opened in
//!   it; if a process opens one there before [`ReadLock::release`], the release fails, and the records read must not be
//!   used.
//!
//! Checked by `tests/view.rs`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock, Files, LockError};

use crate::{
    Options, RecordRef, RecoveryMode, WalError, copies::surveyed_to_read, read::assemble::Assembler,
    read::assemble::Place, read::frame_reader::FrameReader, recovery::last_incarnation::scan_with_ring,
    recovery::last_incarnation::take_from_ring, scan::Scan, scan::scan_watched,
};

/// Keeps a log from being opened while it is read. Any number may be held at one time, in any processes.
#[derive(Debug)]
pub struct ReadLock {
    /// The directories that can be read.
    there: Vec<PathBuf>,
    /// Those that cannot.
    missing: Vec<PathBuf>,
    locks: Vec<Box<dyn FileLock>>,
    /// `LOCK` files that did not exist and so are not locked.
    absent: Vec<PathBuf>,
}

impl ReadLock {
    /// Locks the log in `dir` and `copies`, of which at least one must exist.
    ///
    /// # Errors
    /// `Locked` if a process has the log open; `Io` if no directory can be read, or a `LOCK` that exists cannot.
    ///
    /// # Progress
    /// Blocks on listing the directories and opening a file in each; does not wait for a process that has the log open.
    pub fn take(env: &Env, dir: &Path, copies: &[PathBuf]) -> Result<Self, WalError> {
        let mut taken = Self { there: vec![], missing: vec![], locks: vec![], absent: vec![] };
        let mut failed = None;
        for dir in std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path)) {
            if let Err(source) = env.files.list(dir) {
                failed.get_or_insert(WalError::io("list", dir, source));
                taken.missing.push(dir.to_owned());
                continue;
            }
            taken.there.push(dir.to_owned());
            let path = dir.join("LOCK");
            match env.files.lock_to_read(&path) {
                Ok(Some(lock)) => taken.locks.push(lock),
                Ok(None) => taken.absent.push(path),
                Err(LockError::Held { pid }) => return Err(WalError::Locked { pid }),
                Err(LockError::Io(source)) => return Err(WalError::io("lock", &path, source)),
            }
        }
        match failed.filter(|_| taken.there.is_empty()) {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    /// Releases the lock, once everything was read.
    ///
    /// # Errors
    /// `Locked`: a process has opened the log in the meantime (E3); `Io`.
    ///
    /// # Progress
    /// Blocks on opening a file, if there was none to lock.
    pub fn release(self, env: &Env) -> Result<(), WalError> {
        for path in &self.absent {
            match env.files.lock_to_read(path) {
                Ok(None) => {}
                Ok(Some(_)) => return Err(WalError::Locked { pid: None }),
                Err(LockError::Held { pid }) => return Err(WalError::Locked { pid }),
                Err(LockError::Io(source)) => return Err(WalError::io("lock", path, source)),
            }
        }
        Ok(())
    }
}

/// A log as an opening would find it.
#[derive(Debug)]
pub struct LogView {
    files: Arc<dyn Files>,
    found: Scan,
    /// Records behind the end of the last file, which the shared ring of a dead process has.
    from_ring: Vec<u8>,
    end: Lsn,
    record_bytes_max: usize,
    notes: Vec<String>,
}

impl LogView {
    /// Scans the log in `dir` and `options.copies`, which `lock` holds.
    ///
    /// # Errors
    /// Those of [`Log::open`](crate::Log::open), except those of writing.
    ///
    /// # Progress
    /// Blocks on reading the whole log.
    pub fn of(env: &Env, dir: &Path, options: &Options, lock: &ReadLock) -> Result<Self, WalError> {
        let look = |known_durable| match options.copies.is_empty() {
            true => {
                let found = scan_watched(&*env.files, dir, known_durable, &options.checked)?;
                Ok::<_, WalError>((env.files.clone(), found))
            }
            false => surveyed_to_read(&env.files, dir, [&lock.there, &lock.missing], options, known_durable),
        };
        let mut notes = Vec::new();
        let (files, mut found, ring) = scan_with_ring(env, dir, options, &mut notes, look)?;
        let lossy = options.recovery_mode == RecoveryMode::PointInTime;
        if let Some(error) = found.damage_error() {
            if !lossy {
                return Err(error);
            }
            notes.push(format!("{error}; read without them as wal.recovery_mode = point_in_time asks"));
            if found.damage.as_ref().is_some_and(|damage| damage.lsn < found.start()) {
                // Damage before the first frame that is left leaves no prefix.
                found.spans.clear();
                (found.end, found.durable) = (Lsn::FIRST, Lsn::FIRST);
            }
        }
        let ending = found.ending(options.recovery_mode)?;
        let (from_ring, end) = take_from_ring(ring.as_ref(), &found, ending, lossy, &mut notes)?;
        let record_bytes_max = usize::try_from(options.max_record_bytes).unwrap_or(usize::MAX);
        Ok(Self { files, found, from_ring, end, record_bytes_max, notes })
    }

    /// Returns where the log starts: it has every record from here on.
    pub fn start(&self) -> Lsn {
        self.found.start()
    }

    /// Returns the end of the last record.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Returns how often the log was opened.
    pub fn incarnation(&self) -> u64 {
        self.found.incarnation
    }

    /// Returns the lines for an operator.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Calls `visit` with every record, oldest first.
    ///
    /// # Errors
    /// The first one, of reading or of `visit`, which is not called again after it.
    ///
    /// # Progress
    /// Blocks on reading files.
    pub fn visit<E: From<WalError>>(&self, mut visit: impl FnMut(RecordRef<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut frames = FrameReader::new(self.files.clone(), self.found.spans.clone(), self.start(), None);
        let mut assembler = Assembler::new(Lsn::ZERO, self.record_bytes_max);
        let mut last = Place { path: Arc::from(Path::new("")), offset: 0 };
        while let Some((frame, place)) = frames.next_frame(self.found.end)? {
            let mut taking = assembler.begin(&frame.header)?;
            while let Some(record) = assembler.step(frame.payload, &mut taking, &place, self.found.end)? {
                visit(record)?;
            }
            last = place;
        }
        // Records of several pieces may begin in a file and end in the ring.
        let mut taking = assembler.begin_at(self.found.end);
        while let Some(record) = assembler.step(&self.from_ring, &mut taking, &last, self.end)? {
            visit(record)?;
        }
        Ok(())
    }
}
