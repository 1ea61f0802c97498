//! `ErrorKind`: which of a handful of cases a failure is.

use collie_store::LevelsError;
use collie_wal::WalError;

/// Which of a handful of cases a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A concurrent transaction was first: run the transaction again.
    Conflict,
    /// Transactions waited for each other in a circle: run the transaction again.
    Deadlock,
    /// A lock was not granted in time: run the transaction again.
    LockTimeout,
    /// A wait was cancelled on request.
    Cancelled,
    /// It would have to wait for room, for another session or for another process: try again later.
    Busy,
    /// The call breaks a rule: change it.
    InvalidArgument,
    /// What the call names is not there.
    NotFound,
    /// Nothing can be written: not in this transaction, or not in this database.
    ReadOnly,
    /// The database was closed.
    Closed,
    /// The disk, or the bound on log files, leaves no room: free some and try again.
    NoSpace,
    /// A bound of memory is reached: free some and try again.
    OutOfMemory,
    /// The snapshot was given up for the memory that it kept, or its age: begin again.
    SnapshotTooOld,
    /// What was written once does not read back: restore it.
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
