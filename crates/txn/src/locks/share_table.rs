//! `ShareTable`: the holders of rows in shared strength (FOR SHARE, FOR KEY SHARE).
//!
//! Locks of exclusive strength are unfinished versions at the head of a row's chain and are not kept here. Neither is
//! the tag by which a row says that it has entries here, nor the handling of both together: the owner of the rows does
//! that, under the lock of the row's shard.
//!
//! # Invariants
//! - H1. A row is in the table exactly while it has a holder: it is removed with the entry of its last holder.
//! - H2. A holder is an unfinished transaction: its entries are removed before it is marked done, so that a waiter that
//!   finds one and announces itself to the holder is woken.
//! - H3. `act` runs under one shard and takes no lock of this crate except those that resolve a stamp (`waits.rs` Q1).

use crate::locks::waits::RowKey;
use collie_base::{CfId, LockStrength, Map, Xid};
use collie_sync::{Mutex, MutexGuard, Padded};
use std::{hash::BuildHasher, sync::Arc};

#[cfg(not(loom))]
const SHARDS: usize = 256;
#[cfg(loom)]
const SHARDS: usize = 1;

/// The holders of one row, each once, in order of arrival.
#[derive(Debug, Default)]
pub struct RowShares(Vec<(Xid, LockStrength)>);

impl RowShares {
    /// Returns the first holder other than `me` whose lock conflicts with `wanted`.
    #[must_use]
    pub fn in_the_way(&self, me: Xid, wanted: LockStrength) -> Option<Xid> {
        self.0.iter().find(|(xid, held)| *xid != me && held.conflicts_with(wanted)).map(|(xid, _)| *xid)
    }

    /// Returns the strength in which `holder` holds the row.
    #[must_use]
    pub fn held_by(&self, holder: Xid) -> Option<LockStrength> {
        self.0.iter().find(|(xid, _)| *xid == holder).map(|(_, held)| *held)
    }

    /// Sets the strength in which `holder` holds the row from now on; `None` if not at all.
    pub fn set(&mut self, holder: Xid, strength: Option<LockStrength>) {
        let at = self.0.iter().position(|(xid, _)| *xid == holder);
        match (at, strength) {
            (Some(at), Some(strength)) => self.0[at].1 = strength,
            (Some(at), None) => drop(self.0.remove(at)),
            (None, Some(strength)) => self.0.push((holder, strength)),
            (None, None) => {}
        }
    }

    /// Returns whether the row has no holder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type Shard = Map<CfId, Map<Arc<[u8]>, RowShares>>;

#[derive(Debug)]
pub(crate) struct ShareTable(Box<[Padded<Mutex<Shard>>]>);

impl ShareTable {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Padded::new(Mutex::new(Shard::default()))).collect())
    }

    fn shard(&self, cf: CfId, key: &[u8]) -> MutexGuard<'_, Shard> {
        let hash = Shard::default().hasher().hash_one((cf, key));
        let index = usize::try_from(hash % SHARDS as u64).expect("below SHARDS");
        self.0[index].lock()
    }

    /// Runs `act` with the holders of a row; no other call for the row overlaps. Allocates for the first holder only.
    pub(crate) fn with_row<R>(&self, cf: CfId, key: &[u8], act: impl FnOnce(&mut RowShares) -> R) -> R {
        let mut shard = self.shard(cf, key);
        if let Some(rows) = shard.get_mut(&cf)
            && let Some(shares) = rows.get_mut(key)
        {
            let outcome = act(shares);
            if shares.is_empty() {
                rows.remove(key);
            }
            return outcome;
        }
        let mut shares = RowShares::default();
        let outcome = act(&mut shares);
        if !shares.is_empty() {
            shard.entry(cf).or_default().insert(key.into(), shares);
        }
        outcome
    }

    /// Returns the holders of `row` whose locks conflict with `wanted`; for `None`, all of them.
    pub(crate) fn holders(&self, row: &RowKey, wanted: Option<LockStrength>) -> Vec<Xid> {
        let shard = self.shard(row.family(), row.key());
        let Some(shares) = shard.get(&row.family()).and_then(|rows| rows.get(row.key())) else { return Vec::new() };
        let conflicts = |held: &LockStrength| wanted.is_none_or(|wanted| wanted.conflicts_with(*held));
        shares.0.iter().filter(|(_, held)| conflicts(held)).map(|(xid, _)| *xid).collect()
    }

    /// Returns how many locks are held.
    pub(crate) fn len(&self) -> usize {
        self.0
            .iter()
            .map(|shard| shard.lock().values().flat_map(Map::values).map(|row| row.0.len()).sum::<usize>())
            .sum()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: an entry is found until it is removed, rows of other families and keys do not mix, and nothing is left.
    /// Method: the same key in two families, two keys in one; strengths up and down.
    #[test]
    fn entries_are_kept_by_row_and_go_with_their_last_holder() {
        let (table, one, two) = (ShareTable::new(), Xid::new(1), Xid::new(2));
        let (key_share, share) = (LockStrength::KeyShare, LockStrength::Share);
        let (cf, other) = (CfId::new(1), CfId::new(2));
        table.with_row(cf, b"a", |row| row.set(one, Some(key_share)));
        table.with_row(cf, b"a", |row| row.set(two, Some(share)));
        table.with_row(other, b"a", |row| row.set(two, Some(share)));
        let in_the_way = |cf, key: &[u8], wanted| table.with_row(cf, key, |row| row.in_the_way(one, wanted));
        assert_eq!(in_the_way(cf, b"a", LockStrength::NoKeyUpdate), Some(two));
        assert_eq!(in_the_way(cf, b"b", LockStrength::Update), None);
        assert_eq!(table.holders(&RowKey::new(cf, b"a"), None), [one, two]);
        assert_eq!(table.holders(&RowKey::new(cf, b"a"), Some(LockStrength::NoKeyUpdate)), [two]);
        table.with_row(cf, b"a", |row| row.set(two, Some(key_share)));
        assert_eq!(in_the_way(cf, b"a", LockStrength::NoKeyUpdate), None);
        assert_eq!(in_the_way(cf, b"a", LockStrength::Update), Some(two));
        assert_eq!(table.len(), 3);
        for (cf, xid) in [(cf, one), (cf, two), (other, two)] {
            table.with_row(cf, b"a", |row| row.set(xid, None));
        }
        assert_eq!(table.len(), 0);
    }
}
