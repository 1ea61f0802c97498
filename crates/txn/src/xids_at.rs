//! `XidSnapshot` and `XidFate`: a snapshot told in xids, and how one transaction ended, for people and for applications that
//! keep xids in their rows.
//!
//! A snapshot is a position of the log, and a transaction is below it or not whatever its xid; so the list is made when it
//! is asked for, from the ring of xids. Nothing of the database's own reads it.
//!
//! # Invariants
//! - X1. An xid is shown by the list exactly if it ended before the list was made, and, if it committed, below the snapshot.
//!   Of a snapshot that is older than what the ring remembers there is no list.
//!
//! The limit of X1: a transaction that stayed open while the ring gave out all of its xids anew, committed above the
//! snapshot and was stamped before the list was made, counts as shown.
//!
//! Checked by `xids_at_tests.rs`.

use crate::{log::CommitLog, stamp::Word, txns::Txns, xid_map::XidMap};
use collie_base::{Lsn, Xid};
use collie_sync::ord;

/// How many of the oldest xids that the ring remembers must not have committed above a snapshot that is told in xids.
const WITNESSES: u64 = 64;

/// A snapshot, told in xids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XidSnapshot {
    /// Every xid below had ended.
    pub xmin: Xid,
    /// No xid from here on had.
    pub xmax: Xid,
    /// The xids between that had not, ascending.
    pub open: Vec<Xid>,
}

/// How a transaction ended, as far as it is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XidFate {
    /// It is open, or its commit is not visible to everybody yet.
    InProgress,
    /// It committed.
    Committed,
    /// It rolled back.
    Aborted,
    /// It ended too long ago, or before the database was opened.
    Forgotten,
    /// No transaction has had this xid.
    Future,
}

/// Whether a snapshot at `at` lacks what this transaction did, if it did anything.
fn is_open_at(word: Word, at: Lsn) -> bool {
    word.is_open() || word.committed_at().is_some_and(|csn| csn >= at)
}

impl XidMap {
    /// Tells the snapshot at `at` in xids; `None` when it is too old.
    fn snapshot_at(&self, at: Lsn) -> Option<XidSnapshot> {
        // While it is held the floor stands still: slots from the floor on keep their owners.
        let _one = self.retiring.lock();
        let (floor, next) = (self.floor_xid().get(), self.next_xid().get());
        let slots = self.dense.len() as u64;
        let lowest = next.saturating_sub(slots).max(1).min(floor);
        // Below the floor all are finished, and the word says where they committed; one that was moved is in `sparse`.
        let is_above = |xid: u64| {
            let word = Word::from_raw(self.dense[self.slot(xid)].load(ord!("XIDS_AT_SLOT", Acquire)));
            word.committed_at().is_some_and(|csn| csn >= at)
        };
        let mut open: Vec<u64> = (lowest..floor).filter(|xid| is_above(*xid)).collect();
        // A slot that was given out again meanwhile says nothing of its former owner, which ended long before.
        let overtaken = self.next_xid().get().saturating_sub(slots);
        open.retain(|xid| *xid >= overtaken);
        if lowest > 1 && open.first().is_some_and(|first| *first < overtaken + WITNESSES) {
            return None;
        }
        for xid in floor..next {
            let desc = self.descs[self.slot(xid)].lock().clone().filter(|desc| desc.xid.get() == xid);
            // One that is not installed yet is open.
            if desc.is_none_or(|desc| is_open_at(desc.state(), at)) {
                open.push(xid);
            }
        }
        let lapped = self.sparse.read();
        open.extend(lapped.values().filter(|desc| is_open_at(desc.state(), at)).map(|desc| desc.xid.get()));
        drop(lapped);
        open.sort_unstable();
        open.dedup();
        let mut xmax = next;
        while open.last().is_some_and(|last| last + 1 == xmax) {
            open.pop();
            xmax -= 1;
        }
        let xmin = open.first().copied().unwrap_or(xmax);
        Some(XidSnapshot { xmin: Xid::new(xmin), xmax: Xid::new(xmax), open: open.into_iter().map(Xid::new).collect() })
    }
}

impl<L: CommitLog> Txns<L> {
    /// Tells the snapshot at `at` in xids; `None` when it is older than the ring of xids remembers.
    ///
    /// Cost: a look at each word of the ring that was used, about a millisecond for a million.
    ///
    /// # Progress
    /// Keeps xids from being retired meanwhile.
    #[must_use]
    pub fn xid_snapshot(&self, at: Lsn) -> Option<XidSnapshot> {
        self.map.snapshot_at(at)
    }

    /// Returns how a transaction ended, as far as it is remembered. A commit counts once it is visible to new snapshots.
    #[must_use]
    pub fn xid_fate(&self, xid: Xid) -> XidFate {
        // In this order: whoever is seen to be given out is not taken for one of the future.
        let desc = self.map.desc(xid);
        let Some(desc) = desc else {
            return match xid.get() {
                number if number >= self.map.next_xid().get() => XidFate::Future,
                number if number >= self.map.floor_xid().get() => XidFate::InProgress,
                _ => XidFate::Forgotten,
            };
        };
        let state = desc.state();
        match state.committed_at() {
            Some(csn) if csn < self.log().boundary() => XidFate::Committed,
            Some(_) => XidFate::InProgress,
            None if state.is_open() => XidFate::InProgress,
            None if desc.committed_nothing() => XidFate::Committed,
            None => XidFate::Aborted,
        }
    }
}

#[cfg(test)]
#[cfg(all(not(loom), not(shuttle)))]
#[path = "xids_at_tests.rs"]
mod tests;
