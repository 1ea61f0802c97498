//! `ErrorKind`: a coarse classification of failures.

use collie_store::LevelsError;
use collie_wal::WalError;

/// A coarse classification of failures, with the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A concurrent transaction was first: run the transaction again.
    Conflict,
    /// Transactions waited for one another in a cycle: run the transaction again.
    Deadlock,
    /// A lock was not granted in time: run the transaction again.
    LockTimeout,
    /// A wait was cancelled on request.
    Cancelled,
    /// The call would have to wait for room, for another session or for another process: try again later.
    Busy,
    /// The call breaks a rule: change it.
    InvalidArgument,
    /// The object that the call names does not exist.
    NotFound,
    /// There is an object of the name that the call gives to a new one: use that, or another name.
    AlreadyExists,
    /// Writes are refused, in this transaction or in this database.
    ReadOnly,
    /// The database was closed.
    Closed,
    /// The disk, or the bound on log files, leaves no room: free some space and try again.
    NoSpace,
    /// A memory limit was reached: free some and try again.
    OutOfMemory,
    /// The snapshot was cancelled, for the memory that it kept or for its age: begin again.
    SnapshotTooOld,
    /// Stored data does not read back as it was written: restore it.
    Corruption,
    /// A write or sync of the log failed: open the database again.
    Poisoned,
    /// The operating system refused a call.
    Io,
}

impl ErrorKind {
    pub(crate) fn of_levels(error: &LevelsError) -> Self {
        match error {
            LevelsError::NoSpace { .. } => Self::NoSpace,
            LevelsError::TreeFailed { .. } => Self::Poisoned,
            LevelsError::Io { .. } => Self::Io,
            LevelsError::InvalidCall { .. } | LevelsError::NewerFormat { .. } => Self::InvalidArgument,
            _ => Self::Corruption,
        }
    }

    pub(crate) fn of_log(error: &WalError) -> Self {
        match error {
            WalError::Full { .. } => Self::NoSpace,
            WalError::Poisoned { .. } => Self::Poisoned,
            WalError::Closed => Self::Closed,
            WalError::Locked { .. } => Self::Busy,
            WalError::NoLog { .. } => Self::NotFound,
            WalError::Io { .. } => Self::Io,
            WalError::TooLarge { .. }
            | WalError::InvalidOptions { .. }
            | WalError::ForeignLog { .. }
            | WalError::NewerFormat { .. }
            | WalError::Cut { .. } => Self::InvalidArgument,
            _ => Self::Corruption,
        }
    }
}
