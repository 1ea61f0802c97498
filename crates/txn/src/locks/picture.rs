//! `LockPicture`: the locks that are held and the waits for them, for people and for views.
//!
//! It does not show one instant: each shard is read by itself, so that no session waits for the whole picture. Each
//! wait that it shows existed, together with all owners in its way.
//!
//! # Invariants
//! - V1. The owners in the way of a waiter are those that the deadlock detector follows (`deadlock::edges`), read under
//!   the mutex of all waits: an owner whose wait ended in any way has no owner in its way.
//! - V2. Everything comes in an order that does not depend on hashing.
//!
//! Checked by `tests/picture.rs`.

use crate::{
    desc::{OWNER_BITS, OwnerId},
    locks::deadlock,
    locks::table_lock::{LockTarget, TableLockMode},
    locks::waits::{Locks, RowKey, WaitFor, Waits},
};
use collie_base::Xid;
use std::fmt;

/// A transaction of a session, as locks identify it: PostgreSQL's virtual transaction id, in the same format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockOwner {
    /// The session's slot, which it keeps while it is open ([`CancelHandle::slot`](crate::CancelHandle::slot)).
    pub slot: usize,
    /// The number of the transaction among those of this slot; 0 for locks that the session holds for itself.
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
    /// Its holder.
    pub owner: LockOwner,
    /// Its mode.
    pub mode: TableLockMode,
}

/// The object of a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A row that other transactions changed or locked.
    Row(RowKey),
    /// A table or advisory lock.
    Table(LockTarget, TableLockMode),
}

/// An owner in the way of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InTheWay {
    /// It is not a holder: it waits in the same queue, and came earlier.
    pub queued: bool,
    /// The owner.
    pub owner: LockOwner,
}

/// A wait, and all owners in its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockWait {
    /// The waiter.
    pub owner: LockOwner,
    /// The object of the wait.
    pub awaited: Awaited,
    /// The owners in its way, holders first.
    pub in_the_way: Vec<InTheWay>,
}

/// Every lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockPicture {
    /// Table and advisory locks held.
    pub held: Vec<LockHeld>,
    /// The xids of open transactions and their owners. A wait for a row is a wait for the end of one of these.
    pub xids: Vec<(Xid, LockOwner)>,
    /// The waits.
    pub waits: Vec<LockWait>,
}

impl Locks {
    /// Returns every lock that is held or waited for.
    pub(crate) fn picture(&self) -> LockPicture {
        let mut held = self.tables.held();
        held.sort_unstable();
        let open = self.map.open().into_iter();
        let xids = open.map(|desc| (desc.xid, LockOwner::of(desc.owner))).collect();
        LockPicture { held, xids, waits: self.waits_now() }
    }

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

    pub(crate) fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
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
