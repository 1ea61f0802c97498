//! `Unpacker`: makes records of the bytes that a [`Shipper`](crate::Shipper) handed out, at the other end of a
//! connection and by the one decoder of the log: joins pieces and leaves out void records.
//!
//! # Invariants
//! - B1. The records are those that a reader of the shipping log yields, whatever runs of records it gets
//!   (`tests/ship.rs`).
//! - B2. No bytes panic, and none size an allocation beyond them and `wal.max_record` (LOG-15).
//! - B3. Runs follow each other; pieces of one incarnation are never joined to pieces of another (`assemble` J2).

use std::{path::Path, sync::Arc};

use collie_base::Lsn;

use crate::{
    Options, RecordRef, WalError,
    format::decode::whole_records,
    format::{CopyCounts, FrameHeader, Link, REASON_OPEN},
    read::assemble::{Assembler, Place},
};

/// A decoder of runs of records.
#[derive(Debug)]
pub struct Unpacker {
    assembler: Assembler,
    position: Lsn,
    place: Place,
}

impl Unpacker {
    /// Starts at `from`, where the first run continues. A record in pieces of which some lie below is not yielded: see
    /// [`Records::into_unpacker`](crate::Records::into_unpacker).
    pub fn new(from: Lsn, options: &Options) -> Self {
        let max_record = usize::try_from(options.max_record_bytes).unwrap_or(usize::MAX);
        Self::over(Assembler::new(from, max_record), from)
    }

    /// Continues behind the records that `assembler` has taken, up to `position`.
    pub(crate) fn over(assembler: Assembler, position: Lsn) -> Self {
        Self { assembler, position, place: Place { path: Arc::from(Path::new("(stream)")), offset: 0 } }
    }

    /// Returns the end of the last run, where the next one continues.
    ///
    /// # Progress
    /// Wait-free.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Takes a run of whole records that begins at `start` and continues `prev_end`, and calls `visit` with each record
    /// that it completes, in order.
    ///
    /// # Errors
    /// `Gap`: it does not continue the last run. `BadStream`: it is not whole records. In both cases nothing is
    /// visited. The first error of `visit`, which is not called again for this run; the run counts as taken.
    ///
    /// # Progress
    /// Wait-free, except for allocating the body of a record in pieces.
    pub fn take<E: From<WalError>>(
        &mut self,
        start: Lsn,
        prev_end: Lsn,
        records: &[u8],
        mut visit: impl FnMut(RecordRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        check_run(self.position, start, prev_end, records)?;
        let end = start.plus(records.len() as u64);
        self.position = end;
        let header = FrameHeader {
            salt: 0,
            number: 0,
            start,
            durable: end,
            // Only the size of a real frame is bounded; nothing reads this one.
            payload_bytes: 0,
            previous_crc: 0,
            end_mark: false,
            link: (start > prev_end).then_some(Link {
                incarnation: 0,
                previous_end: prev_end,
                skip: 0,
                reason: REASON_OPEN,
                copies: CopyCounts::ONE,
            }),
        };
        let (mut taking, mut failed) = (self.assembler.begin(&header)?, None);
        while let Some(record) = self.assembler.step(records, &mut taking, &self.place, end)? {
            if failed.is_none() {
                // After a failure too, all pieces are taken: the run counts.
                failed = visit(record).err();
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Checks that a run of records continues `end` and is whole records of kinds that a log holds.
///
/// # Errors
/// `Gap`, `BadStream`.
pub(crate) fn check_run(end: Lsn, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<(), WalError> {
    if prev_end != end {
        return Err(WalError::Gap { expected: end, found: prev_end });
    }
    let bad = |lsn, what| Err(WalError::BadStream { lsn, what });
    if start < prev_end || start.get().saturating_add(records.len() as u64) >= crate::options::OPEN_LSN_LIMIT {
        return bad(start, "positions fall, or lie beyond the end of the line");
    }
    let whole = whole_records(records).unwrap_or(0);
    if records.is_empty() || whole < records.len() {
        return bad(start.plus(whole as u64), "these bytes are no whole record");
    }
    Ok(())
}
