//! `SharedMemory` and `Region`: named memory that outlives the process that made it, up to the next boot.
//!
//! It is no file on a disk: nothing of it survives a power cut, and nothing is ever synced. It is no channel
//! between processes either: one process maps a region, and a later one reads its content.
//!
//! # What always holds
//! - G1. A region is zeroed when it is made, page-aligned, and all its pages exist: an access neither faults on a
//!   full file system nor waits for the allocation of a page.
//! - G2. A region keeps its address until its value is dropped. Other users cannot reach it (mode 0600), and
//!   children do not inherit it by fork.
//! - G3. A reader that opens a region by name copies the bytes and never maps them: a truncated file ends a read
//!   early and not the process.
//! - G4. The process that has a region has claimed it until the region is dropped or the process ends, for whatever
//!   reason. After that, one process at a time can claim the content. The caller of `remove` has claimed the
//!   content under the name, so that it removes nothing newer.
//!
//! Checked by the tests below and those of `sim::memory`.
#![expect(unsafe_code, reason = "maps memory that outlives the process")]

use std::{
    fmt::Debug,
    fs, io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::Arc,
};

use rustix::{
    fs::{FallocateFlags, FlockOperation, FsWord, OFlags},
    mm::{Advice, MapFlags, ProtFlags},
};

use crate::{files::File, pages::Pages};

/// Memory that a later process can read under a name, and the ids that show whether it is from this boot and
/// directory.
pub trait SharedMemory: Send + Sync + Debug {
    /// Returns a number that is new after each boot of the machine.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn boot_id(&self) -> io::Result<[u8; 16]>;

    /// Returns a number of `dir` that a rename keeps and that differs for a copy of `dir`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn directory_id(&self, dir: &Path) -> io::Result<u64>;

    /// Makes a region of `bytes` zeros under a name that does not exist yet, and claims it until the region is
    /// dropped (G4).
    ///
    /// # Errors
    /// Returns `AlreadyExists`, `Unsupported` when the directory is not on a file system in memory, or the error of
    /// the operating system, above all that there is no room. Except for `AlreadyExists`, no name is left behind.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Region>;

    /// Opens a region of an earlier process for reading.
    ///
    /// # Errors
    /// Returns `NotFound`, or `PermissionDenied` when it is not a regular file that only this user can reach.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a region of an earlier process for reading, and claims it until the value is dropped (G4).
    ///
    /// # Errors
    /// Returns the errors of [`SharedMemory::open`], and `WouldBlock` while a process has the region or has claimed it.
    fn claim(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Returns the paths of everything in `dir`, regions and other files.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes a name. A process that has mapped the region keeps it. The caller must hold the claim (G4).
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// A named range of memory. Dropping it unmaps the memory and leaves the name.
#[derive(Debug)]
pub struct Region {
    at: NonNull<u8>,
    len: usize,
    /// Keeps a simulated region alive; `None` for a mapped one.
    pages: Option<Arc<Pages>>,
    /// Holds the claim of a mapped region (G4).
    _claim: Option<fs::File>,
}

// SAFETY: a region is an address and a length; code that accesses the bytes is responsible for its own
// synchronization.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps all of `file`, which is claimed, is `len` bytes long and has all its pages (G1).
    fn of_file(file: fs::File, len: usize) -> io::Result<Self> {
        // SAFETY: no address is requested, so existing mappings are not touched.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let region = Self { at, len, pages: None, _claim: Some(file) };
        // SAFETY: the range was just mapped.
        unsafe { rustix::mm::madvise(at.as_ptr().cast(), len, Advice::LinuxDontFork)? };
        for page in (0..len).step_by(4096) {
            // SAFETY: inside the mapping, which no other code has yet. The store is volatile so that it is not
            // optimized away (G1).
            unsafe { at.as_ptr().add(page).write_volatile(0) };
        }
        Ok(region)
    }

    /// Returns the simulated region of `pages`.
    pub(crate) fn of_pages(pages: Arc<Pages>) -> Self {
        Self { at: pages.address(), len: pages.len(), pages: Some(pages), _claim: None }
    }

    /// Returns the start address, which is that of a page.
    pub fn address(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.pages.is_none() {
            // SAFETY: this region made the mapping, and no user of it is left (G2). Unmapping a whole mapping
            // cannot fail.
            let _unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        }
    }
}

/// The operating system's file systems in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealMemory;

/// The type that `statfs` reports for a tmpfs.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Refuses files that are not in memory: a store could then wait for the writeback of its page.
fn must_be_in_memory(file: &fs::File) -> io::Result<()> {
    if rustix::fs::fstatfs(file)?.f_type == TMPFS_MAGIC {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "not on a tmpfs"))
}

/// Opens for reading a file that only this user can reach.
fn open_own(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("flags of open are an int");
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if !ours {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a file of this user alone"));
    }
    Ok(file)
}

impl SharedMemory for RealMemory {
    fn boot_id(&self) -> io::Result<[u8; 16]> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let id = u128::from_str_radix(&digits, 16).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(id.to_be_bytes())
    }

    fn directory_id(&self, dir: &Path) -> io::Result<u64> {
        Ok(fs::metadata(dir)?.ino())
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Region> {
        let len = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = must_be_in_memory(&file).and_then(|()| {
            // A process that looks through the names may hold the lock for a moment.
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            Region::of_file(file, len)
        });
        if made.is_err() {
            // The caller gets the first error.
            let _removed = fs::remove_file(path);
        }
        made
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(open_own(path)?))
    }

    fn claim(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = open_own(path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))?;
        // The name was removed before this claim, and may mean another region by now.
        if file.metadata()?.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHM: &str = "/dev/shm";

    /// Goal: a new region is all zeros, its content can be read under its name by another opener, even after it is
    /// unmapped, and a name is created only once. Method: create, write, drop, read and remove one region.
    #[test]
    fn region_is_read_under_its_name_after_its_maker_is_gone() {
        let dir = tempfile::tempdir_in(SHM).unwrap();
        let path = dir.path().join("region");
        let region = RealMemory.create(&path, 3 << 12).unwrap();
        assert_eq!((region.len(), region.is_empty(), region.address().as_ptr().addr() % 4096), (3 << 12, false, 0));
        // SAFETY: inside the region, which no other code has.
        unsafe { region.address().as_ptr().add(5000).write(7) };
        assert_eq!(RealMemory.create(&path, 1).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(region);
        let file = RealMemory.open(&path).unwrap();
        let mut bytes = vec![1; 3 << 12];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 3 << 12);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if at == 5000 { 7 } else { 0 }));
        RealMemory.remove(&path).unwrap();
        assert_eq!(RealMemory.open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Goal: G4: a region that is in use or claimed cannot be claimed, and a claim belongs to the region and not to
    /// its name. Method: claims before and after a region is dropped, while it is claimed, and of a name that is
    /// removed and created again in between.
    #[test]
    fn regions_are_claimed_by_one_at_a_time() {
        let dir = tempfile::tempdir_in(SHM).unwrap();
        let path = dir.path().join("region");
        let kind = |claimed: io::Result<Arc<dyn File>>| claimed.map(drop).map_err(|error| error.kind());
        let claim = || kind(RealMemory.claim(&path));
        assert_eq!(claim(), Err(io::ErrorKind::NotFound));
        let region = RealMemory.create(&path, 4096).unwrap();
        assert_eq!(claim(), Err(io::ErrorKind::WouldBlock));
        assert_eq!(RealMemory.list(dir.path()).unwrap(), std::slice::from_ref(&path));
        drop(region);
        let first = RealMemory.claim(&path).unwrap();
        assert_eq!(claim(), Err(io::ErrorKind::WouldBlock));
        RealMemory.remove(&path).unwrap();
        let _next = RealMemory.create(&path, 4096).unwrap();
        drop(first);
        assert_eq!(claim(), Err(io::ErrorKind::WouldBlock), "another region has the name");
    }

    /// Goal: files that others can read, non-files, and places outside memory are refused, with nothing left
    /// behind. Method: try each.
    #[test]
    fn regions_of_others_and_on_disks_are_refused() {
        let dir = tempfile::tempdir_in(SHM).unwrap();
        let open = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(dir.path().join("open"));
        drop(open.unwrap());
        std::os::unix::fs::symlink(dir.path().join("open"), dir.path().join("link")).unwrap();
        let refused = |name: &str| RealMemory.open(&dir.path().join(name)).unwrap_err();
        assert_eq!(refused("open").kind(), io::ErrorKind::PermissionDenied);
        assert!(["link", "none"].map(refused).iter().all(|error| error.kind() != io::ErrorKind::PermissionDenied));
        assert_eq!(RealMemory.open(dir.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        // On no machine is /proc a tmpfs, and it takes no new files; the refused call leaves nothing there either.
        assert!(RealMemory.create("/proc/region".as_ref(), 4096).is_err());
        let path = dir.path().join("large");
        assert!(RealMemory.create(&path, 1 << 60).is_err(), "no machine has this much");
        assert!(!path.exists());
    }

    /// Goal: the boot and a directory keep their numbers, and a directory's copy has another. Method: ask twice.
    #[test]
    fn boot_and_directory_have_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to, copy) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&copy).unwrap();
        let id = RealMemory.directory_id(&from).unwrap();
        assert_ne!(id, RealMemory.directory_id(&copy).unwrap());
        crate::Files::replace(&crate::RealFiles, &from, &to).unwrap();
        assert_eq!(RealMemory.directory_id(&to).unwrap(), id);
        let boot = RealMemory.boot_id().unwrap();
        assert_eq!((boot, boot == [0; 16]), (RealMemory.boot_id().unwrap(), false));
    }
}
