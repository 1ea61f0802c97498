//! `Replay`: reads the records of the log once, at an opening, and has appliers put their row writes into families.
//!
//! Records come in log order, which is commit order. Operations of chunks wait for the COMMIT of their transaction
//! while they take little memory. Above the limit the log is scanned for the outcome of its large transactions, and
//! from then on operations of chunks are applied as they come. A transaction without a COMMIT before the end of the
//! log or the next INCARNATION never happened.
//!
//! # Invariants
//! - P1. An operation is applied under the commit position of its transaction, never under that of its chunk. For
//!   each key the highest position wins, and within a transaction the last operation; so replaying a log twice has
//!   the effect of one replay.
//! - P2. No operation is applied that ROLLBACK_TO voided, or whose transaction was aborted or never ended.
//! - P3. A record that cannot be decoded, or a commit whose chunks are not all there, stops the opening: it is
//!   damage.
//! - P4. From a log with holes (`gap`) only transactions that are entirely outside the holes are applied. Such a
//!   log is not scanned ahead.
//! - P5. Commits to a family strictly below its last recorded flush are in its LSM tree and are not applied.
//!   Neither is anything that begins below the position from which the log is needed: it is in the LSM tree, or it
//!   is needed no more.
//! - P6. Operations that wait for their COMMIT take at most [`HELD_BYTES_MAX`] and one chunk; in a log with holes
//!   there is no limit.
//! - P7. An entry of a re-log is applied under its own position. Deletions are remembered from the beginning of a
//!   re-log to its end, and a re-log whose beginning was cut is ignored (P5), since a deletion may be gone with it.
//! - P8. Nothing is applied of an unlogged commit: the LSM tree has the part that a flush reached.
//!
//! Checked by `replay/tests.rs`: random logs over random LSM trees, with any number of appliers in any order,
//! against a map; P7 by `relog/tests.rs`.

use std::sync::Arc;

use collie_base::codec::Reader;
use collie_base::{CfId, Lsn, Map, Xid};

use crate::EngineError;
use crate::dir::control::History;
use crate::families::Families;
use crate::log::large::{Large, LargeTransactions};
use crate::log::quorum_notes::{NotedAt, QuorumNotes};
use crate::open::apply::{Appliers, At};
use crate::planted::is_planted;
use crate::redo::txn_chunks::{CommittedTxns, TxnChunks};
use crate::redo::{Op, Redo, Relogged};

/// Bytes of waiting operations above which the log is scanned ahead. Most logs have no transaction of this size,
/// and reading a log twice costs little compared with applying it.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// Reads records in log order.
#[derive(Debug)]
pub(crate) struct Replay {
    families: Arc<Families>,
    appliers: Appliers,
    open: Map<Xid, Open>,
    /// The beginning of the current re-log (P7).
    relog: Option<Lsn>,
    /// Bytes of the operations that wait.
    held_bytes: usize,
    held_bytes_max: usize,
    /// The outcome of the large transactions, once it is known.
    fates: Option<CommittedTxns>,
    /// The position from which the log is needed, and the last recorded flush of each family in the LSM tree (P5).
    needed: Lsn,
    flushed: Map<CfId, Lsn>,
    /// The family of the last write, and its last recorded flush: the next operation is usually for the same
    /// family.
    recent: Option<(CfId, Lsn)>,
    /// The LSN of the current record: all later COMMIT records are above.
    position: Lsn,
    /// Transactions with chunks in the log.
    large: LargeTransactions,
    /// Number of row writes applied.
    pub(crate) rows: u64,
    /// Every xid in the log so far is below.
    pub(crate) xid_limit: Xid,
    /// The end of the record before the next one, if the caller stated it.
    pub(crate) previous_end: Lsn,
    /// The histories that begin in the log.
    incarnations: Vec<History>,
    /// The highest time of a TIME record.
    time_us: i64,
    /// The quorum notes in log order, first the one that MANIFEST carries from released log.
    pub(crate) quorum: Vec<NotedAt>,
}

/// The content of a log, apart from its rows.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Number of row writes applied.
    pub(crate) rows: u64,
    /// Every xid in the log is below.
    pub(crate) xid_limit: Xid,
    /// The histories that begin in the log.
    pub(crate) incarnations: Vec<History>,
    /// The highest time of a TIME record in the log, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// Growth of the old versions in bytes, by deletions that the LSM tree lacks.
    pub(crate) old_bytes: i64,
    /// Transactions with chunks in the log.
    pub(crate) large: LargeTransactions,
    /// The replicas whose confirmation commits need.
    pub(crate) quorum: QuorumNotes,
}

/// An unfinished transaction.
#[derive(Debug, Default)]
struct Open {
    course: TxnChunks,
    /// The waiting operations, one after another; `ends` has the end of each.
    held: Vec<u8>,
    ends: Vec<usize>,
    /// The families of operations that did not wait.
    families: Vec<CfId>,
}

impl Open {
    fn held_bytes(&self) -> usize {
        self.held.len() + self.ends.len() * size_of::<usize>()
    }

    /// Keeps the first `count` waiting operations.
    fn truncate(&mut self, count: u64) {
        self.ends.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        self.held.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl Replay {
    /// Makes a replay into families that are in memory only.
    pub(crate) fn new(families: &Arc<Families>, appliers: Appliers) -> Self {
        Self {
            families: Arc::clone(families),
            appliers,
            open: Map::default(),
            relog: None,
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX,
            fates: None,
            needed: Lsn::FIRST,
            flushed: Map::default(),
            recent: None,
            position: Lsn::ZERO,
            large: LargeTransactions::default(),
            rows: 0,
            xid_limit: Xid::new(1),
            previous_end: Lsn::ZERO,
            incarnations: Vec::new(),
            time_us: i64::MIN,
            quorum: Vec::new(),
        }
    }

    /// Makes a replay into families that were loaded from the LSM tree (P5).
    pub(crate) fn over_levels(
        families: &Arc<Families>,
        appliers: Appliers,
        needed: Lsn,
        flushed: Map<CfId, Lsn>,
    ) -> Self {
        Self { needed, flushed, ..Self::new(families, appliers) }
    }

    /// Applies the record at `lsn`.
    pub(crate) fn apply(&mut self, lsn: Lsn, tag: u8, payload: &[u8]) -> Result<(), EngineError> {
        let damage = |what| EngineError::Corruption { lsn, what };
        self.position = lsn;
        match Redo::decode(tag, payload).map_err(|error| damage(error.what))? {
            Redo::Commit { xid, chunks, first_chunk, ops } => {
                self.note_xid(xid);
                let open = self.open.remove(&xid);
                self.held_bytes -= open.as_ref().map_or(0, Open::held_bytes);
                if first_chunk != Lsn::ZERO && first_chunk < self.needed {
                    return Ok(()); // P5: retained until all its families were flushed above it
                }
                if chunks == 0 && open.is_none() && first_chunk == Lsn::ZERO {
                    return self.write(ops, lsn, None).map_err(damage);
                }
                let Open { course, held, mut families, .. } = open.unwrap_or_default();
                course.check_whole(chunks, first_chunk).map_err(damage)?;
                self.write(&held, lsn, Some(&mut families)).map_err(damage)?;
                self.write(ops, lsn, Some(&mut families)).map_err(damage)?;
                if chunks > 0 {
                    // The position of the first piece of its first chunk is unknown, but it is at or above
                    // `needed`.
                    self.large.add(Large { since: self.needed, first_chunk, csn: lsn, families });
                }
            }
            Redo::Chunk { xid, ops } => {
                self.note_xid(xid);
                self.take_chunk(xid, ops).map_err(damage)?;
            }
            Redo::Abort { xid } => {
                self.note_xid(xid);
                self.held_bytes -= self.open.remove(&xid).map_or(0, |open| open.held_bytes());
            }
            Redo::RollbackTo { xid, first_void } => {
                let open = self.open.entry(xid).or_default();
                let before = open.held_bytes();
                open.course.roll_back_to(first_void, self.needed).map_err(damage)?;
                open.truncate(open.course.live_count());
                self.held_bytes -= before - open.held_bytes();
            }
            Redo::Relog { begin: Lsn::ZERO, .. } => self.relog = Some(lsn).filter(|lsn| *lsn >= self.needed),
            Redo::Relog { begin, last, entries }
                if self.relog == Some(begin) || is_planted("re-log counts without its beginning") =>
            {
                let mut reader = Reader::new(entries);
                while !reader.is_empty() {
                    let Relogged { csn, op } = Relogged::decode(&mut reader).map_err(|error| damage(error.what))?;
                    self.put_needed_since(&op, csn, begin);
                }
                if last {
                    self.relog = None;
                }
            }
            Redo::Relog { .. } => {} // P7
            // P8: its rows are in the LSM tree, or lost.
            Redo::Unlogged { cf } => self.families.note_used(cf),
            Redo::Time { wall_us, .. } => self.time_us = self.time_us.max(wall_us),
            Redo::Quorum(quorum) => {
                // The note that MANIFEST carries may still be in the log.
                let is_new = self.quorum.last().is_none_or(|(at, _)| *at < lsn);
                self.quorum.extend(quorum.note().filter(|_| is_new).map(|note| (lsn, note)));
            }
            Redo::XidLimit { limit } => self.xid_limit = self.xid_limit.max(limit),
            Redo::Incarnation(incarnation) => {
                self.open.clear();
                (self.held_bytes, self.relog) = (0, None);
                let previous_end = Some(self.previous_end).filter(|end| *end > Lsn::ZERO).unwrap_or(lsn);
                self.incarnations.push(History::of(lsn, previous_end, &incarnation));
            }
        }
        Ok(())
    }

    /// Returns whether so many operations wait that the log should be scanned (P6): at most once, for
    /// [`Replay::take_committed`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.held_bytes > self.held_bytes_max && self.fates.is_none()
    }

    /// Continues with the known outcome of the large transactions: the waiting operations are applied or dropped,
    /// and later ones do not wait.
    pub(crate) fn take_committed(&mut self, fates: CommittedTxns) -> Result<(), EngineError> {
        let lsn = self.position;
        let mut open = std::mem::take(&mut self.open);
        for open in open.values_mut() {
            if let Some(fate) = fates.get(&open.course.first_chunk) {
                // Any later rollback removes operations from the end.
                open.truncate(fate.count_below(open.course.logged()));
                let written = self.write(&open.held, fate.csn, Some(&mut open.families));
                written.map_err(|what| EngineError::Corruption { lsn, what })?;
            }
            (open.held, open.ends) = (Vec::new(), Vec::new());
        }
        (self.open, self.held_bytes, self.fates) = (open, 0, Some(fates));
        Ok(())
    }

    /// Notes that records are missing between the last one and the next. An open transaction may have lost a chunk
    /// or a ROLLBACK_TO record, so it counts as incomplete whatever follows.
    pub(crate) fn gap(&mut self) {
        for open in self.open.values_mut() {
            *open = Open::default();
            open.course.is_broken = true;
        }
        self.held_bytes = 0;
    }

    /// Waits until everything is applied. Call it at the end of the log, before anything is read.
    pub(crate) fn finish(self) -> Replayed {
        let Self { rows, xid_limit, incarnations, time_us, large, appliers, quorum, .. } = self;
        let (quorum, old_bytes) = (QuorumNotes::new(quorum), appliers.finish());
        Replayed { rows, xid_limit, incarnations, time_us, large, quorum, old_bytes }
    }

    fn note_xid(&mut self, xid: Xid) {
        self.xid_limit = self.xid_limit.max(Xid::new(xid.get().saturating_add(1)));
    }

    /// Takes a chunk: its operations wait, or are applied at once if the outcome of the transaction is known.
    fn take_chunk(&mut self, xid: Xid, ops: &[u8]) -> Result<(), &'static str> {
        let mut open = self.open.remove(&xid).unwrap_or_default();
        open.course.note_chunk(self.position);
        let fates = self.fates.take();
        let fate = fates.as_ref().and_then(|fates| fates.get(&open.course.first_chunk));
        let before = open.held_bytes();
        let mut reader = Reader::new(ops);
        let mut taken = Ok(());
        while !reader.is_empty() {
            let rest = reader.rest();
            let op = match Op::decode(&mut reader) {
                Ok(op) => op,
                Err(error) => {
                    taken = Err(error.what);
                    break;
                }
            };
            self.families.note_used(op.cf);
            let number = open.course.note_operation();
            if is_planted("chunks are filtered by their own position") && self.position < self.flushed_to(op.cf) {
                continue;
            }
            if fates.is_none() {
                open.held.extend_from_slice(&rest[..rest.len() - reader.rest().len()]);
                open.ends.push(open.held.len());
            } else if let Some(fate) = fate.filter(|fate| fate.has(number)) {
                self.put(&op, fate.csn, Some(&mut open.families));
            }
        }
        self.held_bytes += open.held_bytes() - before;
        self.fates = fates;
        self.open.insert(xid, open);
        taken
    }

    /// Applies operations committed at `csn`, and adds their families to `families`.
    fn write(&mut self, ops: &[u8], csn: Lsn, mut families: Option<&mut Vec<CfId>>) -> Result<(), &'static str> {
        let mut reader = Reader::new(ops);
        while !reader.is_empty() {
            let op = Op::decode(&mut reader).map_err(|error| error.what)?;
            self.put(&op, csn, families.as_deref_mut());
        }
        Ok(())
    }

    fn put(&mut self, op: &Op<'_>, csn: Lsn, families: Option<&mut Vec<CfId>>) {
        if let Some(families) =
            families.filter(|families| families.last() != Some(&op.cf) && !families.contains(&op.cf))
        {
            families.push(op.cf);
        }
        if csn >= self.needed {
            self.put_needed_since(op, csn, csn); // P5
        } else {
            self.families.note_used(op.cf);
        }
    }

    /// Has an operation applied, which needs the log from `since` on, unless the LSM tree has it (P5).
    fn put_needed_since(&mut self, op: &Op<'_>, csn: Lsn, since: Lsn) {
        let flushed = match self.recent {
            Some((cf, flushed)) if cf == op.cf => flushed,
            _ => {
                self.families.note_used(op.cf);
                self.recent.insert((op.cf, self.flushed_to(op.cf))).1
            }
        };
        if csn > flushed || csn == flushed && !is_planted("a commit at the flush counts as flushed") {
            self.appliers.put(op, &At { csn, since, settled: self.settled() });
            self.rows += 1;
        }
    }

    /// Returns the position of a family's last recorded flush.
    fn flushed_to(&self, cf: CfId) -> Lsn {
        self.flushed.get(&cf).copied().unwrap_or(Lsn::ZERO)
    }

    /// Returns the position at or below which a deletion is final: no later record brings back an older state of
    /// its key.
    fn settled(&self) -> Lsn {
        let relog = self.relog.filter(|_| !is_planted("re-log forgets deletions"));
        self.position.min(relog.unwrap_or(Lsn::MAX))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
