//! [`Disk`]: a simulated disk that takes time, like a device below a simulated kernel.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use collie_env::{Access, File, FileLock, Files, LockError, SimFiles};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) files: SimFiles,
    /// The longest duration of a sync, in microseconds.
    sync_us: Arc<AtomicU64>,
    is_stalled: Arc<AtomicBool>,
}

/// How often a thread that waits for a stalled device checks it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Disk {
    /// Creates a disk whose syncs take up to `sync_us`.
    pub(crate) fn over(files: SimFiles, sync_us: u64) -> Self {
        Self { files, sync_us: Arc::new(AtomicU64::new(sync_us)), is_stalled: Arc::default() }
    }

    /// Sets the longest duration of a sync.
    pub(crate) fn set_sync_us(&self, sync_us: u64) {
        self.sync_us.store(sync_us, Ordering::Relaxed);
    }

    /// Stalls the device: writes and syncs block until it resumes. They poll a flag instead of holding the lock of
    /// `files`, since a thread that is killed while it waits for that lock might get it and never release it.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    fn wait_for_stall(&self) {
        while self.is_stalled.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for the duration of a sync, and for the end of a stall.
    fn wait(&self) {
        let most_us = self.sync_us.load(Ordering::Relaxed).max(1);
        thread::sleep(Duration::from_micros(1 + collie_simkernel::draw() % most_us));
        self.wait_for_stall();
    }

    fn open_file(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(OpenFile { inner, disk: self.clone() })
    }
}

/// An open file on the disk.
#[derive(Debug)]
struct OpenFile {
    inner: Arc<dyn File>,
    disk: Disk,
}

impl File for OpenFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        collie_simkernel::may_be_preempted();
        self.inner.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.wait_for_stall();
        collie_simkernel::may_be_preempted();
        self.inner.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.wait();
        self.inner.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        collie_simkernel::may_be_preempted();
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, bytes)
    }

    fn fill_holes(&self, bytes: u64) -> io::Result<()> {
        self.inner.fill_holes(bytes)
    }
}

impl Files for Disk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        collie_simkernel::may_be_preempted();
        self.files.create(path).map(|file| self.open_file(file))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        collie_simkernel::may_be_preempted();
        self.files.open(path, access).map(|file| self.open_file(file))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.wait();
        self.files.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        collie_simkernel::may_be_preempted();
        self.files.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.remove_dir_all(dir)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.hard_link(from, to)
    }

    fn disk_bytes(&self, path: &Path) -> Option<u64> {
        self.files.disk_bytes(path)
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        self.files.free_bytes(path)
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        self.files.mode(path)
    }

    fn close_to_others(&self, dir: &Path) -> io::Result<()> {
        self.files.close_to_others(dir)
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        self.files.is_link(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.resolve(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.wait();
        self.files.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.files.lock(path)
    }

    fn lock_to_read(&self, path: &Path) -> Result<Option<Box<dyn FileLock>>, LockError> {
        self.files.lock_to_read(path)
    }
}
