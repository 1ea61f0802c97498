//! `Advisory`: locks of one session on numbers that mean something to its application.

use collie_txn::{AdvisoryScope, LockTarget, TableLockMode};

use crate::wait::WaitFuture;

/// The advisory locks of a session: [`LockTarget::Advisory`] and [`LockTarget::AdvisoryPair`], shared
/// ([`TableLockMode::Share`]) or exclusive ([`TableLockMode::Exclusive`]). One's own are never in one's way.
#[derive(Clone, Debug)]
pub struct Advisory(pub(crate) collie_txn::Advisory);

impl Advisory {
    /// Takes a lock and returns `None`; or returns what to wait for before asking again.
    pub fn ask(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Option<WaitFuture> {
        self.0.ask(target, mode, scope).map(|wait| WaitFuture::new(wait, None))
    }

    /// Takes a lock if nobody is in the way; returns whether it did.
    pub fn try_lock(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> bool {
        self.0.try_lock(target, mode, scope)
    }

    /// Returns how much is kept of locks that the session holds: one for each number and mode, or one for each time that a lock was taken
    /// for the transaction, if that is more.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Gives a lock back that was taken for the session; returns whether there was one.
    pub fn give_back(&self, target: LockTarget, mode: TableLockMode) -> bool {
        self.0.give_back(target, mode)
    }

    /// Gives every lock back that was taken for the session.
    pub fn give_all_back(&self) {
        self.0.give_all_back();
    }
}
