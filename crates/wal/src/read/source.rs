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

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

use std::{fmt::Debug, path::Path};

use collie_env::{Access, Files, Mapping};

use crate::{
    WalError,
    format::decode::{self, Bad},
    format::{FrameHeader, LINK_HEADER},
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
