//! `FrameSource`: a source of the bytes of a segment's frames, and the only place that turns bytes into frames.
//!
//! Three sources exist: a file by reads ([`Window`](crate::read::window::Window)), a file mapped into memory
//! ([`MappedSegment`]), and a frame that is still in memory ([`HeldFrame`](crate::flush::recent::HeldFrame)). They hand
//! out bytes and know no frames; recovery, readers, tails and tools all read frames through [`FrameSource::frame_at`].
//!
//! # Invariants
//! - N1. The source of the bytes never shows in the result: same bytes, same frames, same errors (LOG-13).
//! - N2. No source allocates more than a window, or one frame (format: 4 MiB) if that is larger (LOG-15).
//!
//! Checked by `tests/read.rs` (random logs read through all three) and by the fuzz target of the reader.

use std::{fmt::Debug, io, path::Path, sync::Arc};

use collie_base::Lsn;
use collie_env::{Access, File, Files, Mapping};

use crate::{
    WalError,
    format::decode::{self, Bad},
    format::{BLOCK_BYTES, FrameHeader, LINK_HEADER},
    read::assemble::{Assembler, Place},
    read::window::Window,
};

/// A frame whose checksum holds.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    pub(crate) crc: u32,
    pub(crate) payload: &'a [u8],
    /// Where the next frame would be.
    pub(crate) next_offset: u64,
}

/// The bytes of one segment, as far as this source has them.
pub(crate) trait FrameSource: Debug + Send {
    /// Returns up to `len` bytes from `offset` of the segment on; fewer if the source ends before.
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError>;

    /// Returns a part of the bytes that the last [`FrameSource::bytes_at`] returned, or of a frame read last, without
    /// reading.
    fn held(&self, offset: u64, len: usize) -> &[u8];

    /// Announces that the first `bytes` of the segment, more than before, are not written any more.
    fn extend_to(&mut self, _bytes: u64) {}

    /// Reads the frame at `offset`, under `salt`, or under its own salt if none is given.
    fn frame_at(&mut self, offset: u64, salt: Option<u64>) -> Result<Result<Frame<'_>, Bad>, WalError> {
        let none = Bad { stored: 0, computed: 0 };
        let Some(claim) = decode::frame_claim(self.bytes_at(offset, LINK_HEADER)?) else { return Ok(Err(none)) };
        if salt.is_some_and(|salt| salt != claim.header.salt) && !mistake!("NO_EPOCH") {
            return Ok(Err(none));
        }
        let bytes = self.bytes_at(offset, claim.header.bytes())?;
        Ok(decode::frame_payload(&claim, bytes).map(|payload| Frame {
            header: claim.header,
            crc: claim.stored,
            payload,
            next_offset: offset.saturating_add(claim.header.padded_bytes()),
        }))
    }
}

/// Returns up to `len` bytes from `offset` of the segment on, out of `bytes`, which start at `base` of the segment.
pub(crate) fn part_of(bytes: &[u8], base: u64, offset: u64, len: usize) -> &[u8] {
    let skip = offset.checked_sub(base).and_then(|skip| usize::try_from(skip).ok());
    let Some(rest) = skip.and_then(|skip| bytes.get(skip..)) else { return &[] };
    rest.get(..len).unwrap_or(rest)
}

/// Bytes in memory, from the first byte of the segment on.
impl FrameSource for &[u8] {
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        Ok(self.held(offset, len))
    }

    fn held(&self, offset: u64, len: usize) -> &[u8] {
        part_of(self, 0, offset, len)
    }
}

/// Reads `data` as a segment file through every source, as readers do, and returns the number of records in it. For
/// fuzzing: it must return for any input, and all sources must see the same frames (N1).
pub fn fuzz_reader(data: &[u8]) -> usize {
    const NAME: &str = "/segment";
    let file = Arc::new(InMemory(data.to_vec()));
    // SAFETY: no thread writes to this file.
    let mapping = unsafe { file.map(data.len() as u64) };
    let mut mapped = MappedSegment(mapping.expect("the file is that long"));
    let mut window = Window::of(file, NAME.into()).expect("the file has a length");
    let _header = window.segment_header().expect("memory reads");
    let (mut assembler, mut yielded, mut at) = (Assembler::new(Lsn::ZERO, 1 << 20), 0, 0);
    while at < data.len() as u64 {
        let mut whole = data;
        let mut sources: [&mut dyn FrameSource; 3] = [&mut whole, &mut window, &mut mapped];
        let [found, again @ ..] =
            sources.each_mut().map(|source| source.frame_at(at, None).expect("memory does not fail"));
        for other in again {
            match (&found, &other) {
                (Ok(frame), Ok(other)) => {
                    assert_eq!((frame.header, frame.crc, frame.payload), (other.header, other.crc, other.payload));
                }
                _ => assert_eq!(found.as_ref().err(), other.as_ref().err(), "at {at}"),
            }
        }
        let Ok(frame) = found else {
            at += BLOCK_BYTES;
            continue;
        };
        at = frame.next_offset;
        let place = Place { path: Arc::from(Path::new(NAME)), offset: at };
        // A payload that is not whole records yields the records before the bad one.
        let _damaged = assembler.take(&frame, &place, Lsn::MAX);
        yielded += std::iter::from_fn(|| assembler.next()).count();
    }
    yielded
}

/// A file for fuzzing: bytes that are only read.
#[derive(Debug)]
struct InMemory(Vec<u8>);

impl File for InMemory {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let part = part_of(&self.0, 0, offset, bytes.len());
        bytes[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// The front of a segment file, mapped into memory.
#[derive(Debug)]
pub(crate) struct MappedSegment(Mapping);

impl MappedSegment {
    /// Maps the first `bytes` of the segment at `path`.
    ///
    /// # Safety
    /// All of these bytes are durable, and a hold keeps the segment from being freed and reused until this value is
    /// dropped: then no thread writes them (LOG-3) and none shortens the file.
    pub(crate) unsafe fn new(files: &dyn Files, path: &Path, bytes: u64) -> Result<Self, WalError> {
        let file = files.open(path, Access::Read).map_err(|source| WalError::io("open", path, source))?;
        // SAFETY: the caller guarantees what `map` requires.
        let mapping = unsafe { file.map(bytes) };
        mapping.map(Self).map_err(|source| WalError::io("map", path, source))
    }
}

impl FrameSource for MappedSegment {
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        Ok(self.held(offset, len))
    }

    fn held(&self, offset: u64, len: usize) -> &[u8] {
        part_of(&self.0, 0, offset, len)
    }
}
