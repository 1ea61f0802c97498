//! `Advisory`: the locks of one session on numbers that only its application interprets.
//!
//! They are in the same shards and queues as table locks, and waits for them are in the same graph as all others.
//! Unlike table locks they belong to the session: a lock taken for the session outlives transactions and is released as
//! often as it was taken; a lock taken for the transaction ends with it. Locks of one session never conflict with each
//! other.
//!
//! # Invariants
//! - S1. The session holds a mode of a number in the shards exactly while `held` has a count for it.
//! - S2. `in_transaction` lists the locks counted for the transaction, in the order of taking.
//! - S3. Locks are held under [`OwnerId::session`], which no transaction has; the waiter is the open transaction. The
//!   deadlock detector maps one to the other (`deadlock::edges`).
//!
//! Checked by `tests/advisory.rs`.

use crate::{
    desc::OwnerId,
    locks::cancel::Owner,
    locks::table_lock::{LockTarget, TableLockMode},
    locks::wait::{Wait, Wakes},
    locks::waits::Blocker,
};
use collie_base::{Lsn, Map};
use std::sync::{Arc, atomic::Ordering};

/// How long an advisory lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdvisoryScope {
    /// Until it is released as often as it was taken, or the session ends.
    Session,
    /// Until the transaction ends, or rolls back to a savepoint before the lock.
    Transaction,
}

/// The advisory locks of a session, for use by the thread that runs it.
#[derive(Clone, Debug)]
pub struct Advisory(pub(crate) Arc<Owner>);

/// The advisory locks that one session holds.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryHeld {
    /// How often each lock was taken for the session, and how often for the transaction.
    held: Map<(LockTarget, TableLockMode), [u32; 2]>,
    in_transaction: Vec<(LockTarget, TableLockMode)>,
}

impl AdvisoryHeld {
    fn add(&mut self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) {
        let counts = self.held.entry((target, mode)).or_default();
        match scope {
            AdvisoryScope::Session => counts[0] += 1,
            AdvisoryScope::Transaction => {
                counts[1] += 1;
                self.in_transaction.push((target, mode));
            }
        }
    }

    /// Decrements one count; returns whether it was the last one of this lock, or `None` if the count was zero.
    fn take(&mut self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Option<bool> {
        let counts = self.held.get_mut(&(target, mode))?;
        let count = match scope {
            AdvisoryScope::Session => &mut counts[0],
            AdvisoryScope::Transaction => &mut counts[1],
        };
        *count = count.checked_sub(1)?;
        let last = *counts == [0, 0];
        if last {
            self.held.remove(&(target, mode));
        }
        Some(last)
    }
}

impl Advisory {
    /// Takes a lock and returns `None`, unless another session is in the way; then returns the wait after which to ask
    /// again. The modes of advisory locks are [`TableLockMode::Share`] and [`TableLockMode::Exclusive`].
    ///
    /// # Progress
    /// Does not wait itself: one short mutex per call.
    pub fn ask(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Option<Wait> {
        if self.try_lock(target, mode, scope) {
            return None;
        }
        let current = OwnerId(self.0.current.load(Ordering::Relaxed));
        Some(self.0.locks.wait(&self.0, current, &Blocker::Table { target, mode }, || true))
    }

    /// Takes a lock if no other session is in the way; returns whether it did.
    pub fn try_lock(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> bool {
        let owner = &*self.0;
        let mut held = owner.advisory.lock();
        if !held.held.contains_key(&(target, mode)) {
            let Some(after) = owner.locks.tables.try_acquire(owner.session_id(), target, mode) else { return false };
            // G4 of the table locks: the next statement reads above this commit.
            owner.after.fetch_max(after.get(), Ordering::Relaxed);
        }
        held.add(target, mode, scope);
        if scope == AdvisoryScope::Transaction {
            owner.takes_advisory.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Returns the number of entries kept for locks of the session: one for each number and mode, or one for each time
    /// that a lock was taken for the transaction, whichever is more.
    pub fn count(&self) -> usize {
        let held = self.0.advisory.lock();
        held.held.len().max(held.in_transaction.len())
    }

    /// Releases a lock that was taken for the session; returns whether there was one.
    pub fn give_back(&self, target: LockTarget, mode: TableLockMode) -> bool {
        let taken = self.0.advisory.lock().take(target, mode, AdvisoryScope::Session);
        if taken == Some(true) {
            self.0.release_advisory(target, mode, self.0.last_commit());
        }
        taken.is_some()
    }

    /// Releases every lock that was taken for the session.
    pub fn give_all_back(&self) {
        self.0.give_all_advisory_back();
    }
}

impl Owner {
    fn session_id(&self) -> OwnerId {
        OwnerId::session(self.slot())
    }

    fn last_commit(&self) -> Lsn {
        Lsn::new(self.last_commit.load(Ordering::Relaxed))
    }

    fn release_advisory(&self, target: LockTarget, mode: TableLockMode, commit: Lsn) {
        if self.locks.tables.release(self.session_id(), target, mode, commit) {
            let mut wakes = Wakes::default();
            self.locks.grant_table(&mut self.locks.waits.lock(), target, &mut wakes);
            wakes.run();
        }
    }

    /// Returns how many locks are counted for the transaction: a mark for a later partial release.
    pub(crate) fn advisory_in_transaction(&self) -> usize {
        let may = self.takes_advisory.load(Ordering::Relaxed);
        if may { self.advisory.lock().in_transaction.len() } else { 0 }
    }

    /// Releases the locks taken for the transaction since there were `count` of them; at the end of the transaction all
    /// of them. `commit` is the position of its commit, or zero.
    pub(crate) fn release_transaction_advisory(&self, count: usize, commit: Lsn) {
        // Most transactions have none, so that their end costs one load.
        if !self.takes_advisory.load(Ordering::Relaxed) {
            return;
        }
        self.takes_advisory.store(count > 0, Ordering::Relaxed);
        loop {
            let released = {
                let mut held = self.advisory.lock();
                if held.in_transaction.len() <= count {
                    return;
                }
                let Some((target, mode)) = held.in_transaction.pop() else { return };
                held.take(target, mode, AdvisoryScope::Transaction).map(|last| (target, mode, last))
            };
            if let Some((target, mode, true)) = released {
                self.release_advisory(target, mode, commit);
            }
        }
    }

    pub(crate) fn give_all_advisory_back(&self) {
        let given: Vec<_> = {
            let mut held = self.advisory.lock();
            let mut given = Vec::new();
            held.held.retain(|lock, counts| {
                counts[0] = 0;
                if counts[1] == 0 {
                    given.push(*lock);
                }
                counts[1] > 0
            });
            given
        };
        for (target, mode) in given {
            self.release_advisory(target, mode, self.last_commit());
        }
    }
}
