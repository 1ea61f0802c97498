//! `Transaction`: the state of one open transaction. Its session works on it.

use crate::{
    desc::Desc,
    locks::table_lock::TableLocksHeld,
    write_set::{Mark, WriteSet},
};
use collie_base::{Lsn, Xid};
use std::sync::Arc;

/// Which commits of other transactions a transaction sees while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// A new snapshot for each statement; a row that changed since is examined again. Also for READ UNCOMMITTED.
    #[default]
    ReadCommitted,
    /// One snapshot for the transaction (snapshot isolation); a row that changed since is an error.
    RepeatableRead,
    /// As REPEATABLE READ, but a transaction that wrote commits only if what it read is unchanged: the commits of this
    /// level are equivalent to a serial execution ([`Session::commit_validated`](crate::Session::commit_validated)).
    Serializable,
}

/// Whether a statement can write or lock rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatementKind {
    /// It cannot: it may read at the settled position.
    ReadOnly,
    /// It can: it must read the newest state.
    Write,
    /// It cannot, but reads the newest state also in a READ ONLY transaction: what the session has seen may stay
    /// unsettled for a long time, and the end of the transaction waits for that instead.
    Newest,
}

/// An open transaction. End it with [`Session::commit`](crate::Session::commit) or
/// [`Session::abort`](crate::Session::abort): if dropped, it keeps its rows locked forever (table locks are released).
#[derive(Debug)]
#[must_use = "commit or abort it"]
pub struct Transaction {
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) command: u32,
    pub(crate) snapshot: Option<Lsn>,
    pub(crate) desc: Option<Arc<Desc>>,
    pub(crate) tables: TableLocksHeld,
}

impl Transaction {
    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Returns whether it was begun READ ONLY.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the xid, if it has written or locked a row.
    #[must_use]
    pub fn xid(&self) -> Option<Xid> {
        self.desc.as_ref().map(|desc| desc.xid)
    }

    /// Returns the number of the current command, from 1. A command sees its transaction's versions of lower numbers.
    #[must_use]
    pub fn command(&self) -> u32 {
        self.command
    }

    /// Returns the current snapshot: commits below it are visible. `None` between statements of READ COMMITTED.
    #[must_use]
    pub fn snapshot(&self) -> Option<Lsn> {
        self.snapshot
    }

    /// Records that the transaction was asked to commit although it ends as a rollback, since it wrote nothing.
    pub fn note_committed(&self) {
        if let Some(desc) = &self.desc {
            desc.note_committed();
        }
    }

    /// Returns a mark to roll back to.
    #[must_use]
    pub fn savepoint(&self, writes: &impl WriteSet) -> Mark {
        let advisory = self.tables.owner().advisory_in_transaction();
        Mark { writes: writes.position(), table_locks: self.tables.len(), advisory }
    }
}
