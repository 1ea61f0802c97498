//! `SharedMemory` and `Region`: memory that has a name and outlives the process that made it, up to the next boot.
//!
//! Not a file on a disk: nothing of it survives a power cut, and nothing is ever synced. Not for talking between
//! processes either: one process maps a region, a later one reads what it left.
//!
//! # What always holds
//! - G1. A region is zeroed when it is made, page-aligned, and all its pages exist: touching it neither faults on a full
//!   file system nor waits for a page to be found.
//! - G2. A region stays where it is until its value is dropped. Only the process that made it can reach it (mode 0600),
//!   and of its children none (not inherited by fork).
//! - G3. Whoever opens by name reads by copy, never by mapping: a shortened file ends a read early and not the process.
//! - G4. The process that has a region has claimed it, until the region is dropped or the process ends, however it ends. Of the others one at
//!   a time can claim what is left. Whoever removes a name has claimed what is under it, so that it removes nothing newer.
//!
//! Checked by the tests below and those of `sim_memory`.
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

use crate::{files::File, sim_memory::Pages};

/// Memory that a later process can read under a name, and what says whether it is still that of this boot.
pub trait SharedMemory: Send + Sync + Debug {
    /// Returns a number that is new after each boot of the machine.
    ///
    /// # Errors
    /// What the operating system says.
    fn boot_id(&self) -> io::Result<[u8; 16]>;

    /// Returns a number of `dir` that stays the same when it is renamed and is another one for a copy of it.
    ///
    /// # Errors
    /// What the operating system says.
    fn directory_id(&self, dir: &Path) -> io::Result<u64>;

    /// Makes a region of `bytes` zeros under a name that does not exist yet, and claims it for as long as the region is there (G4).
    ///
    /// # Errors
    /// `AlreadyExists`; `Unsupported` when the directory is not on a file system in memory; what the operating system
    /// says, above all that there is no room. No name is left behind.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Region>;

    /// Opens what an earlier process left, to read it.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied` when it is not a file that only this user can reach.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens what an earlier process left, to read it, and claims it until the value is dropped (G4).
    ///
    /// # Errors
    /// Those of [`SharedMemory::open`]; `WouldBlock` while a process has the region, or somebody else claims it.
    fn claim(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Returns the paths of everything in `dir`, regions and other files.
    ///
    /// # Errors
    /// What the operating system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes a name. Whoever has the region mapped keeps it. To be called with a claim (G4).
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// A stretch of memory under a name. Dropping it unmaps it and leaves the name.
#[derive(Debug)]
pub struct Region {
    at: NonNull<u8>,
    len: usize,
    /// What keeps a simulated region alive; none when it is mapped.
    pages: Option<Arc<Pages>>,
    /// Holds the claim of a mapped one (G4).
    _claim: Option<fs::File>,
}

// SAFETY: a region is an address and a length; whoever touches the bytes answers for how.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps all of `file`, which is claimed, is `len` bytes long and has all its pages (G1).
    fn of_file(file: fs::File, len: usize) -> io::Result<Self> {
        // SAFETY: no address is asked for, so nothing that is mapped already is touched.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let region = Self { at, len, pages: None, _claim: Some(file) };
        // SAFETY: the range was just mapped.
        unsafe { rustix::mm::madvise(at.as_ptr().cast(), len, Advice::LinuxDontFork)? };
        for page in (0..len).step_by(4096) {
            // SAFETY: inside the mapping, which nobody else has yet. Volatile: the store is the point (G1).
            unsafe { at.as_ptr().add(page).write_volatile(0) };
        }
        Ok(region)
    }

    /// Returns the simulated region of `pages`.
    pub(crate) fn of_pages(pages: Arc<Pages>) -> Self {
        Self { at: pages.address(), len: pages.len(), pages: Some(pages), _claim: None }
    }

    /// Returns where it starts: at the start of a page.
    pub fn address(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns how many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.pages.is_none() {
            // SAFETY: mapped by us and nobody has it any more (G2). Failing is impossible for a whole mapping.
            let _unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        }
    }
}

/// The operating system's file systems in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealMemory;

/// What `statfs` calls a tmpfs.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Refuses files that do not live in memory: their pages would be written back while somebody waits for a store.
fn must_be_in_memory(file: &fs::File) -> io::Result<()> {
    if rustix::fs::fstatfs(file)?.f_type == TMPFS_MAGIC {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "not on a tmpfs"))
}

/// Opens a file that only this user can reach, to read it.
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
            // Somebody who looks for names may have it for a moment.
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            Region::of_file(file, len)
        });
        if made.is_err() {
            // The first error is the one to tell.
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
        // Its name went before it was claimed, and may be another one's by now.
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

    /// Goal: a region is zeros, what is stored in it is read under its name by another opener, also once it is unmapped,
    /// and a name is made once. Method: one region's life.
    #[test]
    fn region_is_read_under_its_name_after_its_maker_is_gone() {
        let dir = tempfile::tempdir_in(SHM).unwrap();
        let path = dir.path().join("region");
        let region = RealMemory.create(&path, 3 << 12).unwrap();
        assert_eq!((region.len(), region.is_empty(), region.address().as_ptr().addr() % 4096), (3 << 12, false, 0));
        // SAFETY: inside the region, which is ours alone.
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

    /// Goal: G4: a region that somebody has is claimed by nobody else, nor is one that somebody has claimed; a claim is of what the name
    /// stands for. Method: claims before and after a region is dropped, beside another one, and of a name that goes in between.
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

    /// Goal: what others may write, what is no file, and what is not in memory are refused, with nothing left behind.
    /// Method: each.
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
        // /proc is on no machine a tmpfs and takes no new files; what is refused there leaves nothing either.
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
