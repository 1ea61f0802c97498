//! `RingFile`: the ring, the staging buffers and the words of a running log in memory that outlives the process. `Home`
//! says whether they are there.
//!
//! Only the running log maps it. The ring of an earlier incarnation is read by `dead_ring`, never mapped.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4096 | header, written last: see [`Header`] |
//! | 4096, 4224, 4352, 4480, 4608 | `glsn`, `boundary`, `last`, slots in use, `durable`: 8 bytes each, alone on 128 |
//! | 8192.. | one flag for each slot, alone on 128 bytes, then zeros to a multiple of 4096 |
//! | then | one staging buffer for each slot (`help` only): length in 8 bytes, the record from byte 128 on |
//! | then, at a multiple of 4096 | the ring |
//!
//! Words and flags have the meaning that `append` gives them. All integers are little-endian; another machine's ring
//! is not read.
//!
//! # Invariants
//! - J1. The header is written after everything else has its first value, so a header that is there is true.
//! - J2. Every part lies inside the region, aligned, and no two overlap (`Layout`).
//! - J3. The name is removed only when nothing in the ring is needed any more: after the closing frame is on disk,
//!   after the next incarnation has written the ring's records, or if no next incarnation can come for it
//!   (`dead_rings`).
//!
//! Checked by `tests/ring_file.rs`.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{Ordering, compiler_fence},
    },
    thread,
    time::Duration,
};

use collie_base::{checksum::crc32c, codec::Reader};
use collie_env::{Env, Region, SharedMemory};
use collie_sync::{Padded, atomic::AtomicU64, atomic::AtomicUsize};

use crate::{
    Options, Protocol, RingKind, WalError,
    append::ring::RingByte,
    append::{Place, Word},
    format::BLOCK,
    options::RECORD_OVERHEAD,
    options::SHARED_SLOTS,
};

/// First bytes of a ring file.
pub(crate) const RING_MAGIC: &[u8; 8] = b"COLLIERG";
/// The layout that this program writes, and the only one it reads.
pub(crate) const RING_VERSION: u16 = 1;
/// Each word and flag is alone on this many bytes.
pub(crate) const LINE: usize = 128;
const _: () = assert!(size_of::<Padded<AtomicU64>>() == LINE || cfg!(any(loom, shuttle)));

/// A word that belongs to no slot; the value is its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordAt {
    /// Next free position.
    Next = 4096,
    /// Every record below is complete.
    Boundary = 4224,
    /// Where the log ended, once `glsn` carries CLOSED.
    Last = 4352,
    /// Slots that were ever in use.
    Used = 4480,
    /// Everything below is on disk.
    Durable = 4608,
}

impl WordAt {
    /// Returns its offset.
    pub(crate) const fn offset(self) -> usize {
        self as usize
    }
}

const FLAGS_AT: usize = 8192;

/// The layout of a ring file, given by the sizes that determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// A power of two.
    pub(crate) ring_bytes: usize,
    pub(crate) slots: usize,
    /// Size of a staging buffer; 0 if there are none.
    pub(crate) staging_bytes: usize,
}

impl Layout {
    /// Returns the layout of a log with these settings.
    pub(crate) fn of(options: &Options) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).expect("bounded by Options::validate");
        let staging = if options.protocol == Protocol::Help { options.chunk_bytes + RECORD_OVERHEAD } else { 0 };
        Self {
            ring_bytes: bytes(options.ring_bytes),
            slots: (options.slots + SHARED_SLOTS) as usize,
            staging_bytes: bytes(staging).next_multiple_of(LINE),
        }
    }

    /// Returns whether a log can have these sizes; if so, the sums below are in bounds.
    pub(crate) fn is_sane(&self) -> bool {
        self.ring_bytes.is_power_of_two()
            && (BLOCK..=1 << 40).contains(&self.ring_bytes)
            && (1..=2048).contains(&self.slots)
            && self.staging_bytes <= 1 << 21
            && self.staging_bytes.is_multiple_of(LINE)
    }

    /// Returns the offset of the flag of slot `index`.
    pub(crate) fn flag_at(&self, index: usize) -> usize {
        FLAGS_AT + index * LINE
    }

    /// Returns the offset of the staging buffer of slot `index`: its length is there, the record [`LINE`] bytes further
    /// on.
    pub(crate) fn staging_at(&self, index: usize) -> usize {
        let stride = if self.staging_bytes == 0 { 0 } else { LINE + self.staging_bytes };
        self.flag_at(self.slots).next_multiple_of(BLOCK) + index * stride
    }

    /// Returns the offset of the ring.
    pub(crate) fn ring_at(&self) -> usize {
        self.staging_at(self.slots).next_multiple_of(BLOCK)
    }

    /// Returns the total size.
    pub(crate) fn total_bytes(&self) -> usize {
        self.ring_at() + self.ring_bytes
    }

    /// Returns the total size as that of a file.
    pub(crate) fn file_bytes(&self) -> u64 {
        u64::try_from(self.total_bytes()).unwrap_or(u64::MAX)
    }
}

/// The header of a ring: the log that wrote it, and the layout.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | magic `COLLIERG` |
/// | 8 | 4 | crc32c of bytes 12..4096 |
/// | 12 | 2 | version of the layout |
/// | 14 | 2 | protocol: 1 mutex, 2 base, 3 help |
/// | 16 | 16 | log id |
/// | 32 | 8 | incarnation |
/// | 40 | 16 | boot id |
/// | 56 | 8 | number of the log's directory |
/// | 64 | 8 | bytes of the ring |
/// | 72 | 8 | bytes of a staging buffer |
/// | 80 | 4 | slots |
/// | 84 | 4 | process id, for people |
/// | 88 | 2 | bytes of the path that follows; 0: not known |
/// | 90 | | path of the log's directory, from the root, as it was when the log was opened |
/// | | to 4095 | zeros |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) protocol: Protocol,
    pub(crate) owner: Owner,
    pub(crate) layout: Layout,
    pub(crate) pid: u32,
    /// Where the log's directory was; only the search for rings of directories that are gone reads it.
    pub(crate) dir: Option<PathBuf>,
}

/// Longest path that a header holds.
const PATH_BYTES_MAX: usize = BLOCK - 90;

/// The log that owns a ring: every field must match for the ring's bytes to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) log_id: [u8; 16],
    pub(crate) incarnation: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) directory_id: u64,
}

impl Header {
    /// Returns the header's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let protocol: u16 = match self.protocol {
            Protocol::Mutex => 1,
            Protocol::Base => 2,
            Protocol::Help => 3,
        };
        let mut bytes = RING_MAGIC.to_vec();
        bytes.extend([0; 4]);
        bytes.extend(RING_VERSION.to_le_bytes());
        bytes.extend(protocol.to_le_bytes());
        bytes.extend(self.owner.log_id);
        bytes.extend(self.owner.incarnation.to_le_bytes());
        bytes.extend(self.owner.boot_id);
        bytes.extend(self.owner.directory_id.to_le_bytes());
        bytes.extend((self.layout.ring_bytes as u64).to_le_bytes());
        bytes.extend((self.layout.staging_bytes as u64).to_le_bytes());
        bytes.extend(u32::try_from(self.layout.slots).expect("at most 1026").to_le_bytes());
        bytes.extend(self.pid.to_le_bytes());
        let path = self.dir.as_ref().map_or(&[][..], |dir| dir.as_os_str().as_bytes());
        let path = if path.len() > PATH_BYTES_MAX { &[] } else { path };
        bytes.extend(u16::try_from(path.len()).expect("at most PATH_BYTES_MAX").to_le_bytes());
        bytes.extend_from_slice(path);
        bytes.resize(BLOCK, 0);
        let crc = crc32c(&bytes[12..]).to_le_bytes();
        bytes[8..12].copy_from_slice(&crc);
        bytes
    }

    /// Reads a header block; the error says what is wrong with it.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, &'static str> {
        const SHORT: &str = "its header is cut off";
        let covered = block.get(12..BLOCK).ok_or(SHORT)?;
        let mut reader = Reader::new(block);
        if reader.bytes(8).map_err(|_| SHORT)? != RING_MAGIC {
            return Err("it has no header");
        }
        if reader.u32().map_err(|_| SHORT)? != crc32c(covered) {
            return Err("the checksum of its header is wrong");
        }
        let mut fields = || {
            let (version, protocol) = (reader.u16().ok()?, reader.u16().ok()?);
            let log_id = reader.bytes(16).ok()?.try_into().ok()?;
            let incarnation = reader.u64().ok()?;
            let boot_id = reader.bytes(16).ok()?.try_into().ok()?;
            let directory_id = reader.u64().ok()?;
            let (ring_bytes, staging_bytes) = (reader.u64().ok()?, reader.u64().ok()?);
            let slots = reader.u64().ok()?;
            let layout = Layout {
                ring_bytes: usize::try_from(ring_bytes).ok()?,
                staging_bytes: usize::try_from(staging_bytes).ok()?,
                slots: usize::try_from(slots & u64::from(u32::MAX)).ok()?,
            };
            let protocol = match protocol {
                1 => Protocol::Mutex,
                2 => Protocol::Base,
                3 => Protocol::Help,
                _ => return None,
            };
            let owner = Owner { log_id, incarnation, boot_id, directory_id };
            let pid = u32::try_from(slots >> 32).ok()?;
            let path = reader.u16().ok()?;
            let path = reader.bytes(path.into()).ok()?;
            let dir = (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)));
            Some((version, Self { protocol, owner, layout, pid, dir }))
        };
        match fields() {
            Some((RING_VERSION, header)) if header.layout.is_sane() => Ok(header),
            Some((RING_VERSION, _)) | None => Err("its sizes are none that a log has"),
            Some(_) => Err("another version of this program made it"),
        }
    }
}

/// The incarnation of a log that a ring is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life<'a> {
    pub(crate) env: &'a Env,
    pub(crate) dir: &'a Path,
    pub(crate) log_id: [u8; 16],
    pub(crate) incarnation: u64,
}

/// Returns the path of the shared ring in `ring_dir` of the log `log_id` in the directory `dir`, if there is one.
pub(crate) fn ring_path_of(env: &Env, ring_dir: &Path, log_id: &[u8; 16], dir: &Path) -> Option<PathBuf> {
    let path = ring_path(ring_dir, log_id, env.memory.directory_id(dir).ok()?);
    env.memory.open(&path).is_ok().then_some(path)
}

/// Returns the path that a ring has in `ring_dir`, by the log's id and the number of its directory.
pub(crate) fn ring_path(ring_dir: &Path, log_id: &[u8; 16], directory_id: u64) -> PathBuf {
    ring_dir.join(format!("collie-{:032x}-{directory_id:016x}.ring", u128::from_be_bytes(*log_id)))
}

/// Removes the ring that an earlier incarnation of a log left; the log's directory is locked.
fn remove_left(memory: &dyn SharedMemory, path: &Path) -> io::Result<()> {
    // The opening of another log may have claimed it for a moment, to look at it (`dead_rings`).
    let mut claimed = memory.claim(path);
    for _ in 0..CLAIMS_MAX {
        if !matches!(&claimed, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        claimed = memory.claim(path);
    }
    memory.remove(path)
}

/// Number of tries to claim a ring, a millisecond apart.
const CLAIMS_MAX: usize = 100;

/// A value that may lie in a region.
///
/// # Safety
/// Everything in it that ever changes is an atomic or a cell, it owns nothing, and dropping it does nothing.
pub(crate) unsafe trait Shareable {}
// SAFETY: atomics.
unsafe impl Shareable for Padded<AtomicU64> {}
// SAFETY: atomics.
unsafe impl Shareable for Padded<AtomicUsize> {}
// SAFETY: atomics.
unsafe impl Shareable for AtomicU64 {}
// SAFETY: an atomic.
unsafe impl Shareable for Word {}
// SAFETY: a cell.
unsafe impl Shareable for RingByte {}

/// The shared ring of a running log.
#[derive(Debug)]
pub(crate) struct RingFile {
    region: Arc<Region>,
    header: Header,
    memory: Arc<dyn SharedMemory>,
    path: PathBuf,
}

impl RingFile {
    /// Makes the ring of a log, in place of one that an earlier incarnation left; [`RingFile::publish`] writes its
    /// header.
    fn create(life: &Life<'_>, options: &Options) -> Result<Self, WalError> {
        let memory = &life.env.memory;
        let directory_id = memory.directory_id(life.dir).map_err(|e| WalError::io("look at", life.dir, e))?;
        let path = ring_path(&options.ring_dir, &life.log_id, directory_id);
        let io = |source| WalError::io("make the shared ring", &path, source);
        if cfg!(any(loom, shuttle, target_endian = "big", not(target_pointer_width = "64"))) {
            return Err(io(std::io::ErrorKind::Unsupported.into()));
        }
        let layout = Layout::of(options);
        let boot_id = memory.boot_id().map_err(|e| WalError::io("read the number of this boot for", &path, e))?;
        let region = Arc::new(memory.create(&path, layout.total_bytes() as u64).map_err(io)?);
        let owner = Owner { log_id: life.log_id, incarnation: life.incarnation, boot_id, directory_id };
        let dir = std::path::absolute(life.dir).ok();
        let header = Header { protocol: options.protocol, owner, layout, pid: std::process::id(), dir };
        Ok(Self { region, header, memory: memory.clone(), path })
    }

    /// Writes the header (J1).
    fn publish(&self) {
        // A kill stops a thread between two instructions, so it suffices that the compiler does not move the words'
        // first values behind the header.
        compiler_fence(Ordering::SeqCst);
        let bytes = self.header.encode();
        // SAFETY: J2: the header has its own block, and no other thread of this process accesses it.
        unsafe { self.region.address().as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the name (J3).
    pub(crate) fn remove(&self) -> Result<(), WalError> {
        let removed = self.memory.remove(&self.path);
        removed.map_err(|source| WalError::io("remove the shared ring", &self.path, source))
    }

    /// Places `count` values at `at` and gives each its first value.
    fn place<T: Shareable>(&self, at: usize, count: usize, first: impl Fn() -> T) -> Place<[T]> {
        let fits = at.checked_add(size_of::<T>() * count).is_some_and(|end| end <= self.region.len());
        assert!(fits && at.is_multiple_of(align_of::<T>()), "J2");
        // SAFETY: inside the region by the assertion; the region starts at a page.
        let start = unsafe { self.region.address().add(at) }.cast::<T>();
        for index in 0..count {
            // SAFETY: as above, and no other code has these bytes yet: each part is placed once, when the log opens.
            unsafe { start.add(index).write(first()) };
        }
        // SAFETY: written just now, inside the region, `Shareable`.
        unsafe { Place::in_region(NonNull::slice_from_raw_parts(start, count), self.region.clone()) }
    }
}

/// Where the words, buffers and bytes of a running log live.
#[derive(Debug)]
pub(crate) enum Home {
    /// In this process.
    Private,
    /// In memory that outlives the process.
    Shared(RingFile),
}

impl Home {
    /// Removes the ring that an earlier incarnation left, whose records are on disk, and makes one of the configured
    /// kind; returns a line that says why, if `auto` made a private ring.
    ///
    /// # Errors
    /// `Io`: `wal.ring = shared`, and no shared ring can be made.
    pub(crate) fn choose(life: &Life<'_>, options: &Options) -> Result<(Self, Option<String>), WalError> {
        if let Ok(directory_id) = life.env.memory.directory_id(life.dir) {
            // If it stays, making a new one fails with an error, and no later open counts it: its incarnation is past.
            let _removed = remove_left(&*life.env.memory, &ring_path(&options.ring_dir, &life.log_id, directory_id));
        }
        if options.ring == RingKind::Private {
            return Ok((Self::Private, None));
        }
        match RingFile::create(life, options) {
            Ok(file) => Ok((Self::Shared(file), None)),
            Err(error) if options.ring == RingKind::Auto => {
                let lost = "the ring is private, so commits that did not wait for the disk die with this process";
                Ok((Self::Private, Some(format!("{error}; {lost}"))))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a ring count, once everything in it has its first value (J1).
    pub(crate) fn publish(&self) {
        if let Self::Shared(file) = self {
            file.publish();
        }
    }

    /// Returns `Private` or `Shared`.
    pub(crate) fn kind(&self) -> RingKind {
        if matches!(self, Self::Private) { RingKind::Private } else { RingKind::Shared }
    }

    /// Places one word.
    pub(crate) fn word<T: Shareable>(&self, at: WordAt, first: impl Fn() -> T) -> Place<T> {
        match self {
            Self::Private => Place::private(Box::new(first())),
            Self::Shared(file) => file.place(at.offset(), 1, first).first(),
        }
    }

    /// Places the flags.
    pub(crate) fn flags<T: Shareable>(&self, count: usize, first: impl Fn() -> T) -> Place<[T]> {
        match self {
            Self::Private => Place::private((0..count).map(|_| first()).collect()),
            Self::Shared(file) => {
                assert_eq!(count, file.header.layout.slots, "J2");
                file.place(file.header.layout.flag_at(0), count, first)
            }
        }
    }

    /// Places a staging buffer with room for `bytes`: its length and its words.
    pub(crate) fn staging(&self, index: usize, bytes: usize) -> (Place<AtomicU64>, Place<[AtomicU64]>) {
        let (count, zero) = (bytes.div_ceil(8), || AtomicU64::new(0));
        match self {
            Self::Private => (Place::private(Box::new(zero())), Place::private((0..count).map(|_| zero()).collect())),
            Self::Shared(file) => {
                let layout = &file.header.layout;
                assert!(bytes <= layout.staging_bytes && index < layout.slots, "J2");
                let at = layout.staging_at(index);
                (file.place(at, 1, zero).first(), file.place(at + LINE, count, zero))
            }
        }
    }

    /// Places the ring.
    pub(crate) fn ring(&self, bytes: usize) -> Place<[RingByte]> {
        let zero = || RingByte::new(0);
        match self {
            Self::Private => Place::private((0..bytes).map(|_| zero()).collect()),
            Self::Shared(file) => {
                assert_eq!(bytes, file.header.layout.ring_bytes, "J2");
                file.place(file.header.layout.ring_at(), bytes, zero)
            }
        }
    }

    /// Returns the shared ring, if the ring is shared.
    pub(crate) fn file(&self) -> Option<&RingFile> {
        if let Self::Shared(file) = self { Some(file) } else { None }
    }
}
