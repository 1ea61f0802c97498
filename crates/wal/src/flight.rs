//! `Flight`: the one writer of the log files: builds a frame from the ring, writes it, syncs it, turns to the next
//! segment.
//!
//! # Invariants
//! - A1. One flight exists, and only its leader calls it: frames of a log are written by one thread at a time.
//! - A2. A frame holds whole records and never crosses a segment (log.md L2).
//! - A3. A block below `durable` is never written again (log.md L3): `offset` only grows.
//! - A4. The current file is synced before it is left with anything unsynced in it: a later sync goes to another file.
//!
//! Checked by the crash tests.

use std::{path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::File;

use crate::{
    WalError,
    decode::whole_records,
    format::{BLOCK_BYTES, FrameHeader, HEADER, LINK_HEADER, Link, REASON_ROTATION},
    reserve::Reserve,
    segments::Segments,
    spare::Spare,
};

/// Where the next frame goes, and what it continues.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) salt: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) offset: u64,
    pub(crate) frame_number: u64,
    pub(crate) previous_crc: u32,
    /// End of the last frame written.
    pub(crate) issued: Lsn,
    /// Whether something was written since the last sync.
    pub(crate) unsynced: bool,
    pub(crate) incarnation: u64,
    pub(crate) skip: u64,
    /// Largest payload of a frame; any one record fits.
    pub(crate) frame_bytes: usize,
    pub(crate) buffer: Vec<u8>,
    pub(crate) counts: Counts,
}

/// What the flights did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) syncs: u64,
    pub(crate) stream_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Flight {
    /// Starts writing into a spare.
    fn enter(&mut self, spare: Spare) {
        self.file = spare.file;
        self.path = spare.path;
        self.salt = spare.header.salt;
        self.segment_bytes = spare.header.segment_bytes;
        self.offset = BLOCK_BYTES;
        self.unsynced = false;
    }

    /// Writes one frame from the ring: the records from `issued` on, as many as fit into a frame, up to `boundary`; an
    /// empty frame when that is `issued`. Returns its end. `durable` is what the frame names as durable.
    ///
    /// Does not sync; if [`Flight::must_turn`], the caller has synced before (A4).
    pub(crate) fn write_from_ring(
        &mut self,
        reserve: &Reserve,
        segments: &Segments,
        boundary: Lsn,
        durable: Lsn,
    ) -> Result<Lsn, WalError> {
        let turn = self.must_turn(boundary);
        let most = (self.frame_bytes as u64).min(boundary.bytes_since(self.issued));
        let link = if turn { Some(self.turn(segments)?) } else { None };
        let head = if turn { LINK_HEADER } else { HEADER };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(head, 0);
        // SAFETY: ring R2: we are the flight, `issued` is at or above `durable`, and `boundary` was loaded with Acquire.
        unsafe { reserve.read_into(self.issued, self.issued.plus(most), &mut buffer) };
        if self.issued.plus(most) < boundary {
            let whole = whole_records(&buffer[head..]);
            buffer.truncate(head + whole.expect("the ring holds whole records: we wrote them"));
        }
        self.write_buffer(buffer, self.issued, durable, link, false)
    }

    /// Goes on in the next segment, whose first frame carries the returned LINK.
    fn turn(&mut self, segments: &Segments) -> Result<Link, WalError> {
        assert!(!self.unsynced, "A4: the segment is synced before it is left");
        let spare = segments.turn(self.offset, self.issued)?;
        self.enter(spare);
        let (incarnation, skip) = (self.incarnation, self.skip);
        Ok(Link { incarnation, previous_end: self.issued, skip, reason: REASON_ROTATION })
    }

    /// Writes the closing frame; everything before is `durable` and synced but for an empty frame. Does not sync.
    pub(crate) fn write_end(&mut self, segments: &Segments, durable: Lsn) -> Result<Lsn, WalError> {
        assert_eq!(self.issued, durable, "closing comes after the last flush");
        let turn = self.must_turn(self.issued);
        if turn && self.unsynced {
            self.sync()?;
        }
        let link = if turn { Some(self.turn(segments)?) } else { None };
        self.write_payload(&[], durable, durable, link, true)
    }

    /// Returns whether the next frame, with records up to `boundary`, goes to the next segment.
    pub(crate) fn must_turn(&self, boundary: Lsn) -> bool {
        let most = (self.frame_bytes as u64).min(boundary.bytes_since(self.issued));
        self.offset + (most + LINK_HEADER as u64).next_multiple_of(BLOCK_BYTES) > self.segment_bytes
    }

    /// Writes one frame with `payload` and syncs nothing.
    pub(crate) fn write_payload(
        &mut self,
        payload: &[u8],
        start: Lsn,
        durable: Lsn,
        link: Option<Link>,
        end_mark: bool,
    ) -> Result<Lsn, WalError> {
        let mut buffer = vec![0; if link.is_some() { LINK_HEADER } else { HEADER }];
        buffer.extend_from_slice(payload);
        self.write_buffer(buffer, start, durable, link, end_mark)
    }

    fn write_buffer(
        &mut self,
        mut buffer: Vec<u8>,
        start: Lsn,
        durable: Lsn,
        link: Option<Link>,
        end_mark: bool,
    ) -> Result<Lsn, WalError> {
        let head = if link.is_some() { LINK_HEADER } else { HEADER };
        let payload_bytes = u32::try_from(buffer.len() - head).expect("a frame is at most 4 MiB");
        let number = self.frame_number + 1;
        let (salt, previous_crc) = (self.salt, self.previous_crc);
        let header = FrameHeader { salt, number, start, durable, payload_bytes, previous_crc, end_mark, link };
        let crc = header.seal(&mut buffer);
        assert!(self.offset + buffer.len() as u64 <= self.segment_bytes, "A2: a frame stays inside its segment");
        let written = self.file.write_at(self.offset, &buffer);
        written.map_err(|source| WalError::io("write", &self.path, source))?;
        self.offset += buffer.len() as u64;
        self.frame_number = number;
        self.previous_crc = crc;
        self.issued = header.end();
        self.unsynced = true;
        self.counts.frames += 1;
        self.counts.stream_bytes += u64::from(payload_bytes);
        self.counts.file_bytes += buffer.len() as u64;
        self.buffer = buffer;
        Ok(self.issued)
    }

    /// Makes what was written to the current file durable.
    pub(crate) fn sync(&mut self) -> Result<(), WalError> {
        self.file.sync_data().map_err(|source| WalError::io("sync", &self.path, source))?;
        self.unsynced = false;
        self.counts.syncs += 1;
        Ok(())
    }

    /// Returns whether more than half of the current segment is written.
    pub(crate) fn half_full(&self) -> bool {
        self.offset > self.segment_bytes / 2
    }
}
