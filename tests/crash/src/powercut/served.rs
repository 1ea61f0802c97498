//! `ServedDrive`: a drive as a file, in a FUSE file system that this process serves; and an ext4 on a loop device over
//! that file.
//!
//! # Invariants
//! - F1. The serving thread never touches the ext4 itself: it would wait for itself.
//! - F2. The file is never cached (`FOPEN_DIRECT_IO`), so that each write of the loop device arrives when it is made,
//!   and a flush is a flush.
//! - F3. One thread serves, so that writes have an order.
//!
//! All processes that use the ext4 must have ended before [`ServedDrive::take_down`].

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::Context;
use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};

use super::{drive::Drive, image::Image};
use crate::{mounts, random::Random};

/// The name of the file, and its number.
const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);

/// How long the kernel may cache names and attributes: practically for ever.
const FOR_GOOD: Duration = Duration::from_secs(1 << 30);

/// The mount options, one of which is drawn each time.
const MOUNTS: [&str; 4] = ["loop", "loop,nodelalloc", "loop,data=writeback", "loop,data=journal"];

/// The file system with one file.
struct OneFile {
    drive: Arc<Drive>,
}

impl OneFile {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        let size = if is_file { self.drive.len() as u64 } else { 0 };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// Converts an offset from the kernel to one in memory.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&FOR_GOOD, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_GOOD, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO); // F2
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.drive.read(place(offset), place(size.into())));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.drive.write(place(offset), data);
        reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.drive.flush();
        reply.ok();
    }

    /// Handles a close, which does not flush the disk.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// A drive, the file system that shows it as a file, and the mount point of an ext4 on it.
pub(super) struct ServedDrive {
    pub(super) drive: Arc<Drive>,
    /// The session of the FUSE file system.
    _session: BackgroundSession,
    file: PathBuf,
    place: PathBuf,
    mounted: bool,
    /// A disk with a new ext4.
    blank: Image,
}

impl ServedDrive {
    /// Serves a drive of `bytes` below `dir`, with an empty ext4 that is not mounted yet.
    pub(super) fn new(dir: &Path, bytes: usize) -> anyhow::Result<Self> {
        let [files, place] = ["drive", "mounted"].map(|name| dir.join(name));
        [&files, &place].into_iter().try_for_each(std::fs::create_dir)?;
        let drive = Arc::new(Drive::new(Image::new(bytes)));
        let session = Session::new(OneFile { drive: drive.clone() }, &files, &fuser::Config::default());
        let session = session.and_then(Session::spawn).context("FUSE cannot be mounted")?;
        let file = files.join(NAME);
        let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let words = ["-q", "-F", "-E", options].map(OsStr::new);
        mounts::run("mkfs.ext4", &[&words[..], &[file.as_os_str()]].concat())?;
        let blank = drive.shown();
        drive.replace(blank.clone());
        Ok(Self { drive, _session: session, file, place, mounted: false, blank })
    }

    /// Returns the mount point of the ext4.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn mount(&mut self, random: &mut Random) -> anyhow::Result<()> {
        let options = MOUNTS[usize::try_from(random.below(MOUNTS.len() as u64))?];
        let words = ["-t", "ext4", "-o", options].map(OsStr::new);
        mounts::run("mount", &[&words[..], &[self.file.as_os_str(), self.place.as_os_str()]].concat())?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.mounted) {
            mounts::unmount(&self.place)?;
        }
        Ok(())
    }

    /// Unmounts after a cut, and turns the power on. Returns the disk's content; it is not mounted yet.
    pub(super) fn take_down(&mut self, random: &mut Random) -> anyhow::Result<Image> {
        self.unmount()?;
        Ok(self.drive.power_on(random))
    }

    /// Unmounts, and replaces the content by an empty ext4.
    pub(super) fn blank(&mut self) -> anyhow::Result<()> {
        self.unmount()?;
        self.drive.replace(self.blank.clone());
        Ok(())
    }
}

impl Drop for ServedDrive {
    fn drop(&mut self) {
        // Unmounted before the session ends, or the kernel would wait for a file system that is not served any more.
        // The error is ignored, since the caller that drops this reports an earlier one.
        let _unmounted = self.unmount();
    }
}
