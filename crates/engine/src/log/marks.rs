//! `Marks`: a log that reports how far it has come, for the waits of commits.

use collie_base::Lsn;
use collie_txn::CommitLog;
use collie_wal::Mark;

use crate::log::settled::Settled;

/// A log that reports whether a mark has reached a position.
pub(crate) trait Marks: CommitLog {
    /// Returns whether `mark` has reached `lsn`. For the boundary it may load the flag of every slot in use.
    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool;

    /// Returns the confirmations by replicas, where they are counted.
    fn replicas(&self) -> Option<&Settled> {
        None
    }
}
