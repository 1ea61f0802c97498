//! `LargeTransactions`: transactions with chunks in the log, and from which position on the log is needed for them.
//!
//! # Invariants
//! - T1. A transaction is noted before its first chunk is appended, at a position that the log had reached by then:
//!   `since`.
//! - T2. From its commit on it is kept under its commit position until every family that it wrote to is flushed or
//!   re-logged above that: a flush between its first chunk and its commit has nothing of it, although its chunks
//!   are below.
//! - T3. It is always in one of the two lists: the commit moves it in one step.
//! - T4. The log is never cut inside its first chunk, which may have several pieces: replay decides by the position
//!   of that chunk whether all of the transaction is there, and the position is that of the last piece.
//!
//! So either all records of a transaction are in the retained log, or the position of its first chunk is below the
//! log and none of its operations is needed.

use collie_base::{CfId, Lsn, Map, Xid};
use parking_lot::Mutex;

use crate::planted::is_planted;

/// A large transaction that is committed.
#[derive(Debug)]
pub(crate) struct Large {
    /// At or below every record of it.
    pub(crate) since: Lsn,
    /// Position of the last piece of its first chunk, near the end of that chunk.
    pub(crate) first_chunk: Lsn,
    pub(crate) csn: Lsn,
    pub(crate) families: Vec<CfId>,
}

#[derive(Debug, Default)]
struct Inner {
    open: Map<Xid, Lsn>,
    committed: Vec<Large>,
}

/// Transactions with chunks in the log.
#[derive(Debug, Default)]
pub(crate) struct LargeTransactions(Mutex<Inner>);

impl LargeTransactions {
    /// Notes that the first chunk of `xid` will be at or above `since` (T1).
    pub(crate) fn begin(&self, xid: Xid, since: Lsn) {
        self.0.lock().open.entry(xid).or_insert(since);
    }

    /// Notes that `xid` is committed at `csn` (T2, T3).
    pub(crate) fn commit(&self, xid: Xid, first_chunk: Lsn, csn: Lsn, families: &[CfId]) {
        let mut inner = self.0.lock();
        if let Some(since) = inner.open.remove(&xid) {
            inner.committed.push(Large { since, first_chunk, csn, families: families.to_vec() });
        }
    }

    /// Adds a transaction that an opening has found in the log.
    pub(crate) fn add(&self, large: Large) {
        self.0.lock().committed.push(large);
    }

    /// Notes that no operation of `xid` counts.
    pub(crate) fn abort(&self, xid: Xid) {
        self.0.lock().open.remove(&xid);
    }

    /// Returns the position from which the log is needed, if it is needed from `lowest` on for other reasons.
    /// `flushed` returns the position below which commits to a family are flushed or re-logged; `Lsn::MAX`: nothing
    /// of the family needs the log.
    pub(crate) fn lower(&self, lowest: Lsn, flushed: impl Fn(CfId) -> Lsn) -> Lsn {
        if is_planted("large transactions hold no log") {
            return lowest;
        }
        let mut inner = self.0.lock();
        let Inner { open, committed } = &mut *inner;
        let is_needed = |large: &Large| large.families.iter().any(|cf| flushed(*cf) <= large.csn);
        let needed = committed.iter().filter(|large| is_needed(large)).map(|large| large.since);
        let mut lowest = open.values().copied().chain(needed).fold(lowest, Lsn::min);
        // T4: the lowered position may be inside the first chunk of another transaction.
        while let Some(cut) = committed.iter().find(|large| large.since < lowest && lowest <= large.first_chunk) {
            lowest = cut.since;
        }
        lowest
    }

    /// Does the same as [`LargeTransactions::lower`] for committed transactions alone, which are those that flushes
    /// can release.
    pub(crate) fn lower_of_committed(&self, lowest: Lsn, flushed: impl Fn(CfId) -> Lsn) -> Lsn {
        let inner = self.0.lock();
        let needed = inner.committed.iter().filter(|large| large.families.iter().any(|cf| flushed(*cf) <= large.csn));
        needed.map(|large| large.since).fold(lowest, Lsn::min)
    }

    /// Forgets the transactions whose first chunk is below `start`, where the log starts: no cut can reach it any
    /// more.
    pub(crate) fn forget_below(&self, start: Lsn) {
        self.0.lock().committed.retain(|large| large.first_chunk >= start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: T1, T2: a transaction is kept until the last of its families is flushed above its commit, at exactly
    /// that position. Method: a transaction that is open, committed, and flushed family by family.
    #[test]
    fn large_transaction_is_held_until_all_its_families_are_flushed_above_its_commit() {
        let large = LargeTransactions::default();
        let (a, b, xid, lowest) = (CfId::new(1), CfId::new(2), Xid::new(7), Lsn::new(9000));
        large.begin(xid, Lsn::new(5000));
        large.begin(xid, Lsn::new(6000));
        assert_eq!(large.lower(lowest, |_| Lsn::MAX), Lsn::new(5000), "open");
        assert_eq!(large.lower_of_committed(lowest, |_| Lsn::MAX), lowest, "no flush gives that up");
        large.commit(xid, Lsn::new(5500), Lsn::new(7000), &[a, b]);
        assert_eq!(large.lower(lowest, |_| Lsn::new(7000)), Lsn::new(5000), "a flush at its commit has nothing of it");
        assert_eq!(large.lower_of_committed(lowest, |_| Lsn::new(7000)), Lsn::new(5000));
        let one = |cf| Lsn::new(if cf == a { 7001 } else { 6500 });
        assert_eq!(large.lower(lowest, one), Lsn::new(5000));
        assert_eq!(large.lower(Lsn::new(4000), one), Lsn::new(4000));
        assert_eq!(large.lower(lowest, |_| Lsn::new(7001)), lowest);
        large.begin(Xid::new(8), Lsn::new(8000));
        large.abort(Xid::new(8));
        large.forget_below(Lsn::new(5501));
        assert_eq!(large.lower(lowest, |_| Lsn::ZERO), lowest);
    }

    /// Goal: T4: the log is never cut inside a first chunk, and log below a first chunk is cut. Method: two whose
    /// first chunks overlap, and each kind of position.
    #[test]
    fn log_is_not_cut_inside_a_first_chunk() {
        let at = |lowest: u64| {
            let large = LargeTransactions::default();
            for (since, first_chunk) in [(5000, 5500), (5400, 5900)] {
                let (since, first_chunk, csn) = (Lsn::new(since), Lsn::new(first_chunk), Lsn::new(7000));
                large.add(Large { since, first_chunk, csn, families: vec![CfId::new(1)] });
            }
            large.lower(Lsn::new(lowest), |_| Lsn::MAX).get()
        };
        assert_eq!([at(4999), at(5000), at(5001), at(5500)], [4999, 5000, 5000, 5000]);
        assert_eq!(
            [at(5600), at(5900), at(5901)],
            [5000, 5000, 5901],
            "into the second, and from there into the first"
        );
    }
}
