//! `WriteSet`: a transaction's versions and row locks, as far as this crate needs them: how to stamp and how to undo.

use crate::stamper::Unstamped;
use collie_base::Lsn;

/// The versions a transaction wrote and the share locks it took, in order. Positions are counts of both.
pub trait WriteSet {
    /// Stamps every version with `csn` (Release), then gives the share locks back. Called once, after the commit is
    /// published.
    fn stamp(&mut self, csn: Lsn);

    /// Asked first, once the commit is published: when the versions are so many that nobody should wait until they are stamped,
    /// gives the share locks back and hands the versions over. `None`: they are few, [`WriteSet::stamp`] follows.
    fn hand_over(&mut self) -> Option<Unstamped> {
        None
    }

    /// Stamps the versions from `position` on as aborted, newest first, and takes them out of their chains; gives the
    /// share locks from there on back, so that of each row is held what was held before.
    fn undo_to(&mut self, position: u64);

    /// Returns the number of versions and share locks, that is, the position of the next.
    fn position(&self) -> u64;
}

/// No versions: for transactions that only read or only hold table locks.
impl WriteSet for () {
    fn stamp(&mut self, _csn: Lsn) {}

    fn undo_to(&mut self, _position: u64) {}

    fn position(&self) -> u64 {
        0
    }
}

/// A savepoint: how much of a transaction was there when it was set.
///
/// Depth and number cost nothing; going back costs what is undone.
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
