//! `FrameWriter`: where the next frame of the log goes, what it continues, and how far the log is written and durable.
//! It builds frames from the ring, turns to the next segment, and leaves a failed one.
//!
//! One thread at a time has it, the one that flushes (`flush`), or that opens or closes the log.
//!
//! # Invariants
//! - A1. The frames of a log are placed and written in its order, by one thread at a time.
//! - A2. A frame holds whole records and never crosses a segment (LOG-2).
//! - A3. A block below `durable` is never written again (LOG-3): `offset` only grows.
//! - A4. The current file is synced before it is left with anything unsynced in it: a later sync goes to another file.
//! - A5. After a failed write or sync a file is never written or synced again (LOG-9): everything behind the anchor is
//!   written from the ring to the next spare, under a LINK that counts only together with the frame that closes it.
//! - A6. The anchor is the last frame that a sync covered which began after the frame was written (LOG-8). Each file
//!   has one description, since a failed sync is reported once per description.
//!
//! Checked by the crash lab, `tests/rewrite.rs` and `tests/flush.rs`.

use std::{io, path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::File;

use crate::segment::Anchor;
use crate::{
    WalError,
    append::Reserve,
    copies::Mirror,
    flush::FlushCounters,
    format::decode::whole_records,
    format::{
        BLOCK_BYTES, CopyCounts, FRAME_BYTES_MAX, FrameHeader, HEADER, LINK_HEADER, Link, REASON_COPIES, REASON_OPEN,
        REASON_REWRITE, REASON_ROTATION,
    },
    segment::spare::Spare,
    segment::{Segments, Span},
};

/// The state in which a frame writer begins: nothing was placed in its file.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) spare: Spare,
    /// The frame that the next one continues.
    pub(crate) frame_number: u64,
    pub(crate) previous_crc: u32,
    pub(crate) end: Lsn,
    pub(crate) incarnation: u64,
    pub(crate) skip: u64,
    pub(crate) copies: CopyCounts,
    pub(crate) mirror: Option<Mirror>,
    pub(crate) frame_bytes: usize,
}

/// The place of the next frame, the frame that it continues, and the outcomes of those before.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    /// The only description of the current file that writes or syncs (A6).
    file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    salt: u64,
    segment_bytes: u64,
    pub(crate) offset: u64,
    frame_number: u64,
    previous_crc: u32,
    /// End of the last frame placed.
    pub(crate) issued: Lsn,
    /// The last frame written.
    written: Anchor,
    /// The last durable frame (A6).
    anchor: Anchor,
    /// The first failure of the current file (A5).
    broken: Option<String>,
    /// Whether the rewrite after a failure failed too: then nothing is ever placed again.
    is_lost: bool,
    incarnation: u64,
    skip: u64,
    /// The counts of copies in the last LINK.
    copies: CopyCounts,
    /// Writes the copies, if there are several.
    pub(crate) mirror: Option<Mirror>,
    /// Whether the last frame placed closes the log.
    pub(crate) end_marked: bool,
    /// Largest payload of a frame in bytes; any single record fits.
    pub(crate) frame_bytes: usize,
    /// The last frame from the ring, kept for its memory and for samples.
    buffer: Vec<u8>,
    pub(crate) counters: Arc<FlushCounters>,
}

/// A frame that has its place and is still to be written there.
#[derive(Debug)]
#[must_use]
pub(crate) struct Placed {
    offset: u64,
    pub(crate) bytes: Vec<u8>,
    at: Anchor,
}

impl Placed {
    /// Returns the position after its last record.
    pub(crate) fn end(&self) -> Lsn {
        self.at.end
    }
}

/// Syncs a log file. While the log runs, no other code does.
pub(crate) fn sync_file(file: &dyn File) -> io::Result<()> {
    let synced = if mistake!("SYNC_SKIPPED") { Ok(()) } else { file.sync_data() };
    if mistake!("SYNC_RETRIED") && synced.is_err() { file.sync_data() } else { synced }
}

impl FrameWriter {
    /// Creates a frame writer that continues in an unused file.
    pub(crate) fn new(beginning: Beginning) -> Self {
        let Beginning { spare, frame_number, previous_crc, end, incarnation, skip, copies, mirror, frame_bytes } =
            beginning;
        let Spare { file, path, header } = spare;
        let at = Anchor { salt: header.salt, until: BLOCK_BYTES, crc: previous_crc, end };
        Self {
            file,
            path,
            salt: header.salt,
            segment_bytes: header.segment_bytes,
            offset: BLOCK_BYTES,
            frame_number,
            previous_crc,
            issued: end,
            written: at,
            anchor: at,
            broken: None,
            is_lost: false,
            incarnation,
            skip,
            copies,
            mirror,
            end_marked: false,
            frame_bytes,
            buffer: Vec::new(),
            counters: Arc::default(),
        }
    }

    /// Continues behind a frame that is in the file already.
    pub(crate) fn continue_at(&mut self, offset: u64) {
        self.offset = offset;
        (self.written.until, self.anchor.until) = (offset, offset);
    }

    /// Continues in a spare.
    fn enter(&mut self, spare: Spare) {
        self.file = spare.file;
        self.path = spare.path;
        self.salt = spare.header.salt;
        self.segment_bytes = spare.header.segment_bytes;
        self.offset = BLOCK_BYTES;
    }

    /// Places one frame from the ring: the records from `issued` up to `boundary`, as many as fit into a frame; an
    /// empty frame if `boundary` is `issued`. The frame names `durable` as durable.
    ///
    /// If [`FrameWriter::must_turn`], the caller has synced before (A4).
    pub(crate) fn place_from_ring(
        &mut self,
        reserve: &Reserve,
        segments: &Segments,
        boundary: Lsn,
        durable: Lsn,
    ) -> Result<Placed, WalError> {
        let link = if self.must_turn(boundary) { Some(self.turn(segments, REASON_ROTATION)?) } else { None };
        Ok(self.place_ring_frame(reserve, [boundary, durable], self.frame_bytes as u64, link))
    }

    /// Places the records from `issued` to `boundary`, as many as fit into `most` bytes, as one frame.
    fn place_ring_frame(
        &mut self,
        reserve: &Reserve,
        [boundary, durable]: [Lsn; 2],
        most: u64,
        link: Option<Link>,
    ) -> Placed {
        let mut buffer = std::mem::take(&mut self.buffer);
        let most = most.min(boundary.bytes_since(self.issued));
        let head = if link.is_some() { LINK_HEADER } else { HEADER };
        buffer.clear();
        buffer.resize(head, 0);
        // SAFETY: ring R2: only this thread has the frame writer, `issued` is at or above `durable`, and `boundary` was
        // loaded with Acquire.
        unsafe { reserve.read_into(self.issued, self.issued.plus(most), boundary, &mut buffer) };
        if self.issued.plus(most) < boundary {
            let whole = whole_records(&buffer[head..]);
            buffer.truncate(head + whole.expect("the ring holds whole records: we wrote them"));
        }
        self.place(buffer, self.issued, durable, link, false)
    }

    /// Leaves a failed file (A5): writes everything from the anchor to `to` from the ring into the next spare, and
    /// syncs it. The earlier frames count until the last of the new frames is written, and none of them afterwards.
    ///
    /// # Errors
    /// The error of this rewrite; after it nothing may be written any more.
    pub(crate) fn rewrite(&mut self, reserve: &Reserve, segments: &Segments, to: Lsn) -> Result<(), WalError> {
        let anchor = self.anchor;
        let spare = segments.take_spare()?;
        self.enter(spare);
        (self.written, self.broken) = (anchor, None);
        self.counters.rewrote();
        (self.previous_crc, self.issued) = (anchor.crc, anchor.end);
        let (incarnation, skip, copies) = (self.incarnation, self.skip, self.copies);
        let link = |previous_end, reason| Some(Link { incarnation, previous_end, skip, reason, copies });
        let mut first = link(anchor.end, REASON_REWRITE);
        // Frames as large as possible: their headers and padding then fit in addition to any ring
        // (`Options::validate`). Tests need several frames, and their smallest ring fits with this size.
        let most = if cfg!(test) { 2 * BLOCK_BYTES } else { u64::from(FRAME_BYTES_MAX) } - LINK_HEADER as u64;
        let most = most.max(self.frame_bytes as u64);
        while self.issued < to {
            let placed = self.place_ring_frame(reserve, [to, anchor.end], most, first.take());
            self.write(placed)?;
        }
        self.write_payload(&[], self.issued, anchor.end, link(self.issued, REASON_ROTATION), false)?;
        self.sync()?;
        let (path, salt, segment_bytes) = (self.path.clone(), self.salt, self.segment_bytes);
        segments
            .replace_tail(anchor, Span { path, salt, segment_bytes, first: anchor.end, until: None, broken: false });
        Ok(())
    }

    /// Continues in the next segment, whose first frame carries the returned LINK.
    fn turn(&mut self, segments: &Segments, reason: u16) -> Result<Link, WalError> {
        assert!(!self.is_unsynced(), "A4: the segment is synced before it is left");
        let spare = segments.turn(self.offset, self.issued)?;
        self.enter(spare);
        let (incarnation, skip) = (self.incarnation, self.skip);
        let (previous_end, copies) = (self.issued, self.copies);
        Ok(Link { incarnation, previous_end, skip, reason, copies })
    }

    /// Makes room in the segment for a frame with `records_bytes` of records, and returns the LINK with which positions
    /// jump there: a new incarnation of the followed log begins. Everything before is durable.
    pub(crate) fn jump_link(&mut self, segments: &Segments, records_bytes: usize) -> Result<Link, WalError> {
        let bytes = (records_bytes + LINK_HEADER) as u64;
        if self.offset + bytes.next_multiple_of(BLOCK_BYTES) > self.segment_bytes {
            let _as_below = self.turn(segments, REASON_OPEN)?;
        }
        self.incarnation += 1;
        let (incarnation, skip, copies) = (self.incarnation, self.skip, self.copies);
        Ok(Link { incarnation, previous_end: self.issued, skip, reason: REASON_OPEN, copies })
    }

    /// Writes the closing frame. Everything before is `durable`, and synced except for an empty frame. Does not sync.
    pub(crate) fn write_end(&mut self, segments: &Segments, durable: Lsn) -> Result<Lsn, WalError> {
        assert_eq!(self.issued, durable, "closing comes after the last flush");
        let turn = self.must_turn(self.issued);
        if turn {
            self.sync()?;
        }
        let link = if turn { Some(self.turn(segments, REASON_ROTATION)?) } else { None };
        self.write_payload(&[], durable, durable, link, true)
    }

    /// Returns whether the next frame, with records up to `boundary`, goes to the next segment.
    pub(crate) fn must_turn(&self, boundary: Lsn) -> bool {
        self.end_of_next(boundary) > self.segment_bytes
    }

    /// Returns the largest offset at which the next frame can end, if it is placed in the current segment.
    fn end_of_next(&self, boundary: Lsn) -> u64 {
        let most = (self.frame_bytes as u64).min(boundary.bytes_since(self.issued));
        self.offset + (most + LINK_HEADER as u64).next_multiple_of(BLOCK_BYTES)
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
        let placed = self.place(buffer, start, durable, link, end_mark);
        let end = placed.end();
        self.write(placed)?;
        Ok(end)
    }

    /// Seals the frame in `bytes`, whose header is still empty, and gives it the next place.
    fn place(&mut self, mut bytes: Vec<u8>, start: Lsn, durable: Lsn, link: Option<Link>, end_mark: bool) -> Placed {
        assert!(self.broken.is_none(), "A5: nothing is written to a file that failed");
        let head = if link.is_some() { LINK_HEADER } else { HEADER };
        let payload_bytes = u32::try_from(bytes.len() - head).expect("a frame is at most 4 MiB");
        // The number is used up even if the write fails later: a failed write may have written the whole frame.
        self.frame_number += 1;
        let (salt, number, previous_crc) = (self.salt, self.frame_number, self.previous_crc);
        let header = FrameHeader { salt, number, start, durable, payload_bytes, previous_crc, end_mark, link };
        let (crc, offset, end) = (header.seal(&mut bytes), self.offset, header.end());
        self.offset += bytes.len() as u64;
        assert!(self.offset <= self.segment_bytes, "A2: a frame stays inside its segment");
        (self.previous_crc, self.issued, self.end_marked) = (crc, end, end_mark);
        self.counters.placed(u64::from(payload_bytes), bytes.len() as u64);
        Placed { offset, bytes, at: Anchor { salt, until: self.offset, crc, end } }
    }

    /// Writes a frame to its place.
    ///
    /// # Errors
    /// `Io`; the file is [broken](FrameWriter::broken) then (A5).
    pub(crate) fn write(&mut self, placed: Placed) -> Result<(), WalError> {
        self.write_by(placed, |file, offset, bytes| file.write_at(offset, bytes))
    }

    /// As [`FrameWriter::write`], with `write` as the call.
    pub(crate) fn write_by(
        &mut self,
        placed: Placed,
        write: impl FnOnce(&dyn File, u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), WalError> {
        let Placed { offset, bytes, at } = placed;
        let written = write(&*self.file, offset, &bytes);
        self.buffer = bytes;
        written.map_err(|source| self.fail("write", source))?;
        self.written = at;
        Ok(())
    }

    /// Makes all written frames durable.
    ///
    /// # Errors
    /// `Io`; the file is [broken](FrameWriter::broken) then (A5).
    pub(crate) fn sync(&mut self) -> Result<(), WalError> {
        self.sync_by(sync_file)
    }

    /// As [`FrameWriter::sync`], with `sync` as the call.
    pub(crate) fn sync_by(&mut self, sync: impl FnOnce(&dyn File) -> io::Result<()>) -> Result<(), WalError> {
        if !self.is_unsynced() {
            return Ok(());
        }
        let covered = self.written; // A6
        sync(&*self.file).map_err(|source| self.fail("sync", source))?;
        self.anchor = covered;
        self.counters.synced();
        Ok(())
    }

    /// Notes that a write or sync of the current file failed (A5); returns its error.
    fn fail(&mut self, call: &'static str, source: io::Error) -> WalError {
        let error = WalError::io(call, &self.path, source);
        self.broken = Some(error.to_string());
        error
    }

    /// Returns the failure of the current file, if there is one (A5).
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Notes that the rewrite after a failure failed too.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Returns whether that has been noted.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns the end of the records that the kernel has.
    pub(crate) fn written(&self) -> Lsn {
        self.written.end
    }

    /// Returns the end of the durable records (A6).
    pub(crate) fn durable(&self) -> Lsn {
        self.anchor.end
    }

    /// Returns whether a frame was written that is not durable, perhaps an empty one.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.written != self.anchor
    }

    /// Returns the last frame from the ring, if no other was placed since.
    pub(crate) fn last_frame(&self) -> &[u8] {
        &self.buffer
    }

    /// Records the current live copies in the LINK of a new segment, until the record matches (`copies::mirror` I4).
    /// Called after a sync of all placed frames and before they are acknowledged; `durable` is the position that was
    /// durable before that sync.
    pub(crate) fn link_copies(&mut self, segments: &Segments, durable: Lsn) -> Result<(), WalError> {
        while let Some(mirror) = self.mirror.clone().filter(|mirror| !mirror.is_settled()) {
            self.copies = mirror.counts();
            if mistake!("COPY_LINK_SKIPPED") {
                mirror.confirm(self.copies);
                continue;
            }
            let link = self.turn(segments, REASON_COPIES)?;
            self.write_payload(&[], self.issued, durable, Some(link), false)?;
            self.sync()?;
            mirror.confirm(self.copies);
        }
        Ok(())
    }

    /// Returns whether the current segment is more than half full after the next frame, with records up to `boundary`.
    pub(crate) fn half_full(&self, boundary: Lsn) -> bool {
        self.end_of_next(boundary) > self.segment_bytes / 2
    }
}
