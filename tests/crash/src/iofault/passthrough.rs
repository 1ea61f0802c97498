//! `PassThrough`: a FUSE file system that shows a directory, and asks [`Faults`] before each call.
//!
//! # Invariants
//! - P1. An inode that the kernel knows is held open here (by `O_PATH`), so that its number is not given to another
//!   file.
//! - P2. A failed call has had no effect, except for a short write, which has written half of its data.
//!
//! The kernel handles locks (`flock`) and mappings itself: it reads pages and passes writes on as they are made.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{DirEntryExt, FileExt, PermissionsExt},
    },
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::faults::{Faults, Kind, Operation, Verdict};

/// How long the kernel may cache names and attributes, which no other program changes.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The flags of open that the kernel handles.
const KERNELS: OFlags =
    OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOCTTY).union(OFlags::TRUNC).union(OFlags::APPEND);

/// An inode that the kernel knows.
struct Node {
    held: Arc<OwnedFd>,
    kind: Kind,
    lookups: u64,
}

/// An open file.
#[derive(Clone)]
struct Open {
    file: Arc<fs::File>,
    kind: Kind,
}

/// An entry of a directory listing as of the directory's opening, so that later changes do not shift entries.
struct Entry {
    name: OsString,
    ino: u64,
    kind: FileType,
}

#[derive(Default)]
struct Tables {
    nodes: BTreeMap<u64, Node>,
    open: BTreeMap<u64, Open>,
    listings: BTreeMap<u64, Arc<Vec<Entry>>>,
    last_handle: u64,
}

/// The file system.
pub(super) struct PassThrough {
    tables: Mutex<Tables>,
    faults: Arc<Faults>,
}

type Answer<T> = Result<T, Errno>;

fn errno(error: impl Into<io::Error>) -> Errno {
    Errno::from_i32(error.into().raw_os_error().unwrap_or(Errno::EIO.code()))
}

/// Returns a time of `stat`.
fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    UNIX_EPOCH + seconds + Duration::from_nanos(nanoseconds)
}

fn attributes(stat: &Stat, ino: INodeNo) -> FileAttr {
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    FileAttr {
        ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: if kind.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Returns a path to a file that is held open, whatever its name is.
fn by_number(held: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", held.as_raw_fd()).into()
}

impl PassThrough {
    pub(super) fn new(root: &std::path::Path, faults: Arc<Faults>) -> io::Result<Self> {
        let held = Arc::new(rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?);
        let nodes = BTreeMap::from([(INodeNo::ROOT.0, Node { held, kind: Kind::Other, lookups: 1 })]);
        Ok(Self { tables: Mutex::new(Tables { nodes, ..Tables::default() }), faults })
    }

    fn node(&self, ino: INodeNo) -> Answer<(Arc<OwnedFd>, Kind)> {
        let tables = self.tables.lock();
        let node = tables.nodes.get(&ino.0).ok_or(Errno::ESTALE)?;
        Ok((node.held.clone(), node.kind))
    }

    fn open_file(&self, handle: FileHandle) -> Answer<Open> {
        self.tables.lock().open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep_open(&self, file: fs::File, kind: Kind) -> FileHandle {
        let mut tables = self.tables.lock();
        tables.last_handle += 1;
        let handle = tables.last_handle;
        tables.open.insert(handle, Open { file: Arc::new(file), kind });
        FileHandle(handle)
    }

    /// Asks the faults whether a call passes.
    fn ask(&self, kind: Kind, operation: Operation) -> Answer<()> {
        match self.faults.judge(kind, operation) {
            Verdict::Pass | Verdict::Half => Ok(()),
            Verdict::Fail(code) => Err(Errno::from_i32(code)),
        }
    }

    fn kind_in(&self, parent: INodeNo, name: &OsStr) -> Answer<(Arc<OwnedFd>, Kind)> {
        let (held, kind) = self.node(parent)?;
        Ok((held, Kind::of(kind, &name.to_string_lossy())))
    }

    /// Registers a name for the kernel (P1).
    fn enter(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let (dir, kind) = self.kind_in(parent, name)?;
        let held = rustix::fs::openat(&*dir, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).map_err(errno)?;
        let stat = rustix::fs::fstat(&held).map_err(errno)?;
        let mut tables = self.tables.lock();
        let node = tables.nodes.entry(stat.st_ino).or_insert_with(|| Node { held: Arc::new(held), kind, lookups: 0 });
        node.lookups += 1;
        node.kind = kind;
        Ok(attributes(&stat, INodeNo(stat.st_ino)))
    }

    fn attributes(&self, ino: INodeNo) -> Answer<FileAttr> {
        let (held, _) = self.node(ino)?;
        Ok(attributes(&rustix::fs::fstat(&*held).map_err(errno)?, ino))
    }

    fn change(&self, ino: INodeNo, mode: Option<u32>, size: Option<u64>) -> Answer<FileAttr> {
        let (held, kind) = self.node(ino)?;
        if let Some(bytes) = size {
            self.ask(kind, Operation::Resize)?;
            let file = fs::OpenOptions::new().write(true).open(by_number(&held));
            file.and_then(|file| file.set_len(bytes)).map_err(errno)?;
        }
        if let Some(mode) = mode {
            fs::set_permissions(by_number(&held), fs::Permissions::from_mode(mode & 0o7777)).map_err(errno)?;
        }
        self.attributes(ino)
    }

    fn open_node(&self, ino: INodeNo, flags: i32) -> Answer<FileHandle> {
        let (held, kind) = self.node(ino)?;
        self.ask(kind, Operation::Open)?;
        let flags = (OFlags::from_bits_retain(flags.cast_unsigned()) - KERNELS - OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        let file = rustix::fs::open(by_number(&held), flags, Mode::empty()).map_err(errno)?;
        Ok(self.keep_open(file.into(), kind))
    }

    fn open_dir(&self, ino: INodeNo) -> Answer<FileHandle> {
        let (held, kind) = self.node(ino)?;
        let dir = fs::File::open(by_number(&held)).map_err(errno)?;
        let mut listing = Vec::new();
        for entry in fs::read_dir(by_number(&held)).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let is_dir = entry.file_type().map_err(errno)?.is_dir();
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            listing.push(Entry { name: entry.file_name(), ino: entry.ino(), kind });
        }
        let handle = self.keep_open(dir, kind);
        self.tables.lock().listings.insert(handle.0, Arc::new(listing));
        Ok(handle)
    }

    fn create_file(&self, parent: INodeNo, name: &OsStr, mode: u32, flags: i32) -> Answer<(FileAttr, FileHandle)> {
        let (dir, kind) = self.kind_in(parent, name)?;
        self.ask(kind, Operation::Open)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned()) - OFlags::APPEND;
        let flags = asked | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*dir, name, flags, Mode::from_raw_mode(mode)).map_err(errno)?;
        Ok((self.enter(parent, name)?, self.keep_open(file.into(), kind)))
    }

    fn write_to(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> Answer<u32> {
        let open = self.open_file(handle)?;
        let bytes = match self.faults.judge(open.kind, Operation::Write) {
            Verdict::Pass => bytes,
            Verdict::Half => &bytes[..bytes.len().div_ceil(2)],
            Verdict::Fail(code) => return Err(Errno::from_i32(code)),
        };
        open.file.write_all_at(bytes, offset).map_err(errno)?;
        u32::try_from(bytes.len()).map_err(|_| Errno::EINVAL)
    }

    fn read_from(&self, handle: FileHandle, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let open = self.open_file(handle)?;
        self.ask(open.kind, Operation::Read)?;
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::EINVAL)?];
        let mut done = 0;
        while done < bytes.len() {
            match open.file.read_at(&mut bytes[done..], offset + done as u64).map_err(errno)? {
                0 => break,
                count => done += count,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Answer<()> {
        let (dir, kind) = self.kind_in(parent, name)?;
        self.ask(kind, Operation::Unlink)?;
        rustix::fs::unlinkat(&*dir, name, flags).map_err(errno)
    }

    fn rename_to(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Answer<()> {
        let ((from_dir, _), (to_dir, kind)) = (self.node(from.0)?, self.kind_in(to.0, to.1)?);
        self.ask(kind, Operation::Rename)?;
        rustix::fs::renameat(&*from_dir, from.1, &*to_dir, to.1).map_err(errno)?;
        let stat = rustix::fs::statat(&*to_dir, to.1, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
        if let Some(node) = self.tables.lock().nodes.get_mut(&stat.st_ino) {
            node.kind = kind;
        }
        Ok(())
    }

    fn link_to(&self, ino: INodeNo, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let ((held, _), (dir, _)) = (self.node(ino)?, self.node(parent)?);
        rustix::fs::linkat(rustix::fs::CWD, by_number(&held), &*dir, name, AtFlags::SYMLINK_FOLLOW).map_err(errno)?;
        self.enter(parent, name)
    }

    fn sync(&self, handle: FileHandle, only_data: bool) -> Answer<()> {
        let open = self.open_file(handle)?;
        self.ask(open.kind, Operation::Sync)?;
        if only_data { open.file.sync_data() } else { open.file.sync_all() }.map_err(errno)
    }
}

/// Sends the result, or its error, to the kernel.
macro_rules! answer {
    ($reply:ident, $result:expr, $found:pat => $told:expr) => {
        match $result {
            Ok($found) => $told,
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for PassThrough {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.enter(parent, name), found => reply.entry(&REMEMBERED, &found, Generation(0)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        let mut tables = self.tables.lock();
        if let Some(node) = tables.nodes.get_mut(&ino.0).filter(|_| ino != INodeNo::ROOT) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                tables.nodes.remove(&ino.0);
            }
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.attributes(ino), found => reply.attr(&REMEMBERED, &found));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        answer!(reply, self.change(ino, mode, size), found => reply.attr(&REMEMBERED, &found));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = self.node(parent).and_then(|(dir, _)| {
            rustix::fs::mkdirat(&*dir, name, Mode::from_raw_mode(mode)).map_err(errno)?;
            self.enter(parent, name)
        });
        answer!(reply, made, found => reply.entry(&REMEMBERED, &found, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, AtFlags::empty()), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name, AtFlags::REMOVEDIR), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.rename_to((parent, name), (to, to_name)), () => reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.link_to(ino, parent, name), found => reply.entry(&REMEMBERED, &found, Generation(0)));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_node(ino, flags.0), handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let made = self.create_file(parent, name, mode, flags);
        answer!(reply, made, (found, handle) =>
            reply.created(&REMEMBERED, &found, Generation(0), handle, FopenFlags::empty()));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_from(handle, offset, size), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.write_to(handle, offset, data), bytes => reply.written(bytes));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tables.lock().open.remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, only_data: bool, reply: ReplyEmpty) {
        answer!(reply, self.sync(handle, only_data), () => reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_dir(ino), handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(listing) = self.tables.lock().listings.get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        for (Entry { name, ino, kind }, at) in listing.iter().zip(1_u64..).filter(|(_, at)| *at > offset) {
            if reply.add(INodeNo(*ino), at, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let mut tables = self.tables.lock();
        tables.open.remove(&handle.0);
        tables.listings.remove(&handle.0);
        drop(tables);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, only_data: bool, reply: ReplyEmpty) {
        answer!(reply, self.sync(handle, only_data), () => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let found = self.node(INodeNo::ROOT).and_then(|(held, _)| rustix::fs::statvfs(by_number(&held)).map_err(errno));
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        answer!(reply, found, at => reply.statfs(
            at.f_blocks,
            at.f_bfree,
            at.f_bavail,
            at.f_files,
            at.f_ffree,
            short(at.f_bsize),
            short(at.f_namemax),
            short(at.f_frsize),
        ));
    }
}
