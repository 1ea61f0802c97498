//! `Files` and `File`: the disk as the log and the store see it.
//!
//! # What always holds
//! - F1. Bytes written by `write_at` survive a power cut once a later `sync_data` on that file returned success.
//! - F2. A created, renamed or removed name survives a power cut once `sync_dir` on its directory returned success.
//! - F3. After a failed `sync_data` nothing is known about the writes since the last successful one: do not try
//!   again.
//!
//! Nothing here buffers: every call reaches the disk's cache.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use crate::Mapping;

/// Returns whether the error means that the disk has no room, or none for this user.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// An open file. One value is one file description; each call passes its position.
pub trait File: Send + Sync + Debug {
    /// Reads from `offset` until `bytes` is full or the file ends; returns the number of bytes read.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset` and grows the file if it ends before that.
    ///
    /// # Errors
    /// Returns the error of the operating system; any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes content and length durable (F1).
    ///
    /// # Errors
    /// Returns the error of the operating system; see F3.
    fn sync_data(&self) -> io::Result<()>;

    /// Truncates the file, or grows it with zeros.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file holds no bytes.
    ///
    /// # Errors
    /// As `len`.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the whole blocks within `bytes` from `offset` on to the disk. They read as zeros afterwards, and the
    /// length stays. The change becomes durable as a write does. The bytes of a partial block at either end are
    /// unspecified.
    ///
    /// # Errors
    /// Returns `Unsupported` where the disk cannot do this, or the error of the operating system.
    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Allocates the first `bytes` of the file, punched holes included, so that writes there need no more room. The
    /// content stays. Does nothing where the disk has no holes.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn fill_holes(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Announces that `bytes` from `offset` on will be read soon. This is a hint: nothing depends on it, and the
    /// call does not wait.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}

    /// Returns the first `bytes` of the file as a mapping, or as a copy where files cannot be mapped.
    ///
    /// # Errors
    /// Returns `UnexpectedEof` when the file is shorter, or the error of the operating system.
    ///
    /// # Safety
    /// Until the mapping is dropped, these bytes are not written and the file is not truncated below them
    /// (`Mapping`, M1).
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

/// A held lock file; dropping it releases the lock.
pub trait FileLock: Send + Sync + Debug {}

/// Why a lock file could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process or handle holds the lock.
    #[error("held by {}", holder(*.pid))]
    Held {
        /// The holder's process id, if the file names one.
        pid: Option<u32>,
    },
    /// The operating system refused.
    #[error("{0}")]
    Io(io::Error),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A disk: names and the files behind them.
pub trait Files: Send + Sync + Debug {
    /// Creates `dir` (mode 0700) and its missing parents, and syncs the parent of each created directory.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Creates a file that does not exist yet (mode 0600) and opens it for reading and writing. The name is not
    /// durable (F2).
    ///
    /// # Errors
    /// Returns `AlreadyExists`, or the error of the operating system.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file as a new file description.
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Renames `from` to `to`, replaces an existing file there, and syncs the directory of `to`.
    ///
    /// # Errors
    /// Returns the error of the operating system; the names may or may not have changed.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. The removal is durable after `sync_dir` (F2).
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes `dir` with everything in it. The removal is durable after `sync_dir` on the parent directory (F2). A
    /// simulated disk may keep the empty directory; a disk made for logs alone need not support this.
    ///
    /// # Errors
    /// Returns `NotFound`, `Unsupported`, or the error of the operating system; any part may have been removed.
    fn remove_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives the file at `from` a second name, `to`. The name is durable after `sync_dir` (F2). A disk made for
    /// logs alone need not support this.
    ///
    /// # Errors
    /// Returns `NotFound`, `AlreadyExists`, `Unsupported`, or the error of the operating system (a link cannot
    /// cross file systems).
    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether these are the operating system's files, so that a library that opens paths by itself sees
    /// them.
    fn is_real(&self) -> bool {
        false
    }

    /// Returns the total size in bytes of the file system that holds `path`; `None` where it is unknown, as on a
    /// simulated disk.
    fn disk_bytes(&self, _path: &Path) -> Option<u64> {
        None
    }

    /// Returns how many more bytes an unprivileged user can write to the file system that holds `path`; `None`
    /// where that is unknown.
    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        None
    }

    /// Returns the access rights of the file or directory `path`, as the low nine bits of its mode; `None` on a
    /// disk without access rights.
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn mode(&self, _path: &Path) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Removes all access rights to the directory `dir` except those of its owner (mode 0700).
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn close_to_others(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether the name `path` exists and is a symbolic link, whether or not its target exists.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn is_link(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns the full name of `path`, which need not exist, so that it can be compared with others. The name is
    /// absolute and, where the disk has symbolic links, free of them.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    /// Returns the names of the files and directories in `dir`, sorted.
    ///
    /// # Errors
    /// Returns `NotFound`, or the error of the operating system.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in `dir` durable (F2).
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock file at `path`, creates it if it is missing, and writes the process id into it unless the
    /// disk is full. The lock is held until the value is dropped or the process ends.
    ///
    /// # Errors
    /// Returns [`LockError::Held`] at once, without waiting, when the lock is held.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError>;

    /// Takes the lock file at `path` in shared mode, without writing to it: several readers may hold it, and `lock`
    /// fails while one does. Returns `None` when there is no such file. A disk made for logs alone need not support
    /// this.
    ///
    /// # Errors
    /// Returns [`LockError::Held`] at once, without waiting, when the lock is held exclusively.
    fn lock_to_read(&self, _path: &Path) -> Result<Option<Box<dyn FileLock>>, LockError> {
        Err(LockError::Io(io::ErrorKind::Unsupported.into()))
    }
}

/// Reads a whole file of at most `limit_bytes`.
///
/// # Errors
/// Returns `FileTooLarge` above the limit, or the error of the disk.
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
