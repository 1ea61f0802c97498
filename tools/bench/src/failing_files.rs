//! `FailingFiles`: the machine's disk with a switch that makes the next sync of a flush fail.
//!
//! The log's thread that prepares spare files syncs too; its syncs never fail here.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use collie_env::{Access, Env, File, FileLock, Files, LockError};

/// The name of the log's thread that prepares files.
const PREPARER: &str = "wal-preparer";

/// A disk with a switch that makes a sync fail.
#[derive(Clone, Debug)]
pub(crate) struct FailingFiles {
    files: Arc<dyn Files>,
    fails: Arc<AtomicBool>,
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn File>,
    fails: Arc<AtomicBool>,
}

impl FailingFiles {
    /// Wraps the disk of `env`; returns an environment on the wrapped disk, and the switch.
    pub(crate) fn over(env: &Env) -> (Env, Self) {
        let files = Self { files: env.files.clone(), fails: Arc::default() };
        (Env { files: Arc::new(files.clone()), ..env.clone() }, files)
    }

    /// Makes the next sync fail, except the preparer's.
    pub(crate) fn fail_next_sync(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// Returns whether no sync has failed since the last [`FailingFiles::fail_next_sync`].
    pub(crate) fn is_armed(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FailingFile { file, fails: self.fails.clone() })
    }
}

impl File for FailingFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        let armed = self.fails.load(Ordering::Relaxed) && std::thread::current().name() != Some(PREPARER);
        if armed && self.fails.swap(false, Ordering::Relaxed) {
            return Err(io::Error::other("a sync that was told to fail"));
        }
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Files for FailingFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.files.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.files.open(path, access)?))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.files.lock(path)
    }
}
