//! `Replay`: reads the log's records, once, at open, and has appliers put their row writes into families.
//!
//! Records come in log order, which is commit order. Operations of chunks wait for their transaction's COMMIT, as long as
//! they take up little memory; after that the log is surveyed for how its large transactions end, and operations of chunks are
//! applied when they come. What has no COMMIT by the end, or by the next INCARNATION, never happened.
//!
//! # Invariants
//! - P1. An operation is applied under its transaction's commit position, never its chunk's. Of a key the highest position
//!   wins, of one transaction the last operation; so a log replayed twice leaves what it leaves once.
//! - P2. Nothing is applied of a transaction that ROLLBACK_TO voided, ABORT ended or nothing ended.
//! - P3. A record that cannot be read, and a commit whose chunks are not all there, stop the open: they are damage.
//! - P4. Of a log with holes (`gap`) only transactions are applied that lie whole beside them. Such a log is not surveyed.
//! - P5. What was committed to a family below its last recorded flush is in its levels and is not applied, by the commit's
//!   position, strictly. Nor is anything that begins below where the log is needed from: the levels have it, or nobody does.
//! - P6. Operations held for their COMMIT take up no more than [`HELD_BYTES_MAX`], but in a log with holes, and a chunk.
//! - P7. An entry of a re-log is applied under its own position. Deletions are remembered from a re-log's beginning to its end, and
//!   one whose beginning was cut counts no more (P5): a deletion may be gone with it.
//! - P8. Of what was committed unlogged nothing is applied: what a flush reached is in the levels.
//!
//! Checked by `replay_tests.rs`: random logs with levels, any number of appliers in any order, against a map; P7 by `relog_tests.rs`.

use std::sync::Arc;

use collie_base::codec::Reader;
use collie_base::{CfId, Lsn, Map, Xid};

use crate::EngineError;
use crate::apply::{Appliers, At};
use crate::control::History;
use crate::course::{Course, Fates};
use crate::families::Families;
use crate::large::{Large, LargeTransactions};
use crate::planted::is_planted;
use crate::quorum_note::{NotedAt, QuorumNotes};
use crate::redo::{Op, Redo, Relogged};

/// Bytes of operations that wait for their transactions' ends above which the log is surveyed instead. Most logs have no
/// transaction so large, and reading one twice costs little beside applying it.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// Reads records in log order.
#[derive(Debug)]
pub(crate) struct Replay {
    families: Arc<Families>,
    appliers: Appliers,
    open: Map<Xid, Open>,
    /// The beginning of the re-log that is under way (P7).
    relog: Option<Lsn>,
    /// Of operations that wait.
    held_bytes: usize,
    held_bytes_max: usize,
    /// How the large transactions end, once it is known.
    fates: Option<Fates>,
    /// Where the log is needed from, and the last recorded flush of each family with levels (P5).
    needed: Lsn,
    flushed: Map<CfId, Lsn>,
    /// The family written last, and its last recorded flush: the next operation is mostly of the same.
    recent: Option<(CfId, Lsn)>,
    /// The record at hand: nothing that comes later was committed below.
    position: Lsn,
    /// Transactions with chunks in the log.
    large: LargeTransactions,
    /// Row writes taken.
    pub(crate) rows: u64,
    /// Every id handed out before is below.
    pub(crate) xid_limit: Xid,
    /// Where the record before the next one ends, as far as its reader says.
    pub(crate) previous_end: Lsn,
    /// The histories that begin in the log.
    incarnations: Vec<History>,
    /// The highest time of a mark.
    time_us: i64,
    /// Who is asked for commits, in the order of the log; from log that is gone the newest.
    pub(crate) quorum: Vec<NotedAt>,
}

/// What a log held, beside its rows.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Row writes applied.
    pub(crate) rows: u64,
    /// Every id handed out before is below.
    pub(crate) xid_limit: Xid,
    /// The histories that begin in it.
    pub(crate) incarnations: Vec<History>,
    /// The highest time of a mark in it, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// By how many bytes old versions grew: deletions that the levels lack.
    pub(crate) old_bytes: i64,
    /// Transactions with chunks in it.
    pub(crate) large: LargeTransactions,
    /// Who is asked for commits.
    pub(crate) quorum: QuorumNotes,
}

/// A transaction that is not over.
#[derive(Debug, Default)]
struct Open {
    course: Course,
    /// Operations that wait, one after another; `ends` has the offset after each.
    held: Vec<u8>,
    ends: Vec<usize>,
    /// The families of operations that did not wait.
    families: Vec<CfId>,
}

impl Open {
    fn held_bytes(&self) -> usize {
        self.held.len() + self.ends.len() * size_of::<usize>()
    }

    /// Leaves the first `count` operations that wait.
    fn truncate(&mut self, count: u64) {
        self.ends.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        self.held.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl Replay {
    /// For families in memory alone.
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

    /// For families that were loaded from levels (P5).
    pub(crate) fn over_levels(
        families: &Arc<Families>,
        appliers: Appliers,
        needed: Lsn,
        flushed: Map<CfId, Lsn>,
    ) -> Self {
        Self { needed, flushed, ..Self::new(families, appliers) }
    }

    /// Takes the record at `lsn`.
    pub(crate) fn apply(&mut self, lsn: Lsn, tag: u8, payload: &[u8]) -> Result<(), EngineError> {
        let damage = |what| EngineError::Corruption { lsn, what };
        self.position = lsn;
        match Redo::decode(tag, payload).map_err(|error| damage(error.what))? {
            Redo::Commit { xid, chunks, first_chunk, ops } => {
                self.note_xid(xid);
                let open = self.open.remove(&xid);
                self.held_bytes -= open.as_ref().map_or(0, Open::held_bytes);
                if first_chunk != Lsn::ZERO && first_chunk < self.needed {
                    return Ok(()); // P5: held until all its families were flushed above it
                }
                if chunks == 0 && open.is_none() && first_chunk == Lsn::ZERO {
                    return self.write(ops, lsn, None).map_err(damage);
                }
                let Open { course, held, mut families, .. } = open.unwrap_or_default();
                course.check_whole(chunks, first_chunk).map_err(damage)?;
                self.write(&held, lsn, Some(&mut families)).map_err(damage)?;
                self.write(ops, lsn, Some(&mut families)).map_err(damage)?;
                if chunks > 0 {
                    // The first piece of its first chunk lies nobody knows where, but in the log that is there.
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
            // P8: its rows are in the levels, or nowhere.
            Redo::Unlogged { cf } => self.families.note_used(cf),
            Redo::Time { wall_us, .. } => self.time_us = self.time_us.max(wall_us),
            Redo::Quorum(quorum) => {
                // What is carried may lie in the log still.
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

    /// Returns whether so much waits that the log should be surveyed (P6): once, for [`Replay::take_fates`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.held_bytes > self.held_bytes_max && self.fates.is_none()
    }

    /// Goes on knowing how the large transactions of the log end: what waits is applied, or dropped, and nothing waits any
    /// more.
    pub(crate) fn take_fates(&mut self, fates: Fates) -> Result<(), EngineError> {
        let lsn = self.position;
        let mut open = std::mem::take(&mut self.open);
        for open in open.values_mut() {
            if let Some(fate) = fates.get(&open.course.first_chunk) {
                // What is rolled back later is the end of it.
                open.truncate(fate.count_below(open.course.logged()));
                let written = self.write(&open.held, fate.csn, Some(&mut open.families));
                written.map_err(|what| EngineError::Corruption { lsn, what })?;
            }
            (open.held, open.ends) = (Vec::new(), Vec::new());
        }
        (self.open, self.held_bytes, self.fates) = (open, 0, Some(fates));
        Ok(())
    }

    /// Says that records are missing between the last one and the next: a transaction that is open here may have lost a
    /// chunk, or what it rolled back, so it counts as incomplete whatever comes.
    pub(crate) fn gap(&mut self) {
        for open in self.open.values_mut() {
            *open = Open::default();
            open.course.is_broken = true;
        }
        self.held_bytes = 0;
    }

    /// Has everything applied that came. Call it at the end of the log, before anybody reads.
    pub(crate) fn finish(self) -> Replayed {
        let Self { rows, xid_limit, incarnations, time_us, large, appliers, quorum, .. } = self;
        let (quorum, old_bytes) = (QuorumNotes::new(quorum), appliers.finish());
        Replayed { rows, xid_limit, incarnations, time_us, large, quorum, old_bytes }
    }

    fn note_xid(&mut self, xid: Xid) {
        self.xid_limit = self.xid_limit.max(Xid::new(xid.get().saturating_add(1)));
    }

    /// Takes a chunk: its operations wait, or are applied if it is known how the transaction ends.
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

    /// Has an operation applied that the log is needed for from `since` on, unless the levels have it (P5).
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

    /// Returns the position below which nothing was committed that comes later.
    fn settled(&self) -> Lsn {
        let relog = self.relog.filter(|_| !is_planted("re-log forgets deletions"));
        self.position.min(relog.unwrap_or(Lsn::MAX))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
#[path = "replay_tests.rs"]
mod tests;
