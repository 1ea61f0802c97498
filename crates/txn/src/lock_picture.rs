//! `LockPicture`: who holds which locks and who waits for whom, for people and for views.
//!
//! Not one instant: every shard is looked at by itself, so that nobody is held up for the whole picture. A wait that it
//! shows was there, together with everybody in its way.
//!
//! # Invariants
//! - V1. Who is in the way of a waiter is what the deadlock detector follows (`deadlock::edges`), read under the mutex
//!   of all waits: an owner whose wait ended in any way has nobody in its way.
//! - V2. Everything comes in an order that does not depend on hashing.
//!
//! Checked by `lock_picture_tests`.

use crate::{
    deadlock,
    desc::{OWNER_BITS, OwnerId},
    log::CommitLog,
    table_lock::{LockTarget, TableLockMode},
    txns::Txns,
    waits::{Locks, RowKey, WaitFor, Waits},
};
use collie_base::Xid;
use std::fmt;

/// A transaction of a session, as locks know it: what PostgreSQL calls a virtual transaction id, and prints the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockOwner {
    /// The session's slot, its own for as long as it is open ([`CancelHandle::slot`](crate::CancelHandle::slot)).
    pub slot: usize,
    /// Which of the transactions that this slot has had; 0 for what the session holds for itself.
    pub transaction: u64,
}

impl LockOwner {
    pub(crate) fn of(id: OwnerId) -> Self {
        let transaction = id.0 & ((1 << OWNER_BITS) - 1);
        Self { slot: usize::try_from(id.0 >> OWNER_BITS).expect("a slot number"), transaction }
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.slot, self.transaction)
    }
}

/// A table or advisory lock that is held.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockHeld {
    /// What is locked.
    pub target: LockTarget,
    /// By whom.
    pub owner: LockOwner,
    /// How.
    pub mode: TableLockMode,
}

/// What somebody waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A row that others changed or locked.
    Row(RowKey),
    /// A table or advisory lock.
    Table(LockTarget, TableLockMode),
}

/// One who is in the way of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InTheWay {
    /// It only came earlier: it waits in the same queue.
    pub queued: bool,
    /// Who.
    pub owner: LockOwner,
}

/// A wait, and everybody in its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockWait {
    /// Who waits.
    pub owner: LockOwner,
    /// For what.
    pub awaited: Awaited,
    /// For whom: holders first.
    pub in_the_way: Vec<InTheWay>,
}

/// Every lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockPicture {
    /// Table and advisory locks held.
    pub held: Vec<LockHeld>,
    /// The xids of open transactions and their owners. To wait for a row is to wait for one of these to end.
    pub xids: Vec<(Xid, LockOwner)>,
    /// The waits.
    pub waits: Vec<LockWait>,
}

impl Locks {
    fn wait_of(&self, waits: &Waits, id: OwnerId) -> Option<LockWait> {
        let parked = waits.waiting.get(&id).filter(|parked| parked.waiter.is_open())?;
        let awaited = match &parked.for_what {
            WaitFor::Row(row) => Awaited::Row(row.clone()),
            WaitFor::Table(target, mode) => Awaited::Table(*target, *mode),
        };
        let mut in_the_way: Vec<InTheWay> = deadlock::edges(self, waits, id)
            .into_iter()
            .map(|edge| InTheWay { queued: edge.soft, owner: LockOwner::of(edge.to) })
            .collect();
        in_the_way.sort_unstable();
        Some(LockWait { owner: LockOwner::of(id), awaited, in_the_way })
    }

    fn waits_now(&self) -> Vec<LockWait> {
        let waits = self.waits.lock();
        let mut ids: Vec<OwnerId> = waits.waiting.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.wait_of(&waits, id)).collect()
    }

    fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
        let waits = self.waits.lock();
        let Some(id) = waits.waiting.keys().copied().find(|id| LockOwner::of(*id).slot == slot) else {
            return Vec::new();
        };
        let wait = self.wait_of(&waits, id);
        let mut slots: Vec<usize> =
            wait.into_iter().flat_map(|wait| wait.in_the_way).map(|one| one.owner.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

impl<L: CommitLog> Txns<L> {
    /// Returns every lock that is held or waited for.
    ///
    /// Cost: one look at each lock, one at each xid from the oldest open transaction on, the ring's size at most.
    ///
    /// # Progress
    /// Blocks on each shard's mutex in turn, and on the mutex of all waits; holds none for longer than its own part.
    #[must_use]
    pub fn lock_picture(&self) -> LockPicture {
        let mut held = self.locks.tables.held();
        held.sort_unstable();
        let open = self.map.open().into_iter();
        let xids = open.map(|desc| (desc.xid, LockOwner::of(desc.owner))).collect();
        LockPicture { held, xids, waits: self.locks.waits_now() }
    }

    /// Returns the slots of the sessions that the session in `slot` waits for: holders, and those before it in the queue.
    ///
    /// Cost: one look at each waiting session.
    ///
    /// # Progress
    /// Blocks on the mutex of all waits and on one shard's.
    #[must_use]
    pub fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
        self.locks.slots_in_the_way(slot)
    }
}
