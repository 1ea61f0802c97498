//! Table locks and advisory locks: PostgreSQL's eight modes and matrix. Table locks are held to the end of the
//! transaction; advisory locks as `advisory.rs` counts them.
//!
//! Granted locks are in shards by target, so that statements on different tables do not contend and a weak mode costs
//! one short mutex. A request that must wait goes through [`Locks`] (its mutex first, then the shard: `waits.rs` Q1).
//!
//! # Invariants
//! - G1. The modes held by two different owners on one target never conflict.
//! - G2. `counts` and `waiting` agree with `holders` and `queue`.
//! - G3. No request is granted past an earlier waiter that it conflicts with, unless its owner holds a lock that this
//!   waiter waits for (it would wait for itself).
//! - G4. A grant returns the newest commit of owners that released a conflicting mode: locks end at publication, which
//!   the boundary may not have passed, and the next holder must read above it.

use crate::{
    desc::OwnerId,
    locks::cancel::Owner,
    locks::picture::{LockHeld, LockOwner},
    locks::wait::{Waiter, Wakes},
    locks::waits::{Blocker, Locks, Waits},
};
use collie_base::{Lsn, Map};
use collie_sync::{Mutex, MutexGuard, Padded};
use std::{collections::VecDeque, sync::Arc};

#[cfg(not(loom))]
const SHARDS: usize = 64;
#[cfg(loom)]
const SHARDS: usize = 1;
/// Number of states without holders or waiters that a shard keeps, so that those of a busy table are not rebuilt each
/// time.
const IDLE_STATES_MAX: usize = 256;

/// The object of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum LockTarget {
    /// A table or index, by its id.
    Table(u32),
    /// A number that only the application interprets.
    Advisory(u64),
    /// Two such numbers, in a separate space from [`LockTarget::Advisory`].
    AdvisoryPair(u32, u32),
}

impl LockTarget {
    const fn kind(self) -> usize {
        match self {
            Self::Table(_) => 0,
            Self::Advisory(_) | Self::AdvisoryPair(..) => 1,
        }
    }

    /// Returns the owner that would hold it when `owner` waits for it: advisory locks belong to sessions.
    const fn holder(self, owner: OwnerId) -> OwnerId {
        match self {
            Self::Table(_) => owner,
            Self::Advisory(_) | Self::AdvisoryPair(..) => owner.of_session(),
        }
    }
}

/// PostgreSQL's table lock modes, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum TableLockMode {
    /// SELECT.
    AccessShare,
    /// SELECT FOR UPDATE and similar.
    RowShare,
    /// INSERT, UPDATE, DELETE.
    RowExclusive,
    /// VACUUM, ANALYZE, CREATE INDEX CONCURRENTLY.
    ShareUpdateExclusive,
    /// CREATE INDEX; the shared mode of advisory locks.
    Share,
    /// CREATE TRIGGER.
    ShareRowExclusive,
    /// The exclusive mode of advisory locks.
    Exclusive,
    /// DROP, TRUNCATE, most ALTER TABLE.
    AccessExclusive,
}

/// A set of modes, one bit each.
type Modes = u8;

impl TableLockMode {
    /// All modes, weakest first.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// Bit `i` of entry `m`: mode `m` conflicts with mode `i`.
    const CONFLICTS: [Modes; 8] = [
        0b1000_0000, // ACCESS SHARE
        0b1100_0000, // ROW SHARE
        0b1111_0000, // ROW EXCLUSIVE
        0b1111_1000, // SHARE UPDATE EXCLUSIVE
        0b1110_1100, // SHARE
        0b1111_1100, // SHARE ROW EXCLUSIVE
        0b1111_1110, // EXCLUSIVE
        0b1111_1111, // ACCESS EXCLUSIVE
    ];

    /// Returns whether two owners cannot hold these modes at once. Symmetric.
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        self.conflicts() & other.bit() != 0
    }

    const fn index(self) -> usize {
        match self {
            Self::AccessShare => 0,
            Self::RowShare => 1,
            Self::RowExclusive => 2,
            Self::ShareUpdateExclusive => 3,
            Self::Share => 4,
            Self::ShareRowExclusive => 5,
            Self::Exclusive => 6,
            Self::AccessExclusive => 7,
        }
    }

    const fn bit(self) -> Modes {
        1 << self.index()
    }

    const fn conflicts(self) -> Modes {
        Self::CONFLICTS[self.index()]
    }

    /// Returns whether a holder of `self` need not request `other`.
    const fn covers(self, other: Self) -> bool {
        self.conflicts() & other.conflicts() == other.conflicts()
    }
}

/// Returns the modes that conflict with any of `modes`.
fn conflicts_of(modes: Modes) -> Modes {
    TableLockMode::ALL.iter().filter(|mode| modes & mode.bit() != 0).fold(0, |all, mode| all | mode.conflicts())
}

/// The outcome of a request for a table lock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum TableLock {
    /// It is held until the transaction ends or rolls back to an earlier savepoint.
    Granted,
    /// The caller must wait for this, then ask again.
    Wait(Blocker),
}

#[derive(Debug, Default)]
struct TableState {
    holders: Map<OwnerId, Modes>,
    counts: [u32; 8],
    queue: VecDeque<TableEntry>,
    waiting: Modes,
    released: Released,
}

/// By mode, the newest commit of an owner that released it (G4).
#[derive(Clone, Copy, Debug)]
struct Released([Lsn; 8]);

impl Default for Released {
    fn default() -> Self {
        Self([Lsn::ZERO; 8])
    }
}

impl Released {
    fn note(&mut self, mode: TableLockMode, commit: Lsn) {
        let newest = &mut self.0[mode.index()];
        *newest = (*newest).max(commit);
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(newest, commit)| *newest = (*newest).max(commit));
    }

    /// Returns the newest commit above which a holder of `mode` must read.
    fn before(&self, mode: TableLockMode) -> Lsn {
        let conflicting = TableLockMode::ALL.iter().filter(|other| mode.conflicts_with(**other));
        conflicting.map(|other| self.0[other.index()]).max().unwrap_or(Lsn::ZERO)
    }
}

#[derive(Clone, Debug)]
struct TableEntry {
    owner: OwnerId,
    mode: TableLockMode,
    waiter: Arc<Waiter>,
}

impl TableState {
    fn held_by(&self, owner: OwnerId) -> Modes {
        self.holders.get(&owner).copied().unwrap_or(0)
    }

    fn held_by_others(&self, own: Modes) -> Modes {
        TableLockMode::ALL.iter().fold(0, |modes, mode| {
            let own_count = u32::from(own & mode.bit() != 0);
            if self.counts[mode.index()] > own_count { modes | mode.bit() } else { modes }
        })
    }

    fn try_grant(&mut self, owner: OwnerId, mode: TableLockMode) -> bool {
        let own = self.held_by(owner);
        if own & mode.bit() != 0 {
            return true;
        }
        if self.held_by_others(own) & mode.conflicts() != 0 {
            return false;
        }
        // G3: behind earlier waiters, unless one of them waits for us.
        if self.waiting & mode.conflicts() != 0 && self.waiting & conflicts_of(own) == 0 {
            return false;
        }
        self.grant(owner, mode);
        true
    }

    fn grant(&mut self, owner: OwnerId, mode: TableLockMode) {
        *self.holders.entry(owner).or_insert(0) |= mode.bit();
        self.counts[mode.index()] += 1;
    }

    fn release(&mut self, owner: OwnerId, mode: TableLockMode) {
        let Some(held) = self.holders.get_mut(&owner).filter(|held| **held & mode.bit() != 0) else { return };
        *held &= !mode.bit();
        if *held == 0 {
            self.holders.remove(&owner);
        }
        self.counts[mode.index()] -= 1;
    }

    fn recount_waiting(&mut self) {
        self.waiting = self.queue.iter().fold(0, |modes, entry| modes | entry.mode.bit());
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }
}

/// The owners in the way of a table lock.
pub(crate) struct TableBlockers {
    pub(crate) holders: Vec<OwnerId>,
    /// Earlier waiters of the queue, in order.
    pub(crate) ahead: Vec<OwnerId>,
}

#[derive(Debug, Default)]
struct Shard {
    states: Map<LockTarget, TableState>,
    /// Commits of removed states (G4): of tables, and of advisory locks.
    forgotten: [Released; 2],
}

impl Shard {
    fn state(&mut self, target: LockTarget) -> &mut TableState {
        let released = self.forgotten[target.kind()];
        self.states.entry(target).or_insert_with(|| TableState { released, ..TableState::default() })
    }

    fn forget(&mut self, target: LockTarget) {
        if let Some(state) = self.states.remove(&target) {
            self.forgotten[target.kind()].add(&state.released);
        }
    }
}

#[derive(Debug)]
pub(crate) struct TableShards(Box<[Padded<Mutex<Shard>>]>);

impl TableShards {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Padded::new(Mutex::new(Shard::default()))).collect())
    }

    fn shard(&self, target: LockTarget) -> MutexGuard<'_, Shard> {
        let number = match target {
            LockTarget::Table(id) => u64::from(id),
            LockTarget::Advisory(number) => number,
            LockTarget::AdvisoryPair(high, low) => u64::from(high) ^ u64::from(low),
        };
        let index = usize::try_from(number % SHARDS as u64).expect("below SHARDS");
        self.0[index].lock()
    }

    /// Grants a mode if no other owner is in the way; then returns the newest commit above which its holder must read
    /// (G4).
    pub(crate) fn try_acquire(&self, owner: OwnerId, target: LockTarget, mode: TableLockMode) -> Option<Lsn> {
        let mut shard = self.shard(target);
        let state = shard.state(target);
        state.try_grant(owner, mode).then(|| state.released.before(mode))
    }

    /// Releases a mode of an owner that committed at `commit`, or has not if that is zero; `true` if an owner waits for
    /// the target.
    #[must_use]
    pub(crate) fn release(&self, owner: OwnerId, target: LockTarget, mode: TableLockMode, commit: Lsn) -> bool {
        let mut shard = self.shard(target);
        let kept = shard.states.len();
        let Some(state) = shard.states.get_mut(&target) else { return false };
        state.release(owner, mode);
        state.released.note(mode, commit);
        let awaited = state.waiting != 0;
        if kept > IDLE_STATES_MAX && state.is_idle() {
            shard.forget(target);
        }
        awaited
    }

    /// Returns every held lock, unordered.
    pub(crate) fn held(&self) -> Vec<LockHeld> {
        let mut all = Vec::new();
        for shard in &self.0 {
            for (target, state) in &shard.lock().states {
                for (id, modes) in &state.holders {
                    let held = TableLockMode::ALL.into_iter().filter(|mode| modes & mode.bit() != 0);
                    all.extend(held.map(|mode| LockHeld { target: *target, owner: LockOwner::of(*id), mode }));
                }
            }
        }
        all
    }

    pub(crate) fn blockers(&self, target: LockTarget, owner: OwnerId, mode: TableLockMode) -> TableBlockers {
        let shard = self.shard(target);
        let Some(state) = shard.states.get(&target) else {
            return TableBlockers { holders: Vec::new(), ahead: Vec::new() };
        };
        let conflicts = mode.conflicts();
        let mut holders: Vec<_> = state
            .holders
            .iter()
            .filter(|(id, held)| **id != target.holder(owner) && **held & conflicts != 0)
            .map(|(id, _)| *id)
            .collect();
        // The order of a hash map must not decide which cycle is found.
        holders.sort_unstable();
        let ahead = state.queue.iter().take_while(|entry| entry.owner != owner);
        let ahead = ahead.filter(|entry| conflicts & entry.mode.bit() != 0).map(|entry| entry.owner).collect();
        TableBlockers { holders, ahead }
    }

    /// Moves `from` directly ahead of `to`; returns its previous index.
    pub(crate) fn move_in_queue(&self, target: LockTarget, from: OwnerId, to: OwnerId) -> Option<usize> {
        let mut shard = self.shard(target);
        let queue = &mut shard.states.get_mut(&target)?.queue;
        let old = queue.iter().position(|entry| entry.owner == from)?;
        let new = queue.iter().position(|entry| entry.owner == to)?;
        let entry = queue.remove(old)?;
        queue.insert(new, entry);
        Some(old)
    }

    pub(crate) fn move_to_index(&self, target: LockTarget, owner: OwnerId, index: usize) {
        let mut shard = self.shard(target);
        let queue = &mut shard.states.get_mut(&target).expect("the queue was there a moment ago").queue;
        let at = queue.iter().position(|entry| entry.owner == owner).expect("it was moved, not removed");
        let entry = queue.remove(at).expect("just found");
        queue.insert(index, entry);
    }
}

impl Locks {
    /// Joins the queue of `target`; `false` if the lock was granted instead.
    pub(crate) fn join_table(
        &self,
        waits: &mut Waits,
        id: OwnerId,
        target: LockTarget,
        mode: TableLockMode,
        waiter: &Arc<Waiter>,
        wakes: &mut Wakes,
    ) -> bool {
        // An earlier wait of this owner for the same target is replaced.
        self.leave_table_queue(waits, id, target, wakes);
        let mut shard = self.tables.shard(target);
        let state = shard.state(target);
        let holder = target.holder(id);
        if state.try_grant(holder, mode) {
            return false;
        }
        // Insert ahead of the first waiter that waits for our lock: behind it we would wait for ourselves.
        let own = conflicts_of(state.held_by(holder));
        let at = state.queue.iter().position(|entry| entry.mode.bit() & own != 0).unwrap_or(state.queue.len());
        state.queue.insert(at, TableEntry { owner: id, mode, waiter: Arc::clone(waiter) });
        state.recount_waiting();
        true
    }

    /// Takes `id` out of the queue of `target`; those behind it may proceed.
    pub(crate) fn leave_table_queue(&self, waits: &mut Waits, id: OwnerId, target: LockTarget, wakes: &mut Wakes) {
        if let Some(state) = self.tables.shard(target).states.get_mut(&target) {
            state.queue.retain(|entry| entry.owner != id);
        }
        self.grant_table(waits, target, wakes);
    }

    /// Grants, in order, every waiter that conflicts with no other holder and no earlier waiter.
    pub(crate) fn grant_table(&self, waits: &mut Waits, target: LockTarget, wakes: &mut Wakes) {
        let mut shard = self.tables.shard(target);
        let Some(state) = shard.states.get_mut(&target) else { return };
        let mut before: Modes = 0;
        for entry in std::mem::take(&mut state.queue) {
            let holder = target.holder(entry.owner);
            let own = state.held_by(holder);
            let in_the_way = state.held_by_others(own) | before;
            if entry.mode.conflicts() & in_the_way != 0 {
                // A cancelled waiter holds up no other; it removes itself when it leaves.
                if entry.waiter.is_open() {
                    before |= entry.mode.bit();
                }
                state.queue.push_back(entry);
                continue;
            }
            waits.waiting.remove(&entry.owner);
            if entry.waiter.complete(Ok(()), wakes) && own & entry.mode.bit() == 0 {
                state.grant(holder, entry.mode);
            }
        }
        state.recount_waiting();
    }
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    target: LockTarget,
    mode: TableLockMode,
    /// False during a wait: the lock may be granted at any time, so it is released like the others.
    granted: bool,
}

/// The table locks of one transaction; dropping it releases them.
#[derive(Debug)]
#[must_use = "dropping it releases the locks"]
pub struct TableLocksHeld {
    owner: Arc<Owner>,
    id: OwnerId,
    taken: Vec<Taken>,
    /// The newest commit above which a holder of them must read (G4).
    after: Lsn,
    /// Position of the transaction's commit; zero before that.
    committed: Lsn,
}

impl TableLocksHeld {
    pub(crate) fn new(owner: Arc<Owner>, id: OwnerId) -> Self {
        Self { owner, id, taken: Vec::new(), after: Lsn::ZERO, committed: Lsn::ZERO }
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn after(&self) -> Lsn {
        self.after
    }

    /// Records the position of the transaction's commit: the next holders read above it.
    pub(crate) fn committed(&mut self, at: Lsn) {
        self.committed = at;
    }

    pub(crate) fn acquire(&mut self, target: LockTarget, mode: TableLockMode) -> TableLock {
        let covered = |taken: &&Taken| taken.granted && taken.target == target && taken.mode.covers(mode);
        if self.taken.iter().find(covered).is_some() {
            return TableLock::Granted;
        }
        let before = self.owner.locks.tables.try_acquire(self.id, target, mode);
        let granted = before.is_some();
        self.after = self.after.max(before.unwrap_or(Lsn::ZERO));
        match self.taken.iter_mut().find(|taken| taken.target == target && taken.mode == mode) {
            Some(taken) => taken.granted = granted,
            None => self.taken.push(Taken { target, mode, granted }),
        }
        if granted { TableLock::Granted } else { TableLock::Wait(Blocker::Table { target, mode }) }
    }

    /// Releases the locks taken since there were `count` of them.
    pub(crate) fn release_to(&mut self, count: usize) {
        let locks = &self.owner.locks;
        while self.taken.len() > count {
            let Some(Taken { target, mode, .. }) = self.taken.pop() else { return };
            if locks.tables.release(self.id, target, mode, self.committed) {
                let mut wakes = Wakes::default();
                locks.grant_table(&mut locks.waits.lock(), target, &mut wakes);
                wakes.run();
            }
        }
    }
}

impl Drop for TableLocksHeld {
    fn drop(&mut self) {
        self.release_to(0);
    }
}
