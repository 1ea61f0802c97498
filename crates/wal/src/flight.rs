//! `Flight`: the one writer of the log files: builds a frame from the ring, writes it, syncs it, turns to the next
//! segment.
//!
//! # Invariants
//! - A1. One flight exists, and only its leader calls it: frames of a log are written by one thread at a time.
//! - A2. A frame holds whole records and never crosses a segment (log.md L2).
//! - A3. A block below `durable` is never written again (log.md L3): `offset` only grows.
//! - A4. The current file is synced before it is left with anything unsynced in it: a later sync goes to another file.
//! - A5. After a failed write or sync a file is never written or synced again (log.md L9): everything behind the anchor
//!   goes from the ring to the next spare, under a LINK that counts only together with the frame that closes it.
//!
//! Checked by the crash tests and `rewrite_tests`.

use std::{path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::File;

use crate::{
    WalError,
    decode::whole_records,
    format::{BLOCK_BYTES, FRAME_BYTES_MAX, FrameHeader, HEADER, LINK_HEADER, Link, REASON_REWRITE, REASON_ROTATION},
    reserve::Reserve,
    segments::{Segments, Span},
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
    /// The end of what successful syncs cover.
    pub(crate) anchor: Anchor,
    /// Whether a write or sync of the current file failed (A5).
    pub(crate) broken: bool,
    pub(crate) incarnation: u64,
    pub(crate) skip: u64,
    /// Largest payload of a frame; any one record fits.
    pub(crate) frame_bytes: usize,
    pub(crate) buffer: Vec<u8>,
    pub(crate) counts: Counts,
}

/// The last frame that a successful sync covers: what a rewrite continues from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Anchor {
    /// The segment that holds it.
    pub(crate) salt: u64,
    /// Where it ends in the segment.
    pub(crate) until: u64,
    crc: u32,
    pub(crate) end: Lsn,
}

/// What the flights did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) syncs: u64,
    pub(crate) stream_bytes: u64,
    pub(crate) file_bytes: u64,
    /// Files left because a write or sync of them failed.
    pub(crate) rewrites: u64,
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
        self.broken = false;
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
        let link = if self.must_turn(boundary) { Some(self.turn(segments)?) } else { None };
        let most = self.frame_bytes as u64;
        self.write_ring_frame(reserve, boundary, most, durable, link)
    }

    /// Writes the records from `issued` to `boundary`, as many as fit into `most` bytes, as one frame.
    fn write_ring_frame(
        &mut self,
        reserve: &Reserve,
        boundary: Lsn,
        most: u64,
        durable: Lsn,
        link: Option<Link>,
    ) -> Result<Lsn, WalError> {
        let most = most.min(boundary.bytes_since(self.issued));
        let head = if link.is_some() { LINK_HEADER } else { HEADER };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(head, 0);
        // SAFETY: ring R2: we are the flight, `issued` is at or above `durable`, and `boundary` was loaded with Acquire.
        unsafe { reserve.read_into(self.issued, self.issued.plus(most), boundary, &mut buffer) };
        if self.issued.plus(most) < boundary {
            let whole = whole_records(&buffer[head..]);
            buffer.truncate(head + whole.expect("the ring holds whole records: we wrote them"));
        }
        self.write_buffer(buffer, self.issued, durable, link, false)
    }

    /// Leaves a broken file (A5): writes everything from the anchor to `to` from the ring into the next spare, and syncs
    /// it. What was written before counts until the last of these frames is there, none of it afterwards.
    ///
    /// # Errors
    /// What failed this time; nothing may be written any more then.
    pub(crate) fn rewrite(&mut self, reserve: &Reserve, segments: &Segments, to: Lsn) -> Result<(), WalError> {
        let anchor = self.anchor;
        let spare = segments.take_spare()?;
        self.enter(spare);
        self.counts.rewrites += 1;
        (self.previous_crc, self.issued) = (anchor.crc, anchor.end);
        let (incarnation, skip) = (self.incarnation, self.skip);
        let link = |previous_end, reason| Some(Link { incarnation, previous_end, skip, reason });
        let mut first = link(anchor.end, REASON_REWRITE);
        // As large as they may be: their heads and padding then fit beside any ring (`Options::validate`). Tests need
        // several, and the smallest ring of theirs fits like that.
        let most = if cfg!(test) { 2 * BLOCK_BYTES } else { u64::from(FRAME_BYTES_MAX) } - LINK_HEADER as u64;
        let most = most.max(self.frame_bytes as u64);
        while self.issued < to {
            self.write_ring_frame(reserve, to, most, anchor.end, first.take())?;
        }
        self.write_payload(&[], self.issued, anchor.end, link(self.issued, REASON_ROTATION), false)?;
        self.sync()?;
        let (path, salt, segment_bytes) = (self.path.clone(), self.salt, self.segment_bytes);
        segments
            .replace_tail(anchor, Span { path, salt, segment_bytes, first: anchor.end, until: None, broken: false });
        Ok(())
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
        assert!(!self.broken, "A5: a broken file is left");
        // Taken even if the write fails: a failed write may have written all of the frame.
        self.frame_number = number;
        let written = self.file.write_at(self.offset, &buffer);
        written.map_err(|source| {
            self.broken = true;
            WalError::io("write", &self.path, source)
        })?;
        self.offset += buffer.len() as u64;
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
        assert!(!self.broken, "A5: a broken file is left");
        let mut synced = if mistake!("SYNC_SKIPPED") { Ok(()) } else { self.file.sync_data() };
        if mistake!("SYNC_RETRIED") && synced.is_err() {
            synced = self.file.sync_data();
        }
        synced.map_err(|source| {
            self.broken = true;
            WalError::io("sync", &self.path, source)
        })?;
        self.unsynced = false;
        self.anchor = Anchor { salt: self.salt, until: self.offset, crc: self.previous_crc, end: self.issued };
        self.counts.syncs += 1;
        Ok(())
    }

    /// Returns whether more than half of the current segment is written.
    pub(crate) fn half_full(&self) -> bool {
        self.offset > self.segment_bytes / 2
    }
}
