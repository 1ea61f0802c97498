//! `Advisory`: the locks that one session takes on numbers which only its application interprets.

use collie_txn::{AdvisoryScope, LockTarget, TableLockMode};

use crate::session::wait::WaitFuture;

/// The advisory locks of a session: [`LockTarget::Advisory`] and [`LockTarget::AdvisoryPair`], shared
/// ([`TableLockMode::Share`]) or exclusive ([`TableLockMode::Exclusive`]). A session never conflicts with its own
/// locks.
#[derive(Clone, Debug)]
pub struct Advisory(pub(crate) collie_txn::Advisory);

impl Advisory {
    /// Takes a lock and returns `None`, or returns a future to wait for before the caller asks again.
    pub fn ask(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Option<WaitFuture> {
        self.0.ask(target, mode, scope).map(|wait| WaitFuture::new(wait, None))
    }

    /// Takes a lock if nothing conflicts with it; returns whether it did.
    pub fn try_lock(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> bool {
        self.0.try_lock(target, mode, scope)
    }

    /// Returns the number of entries that are kept for the session's locks: one for each number and mode, or one
    /// for each time that a lock was taken for the transaction, if there are more of those.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Releases a lock that was taken for the session; returns whether there was one.
    pub fn give_back(&self, target: LockTarget, mode: TableLockMode) -> bool {
        self.0.give_back(target, mode)
    }

    /// Releases every lock that was taken for the session.
    pub fn give_all_back(&self) {
        self.0.give_all_back();
    }
}
