//! `WriteSet`: a transaction's versions and row locks as this crate needs them: how to stamp and how to undo.

use crate::stamper::Unstamped;
use collie_base::Lsn;

/// The versions that a transaction wrote and the share locks that it took, in order. Positions are counts of both.
pub trait WriteSet {
    /// Stamps every version with `csn` (Release), then releases the share locks. Called once, after the commit is
    /// published.
    fn stamp(&mut self, csn: Lsn);

    /// Called first, once the commit is published: if there are too many versions to let waiters wait for their
    /// stamping, releases the share locks and hands the versions over. `None` if they are few; [`WriteSet::stamp`]
    /// follows.
    fn hand_over(&mut self) -> Option<Unstamped> {
        None
    }

    /// Stamps the versions from `position` on as aborted, newest first, and takes them out of their chains; releases
    /// the share locks from there on, so that each row is held again as before.
    fn undo_to(&mut self, position: u64);

    /// Returns the number of versions and share locks, which is the position of the next.
    fn position(&self) -> u64;
}

/// An empty set: for transactions that only read or only hold table locks.
impl WriteSet for () {
    fn stamp(&mut self, _csn: Lsn) {}

    fn undo_to(&mut self, _position: u64) {}

    fn position(&self) -> u64 {
        0
    }
}

/// A savepoint: how much the transaction had done when it was set.
///
/// Depth and number cost nothing; a rollback costs what it undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(crate) writes: u64,
    pub(crate) table_locks: usize,
    pub(crate) advisory: usize,
}

impl Mark {
    /// Returns the position in the write set.
    #[must_use]
    pub const fn writes(self) -> u64 {
        self.writes
    }
}
