//! `Assembler`: turns frames into the records that a reader hands out: splits payloads, joins pieces, leaves out what
//! the reader did not ask for.
//!
//! # Invariants
//! - J1. Records come out in the order of their positions, each once, all at or above the position asked for.
//! - J2. Pieces of one life are never joined to pieces of another: a life that ended inside a record left it unfinished.
//! - J3. [`Assembler::restart`] is at or below the first piece of every record that ends above the position.
//!
//! Checked by `read_tests` and `tail_tests`.

use std::{collections::VecDeque, path::Path, sync::Arc};

use collie_base::Lsn;

use crate::{
    Record, RecordRef, WalError,
    decode::{self, Joiner},
    format::REASON_OPEN,
    source::Frame,
};

/// Where a frame lies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
}

/// Frames in, records out.
#[derive(Debug)]
pub(crate) struct Assembler {
    from: Lsn,
    /// End of the last record taken: a frame that repeats some is taken from there on.
    taken: Lsn,
    joiner: Joiner,
    ready: VecDeque<Record>,
    /// First piece and position of the records of several pieces that were finished at or above the last
    /// [`Assembler::restart`].
    long: VecDeque<(Lsn, Lsn)>,
    /// Where a payload was not whole records, and what was durable then: nothing follows.
    broken: Option<(Lsn, Place, Lsn)>,
}

impl Assembler {
    /// Hands out records at or above `from`, joining pieces to at most `limit_bytes`.
    pub(crate) fn new(from: Lsn, limit_bytes: usize) -> Self {
        Self {
            from,
            taken: Lsn::ZERO,
            joiner: Joiner::new(limit_bytes),
            ready: VecDeque::new(),
            long: VecDeque::new(),
            broken: None,
        }
    }

    /// Takes the records of the next frame, those that end at or below `limit`.
    ///
    /// # Errors
    /// `Damaged` when the payload is not whole records, from then on; those before the bad one are ready.
    pub(crate) fn take(&mut self, frame: &Frame<'_>, place: &Place, limit: Lsn) -> Result<(), WalError> {
        let mut ready = std::mem::take(&mut self.ready);
        let taken = self.visit(frame, place, limit, |RecordRef { lsn, end, kind, tag, body }| {
            let (body, path, offset) = (body.to_vec(), place.path.clone(), place.offset);
            ready.push_back(Record { lsn, end, kind, tag, body, path, offset });
        });
        self.ready = ready;
        taken
    }

    /// Calls `visit` with the records of the next frame, those that end at or below `limit`.
    ///
    /// # Errors
    /// As [`Assembler::take`]; those before the bad one were visited.
    pub(crate) fn visit(
        &mut self,
        frame: &Frame<'_>,
        place: &Place,
        limit: Lsn,
        mut visit: impl FnMut(RecordRef<'_>),
    ) -> Result<(), WalError> {
        self.check()?;
        if frame.header.link.is_some_and(|link| link.reason == REASON_OPEN) {
            // J2.
            self.joiner.clear();
        }
        let (mut lsn, mut rest) = (frame.header.start, frame.payload);
        while !rest.is_empty() {
            let Some(raw) = decode::record(rest) else {
                self.broken = Some((lsn, place.clone(), limit));
                return self.check();
            };
            let end = lsn.plus(raw.bytes);
            if lsn >= self.taken {
                self.taken = end;
                if let Some(joined) = self.joiner.take(&raw, lsn).filter(|_| lsn >= self.from && end <= limit) {
                    visit(RecordRef { lsn, end, kind: joined.kind, tag: raw.tag, body: &joined.body });
                    if joined.first < lsn {
                        self.long.push_back((joined.first, lsn));
                    }
                }
            }
            rest = rest.get(usize::try_from(raw.bytes).unwrap_or(usize::MAX)..).unwrap_or(&[]);
            lsn = end;
        }
        Ok(())
    }

    /// Returns an error once a payload was not whole records.
    pub(crate) fn check(&self) -> Result<(), WalError> {
        let Some((lsn, place, durable)) = &self.broken else { return Ok(()) };
        let (lsn, path, offset, durable) = (*lsn, place.path.to_path_buf(), place.offset, *durable);
        Err(WalError::Damaged { lsn, path, offset, stored: 0, computed: 0, durable })
    }

    /// Returns the next record that is ready.
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// Drops what is unfinished: the pieces that would finish it are lost.
    pub(crate) fn gap(&mut self) {
        self.joiner.clear();
    }

    /// Returns the position of the next record that is ready.
    pub(crate) fn front(&self) -> Option<Lsn> {
        self.ready.front().map(|record| record.lsn)
    }

    /// Returns where a reader must start to be given every record at or above `lsn`, of those taken and to come (J3).
    /// `lsn` never falls from call to call.
    pub(crate) fn restart(&mut self, lsn: Lsn) -> Lsn {
        while self.long.front().is_some_and(|(_, of)| *of < lsn) {
            self.long.pop_front();
        }
        let begun = self.long.iter().map(|(first, _)| *first).chain(self.joiner.oldest());
        begun.fold(lsn, Lsn::min)
    }
}
