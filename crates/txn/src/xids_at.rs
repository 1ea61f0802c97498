//! `XidSnapshot` and `XidFate`: a snapshot in terms of xids, and the outcome of one transaction, for people and for
//! applications that keep xids in their rows.
//!
//! A snapshot is a position of the log, and a transaction is below it or not whatever its xid; so the list is made on
//! request, from the ring of xids. The database itself never reads it.
//!
//! # Invariants
//! - X1. The list shows an xid exactly if it ended before the list was made and, if it committed, below the snapshot.
//!   There is no list for a snapshot that is older than what the ring remembers.
//!
//! The limit of X1: a transaction counts as shown if it stayed open while the ring assigned all of its xids again,
//! committed above the snapshot, and was stamped before the list was made.
//!
//! Checked by `xids_at/tests.rs`.

use crate::{log::CommitLog, stamp::Word, txns::Txns, xid_map::XidMap};
use collie_base::{Lsn, Xid};
use collie_sync::ord;

/// How many of the oldest xids in the ring must not have committed above a snapshot for a list of it to be made.
const WITNESSES: u64 = 64;

/// A snapshot in terms of xids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XidSnapshot {
    /// Every xid below this one had ended.
    pub xmin: Xid,
    /// No xid from this one on had ended.
    pub xmax: Xid,
    /// The xids in between that had not ended, ascending.
    pub open: Vec<Xid>,
}

/// The outcome of a transaction, as far as it is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XidFate {
    /// It is open, or its commit is not yet visible to new snapshots.
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

/// Returns whether a snapshot at `at` lacks the effects of this transaction, if it had any.
fn is_open_at(word: Word, at: Lsn) -> bool {
    word.is_open() || word.committed_at().is_some_and(|csn| csn >= at)
}

impl XidMap {
    /// Returns the snapshot at `at` in terms of xids; `None` if it is too old.
    fn snapshot_at(&self, at: Lsn) -> Option<XidSnapshot> {
        // While this is held the floor stands still: slots from the floor on keep their owners.
        let _one = self.retiring.lock();
        let (floor, next) = (self.floor_xid().get(), self.next_xid().get());
        let slots = self.dense.len() as u64;
        let lowest = next.saturating_sub(slots).max(1).min(floor);
        // Below the floor all are finished, and the word has the position of the commit; one that was moved is in
        // `sparse`.
        let is_above = |xid: u64| {
            let word = Word::from_raw(self.dense[self.slot(xid)].load(ord!("XIDS_AT_SLOT", Acquire)));
            word.committed_at().is_some_and(|csn| csn >= at)
        };
        let mut open: Vec<u64> = (lowest..floor).filter(|xid| is_above(*xid)).collect();
        // A slot that was reused since says nothing of its former owner, which ended long before.
        let overtaken = self.next_xid().get().saturating_sub(slots);
        open.retain(|xid| *xid >= overtaken);
        if lowest > 1 && open.first().is_some_and(|first| *first < overtaken + WITNESSES) {
            return None;
        }
        for xid in floor..next {
            let desc = self.descs[self.slot(xid)].lock().clone().filter(|desc| desc.xid.get() == xid);
            // A transaction without a descriptor yet is open.
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
    /// Returns the snapshot at `at` in terms of xids; `None` if it is older than what the ring of xids remembers.
    ///
    /// Cost: one access to each used word of the ring, about a millisecond for a million.
    ///
    /// # Progress
    /// Blocks while xids are being retired, and keeps them from being retired until it returns.
    #[must_use]
    pub fn xid_snapshot(&self, at: Lsn) -> Option<XidSnapshot> {
        self.map.snapshot_at(at)
    }

    /// Returns the outcome of a transaction, as far as it is remembered. A commit counts once it is visible to new
    /// snapshots.
    #[must_use]
    pub fn xid_fate(&self, xid: Xid) -> XidFate {
        // The order matters: an xid that is assigned in between counts as in progress, not as a future one.
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
mod tests;
