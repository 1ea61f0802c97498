//! `TxnError`: why a transaction cannot continue. Each variant is one SQLSTATE.

use collie_base::{Lsn, Remedy};
use std::time::Duration;
use thiserror::Error;

/// Why a transaction cannot continue. The transaction is still open; the caller rolls it back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TxnError {
    /// Another transaction changed the row after this transaction's snapshot (40001).
    #[error("row changed at {csn}, after this transaction's snapshot {snapshot}: run the transaction again")]
    Conflict {
        /// Position of the other transaction's commit.
        csn: Lsn,
        /// This transaction's snapshot.
        snapshot: Lsn,
    },
    /// Waiting would close a cycle of transactions that wait for each other (40P01).
    #[error("deadlock: {transactions} transactions wait for each other: run the transaction again")]
    Deadlock {
        /// Number of transactions in the cycle.
        transactions: usize,
    },
    /// A lock was not granted within the caller's limit (55P03).
    #[error("lock not granted within the time limit: run the transaction again")]
    LockTimeout,
    /// The caller was asked to stop (57014).
    #[error("cancelled on request while waiting for a lock")]
    Cancelled,
    /// A write in a transaction that was begun READ ONLY (25006).
    #[error("cannot write in a read-only transaction: begin it READ WRITE")]
    ReadOnly,
    /// The snapshot kept too many old versions, or was too old, and is no longer in force (72000).
    #[error("{0}: run the transaction again, in shorter steps")]
    SnapshotCancelled(SnapshotCancelled),
    /// Every snapshot slot is taken (53300).
    #[error("all {limit} session slots are taken: close sessions or raise the limit")]
    TooManySessions {
        /// Number of slots.
        limit: usize,
    },
    /// The transaction has used up all command numbers (54000).
    #[error("transaction has 2^32 - 1 commands: commit it and begin another")]
    TooManyCommands,
}

impl TxnError {
    /// Returns the five-character SQLSTATE.
    #[must_use]
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "40001",
            Self::Deadlock { .. } => "40P01",
            Self::LockTimeout => "55P03",
            Self::Cancelled => "57014",
            Self::ReadOnly => "25006",
            Self::SnapshotCancelled(_) => "72000",
            Self::TooManySessions { .. } => "53300",
            Self::TooManyCommands => "54000",
        }
    }

    /// Returns what the caller can do. Match on this, not on text.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Conflict { .. }
            | Self::Deadlock { .. }
            | Self::LockTimeout
            | Self::Cancelled
            | Self::SnapshotCancelled(_) => Remedy::Retry,
            Self::ReadOnly | Self::TooManyCommands => Remedy::FixCall,
            Self::TooManySessions { .. } => Remedy::FreeResources,
        }
    }
}

/// The facts reported about a cancelled snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("snapshot is {} s old and keeps {} MiB of old versions", .age.as_secs(), .old_version_bytes.div_ceil(1 << 20))]
pub struct SnapshotCancelled {
    /// Its age.
    pub age: Duration,
    /// Bytes of old versions that were kept at that time, most of them for this snapshot.
    pub old_version_bytes: u64,
}
