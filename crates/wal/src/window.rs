//! `Window`: reads frames of one segment file front to back, a megabyte at a time.
//!
//! Allocation is bounded: the window, or one frame (format: 4 MiB) if that is larger.

use std::{path::PathBuf, sync::Arc};

use collie_env::{Access, File, Files};

use crate::{
    WalError,
    decode::{self, Bad, HeaderBlock},
    format::{BLOCK, BLOCK_BYTES, FrameHeader, LINK_HEADER},
};

const WINDOW_BYTES: usize = 1 << 20;

/// A frame whose checksum holds.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    pub(crate) crc: u32,
    pub(crate) payload: &'a [u8],
    /// Where the next frame would be.
    pub(crate) next_offset: u64,
}

/// An open segment file and the part of it last read.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    path: PathBuf,
    bytes: Vec<u8>,
    offset: u64,
    file_bytes: u64,
}

impl Window {
    /// Opens `path` for reading.
    pub(crate) fn open(files: &dyn Files, path: PathBuf) -> Result<Self, WalError> {
        let io = |source| WalError::io("open", &path, source);
        let file = files.open(&path, Access::Read).map_err(io)?;
        let file_bytes = file.len().map_err(io)?;
        Ok(Self { file, path, bytes: Vec::new(), offset: 0, file_bytes })
    }

    /// Returns the length of the file when it was opened.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns up to `len` bytes from `offset` on; fewer at the end of the file.
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        let held = skip.is_some_and(|skip| skip.checked_add(len).is_some_and(|end| end <= self.bytes.len()));
        let skip = if held {
            skip.unwrap_or(0)
        } else {
            let wanted = len.max(WINDOW_BYTES) as u64;
            let count = wanted.min(self.file_bytes.saturating_sub(offset));
            self.bytes.resize(usize::try_from(count).expect("bounded by the window or a frame"), 0);
            let read = self.file.read_at(offset, &mut self.bytes);
            let read = read.map_err(|source| WalError::io("read", &self.path, source))?;
            self.bytes.truncate(read);
            self.offset = offset;
            0
        };
        let end = (skip + len).min(self.bytes.len());
        Ok(&self.bytes[skip..end])
    }

    /// Reads the header block.
    pub(crate) fn segment_header(&mut self) -> Result<HeaderBlock, WalError> {
        Ok(decode::segment_header(self.bytes_at(0, BLOCK)?))
    }

    /// Reads the frame at `offset`, under `salt`, or under its own when none is given.
    pub(crate) fn frame_at(&mut self, offset: u64, salt: Option<u64>) -> Result<Result<Frame<'_>, Bad>, WalError> {
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
            next_offset: offset + claim.header.padded_bytes(),
        }))
    }

    /// Returns where the frame at `offset` would end if it were whole; `None` when no frame under `salt` begins there.
    pub(crate) fn claimed_end(&mut self, offset: u64, salt: Option<u64>) -> Result<Option<u64>, WalError> {
        let claim = decode::frame_claim(self.bytes_at(offset, LINK_HEADER)?);
        let ours = claim.filter(|claim| salt.is_none_or(|salt| salt == claim.header.salt));
        Ok(ours.map(|claim| offset + claim.header.padded_bytes()))
    }

    /// Returns the salt that the file carries now, read anew: another one than before says that it is used again.
    pub(crate) fn salt_now(&self) -> Result<Option<u64>, WalError> {
        let mut block = vec![0; BLOCK];
        let read = self.file.read_at(0, &mut block);
        let count = read.map_err(|source| WalError::io("read", &self.path, source))?;
        match decode::segment_header(&block[..count]) {
            HeaderBlock::Segment(header) => Ok(Some(header.salt)),
            _ => Ok(None),
        }
    }

    /// Returns the first block at or after `offset` that holds anything, or `None` to the end of the file.
    pub(crate) fn next_written_block(&mut self, offset: u64) -> Result<Option<u64>, WalError> {
        let mut at = offset;
        while at < self.file_bytes {
            let block = self.bytes_at(at, BLOCK)?;
            if block.is_empty() {
                return Ok(None);
            }
            if block.iter().any(|byte| *byte != 0) {
                return Ok(Some(at));
            }
            at += BLOCK_BYTES;
        }
        Ok(None)
    }
}
