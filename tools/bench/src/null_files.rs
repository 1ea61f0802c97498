//! `NullFiles`: a disk that accepts every write and keeps nothing but names and lengths; the null sink under Collie's
//! own log.
//!
//! Reads return zeros. So a log can only be created on it, not opened again, which is enough for a benchmark of memory.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use collie_env::{Access, Env, File, FileLock, Files, LockError, RealClock, RealMemory, RealRandom};
use parking_lot::Mutex;

/// A disk without content.
#[derive(Debug, Default)]
pub(crate) struct NullFiles {
    files: Mutex<BTreeMap<PathBuf, Arc<NullFile>>>,
}

/// A file of which only the length is kept.
#[derive(Debug, Default)]
struct NullFile {
    bytes: AtomicU64,
}

impl File for NullFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.load(Ordering::Relaxed).saturating_sub(offset);
        let count = bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        bytes[..count].fill(0);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

/// A lock that is always free, since no other process sees this disk.
#[derive(Debug)]
struct Alone;

impl FileLock for Alone {}

impl NullFiles {
    /// Returns an environment on such a disk, with the machine's clock and random numbers.
    pub(crate) fn env() -> Env {
        Env {
            files: Arc::new(Self::default()),
            memory: Arc::new(RealMemory),
            clock: Arc::new(RealClock),
            random: Arc::new(RealRandom),
        }
    }
}

impl Files for NullFiles {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(NullFile::default());
        match self.files.lock().entry(path.to_owned()) {
            Entry::Occupied(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Entry::Vacant(entry) => Ok(entry.insert(file).clone()),
        }
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn File>> {
        match self.files.lock().get(path) {
            Some(file) => Ok(file.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |path: &Path| Some(path.strip_prefix(dir).ok()?.iter().next()?.to_string_lossy().into_owned());
        let mut names: Vec<String> = self.files.lock().keys().filter_map(|path| name(path)).collect();
        names.dedup();
        Ok(names)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        Ok(Box::new(Alone))
    }
}
