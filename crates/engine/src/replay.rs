//! `Replay`: applies the log's records to empty families, once, at open.
//!
//! Log order is commit order, so the last write of a key wins. Operations of chunks wait for their transaction's COMMIT;
//! what has none by the end, or by the next INCARNATION, never happened.
//!
//! # Invariants
//! - P1. An operation is applied under its transaction's commit position, never its chunk's.
//! - P2. Nothing is applied of a transaction that ROLLBACK_TO voided, ABORT ended or nothing ended.
//! - P3. A record that cannot be read, and a commit whose chunks are not all there, stop the open: they are damage.
//! - P4. Of a log with holes (`gap`) only transactions are applied that lie whole beside them.
//! - P5. What was committed to a family below its last recorded flush is in its levels and is not applied, by the commit's
//!   position, strictly. Nor is anything that begins below where the log is needed from: the levels have it, or nobody does.

use std::sync::Arc;

use collie_base::codec::Reader;
use collie_base::{CfId, Lsn, Map, Xid};
use collie_store::Family;

use crate::EngineError;
use crate::families::Families;
use crate::large::{Large, LargeTransactions};
use crate::redo::{Incarnation, Op, Redo};

/// Applies records in log order.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    families: &'a Families,
    /// The family written last: the next operation is mostly of the same.
    family: Option<Arc<Family>>,
    open: Map<Xid, Open>,
    /// Where the log is needed from, and the last recorded flush of each family with levels (P5).
    needed: Lsn,
    flushed: Map<CfId, Lsn>,
    /// By how many bytes old versions grew: deletions that the levels lack.
    pub(crate) old_bytes: i64,
    /// Transactions with chunks in the log.
    pub(crate) large: LargeTransactions,
    /// Row writes applied.
    pub(crate) rows: u64,
    /// Every id handed out before is below.
    pub(crate) xid_limit: Xid,
    /// The histories that begin in the log, with their positions.
    pub(crate) incarnations: Vec<(Lsn, Incarnation)>,
}

/// What a transaction that is not over left in the log.
#[derive(Debug, Default)]
struct Open {
    first_chunk: Lsn,
    chunks: u64,
    /// Whether something of it may be in a hole of the log.
    broken: bool,
    /// Operations one after another; `ends` has the offset after each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(families: &'a Families) -> Self {
        let (open, xid_limit) = (Map::default(), Xid::new(1));
        Self {
            families,
            family: None,
            open,
            needed: Lsn::FIRST,
            flushed: Map::default(),
            old_bytes: 0,
            large: LargeTransactions::default(),
            rows: 0,
            xid_limit,
            incarnations: Vec::new(),
        }
    }

    /// For families that were loaded from levels (P5).
    pub(crate) fn over_levels(families: &'a Families, needed: Lsn, flushed: Map<CfId, Lsn>) -> Self {
        Self { needed, flushed, ..Self::new(families) }
    }

    /// Applies the record at `lsn`.
    pub(crate) fn apply(&mut self, lsn: Lsn, tag: u8, payload: &[u8]) -> Result<(), EngineError> {
        let damage = |what| EngineError::Corruption { lsn, what };
        match Redo::decode(tag, payload).map_err(|error| damage(error.what))? {
            Redo::Commit { xid, chunks, first_chunk, ops } => {
                self.note_xid(xid);
                let open = self.open.remove(&xid).unwrap_or_default();
                if first_chunk != Lsn::ZERO && first_chunk < self.needed {
                    return Ok(()); // P5: held until all its families were flushed above it
                }
                if open.broken || (open.chunks, open.first_chunk) != (chunks, first_chunk) {
                    return Err(damage("a transaction of which a part is missing"));
                }
                let mut families = Vec::new();
                self.write(&open.bytes, lsn, &mut families).map_err(damage)?;
                self.write(ops, lsn, &mut families).map_err(damage)?;
                if chunks > 0 {
                    // The first piece of its first chunk lies nobody knows where, but in the log that is there.
                    self.large.add(Large { since: self.needed, first_chunk, csn: lsn, families });
                }
            }
            Redo::Chunk { xid, ops } => {
                self.note_xid(xid);
                let open = self.open.entry(xid).or_default();
                if open.chunks == 0 {
                    open.first_chunk = lsn;
                }
                open.chunks += 1;
                let mut reader = Reader::new(ops);
                while !reader.is_empty() {
                    let before = reader.rest();
                    let op = Op::decode(&mut reader).map_err(|error| damage(error.what))?;
                    self.families.note_used(op.cf);
                    open.bytes.extend_from_slice(&before[..before.len() - reader.rest().len()]);
                    open.ends.push(open.bytes.len());
                }
            }
            Redo::Abort { xid } => {
                self.note_xid(xid);
                self.open.remove(&xid);
            }
            Redo::RollbackTo { xid, first_void } => {
                let open = self.open.entry(xid).or_default();
                let kept = usize::try_from(first_void).unwrap_or(usize::MAX);
                if open.broken {
                    return Ok(());
                }
                if kept > open.ends.len() && self.needed > Lsn::FIRST {
                    open.broken = true; // what it goes back to was in log that is gone
                    return Ok(());
                }
                if kept > open.ends.len() {
                    return Err(damage("a rollback to a place that is not in the log"));
                }
                open.ends.truncate(kept);
                open.bytes.truncate(open.ends.last().copied().unwrap_or(0));
            }
            Redo::XidLimit { limit } => self.xid_limit = self.xid_limit.max(limit),
            Redo::Incarnation(incarnation) => {
                self.open.clear();
                self.incarnations.push((lsn, incarnation));
            }
        }
        Ok(())
    }

    /// Says that records are missing between the last one and the next: a transaction that is open here may have lost a
    /// chunk, or what it rolled back, so it counts as incomplete whatever comes.
    pub(crate) fn gap(&mut self) {
        for open in self.open.values_mut() {
            (open.broken, open.bytes, open.ends) = (true, Vec::new(), Vec::new());
        }
    }

    fn note_xid(&mut self, xid: Xid) {
        self.xid_limit = self.xid_limit.max(Xid::new(xid.get().saturating_add(1)));
    }

    /// Applies operations committed at `csn`, and adds their families to `families`.
    fn write(&mut self, ops: &[u8], csn: Lsn, families: &mut Vec<CfId>) -> Result<(), &'static str> {
        let mut reader = Reader::new(ops);
        while !reader.is_empty() {
            let op = Op::decode(&mut reader).map_err(|error| error.what)?;
            self.families.note_used(op.cf);
            if families.last() != Some(&op.cf) && !families.contains(&op.cf) {
                families.push(op.cf);
            }
            if csn < self.needed || self.flushed.get(&op.cf).is_some_and(|flushed| csn < *flushed) {
                continue; // P5
            }
            let family = match &self.family {
                Some(family) if family.id() == op.cf => family,
                _ => self.family.insert(self.families.get_or_make(op.cf)),
            };
            self.old_bytes += family.replay(op.key, op.value, csn, csn);
            self.rows += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redo::{encode_integers, tag};
    use collie_base::{CfId, HistoryId, Term};

    fn ops(header: &[u64], keys: &[u8]) -> Vec<u8> {
        let mut out = encode_integers(header);
        keys.iter().for_each(|key| Op { cf: CfId::new(3), key: &[*key], value: Some(b"v") }.encode(&mut out));
        out
    }

    fn rows(records: &[(u64, u8, Vec<u8>)]) -> Result<u64, EngineError> {
        let families = Families::new();
        let mut replay = Replay::new(&families);
        for (lsn, tag, payload) in records {
            replay.apply(Lsn::new(*lsn), *tag, payload)?;
        }
        assert_eq!(families.create().get(), 4, "ids in the log are used up, also those of unfinished transactions");
        Ok(families.count().1)
    }

    /// Goal: P1 to P3. Method: small logs with chunks that are committed, aborted, voided, unfinished, missing.
    #[test]
    fn chunks_count_only_with_their_commit_and_all_of_them() {
        let chunk = |lsn, keys: &[u8]| (lsn, tag::CHUNK, ops(&[7], keys));
        let commit = |lsn, count, first, keys: &[u8]| (lsn, tag::COMMIT, ops(&[7, count, first], keys));
        assert_eq!(rows(&[chunk(5000, b"ab"), chunk(6000, b"cd"), commit(7000, 2, 5000, b"e")]).unwrap(), 5);
        assert_eq!(rows(&[chunk(5000, b"ab")]).unwrap(), 0);
        assert_eq!(rows(&[chunk(5000, b"ab"), (6000, tag::ABORT, encode_integers(&[7]))]).unwrap(), 0);
        let voided = (6000, tag::ROLLBACK_TO, encode_integers(&[7, 1]));
        assert_eq!(rows(&[chunk(5000, b"ab"), voided, commit(7000, 1, 5000, b"e")]).unwrap(), 2);
        let incarnation = Incarnation {
            term: Term::new(0),
            history: HistoryId::new(2),
            previous_term: Term::new(0),
            previous_history: HistoryId::new(1),
            reason: 1,
            wall_us: 0,
        };
        let reborn = (6000, tag::INCARNATION, incarnation.encode());
        assert_eq!(rows(&[chunk(5000, b"ab"), reborn, commit(7000, 0, 0, b"e")]).unwrap(), 1, "another's chunks");
        for broken in [vec![commit(7000, 1, 5000, b"e")], vec![chunk(5000, b"a"), commit(7000, 2, 5000, b"e")]] {
            assert!(matches!(rows(&broken), Err(EngineError::Corruption { .. })));
        }
    }
}
