//! `Assembler`: turns frames into the records that a reader yields. It splits payloads into records, joins pieces, and
//! leaves out records below the position that the reader asked for.
//!
//! # Invariants
//! - J1. Records come out in the order of their positions, each once, all at or above the position asked for.
//! - J2. Pieces of one incarnation are never joined to pieces of another: a record that was unfinished when an
//!   incarnation ended stays unfinished.
//! - J3. [`Assembler::restart`] is at or below the first piece of every record that ends above the position.
//!
//! Checked by `tests/read.rs` and `tests/tail.rs`.

use std::{borrow::Cow, collections::VecDeque, path::Path, sync::Arc};

use collie_base::Lsn;

use crate::{
    Record, RecordRef, WalError,
    format::decode::{self, Joined, Joiner},
    format::{FrameHeader, REASON_OPEN},
    read::source::Frame,
};

/// Where a frame lies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
}

/// How far the records of a frame have been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking {
    lsn: Lsn,
    /// Offset in the payload, in bytes.
    at: usize,
}

/// Takes frames and yields records.
#[derive(Debug)]
pub(crate) struct Assembler {
    from: Lsn,
    /// End of the last record taken. If a frame repeats records, they are taken only from this position on.
    taken: Lsn,
    joiner: Joiner,
    ready: VecDeque<Record>,
    /// First piece and position of each record of several pieces that was completed at or above the position of the
    /// last [`Assembler::restart`].
    long: VecDeque<(Lsn, Lsn)>,
    /// The last record of several pieces that was yielded.
    whole: Vec<u8>,
    /// The position at which a payload did not consist of whole records, and the limit at that time. Nothing is yielded
    /// after it.
    broken: Option<(Lsn, Place, Lsn)>,
}

impl Assembler {
    /// Creates an assembler that yields records at or above `from` and joins pieces to at most `limit_bytes`.
    pub(crate) fn new(from: Lsn, limit_bytes: usize) -> Self {
        Self {
            from,
            taken: Lsn::ZERO,
            joiner: Joiner::new(limit_bytes),
            ready: VecDeque::new(),
            long: VecDeque::new(),
            whole: Vec::new(),
            broken: None,
        }
    }

    /// Takes those records of the next frame that end at or below `limit`.
    ///
    /// # Errors
    /// Returns `Damaged` if the payload does not consist of whole records, and in every later call. The records before
    /// the bad one are ready.
    pub(crate) fn take(&mut self, frame: &Frame<'_>, place: &Place, limit: Lsn) -> Result<(), WalError> {
        let mut ready = std::mem::take(&mut self.ready);
        let taken = self.visit(frame, place, limit, |RecordRef { lsn, end, kind, tag, body }| {
            let (body, path, offset) = (body.to_vec(), place.path.clone(), place.offset);
            ready.push_back(Record { lsn, end, kind, tag, body, path, offset });
        });
        self.ready = ready;
        taken
    }

    /// Calls `visit` with those records of the next frame that end at or below `limit`.
    ///
    /// # Errors
    /// As [`Assembler::take`]; the records before the bad one were visited.
    pub(crate) fn visit(
        &mut self,
        frame: &Frame<'_>,
        place: &Place,
        limit: Lsn,
        mut visit: impl FnMut(RecordRef<'_>),
    ) -> Result<(), WalError> {
        let mut taking = self.begin(&frame.header)?;
        while let Some(record) = self.step(frame.payload, &mut taking, place, limit)? {
            visit(record);
        }
        Ok(())
    }

    /// Begins to take a frame's records one by one.
    ///
    /// # Errors
    /// As [`Assembler::take`].
    pub(crate) fn begin(&mut self, header: &FrameHeader) -> Result<Taking, WalError> {
        self.check()?;
        if header.link.is_some_and(|link| link.reason == REASON_OPEN) {
            // J2.
            self.joiner.clear();
        }
        Ok(Taking { lsn: header.start, at: 0 })
    }

    /// Begins to take records one by one that lie in no frame and follow those already taken; the first one is at
    /// `lsn`.
    pub(crate) fn begin_at(&mut self, lsn: Lsn) -> Taking {
        Taking { lsn, at: 0 }
    }

    /// Returns the next record of the frame that was begun last, if it ends at or below `limit`; `None` after the last
    /// one. Every call gets the same `payload`, that of the frame.
    ///
    /// # Errors
    /// As [`Assembler::take`].
    // Always inlined, so that no record passes through memory on its way to a visitor.
    #[inline(always)]
    pub(crate) fn step<'a>(
        &'a mut self,
        payload: &'a [u8],
        taking: &mut Taking,
        place: &Place,
        limit: Lsn,
    ) -> Result<Option<RecordRef<'a>>, WalError> {
        if !self.whole.is_empty() {
            self.whole = Vec::new();
        }
        while let Some(rest) = payload.get(taking.at..).filter(|rest| !rest.is_empty()) {
            let lsn = taking.lsn;
            let Some(raw) = decode::record(rest) else {
                self.broken = Some((lsn, place.clone(), limit));
                return self.check().map(|()| None);
            };
            let end = lsn.plus(raw.bytes);
            taking.lsn = end;
            taking.at = taking.at.saturating_add(usize::try_from(raw.bytes).unwrap_or(usize::MAX));
            if lsn < self.taken {
                continue;
            }
            self.taken = end;
            let joined = self.joiner.take(&raw, lsn).filter(|_| lsn >= self.from && end <= limit);
            let Some(Joined { kind, body, first }) = joined else { continue };
            let body = match body {
                Cow::Borrowed(body) => body,
                Cow::Owned(body) => {
                    if first < lsn {
                        self.long.push_back((first, lsn));
                    }
                    self.whole = body;
                    &self.whole
                }
            };
            return Ok(Some(RecordRef { lsn, end, kind, tag: raw.tag, body }));
        }
        Ok(None)
    }

    /// Returns an error if an earlier payload did not consist of whole records.
    pub(crate) fn check(&self) -> Result<(), WalError> {
        let Some((lsn, place, durable)) = &self.broken else { return Ok(()) };
        let (lsn, path, offset, durable) = (*lsn, place.path.to_path_buf(), place.offset, *durable);
        Err(WalError::Damaged { lsn, path, offset, stored: 0, computed: 0, durable })
    }

    /// Returns the next record that is ready.
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// Drops unfinished records: the pieces that would complete them are lost.
    pub(crate) fn gap(&mut self) {
        self.joiner.clear();
    }

    /// Returns the position of the next record that is ready.
    pub(crate) fn front(&self) -> Option<Lsn> {
        self.ready.front().map(|record| record.lsn)
    }

    /// Returns the position at which a reader must start to get every record at or above `lsn`, of those taken and of
    /// those to come (J3). `lsn` never decreases from call to call.
    pub(crate) fn restart(&mut self, lsn: Lsn) -> Lsn {
        while self.long.front().is_some_and(|(_, of)| *of < lsn) {
            self.long.pop_front();
        }
        let begun = self.long.iter().map(|(first, _)| *first).chain(self.joiner.oldest());
        begun.fold(lsn, Lsn::min)
    }
}
