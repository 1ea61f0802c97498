//! `Window`: reads one segment file front to back, about a megabyte at a time, and prefetches the next part.
//!
//! Allocation is bounded: the window, or one frame (format: 4 MiB) if that is larger.

use std::{path::PathBuf, sync::Arc};

use collie_env::{Access, File, Files};

use crate::{
    WalError,
    format::decode::{self, HeaderBlock},
    format::{BLOCK, BLOCK_BYTES, LINK_HEADER},
    read::source::{FrameSource, part_of},
};

/// Holds a frame of the default `wal.frame_size` with its header: it is read in one piece, and no part of the
/// next is moved.
const WINDOW_BYTES: usize = (1 << 20) + BLOCK;

/// An open segment file and the part of it last read.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    path: PathBuf,
    /// The first `filled` of these are the bytes from `offset` on.
    bytes: Vec<u8>,
    filled: usize,
    offset: u64,
    file_bytes: u64,
    /// Bytes that may be read; at most the file's.
    steady_bytes: u64,
}

impl Window {
    /// Opens `path` for reading.
    pub(crate) fn open(files: &dyn Files, path: PathBuf) -> Result<Self, WalError> {
        let io = |source| WalError::io("open", &path, source);
        let file = files.open(&path, Access::Read).map_err(io)?;
        Self::of(file, path)
    }

    /// Makes a window of `file`, which is called `path` in errors.
    pub(crate) fn of(file: Arc<dyn File>, path: PathBuf) -> Result<Self, WalError> {
        let file_bytes = file.len().map_err(|source| WalError::io("open", &path, source))?;
        Ok(Self { file, path, bytes: Vec::new(), filled: 0, offset: 0, file_bytes, steady_bytes: file_bytes })
    }

    /// Returns the length of the file when it was opened.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Reads the window that starts at `offset` and holds at least `len` bytes; keeps what of it is held already.
    fn fill(&mut self, offset: u64, len: usize) -> Result<(), WalError> {
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        let kept = skip.and_then(|skip| self.filled.checked_sub(skip)).unwrap_or(0);
        if kept < self.filled {
            self.bytes.copy_within(self.filled - kept..self.filled, 0);
        }
        (self.offset, self.filled) = (offset, kept);
        let wanted = (len.max(WINDOW_BYTES) as u64).min(self.steady_bytes.saturating_sub(offset));
        let wanted = usize::try_from(wanted).expect("bounded by the window or a frame");
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        if kept < wanted {
            let read = self.file.read_at(offset + kept as u64, &mut self.bytes[kept..wanted]);
            self.filled += read.map_err(|source| WalError::io("read", &self.path, source))?;
            let ahead = offset + self.filled as u64;
            self.file.prefetch(ahead, (WINDOW_BYTES as u64).min(self.steady_bytes.saturating_sub(ahead)));
        }
        Ok(())
    }

    /// Reads the header block.
    pub(crate) fn segment_header(&mut self) -> Result<HeaderBlock, WalError> {
        Ok(decode::segment_header(self.bytes_at(0, BLOCK)?))
    }

    /// Returns where the frame at `offset` would end if it were whole; `None` if no frame under `salt` begins there.
    pub(crate) fn claimed_end(&mut self, offset: u64, salt: Option<u64>) -> Result<Option<u64>, WalError> {
        let claim = decode::frame_claim(self.bytes_at(offset, LINK_HEADER)?);
        let ours = claim.filter(|claim| salt.is_none_or(|salt| salt == claim.header.salt));
        Ok(ours.map(|claim| offset + claim.header.padded_bytes()))
    }

    /// Returns the first block at or after `offset` that begins like a frame; `None` if there is none up to the end of
    /// the file. In all others [`FrameSource::frame_at`] and [`Window::claimed_end`] find nothing, so a spare costs
    /// little more than its reading.
    pub(crate) fn next_begun_block(&mut self, offset: u64) -> Result<Option<u64>, WalError> {
        let mut at = offset;
        while at < self.file_bytes {
            let block = self.bytes_at(at, BLOCK)?;
            if block.is_empty() {
                return Ok(None);
            }
            if decode::begins_frame(block) {
                return Ok(Some(at));
            }
            at += BLOCK_BYTES;
        }
        Ok(None)
    }
}

impl FrameSource for Window {
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        let end = offset.saturating_add(len as u64).min(self.steady_bytes);
        let held = self.offset..=self.offset + self.filled as u64;
        if !held.contains(&offset) || !held.contains(&end) {
            self.fill(offset, len)?;
        }
        Ok(self.held(offset, len))
    }

    fn held(&self, offset: u64, len: usize) -> &[u8] {
        part_of(&self.bytes[..self.filled], self.offset, offset, len)
    }

    fn extend_to(&mut self, bytes: u64) {
        self.steady_bytes = bytes.min(self.file_bytes);
    }
}
