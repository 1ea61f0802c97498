//! `RealFiles`: the operating system's disk.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Mapping,
    files::{Access, File, FileLock, Files, LockError, is_full},
};

/// The operating system's disk. Files have mode 0600, directories 0700.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl File for fs::File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match FileExt::read_at(self, &mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        fs::File::set_len(self, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;

        Ok(rustix::fs::fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }

    #[cfg(target_os = "linux")]
    fn fill_holes(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()), // such a file system has no holes either
            filled => Ok(filled?),
        }
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        let Some(bytes) = std::num::NonZeroU64::new(bytes) else { return };
        // This is a hint: if it is refused, reading is only slower.
        let _hint = rustix::fs::fadvise(self, offset, Some(bytes), rustix::fs::Advice::WillNeed);
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn map(&self, bytes: u64) -> io::Result<Mapping> {
        // SAFETY: the caller's promise is the one that `of_file` requires.
        unsafe { Mapping::of_file(self, bytes) }
    }
}

/// The open, locked file.
#[derive(Debug)]
struct Held {
    file: fs::File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing alone does not release the lock at once: a child that another thread has just forked shares the
        // open file, and with it the lock, until it runs its program. The close that follows releases the lock even
        // if this call fails.
        let _closed_next = self.file.unlock();
    }
}

impl FileLock for Held {}

/// Returns the directory that holds the name `path`.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

impl Files for RealFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let above = parent(dir);
        if above != dir {
            self.create_dir_all(above)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_dir(above),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Arc::new(file))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path)?;
        Ok(Arc::new(file))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the replacement that the lint names")]
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.sync_dir(parent(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn is_real(&self) -> bool {
        true
    }

    fn disk_bytes(&self, path: &Path) -> Option<u64> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(found.f_blocks.saturating_mul(found.f_frsize))
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        Ok(Some(fs::metadata(path)?.permissions().mode() & 0o777))
    }

    fn close_to_others(&self, dir: &Path) -> io::Result<()> {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(found.is_symlink()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let full = std::path::absolute(path)?;
        // Resolves the existing part of the path and keeps the rest as it is written.
        for above in full.ancestors() {
            match fs::canonicalize(above) {
                Ok(known) if above == full => return Ok(known),
                Ok(known) => return Ok(full.strip_prefix(above).map_or(full.clone(), |rest| known.join(rest))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(full)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        let options = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = options.map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                // Readers write no process id: an id in the file is then that of an earlier holder.
                let has_readers_only = file.try_lock_shared().is_ok();
                return Err(LockError::Held { pid: if has_readers_only { None } else { holder_in(&mut file) } });
            }
            Err(fs::TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        let write = || {
            file.set_len(0)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())
        };
        let mut write = write;
        match write() {
            // The lock is held all the same; a refused caller learns no process id.
            Err(error) if is_full(&error) => {}
            written => written.map_err(LockError::Io)?,
        }
        Ok(Box::new(Held { file }))
    }

    fn lock_to_read(&self, path: &Path) -> Result<Option<Box<dyn FileLock>>, LockError> {
        let mut file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LockError::Io(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Box::new(Held { file }))),
            Err(fs::TryLockError::WouldBlock) => Err(LockError::Held { pid: holder_in(&mut file) }),
            Err(fs::TryLockError::Error(error)) => Err(LockError::Io(error)),
        }
    }
}

/// Returns the process id in a lock file. It is informative only: the lock is held even if no id can be read.
fn holder_in(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    let _unread = file.take(16).read_to_string(&mut text);
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: written bytes are read back, names change, and short reads happen only at the end. Method: create,
    /// write, rename and remove one file.
    #[test]
    fn real_file_lives_through_create_write_replace_and_remove() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        RealFiles.create_dir_all(&deep).unwrap();
        let (from, to) = (deep.join("x"), deep.join("y"));
        let file = RealFiles.create(&from).unwrap();
        file.write_at(10, b"hello").unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 15);
        assert_eq!(RealFiles.create(&from).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        RealFiles.replace(&from, &to).unwrap();
        assert_eq!(RealFiles.list(&deep).unwrap(), ["y"]);
        assert_eq!(crate::read_all(&RealFiles, &to, 15).unwrap()[10..], *b"hello");
        assert_eq!(crate::read_all(&RealFiles, &to, 14).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        RealFiles.remove(&to).unwrap();
        assert!(RealFiles.list(&deep).unwrap().is_empty());
    }

    /// Goal: a second name keeps the bytes when the first is removed, and a directory is removed with its content.
    /// Method: link, remove, read, remove all.
    #[test]
    fn second_name_outlives_the_first_until_its_directory_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (a, deep) = (dir.path().join("a"), dir.path().join("d/e"));
        RealFiles.create(&a).unwrap().write_at(0, b"x").unwrap();
        RealFiles.create_dir_all(&deep).unwrap();
        RealFiles.hard_link(&a, &deep.join("b")).unwrap();
        assert_eq!(RealFiles.hard_link(&a, &deep.join("b")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        RealFiles.remove(&a).unwrap();
        assert_eq!(crate::read_all(&RealFiles, &deep.join("b"), 1).unwrap(), b"x");
        RealFiles.remove_dir_all(&dir.path().join("d")).unwrap();
        assert!(RealFiles.list(dir.path()).unwrap().is_empty());
    }

    /// Goal: two paths to one place have one full name, whether the place exists or not. Method: a symbolic link to
    /// a directory, and names in it that exist, or do not exist yet.
    #[test]
    fn full_name_is_the_same_by_every_way() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        RealFiles.create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for name in ["", "a", "a/b"] {
            assert_eq!(RealFiles.resolve(&link.join(name)).unwrap(), RealFiles.resolve(&real.join(name)).unwrap());
        }
        assert_eq!(
            RealFiles.resolve(Path::new("not/there")).unwrap(),
            std::env::current_dir().unwrap().join("not/there")
        );
        RealFiles.create(&real.join("file")).unwrap();
        assert!(RealFiles.resolve(&real.join("file/below")).is_err(), "a file is no directory");
    }

    /// Goal: created files and directories are accessible to their owner alone, whatever the umask; an open
    /// directory is closed; a link is distinguished from its target. Method: one of each.
    #[test]
    fn what_is_made_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (deep, open, link) = (dir.path().join("a/b"), dir.path().join("open"), dir.path().join("link"));
        RealFiles.create_dir_all(&deep).unwrap();
        RealFiles.create(&deep.join("x")).unwrap();
        let modes = [deep.parent().unwrap(), &deep, &deep.join("x")].map(|path| RealFiles.mode(path).unwrap());
        assert_eq!(modes, [Some(0o700), Some(0o700), Some(0o600)]);
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(RealFiles.mode(&open).unwrap(), Some(0o777));
        RealFiles.close_to_others(&open).unwrap();
        assert_eq!(RealFiles.mode(&open).unwrap(), Some(0o700));
        std::os::unix::fs::symlink(&open, &link).unwrap();
        let links = [&link, &open, &dir.path().join("absent")].map(|path| RealFiles.is_link(path).unwrap());
        assert_eq!(links, [true, false, false]);
        assert_eq!(RealFiles.mode(&dir.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Goal: a mapping shows the file's bytes, outlives the handle, and is refused beyond the end. Method: a file
    /// of three pages, mapped in part, whole, empty and too long.
    #[test]
    #[allow(unsafe_code, reason = "the test keeps the promise: it writes nothing while the mappings live")]
    fn mapping_shows_the_file_and_is_refused_beyond_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        let file = RealFiles.create(&path).unwrap();
        let bytes: Vec<u8> = (0..12_288_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
        file.write_at(0, &bytes).unwrap();
        file.prefetch(0, 12_288);
        // SAFETY: M1: nothing writes to the file below.
        let maps = [0, 1, 4096, 12_288].map(|len| unsafe { file.map(len) }.unwrap());
        // SAFETY: as above.
        let beyond = unsafe { file.map(12_289) };
        assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        drop(file);
        for map in &maps {
            assert_eq!(map[..], bytes[..map.len()]);
        }
        assert_eq!(maps[3].len(), 12_288);
    }

    /// Goal: a hole takes no room, reads as zeros and keeps the length; after it is filled, it takes room again and
    /// the rest of the file is unchanged. Method: a file of 256 KiB with a hole in it, measured in the blocks that
    /// the file system counts.
    #[test]
    #[cfg(target_os = "linux")]
    fn holes_take_no_room_until_they_are_filled() {
        use std::os::unix::fs::MetadataExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = RealFiles.create(&path).unwrap();
        file.write_at(0, &[7; 256 << 10]).unwrap();
        let taken = || {
            file.sync_data().unwrap();
            fs::metadata(&path).unwrap().blocks() * 512
        };
        let whole = taken();
        match file.punch_hole(64 << 10, 128 << 10) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return, // a file system without holes
            punched => punched.unwrap(),
        }
        assert!(taken() + (128 << 10) <= whole, "{} of {whole}", taken());
        file.fill_holes(256 << 10).unwrap();
        assert!(taken() >= 256 << 10, "{}", taken());
        let mut bytes = vec![1; 256 << 10];
        assert_eq!((file.len().unwrap(), file.read_at(0, &mut bytes).unwrap()), (256 << 10, 256 << 10));
        let expected = [vec![7; 64 << 10], vec![0; 128 << 10], vec![7; 64 << 10]].concat();
        assert!(bytes == expected, "the rest of the file is as it was");
    }

    /// Goal: the size of a disk is that of its file system, whichever directory is asked for. Method: a directory,
    /// one inside it, and one that does not exist.
    #[test]
    fn disk_has_one_size() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = RealFiles.disk_bytes(dir.path()).unwrap();
        assert!(bytes > 1 << 20, "{bytes}");
        fs::create_dir(dir.path().join("in")).unwrap();
        assert_eq!(RealFiles.disk_bytes(&dir.path().join("in")), Some(bytes));
        assert_eq!(RealFiles.disk_bytes(&dir.path().join("absent")), None);
        let free = RealFiles.free_bytes(dir.path()).unwrap();
        assert!(free > 0 && free <= bytes, "{free} of {bytes}");
        assert_eq!(RealFiles.free_bytes(&dir.path().join("absent")), None);
    }

    /// Goal: a released lock is free at once, even while a forked child still has the file open. Method: a second
    /// descriptor of the same open file, as a fork makes one, outlives the lock.
    #[test]
    fn lock_given_back_is_free_although_a_child_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = fs::File::create(&path).unwrap();
        file.try_lock().unwrap();
        let inherited = file.try_clone().unwrap();
        drop(Held { file });
        RealFiles.lock(&path).unwrap();
        drop(inherited);
    }

    /// Goal: readers share a lock file, exclude a writer and are excluded by one, and write nothing, so that an
    /// error cannot name them. Method: two readers and a writer of a read-only file that names another process;
    /// then a missing file.
    #[test]
    fn readers_share_a_lock_and_write_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        assert!(RealFiles.lock_to_read(&path).unwrap().is_none());
        assert!(!path.exists());
        fs::write(&path, "12345\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
        let readers = [(); 2].map(|()| RealFiles.lock_to_read(&path).unwrap().unwrap());
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert!(matches!(RealFiles.lock(&path), Err(LockError::Held { pid: None })));
        assert_eq!(fs::read(&path).unwrap(), b"12345\n");
        drop(readers);
        let writer = RealFiles.lock(&path).unwrap();
        let refused = RealFiles.lock_to_read(&path).unwrap_err();
        assert!(matches!(refused, LockError::Held { pid } if pid == Some(std::process::id())), "{refused}");
        drop(writer);
        RealFiles.lock_to_read(&path).unwrap().unwrap();
    }

    /// Goal: a lock excludes, names its holder and is released on drop. Method: take it twice in one process.
    #[test]
    fn lock_excludes_a_second_taker_and_names_the_pid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = RealFiles.lock(&path).unwrap();
        match RealFiles.lock(&path) {
            Err(LockError::Held { pid }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("expected a held lock, got {other:?}"),
        }
        drop(held);
        RealFiles.lock(&path).unwrap();
    }
}
