//! `Locks`: all waits of sessions for each other. Queues change and deadlocks are found under its one mutex.
//!
//! A row lock is the unfinished version at the head of the row's chain, which is not kept here, or an entry of the
//! table of share locks (`share_table.rs`). Only a session that found a row or a table taken comes here, and it gives
//! up its thread anyway, so one mutex suffices.
//!
//! # Invariants
//! - Q1. Order of locks: `waits`, then one shard of the table locks or of the share locks, then one waiter. Wakers run
//!   under none of them.
//! - Q2. Every open waiter is in exactly one queue and in `waiting`; the first entry of a row's queue waits for an
//!   unfinished holder, or was woken and is trying. A session that leaves a queue wakes its first entry if no holder is
//!   in its way.
//! - Q3. A waiter announces itself to the holder (`Desc::announce_waiter`) under `waits` before it parks; either the
//!   holder's end sees that and comes here, or the announcement sees the end.
//! - Q4. There is no cycle of hard edges when a waiter parks: the detector runs in the same critical section of
//!   `waits`.

use crate::{
    desc::{Desc, OwnerId},
    error::TxnError,
    locks::cancel::Owner,
    locks::deadlock,
    locks::row_queue::RowQueue,
    locks::share_table::ShareTable,
    locks::table_lock::{LockTarget, TableLockMode, TableShards},
    locks::wait::{Wait, Waiter, Wakes},
    xid_map::XidMap,
};
use collie_base::{CfId, LockStrength, Map, Xid};
use collie_sync::{Mutex, atomic::Ordering};
use std::sync::Arc;

/// The name of a row: its family and its key. Opaque here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RowKey {
    cf: CfId,
    key: Arc<[u8]>,
}

impl RowKey {
    /// Returns the name of the row with `key` in family `cf`.
    #[must_use]
    pub fn new(cf: CfId, key: &[u8]) -> Self {
        Self { cf, key: key.into() }
    }

    /// Returns the family.
    #[must_use]
    pub fn family(&self) -> CfId {
        self.cf
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// A row that a session wants, and the holder in its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowLockRequest {
    /// The row.
    pub row: RowKey,
    /// An unfinished transaction that wrote the row or holds it, perhaps as one of several.
    pub holder: Xid,
    /// The strength in which the row is wanted.
    pub strength: LockStrength,
}

/// An obstacle, for which [`Session::wait`](crate::Session::wait) waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Blocker {
    /// A transaction that wrote or locked a row and has not ended.
    Row(RowLockRequest),
    /// A table or advisory lock that conflicts with a held or an earlier requested one.
    Table {
        /// The object to be locked.
        target: LockTarget,
        /// The mode.
        mode: TableLockMode,
    },
}

/// The object of an owner's wait, as its queue identifies it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WaitFor {
    Row(RowKey),
    Table(LockTarget, TableLockMode),
}

/// An owner that waits.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) for_what: WaitFor,
    pub(crate) waiter: Arc<Waiter>,
}

/// The state of all waits, under one mutex.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) rows: Map<RowKey, RowQueue>,
    /// The rows in whose queues a waiter waits for this holder.
    pub(crate) rows_held: Map<Xid, Vec<RowKey>>,
    /// The wait of each owner with an open waiter.
    pub(crate) waiting: Map<OwnerId, Parked>,
    /// The row queue in which each owner has a place, parked or trying.
    pub(crate) places: Map<OwnerId, RowKey>,
}

/// Row waits and table locks of a database.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) map: Arc<XidMap>,
    pub(crate) tables: TableShards,
    pub(crate) shares: ShareTable,
    pub(crate) waits: Mutex<Waits>,
}

impl Locks {
    pub(crate) fn new(map: Arc<XidMap>) -> Self {
        Self { map, tables: TableShards::new(), shares: ShareTable::new(), waits: Mutex::new(Waits::default()) }
    }

    /// Puts `id` into the queue of `blocker` and returns its wait. Does not wait itself.
    pub(crate) fn wait(
        &self,
        owner: &Arc<Owner>,
        id: OwnerId,
        blocker: &Blocker,
        still_held: impl FnOnce() -> bool,
    ) -> Wait {
        let waiter = Arc::new(Waiter::default());
        let mut wakes = Wakes::default();
        let for_what = match blocker {
            Blocker::Row(wish) => WaitFor::Row(wish.row.clone()),
            Blocker::Table { target, mode } => WaitFor::Table(*target, *mode),
        };
        let mut ahead = 0;
        {
            let mut waits = self.waits.lock();
            if let Some(Parked { for_what: old, waiter }) = waits.waiting.get(&id).cloned() {
                // An owner has one wait: an older one that was kept ends here, with its place unless the place is the
                // same.
                waiter.complete(Err(TxnError::Cancelled), &mut wakes);
                if old != for_what {
                    self.leave(&mut waits, id, &old, &mut wakes);
                }
            }
            let parked = match blocker {
                Blocker::Row(wish) => {
                    if waits.places.get(&id).is_some_and(|place| *place != wish.row) {
                        self.leave_place(&mut waits, id, &mut wakes);
                    }
                    owner.queued.store(true, Ordering::Relaxed);
                    let has_place = usize::from(waits.places.contains_key(&id)); // in this queue, by now
                    ahead = waits.rows.get(&wish.row).map_or(0, |queue| queue.entries.len() - has_place);
                    self.join_row(&mut waits, id, wish, &waiter, still_held)
                }
                Blocker::Table { target, mode } => {
                    self.leave_place(&mut waits, id, &mut wakes);
                    self.join_table(&mut waits, id, *target, *mode, &waiter, &mut wakes)
                }
            };
            // The cancel state and the detector come after the queue entry: neither can miss this wait (Q4).
            if parked {
                waits.waiting.insert(id, Parked { for_what: for_what.clone(), waiter: Arc::clone(&waiter) });
                owner.begin_wait(&waiter, &mut wakes);
                self.prevent_deadlock(&mut waits, id, blocker, &mut wakes);
            } else {
                waits.waiting.remove(&id);
                waiter.complete(Ok(()), &mut wakes);
            }
        }
        wakes.run();
        Wait::new(Arc::clone(owner), id, waiter, for_what, ahead)
    }

    /// Ends the wait of `id`, which has just begun to wait for `blocker`, if it closes a cycle.
    fn prevent_deadlock(&self, waits: &mut Waits, id: OwnerId, blocker: &Blocker, wakes: &mut Wakes) {
        // Every waiter of a row's queue finally waits for a holder of the row: holders that do not wait close no cycle.
        if let Blocker::Row(wish) = blocker
            && !self.holders_met(waits, &wish.row).iter().any(|holder| self.is_parked(waits, *holder))
        {
            return;
        }
        if let Err(transactions) = deadlock::prevent(self, waits, id, wakes)
            && let Some(Parked { for_what, waiter }) = waits.waiting.get(&id).cloned()
        {
            waiter.complete(Err(TxnError::Deadlock { transactions }), wakes);
            self.leave(waits, id, &for_what, wakes);
        }
    }

    /// Returns the holders of `row` for which a waiter of its queue waits, or may have to.
    fn holders_met(&self, waits: &Waits, row: &RowKey) -> Vec<Xid> {
        let mut holders = self.shares.holders(row, None);
        for holder in waits.rows.get(row).into_iter().flat_map(|queue| &queue.entries).filter_map(|entry| entry.holder)
        {
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
        holders
    }

    fn is_parked(&self, waits: &Waits, holder: Xid) -> bool {
        self.map.desc(holder).is_some_and(|desc| waits.waiting.contains_key(&desc.owner))
    }

    /// Takes an owner whose wait ended without a grant out of its queue, and hands on.
    pub(crate) fn abandon(&self, id: OwnerId, for_what: &WaitFor, waiter: &Arc<Waiter>) {
        let mut wakes = Wakes::default();
        {
            let mut waits = self.waits.lock();
            // The session may already wait elsewhere; then this wait left its queue earlier.
            if waits.waiting.get(&id).is_none_or(|parked| Arc::ptr_eq(&parked.waiter, waiter)) {
                self.leave(&mut waits, id, for_what, &mut wakes);
            }
        }
        wakes.run();
    }

    fn leave(&self, waits: &mut Waits, id: OwnerId, for_what: &WaitFor, wakes: &mut Wakes) {
        waits.waiting.remove(&id);
        match for_what {
            WaitFor::Row(row) if waits.places.get(&id) == Some(row) => self.leave_place(waits, id, wakes),
            WaitFor::Row(_) => {}
            WaitFor::Table(target, _) => self.leave_table_queue(waits, id, *target, wakes),
        }
    }

    /// Gives up the place of an owner in a row's queue, if it has one, and hands on.
    pub(crate) fn leave_queue(&self, id: OwnerId) {
        let mut wakes = Wakes::default();
        self.leave_place(&mut self.waits.lock(), id, &mut wakes);
        wakes.run();
    }

    /// Like [`Locks::leave_queue`], for an owner that took `row`: conflicting waiters wait for it from now on.
    pub(crate) fn leave_queue_as_holder(&self, id: OwnerId, row: &RowKey, holder: &Desc, strength: LockStrength) {
        let mut wakes = Wakes::default();
        self.hand_place_to(&mut self.waits.lock(), id, row, holder, strength, &mut wakes);
        wakes.run();
    }

    /// Wakes the waiters for `holder` whose turn it is, after the end of the holder or a partial rollback.
    pub(crate) fn release_rows(&self, holder: Xid) {
        let mut wakes = Wakes::default();
        self.wake_rows_of(&mut self.waits.lock(), holder, &mut wakes);
        wakes.run();
    }

    /// Returns how many owners wait.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waits.lock().waiting.len()
    }

    /// Returns whether this owner waits.
    pub(crate) fn is_waiting(&self, id: OwnerId) -> bool {
        self.waits.lock().waiting.contains_key(&id)
    }
}
