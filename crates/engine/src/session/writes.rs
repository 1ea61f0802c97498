//! `Writes`: the versions and share locks of one open transaction.
//!
//! # Invariants
//! - W1. Versions and share locks are numbered together, in the order they came; an undo keeps those with the lowest
//!   numbers.
//! - W2. Share locks are released before the transaction is marked done, so that a transaction that finds one and waits
//!   is woken.

use std::collections::BTreeSet;
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_store::{Pending, ShareLock};
use collie_sync::mutant;
use collie_txn::{CommitLog, Txns, Unstamped, WriteSet};

use crate::EngineError;
use crate::families::Families;
use crate::gc::garbage::Garbage;
use crate::log::EngineLog;
use crate::log::txn_statuses::TxnStatuses;
use crate::shared::Shared;

/// The error for unlogged rows in families that are not flushed together: after a crash only a part of them might be
/// there.
pub(crate) const UNLOGGED_FAMILIES: EngineError = EngineError::InvalidArgument {
    what: "an unlogged transaction (Durability::Unlogged, or wal.enabled = false) writes to several families: write them one by one, \
           make them in one atomic group, or have them logged",
};

/// The versions and share locks of one open transaction, oldest first.
#[derive(Debug)]
pub(crate) struct Writes<L = EngineLog> {
    families: Arc<Families>,
    garbage: Arc<Garbage>,
    txns: Arc<Txns<L>>,
    entries: Vec<(CfId, Pending)>,
    /// Each with its number (W1).
    shares: Vec<(u64, ShareLock)>,
    /// Commits with more versions than this stamp them after they have returned.
    stamped_at_commit_max: usize,
}

impl Writes {
    /// Returns an empty write set for a session of this database.
    pub(crate) fn of(shared: &Shared) -> Self {
        let max = shared.fixed.stamped_at_commit_max;
        Self::new(&shared.families, &shared.garbage, &shared.txns, max)
    }
}

impl<L: CommitLog> Writes<L> {
    pub(crate) fn new(
        families: &Arc<Families>,
        garbage: &Arc<Garbage>,
        txns: &Arc<Txns<L>>,
        stamped_at_commit_max: usize,
    ) -> Self {
        let (families, garbage, txns) = (Arc::clone(families), Arc::clone(garbage), Arc::clone(txns));
        Self { families, garbage, txns, entries: Vec::new(), shares: Vec::new(), stamped_at_commit_max }
    }

    pub(crate) fn push(&mut self, cf: CfId, pending: Pending) {
        self.entries.push((cf, pending));
    }

    pub(crate) fn push_share(&mut self, lock: ShareLock) {
        self.shares.push((self.position(), lock));
    }

    fn release_shares_from(&mut self, position: u64) {
        while self.shares.last().is_some_and(|(number, _)| *number >= position) {
            let Some((_, lock)) = self.shares.pop() else { return };
            lock.release(&TxnStatuses(&self.txns));
        }
    }

    /// Marks the families of the written versions, locks excluded, as having rows that the log lacks; returns the
    /// highest one.
    ///
    /// # Errors
    /// [`UNLOGGED_FAMILIES`] if they are not flushed together.
    pub(crate) fn note_unlogged(&self) -> Result<Option<CfId>, EngineError> {
        let mut cfs = self.entries.iter().filter(|(_, pending)| pending.bytes() > 0).map(|(cf, _)| *cf);
        let Some(first) = cfs.next() else { return Ok(None) };
        let others: BTreeSet<CfId> = cfs.filter(|cf| *cf != first).collect();
        let all: Vec<CfId> = others.iter().copied().chain([first]).collect();
        if !others.is_empty() && !self.families.are_together(&all) {
            return Err(UNLOGGED_FAMILIES);
        }
        all.iter().filter_map(|cf| self.families.get(*cf)).for_each(|family| family.note_unlogged());
        Ok(all.into_iter().max())
    }

    /// Returns the keys of the versions from `position` on.
    pub(crate) fn keys_from(&self, position: u64) -> impl Iterator<Item = (CfId, &[u8])> {
        let shares = self.shares.iter().filter(|(number, _)| *number < position).count();
        let first = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(shares); // W1
        self.entries.iter().skip(first).map(|(cf, pending)| (*cf, pending.row().key()))
    }
}

/// Stamps versions, and queues the rows in which that leaves garbage.
fn stamp_all(entries: &mut [(CfId, Pending)], csn: Lsn, garbage: &Garbage) {
    if mutant!("QUEUED_BEFORE_STAMPED") {
        garbage.add(csn, entries);
    }
    entries.iter_mut().for_each(|(_, pending)| pending.stamp(csn));
    // Queued only after stamping: the collector removes nothing below an unstamped version, and does not look again.
    if !mutant!("QUEUED_BEFORE_STAMPED") {
        garbage.add(csn, entries);
    }
}

impl<L: CommitLog> WriteSet for Writes<L> {
    fn stamp(&mut self, csn: Lsn) {
        stamp_all(&mut self.entries, csn, &self.garbage);
        self.entries.clear();
        self.release_shares_from(0); // W2
    }

    fn hand_over(&mut self) -> Option<Unstamped> {
        let versions = self.entries.len();
        if versions <= self.stamped_at_commit_max {
            return None;
        }
        self.release_shares_from(0); // W2
        let (mut entries, garbage) = (std::mem::take(&mut self.entries), Arc::clone(&self.garbage));
        let versions = u64::try_from(versions).unwrap_or(u64::MAX);
        Some(Unstamped::new(versions, move |csn| stamp_all(&mut entries, csn, &garbage)))
    }

    fn undo_to(&mut self, position: u64) {
        self.release_shares_from(position);
        let kept = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(self.shares.len());
        while self.entries.len() > kept {
            let Some((cf, pending)) = self.entries.pop() else { return };
            match self.families.get(cf) {
                Some(family) => family.undo(pending),
                None => drop(pending), // a dropped family has no index to remove the row from
            }
        }
    }

    fn position(&self) -> u64 {
        u64::try_from(self.entries.len() + self.shares.len()).unwrap_or(u64::MAX)
    }
}
