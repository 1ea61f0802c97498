//! `Numbers` and its sink: log files that keep nothing but their lengths and count the bytes written to them, so that
//! the numbers that a log assigns are reserved on disk before it assigns them.
//!
//! # Invariants
//! - K1. An assigned position lies below `first` + bytes written to the files + `ahead`: everything durable has been
//!   written to them, and beyond that the log assigns no more than its ring and its writers' pieces (LOG-4).
//! - K2. Before a write to the files is accepted, the file `reserved` names an end that K1 cannot pass with it. If the
//!   disk refuses that, the write is refused, and the log stops as for any file that fails.
//! - K3. The files are never read: a log without files is a new one, and consumers of the log are refused (`no_log`).
//!
//! There is one mutex; it is held while `reserved` is written, which is once per [`BLOCK_BYTES`] of log.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use collie_base::{CfId, Lsn, Xid};
use collie_env::{Access, Env, File, FileLock, Files, LockError};
use collie_wal::WalError;
use parking_lot::Mutex;

use super::{Reserved, remove_log_files};
use crate::EngineError;
use crate::dir::log_place::has_log_files;

/// Positions that one write of `reserved` covers.
const BLOCK_BYTES: u64 = 4 << 30;

/// Returns twice the bound of the positions that a log assigns beyond the bytes written of it.
pub(crate) fn ahead_bytes(log: &collie_wal::Options) -> u64 {
    let pieces = u64::from(log.slots).saturating_add(8).saturating_mul(log.chunk_bytes.saturating_add(1 << 10));
    log.ring_bytes.saturating_add(pieces).saturating_mul(2)
}

/// Returns the error for a lock that could not be taken.
pub(super) fn lock_error(path: PathBuf, error: LockError) -> EngineError {
    match error {
        LockError::Held { pid } => WalError::Locked { pid }.into(),
        LockError::Io(error) => EngineError::io("lock", path, error),
    }
}

#[derive(Debug)]
struct State {
    /// Bytes written to the files.
    written: u64,
    /// The content of the file on disk.
    reserved: Reserved,
}

/// The numbers of a database that is open without a log. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Numbers {
    // Constant after open.
    env: Env,
    dir: PathBuf,
    cluster: u128,
    /// The content of the file when the database was opened; `None` if there was none.
    found: Option<Reserved>,
    first: Lsn,
    ahead: u64,
    state: Mutex<State>,
}

impl Numbers {
    /// Returns the numbers of the data directory `dir`, in which `found` was reserved. Writes nothing yet.
    pub(crate) fn new(
        env: &Env,
        dir: &Path,
        cluster: u128,
        found: Option<Reserved>,
        log: &collie_wal::Options,
    ) -> Arc<Self> {
        let none = Reserved { end: log.first_lsn.max(Lsn::FIRST), xid_limit: Xid::new(0), next_family: CfId::new(0) };
        let reserved = found.unwrap_or(none);
        Arc::new(Self {
            env: env.clone(),
            dir: dir.to_owned(),
            cluster,
            found,
            first: reserved.end,
            ahead: ahead_bytes(log),
            state: Mutex::new(State { written: 0, reserved }),
        })
    }

    /// Returns the position at which the log begins.
    pub(crate) const fn first(&self) -> Lsn {
        self.first
    }

    /// Returns an environment in which a log keeps nothing.
    pub(crate) fn sink(self: &Arc<Self>) -> Env {
        let sink = Sink { numbers: Arc::clone(self), names: Mutex::default() };
        Env { files: Arc::new(sink), ..self.env.clone() }
    }

    /// Reserves transaction ids below `limit` and family ids below `next_family`, so that they are never assigned
    /// again.
    pub(crate) fn reserve_ids(&self, limit: Xid, next_family: CfId) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        let reserved = state.reserved;
        let (xid_limit, next_family) = (reserved.xid_limit.max(limit), reserved.next_family.max(next_family));
        self.replace(&mut state, Reserved { xid_limit, next_family, ..reserved })
    }

    /// Makes `reserved` cover this incarnation before it assigns a number (K2). The caller holds the log's lock.
    fn begin(&self, log_dir: &Path) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        let has_log = || has_log_files(log_dir, &self.env);
        if Reserved::read(&self.env, &self.dir, self.cluster)? != self.found || (self.found.is_none() && has_log()?) {
            return Err(WalError::Locked { pid: None }.into()); // another process had the database open since
        }
        let reserved = Reserved { end: self.first.plus(self.ahead.saturating_add(BLOCK_BYTES)), ..state.reserved };
        self.replace(&mut state, reserved)?;
        let removed = remove_log_files(&*self.env.files, log_dir);
        removed.map_err(|error| EngineError::io("remove", log_dir.to_owned(), error))
    }

    fn replace(&self, state: &mut State, reserved: Reserved) -> Result<(), EngineError> {
        if reserved != state.reserved {
            reserved.write(&self.env, &self.dir, self.cluster)?;
            state.reserved = reserved;
        }
        Ok(())
    }

    /// Records bytes that are about to be written (K2).
    fn note_written(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.written = state.written.saturating_add(bytes);
        let needed = self.first.plus(state.written.saturating_add(self.ahead));
        if needed <= state.reserved.end {
            return Ok(());
        }
        let reserved = Reserved { end: needed.plus(BLOCK_BYTES), ..state.reserved };
        self.replace(&mut state, reserved).map_err(io::Error::other)
    }
}

/// Files that keep only their lengths, with a real lock.
#[derive(Debug)]
struct Sink {
    numbers: Arc<Numbers>,
    names: Mutex<BTreeMap<PathBuf, Arc<NullFile>>>,
}

#[derive(Debug)]
struct NullFile {
    numbers: Arc<Numbers>,
    /// The length; it carries nothing, so Relaxed.
    bytes: AtomicU64,
}

impl File for NullFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.load(Relaxed).saturating_sub(offset);
        let count = bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        bytes[..count].fill(0);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.numbers.note_written(len)?;
        self.bytes.fetch_max(offset.saturating_add(len), Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.bytes.store(bytes, Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.load(Relaxed))
    }
}

impl Files for Sink {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.numbers.env.files.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(NullFile { numbers: Arc::clone(&self.numbers), bytes: AtomicU64::new(0) });
        match self.names.lock().entry(path.to_owned()) {
            Entry::Occupied(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Entry::Vacant(entry) => Ok(entry.insert(file).clone()),
        }
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn File>> {
        match self.names.lock().get(path) {
            Some(file) => Ok(file.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let file = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.names.lock().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.numbers.env.files.resolve(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| {
            let name = path.strip_prefix(dir).ok()?.iter().next()?;
            Some(name.to_string_lossy().into_owned())
        };
        Ok(self.names.lock().keys().filter_map(name).collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        let lock = self.numbers.env.files.lock(path)?;
        self.numbers.begin(path.parent().unwrap_or(path)).map_err(|error| LockError::Io(io::Error::other(error)))?;
        Ok(lock)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: K2: before a write is accepted, `reserved` on disk is above every position that the written bytes allow to
    /// be assigned, and it is not written for each write; a disk that refuses to reserve refuses the write, and accepts
    /// it later. Method: writes of many sizes beyond several blocks; a full disk at the next one.
    #[test]
    fn numbers_are_reserved_ahead_of_what_is_written() {
        let (env, disk) = Env::simulated(1);
        let (dir, log_dir) = (Path::new("/db"), Path::new("/db/wal"));
        disk.create_dir_all(log_dir).unwrap();
        let options = collie_wal::Options::small();
        let numbers = Numbers::new(&env, dir, 7, None, &options);
        let sink = numbers.sink();
        let on_disk = || Reserved::read(&env, dir, 7).unwrap();
        assert_eq!(on_disk(), None);
        let lock = sink.files.lock(&log_dir.join("LOCK")).unwrap();
        assert!(sink.files.lock(&log_dir.join("LOCK")).is_err(), "the lock is a real one");
        let (mut written, mut changes, mut last) = (0, 0, on_disk().unwrap());
        for bytes in (0..700_u64).map(|n| (n * 7_919_003) % (64 << 20)) {
            numbers.note_written(bytes).unwrap();
            written += bytes;
            let now = on_disk().unwrap();
            let handed_out = numbers.first().plus(written + options.ring_bytes + 10 * options.chunk_bytes);
            assert!(now.end > handed_out, "{} for {handed_out}", now.end);
            changes += u32::from(now != last);
            last = now;
        }
        assert!(written > 3 * BLOCK_BYTES && changes < 8, "{changes} changes for {written} bytes");
        disk.set_capacity(Some(disk.used_bytes()));
        assert!(numbers.note_written(2 * BLOCK_BYTES).is_err());
        assert_eq!(on_disk(), Some(last));
        disk.set_capacity(None);
        numbers.note_written(1).unwrap();
        assert!(on_disk().unwrap().end > numbers.first().plus(written + 2 * BLOCK_BYTES), "what was refused counts");
        numbers.reserve_ids(Xid::new(99), CfId::new(5)).unwrap();
        numbers.reserve_ids(Xid::new(9), CfId::new(1)).unwrap();
        let now = on_disk().unwrap();
        assert_eq!((now.xid_limit, now.next_family), (Xid::new(99), CfId::new(5)));
        drop(lock);
        let later = Numbers::new(&env, dir, 7, None, &options).sink();
        assert!(later.files.lock(&log_dir.join("LOCK")).is_err(), "it was reserved since somebody looked");
    }
}
