//! `Files` and `File`: the disk as the log and the store see it.
//!
//! # What always holds
//! - F1. What `write_at` wrote survives a power cut once a later `sync_data` on that file returned success.
//! - F2. A created, renamed or removed name survives a power cut once `sync_dir` on its directory returned success.
//! - F3. After a failed `sync_data` nothing is known about what was written since the one before: do not try again.
//!
//! Not a place for buffering: every call reaches the disk's cache.

use std::{
    fmt,
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::Mapping;

/// Returns whether the disk has no room, or none for this user.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For `read_at` only.
    Read,
    /// For both directions.
    ReadWrite,
}

/// An open file. One value is one file description; positions are given with each call.
pub trait File: Send + Sync + Debug {
    /// Reads from `offset` until `bytes` is full or the file ends; returns how many bytes were read.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file if it ends before.
    ///
    /// # Errors
    /// What the operating system says; any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes content and length durable (F1).
    ///
    /// # Errors
    /// What the operating system says; see F3.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or grows it with zeros.
    ///
    /// # Errors
    /// What the operating system says.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file holds no bytes.
    ///
    /// # Errors
    /// As `len`.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Gives the room of `bytes` from `offset` on back to the disk, as far as whole blocks of it lie in there. They read as zeros from then
    /// on, the length stays, and it is as lasting as a write.
    ///
    /// # Errors
    /// `Unsupported` where the disk cannot, or what the operating system says.
    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes room for the first `bytes` of the file, so that writing there needs none: where a hole was punched too. The content stays.
    /// Nothing, where the disk has no holes.
    ///
    /// # Errors
    /// What the operating system says.
    fn fill_holes(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Says that `bytes` from `offset` on will be read soon. A hint: nothing depends on it, and nothing waits.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}

    /// Returns the first `bytes` of the file without reading them one by one; a copy where files cannot be mapped.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is shorter, or what the operating system says.
    ///
    /// # Safety
    /// Until the mapping is dropped nobody writes to these bytes and nobody cuts the file below them (`Mapping`, M1).
    #[allow(unsafe_code, reason = "a mapping is as steady as its maker promises")]
    unsafe fn map(&self, bytes: u64) -> io::Result<Mapping> {
        let len = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut copy = vec![0; len];
        if self.read_at(0, &mut copy)? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Mapping::of_copy(copy))
    }
}

/// A held lock file; dropping it gives the lock back.
pub trait FileLock: Send + Sync + Debug {}

/// Why a lock file could not be taken.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else holds it.
    Held {
        /// The holder's process id, if the file names one.
        pid: Option<u32>,
    },
    /// The operating system refused.
    Io(io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { pid: Some(pid) } => write!(f, "held by process {pid}"),
            Self::Held { pid: None } => f.write_str("held by another process"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for LockError {}

/// A disk: names and the files behind them.
pub trait Files: Send + Sync + Debug {
    /// Creates `dir` (mode 0700) and its parents where missing, and syncs the parent of each created one.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Creates a file that does not exist yet (mode 0600) and opens it both ways. The name is not durable (F2).
    ///
    /// # Errors
    /// `AlreadyExists`, or what the operating system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file as a new file description.
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Renames `from` to `to`, replacing what was there, and syncs the directory of `to`.
    ///
    /// # Errors
    /// What the operating system says; the names may or may not have changed.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Not durable before `sync_dir` (F2).
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes `dir` with everything in it. Not durable before `sync_dir` on the directory above (F2). A simulated disk
    /// may keep the empty directory; a disk made for logs alone need not support it.
    ///
    /// # Errors
    /// `NotFound`, `Unsupported`, or what the operating system says; any part may be gone.
    fn remove_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives the file at `from` a second name, `to`. Not durable before `sync_dir` (F2). A disk made for logs alone need
    /// not support it.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `Unsupported`, or what the operating system says (other file systems cannot be linked
    /// to).
    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether these are the operating system's files, so that a library that opens paths by itself sees them.
    fn is_real(&self) -> bool {
        false
    }

    /// Returns how many bytes the file system that holds `path` has in all; `None` where that is not known, as for a simulated
    /// disk.
    fn disk_bytes(&self, _path: &Path) -> Option<u64> {
        None
    }

    /// Returns how many more bytes a user who is not root can write to the file system that holds `path`; `None` where that is not known.
    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        None
    }

    /// Returns who has rights to the file or directory `path`, as the low nine bits of its mode; `None` where a disk knows nothing of that.
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn mode(&self, _path: &Path) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Takes every right to the directory `dir` from everybody but its owner (mode 0700).
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn close_to_others(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether the name `path` is there and is a symbolic link, wherever that leads.
    ///
    /// # Errors
    /// What the operating system says.
    fn is_link(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns the full name of `path`, which need not exist: absolute, and where the disk has them without symbolic links, so that
    /// it can be compared with others.
    ///
    /// # Errors
    /// What the operating system says.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    /// Returns the names of the files and directories in `dir`, sorted.
    ///
    /// # Errors
    /// `NotFound`, or what the operating system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` durable (F2).
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock file at `path`, creating it where missing, and writes the process id into it, on a full disk none. Held until
    /// the value is dropped or the process ends.
    ///
    /// # Errors
    /// [`LockError::Held`] at once when somebody else has it; nothing waits.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError>;

    /// Keeps the lock file at `path` from being taken, without writing to it; several may do so at one time. `None` when there is
    /// no such file. A disk made for logs alone need not support it.
    ///
    /// # Errors
    /// [`LockError::Held`] at once when somebody has taken it; nothing waits.
    fn lock_to_read(&self, _path: &Path) -> Result<Option<Box<dyn FileLock>>, LockError> {
        Err(LockError::Io(io::ErrorKind::Unsupported.into()))
    }
}

/// Reads a whole file of at most `limit_bytes`.
///
/// # Errors
/// `FileTooLarge` above the limit, or what the disk says.
pub fn read_all(files: &dyn Files, path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let file = files.open(path, Access::Read)?;
    let len = file.len()?;
    if len > limit_bytes {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}
