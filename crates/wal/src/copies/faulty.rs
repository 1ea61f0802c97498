//! `FaultyDirs`, for tests: a simulated disk on which individual directories fail, stall or are gone.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Access, Env, File, FileLock, Files, LockError, SimFiles};
use parking_lot::{Condvar, Mutex};

/// The fault of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Every changing call fails after this many more. A failing write leaves half of its bytes, a failing sync syncs
    /// nothing.
    FailsAfter(u64),
    /// As `FailsAfter`, with the error of a full disk. Locks can still be taken.
    FullAfter(u64),
    /// Only one changing call fails: the next one after this many more.
    FailsOnce(u64),
    /// Changing calls wait until the trouble is removed.
    Stalls,
    /// It cannot be read, listed, locked or created.
    Gone,
}

#[derive(Debug, Default)]
struct Troubles {
    of: Mutex<BTreeMap<PathBuf, Trouble>>,
    changed: Condvar,
}

/// A disk with faulty directories; clones are handles of the same disk.
#[derive(Clone, Debug)]
pub(crate) struct FaultyDirs {
    disk: SimFiles,
    troubles: Arc<Troubles>,
}

fn eio() -> io::Error {
    io::Error::other("this directory fails")
}

impl Troubles {
    /// Returns an error if a call on `path` fails now.
    fn enter(&self, path: &Path, changes: bool) -> io::Result<()> {
        let mut of = self.of.lock();
        let stalls = |of: &BTreeMap<PathBuf, Trouble>| {
            of.iter().any(|(dir, trouble)| *trouble == Trouble::Stalls && path.starts_with(dir))
        };
        while changes && stalls(&of) {
            self.changed.wait(&mut of);
        }
        let Some((dir, trouble)) = of.iter_mut().find(|(dir, _)| path.starts_with(dir)) else { return Ok(()) };
        match trouble {
            Trouble::Gone => return Err(eio()),
            _ if !changes => {}
            Trouble::Stalls => {}
            Trouble::FailsAfter(0) => return Err(eio()),
            Trouble::FailsOnce(0) => {
                let dir = dir.clone();
                of.remove(&dir);
                return Err(eio());
            }
            Trouble::FullAfter(0) => return Err(io::ErrorKind::StorageFull.into()),
            Trouble::FailsAfter(left) | Trouble::FullAfter(left) | Trouble::FailsOnce(left) => *left -= 1,
        }
        Ok(())
    }
}

impl FaultyDirs {
    pub(crate) fn new(disk: &SimFiles) -> Self {
        Self { disk: disk.clone(), troubles: Arc::default() }
    }

    /// Returns an environment on this disk.
    pub(crate) fn env(&self, seed: u64) -> Env {
        Env { files: Arc::new(self.clone()), ..Env::over(self.disk.clone(), seed) }
    }

    /// Sets or removes the trouble of `dir`.
    pub(crate) fn set(&self, dir: &str, trouble: Option<Trouble>) {
        let mut of = self.troubles.of.lock();
        match trouble {
            Some(trouble) => of.insert(PathBuf::from(dir), trouble),
            None => of.remove(Path::new(dir)),
        };
        self.troubles.changed.notify_all();
    }

    /// Returns the trouble that `dir` is in.
    pub(crate) fn trouble(&self, dir: &str) -> Option<Trouble> {
        self.troubles.of.lock().get(Path::new(dir)).copied()
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { path: path.to_owned(), file, troubles: self.troubles.clone() })
    }
}

#[derive(Debug)]
struct FaultyFile {
    path: PathBuf,
    file: Arc<dyn File>,
    troubles: Arc<Troubles>,
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.troubles.enter(&self.path, false)?;
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.troubles.enter(&self.path, true) {
            self.file.write_at(offset, &bytes[..bytes.len() / 2 / 512 * 512])?;
            return Err(error);
        }
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.troubles.enter(&self.path, true)?;
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.troubles.enter(&self.path, true)?;
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Files for FaultyDirs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.troubles.enter(dir, false)?;
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.troubles.enter(path, true)?;
        Ok(self.wrap(path, self.disk.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.troubles.enter(path, false)?;
        Ok(self.wrap(path, self.disk.open(path, access)?))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.troubles.enter(to, true)?;
        self.disk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.troubles.enter(path, true)?;
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.troubles.enter(dir, false)?;
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.troubles.enter(dir, true)?;
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.troubles.enter(path, false).map_err(LockError::Io)?;
        self.disk.lock(path)
    }
}
