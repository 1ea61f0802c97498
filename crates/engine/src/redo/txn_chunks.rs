//! `TxnChunks`: the chunks that a transaction has left in the log so far, and which of its operations count;
//! [`CommittedTxns`]: the final status of each committed transaction with chunks.
//!
//! Operations, void ones included, are numbered from 0 in the order of the log. ROLLBACK_TO states how many of
//! those that counted still do, so the operations that count are a list of ranges that shrinks and grows at its
//! end.

use std::ops::Range;

use collie_base::codec::Reader;
use collie_base::{Lsn, Map, Xid};

use crate::EngineError;
use crate::redo::{Op, Redo};

/// A transaction's chunks so far.
#[derive(Debug, Default)]
pub(crate) struct TxnChunks {
    pub(crate) first_chunk: Lsn,
    chunks: u64,
    /// Whether a part of it may be missing.
    pub(crate) is_broken: bool,
    /// The number of logged operations.
    logged: u64,
    /// The operations that count, ascending; no range is empty.
    live: Vec<Range<u64>>,
}

impl TxnChunks {
    /// Notes a chunk at `lsn`.
    pub(crate) fn note_chunk(&mut self, lsn: Lsn) {
        if self.chunks == 0 {
            self.first_chunk = lsn;
        }
        self.chunks += 1;
    }

    /// Notes an operation of the last chunk; returns the operation's number.
    pub(crate) fn note_operation(&mut self) -> u64 {
        let number = self.logged;
        self.logged += 1;
        match self.live.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => self.live.push(number..number + 1),
        }
        number
    }

    /// Returns the number of logged operations.
    pub(crate) const fn logged(&self) -> u64 {
        self.logged
    }

    /// Returns the number of operations that count.
    pub(crate) fn live_count(&self) -> u64 {
        self.live.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns whether each operation with one of these numbers counts.
    pub(crate) fn counts_all(&self, numbers: &Range<u64>) -> bool {
        let at = self.live.partition_point(|range| range.end < numbers.end);
        numbers.is_empty()
            || self.live.get(at).is_some_and(|range| range.start <= numbers.start && numbers.end <= range.end)
    }

    /// Keeps the first `kept` of the operations that count. The log is needed from `needed` on, so the target of
    /// the rollback may be in log that was released; then the transaction is broken.
    ///
    /// # Errors
    /// Fewer operations count, and no log was released.
    pub(crate) fn roll_back_to(&mut self, kept: u64, needed: Lsn) -> Result<(), &'static str> {
        let count = self.live_count();
        if self.is_broken {
            return Ok(());
        }
        if kept > count && needed > Lsn::FIRST {
            self.is_broken = true;
            return Ok(());
        }
        let Some(mut void) = count.checked_sub(kept) else {
            return Err("a rollback to a place that is not in the log");
        };
        while let Some(last) = self.live.last_mut().filter(|_| void > 0) {
            let here = void.min(last.end - last.start);
            last.end -= here;
            void -= here;
            if last.is_empty() {
                self.live.pop();
            }
        }
        Ok(())
    }

    /// Returns the final status, committed at `csn`.
    pub(crate) fn into_committed(self, csn: Lsn) -> CommittedTxn {
        CommittedTxn { csn, live: self.live }
    }

    /// Checks that all chunks are there which a COMMIT names by their number and the first one's position.
    ///
    /// # Errors
    /// Some are missing.
    pub(crate) fn check_whole(&self, chunks: u64, first_chunk: Lsn) -> Result<(), &'static str> {
        let is_whole = !self.is_broken && (self.chunks, self.first_chunk) == (chunks, first_chunk);
        if is_whole { Ok(()) } else { Err("a transaction of which a part is missing") }
    }
}

/// The final status of a committed transaction with chunks.
#[derive(Debug)]
pub(crate) struct CommittedTxn {
    /// The CSN of the transaction.
    pub(crate) csn: Lsn,
    live: Vec<Range<u64>>,
}

impl CommittedTxn {
    /// Returns whether the operation with this number counts.
    pub(crate) fn has(&self, number: u64) -> bool {
        let at = self.live.partition_point(|range| range.end <= number);
        self.live.get(at).is_some_and(|range| range.contains(&number))
    }

    /// Returns the number of operations below this number that count.
    pub(crate) fn count_below(&self, number: u64) -> u64 {
        self.live.iter().map(|range| range.end.min(number).saturating_sub(range.start)).sum()
    }
}

/// The committed transactions with chunks in a log, by the position of the first chunk. Of all other transactions
/// no operation counts.
pub(crate) type CommittedTxns = Map<Lsn, CommittedTxn>;

/// Reads a log for [`CommittedTxns`]. Memory use: some words for each transaction with chunks and for each ROLLBACK_TO.
#[derive(Debug)]
pub(crate) struct ChunkScan {
    needed: Lsn,
    open: Map<Xid, TxnChunks>,
    fates: CommittedTxns,
}

impl ChunkScan {
    /// Creates a scan of a log that is needed from `needed` on.
    pub(crate) fn new(needed: Lsn) -> Self {
        Self { needed, open: Map::default(), fates: CommittedTxns::default() }
    }

    /// Takes the record at `lsn`. The caller passes all records of the log, in order.
    ///
    /// # Errors
    /// `Corruption`, for a record that replay would refuse too.
    pub(crate) fn note(&mut self, lsn: Lsn, tag: u8, payload: &[u8]) -> Result<(), EngineError> {
        let damage = |what| EngineError::Corruption { lsn, what };
        match Redo::decode(tag, payload).map_err(|error| damage(error.what))? {
            Redo::Commit { chunks: 0, .. } if self.open.is_empty() => {}
            Redo::Commit { xid, chunks, first_chunk, .. } => {
                let course = self.open.remove(&xid).unwrap_or_default();
                if first_chunk != Lsn::ZERO && first_chunk < self.needed {
                    return Ok(());
                }
                course.check_whole(chunks, first_chunk).map_err(damage)?;
                if chunks > 0 {
                    self.fates.insert(first_chunk, CommittedTxn { csn: lsn, live: course.live });
                }
            }
            Redo::Chunk { xid, ops } => {
                let course = self.open.entry(xid).or_default();
                course.note_chunk(lsn);
                let mut reader = Reader::new(ops);
                while !reader.is_empty() {
                    Op::decode(&mut reader).map_err(|error| damage(error.what))?;
                    course.note_operation();
                }
            }
            Redo::Abort { xid } => drop(self.open.remove(&xid)),
            Redo::RollbackTo { xid, first_void } => {
                let course = self.open.entry(xid).or_default();
                course.roll_back_to(first_void, self.needed).map_err(damage)?;
            }
            Redo::XidLimit { .. }
            | Redo::Relog { .. }
            | Redo::Unlogged { .. }
            | Redo::Time { .. }
            | Redo::Quorum(_) => {}
            Redo::Incarnation(_) => self.open.clear(),
        }
        Ok(())
    }

    /// Returns the result, at the end of the log.
    pub(crate) fn finish(self) -> CommittedTxns {
        self.fates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: the ranges state of each operation whether it counts. Method: random operations and rollbacks,
        /// compared with a list of numbers that is truncated.
        #[test]
        fn ranges_are_the_operations_that_were_not_rolled_back(steps in proptest::collection::vec(any::<(bool, u8)>(), 0..60)) {
            let (mut course, mut list) = (TxnChunks::default(), Vec::new());
            for (is_rollback, amount) in steps {
                if is_rollback {
                    let kept = list.len() * usize::from(amount) / 255;
                    list.truncate(kept);
                    prop_assert_eq!(course.roll_back_to(kept as u64, Lsn::FIRST), Ok(()));
                } else {
                    (0..amount % 5).for_each(|_| list.push(course.note_operation()));
                }
                prop_assert_eq!(course.live_count(), list.len() as u64);
            }
            prop_assert!(course.roll_back_to(list.len() as u64 + 1, Lsn::FIRST).is_err());
            for (start, end) in (0..=course.logged).flat_map(|end| (0..=end).map(move |start| (start, end))) {
                let all = (start..end).all(|number| list.contains(&number));
                prop_assert_eq!(course.counts_all(&(start..end)), all, "{} to {}", start, end);
            }
            let (logged, fate) = (course.logged, CommittedTxn { csn: Lsn::FIRST, live: course.live });
            for number in 0..logged + 2 {
                prop_assert_eq!(fate.has(number), list.contains(&number), "{}", number);
                prop_assert_eq!(fate.count_below(number), list.iter().filter(|n| **n < number).count() as u64);
            }
        }
    }
}
