//! The plain values that calls of a session take and return: a write, its outcome, the end of a scan.
//!
//! They hold no state and know no log, map or row.

use std::ops::Deref;
use std::sync::Arc;

use collie_base::{LockStrength, Lsn};
use collie_store::Origin;
use collie_txn::Blocker;

/// The version from which the caller computed its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The version visible at the statement's snapshot, or one of the transaction's own.
    Snapshot,
    /// The version committed at this position, as given by [`Outcome::Changed`].
    After(Lsn),
}

/// The rows that a statement which checks constraints sees in addition to the transaction's own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Those that any statement of the transaction sees.
    Snapshot,
    /// Those of every commit that was published when the statement began, at every isolation level.
    Newest,
}

/// A change of an existing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Replaces the value by one that agrees with it in every part that other rows may refer to. Holds the row as
    /// [`LockStrength::NoKeyUpdate`] does, so transactions that only refer to it do not wait.
    Put(&'a [u8]),
    /// Replaces the value, including parts that other rows may refer to. Holds the row as [`LockStrength::Update`]
    /// does, like every change below.
    PutKeys(&'a [u8]),
    /// Removes the row.
    Delete,
    /// Locks the row without changing it.
    Lock(LockStrength),
    /// Removes the row and leaves a note with the key under which it continues to exist.
    MoveTo {
        /// The new key.
        new_key: &'a [u8],
    },
}

/// The outcome of a write to an existing row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The write is in the transaction.
    Done,
    /// An unfinished transaction, perhaps one of several, holds the row. The caller waits for it and calls again
    /// with the same basis.
    Wait(Blocker),
    /// A newer version was committed. The caller evaluates its condition on it and writes with [`Basis::After`]
    /// its position.
    Changed {
        /// The CSN of the newer version.
        csn: Lsn,
        /// The value of the newer version.
        row: RowBytes,
    },
    /// The row was deleted or never existed.
    Gone,
    /// The row continues to exist under this key.
    Moved(Vec<u8>),
    /// This command has already written the row.
    SelfModified,
}

/// The outcome of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Insert {
    /// The row is in the transaction.
    Done,
    /// A live row has this key.
    Duplicate(Existing),
    /// An unfinished transaction holds the key. The caller waits for it and calls again.
    Wait(Blocker),
}

/// The live row that an insert met. [`crate::Session::basis_on`] returns the basis for a write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// The writer of the row's newest value.
    pub origin: Origin,
    /// The newest value.
    pub row: RowBytes,
}

/// The value of a row. It is shared with the row, so cloning copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBytes(pub(crate) Arc<[u8]>);

impl Deref for RowBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for RowBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// Every key of the range was visited.
    Exhausted,
    /// The limit was reached or the visitor stopped; the scan can continue after this key.
    More(Vec<u8>),
}

/// A point in a transaction to which the caller can roll back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(crate) txn: collie_txn::Mark,
    pub(crate) ops: u64,
    pub(crate) writes: u64,
}

/// The result of a finished commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The CSN of the transaction; `None` if it wrote nothing.
    pub csn: Option<Lsn>,
    /// The end of its commit record: snapshots at or above it show the transaction. `None` if it wrote nothing.
    pub end: Option<Lsn>,
}
