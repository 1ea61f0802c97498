//! The SQL errors of engine failures.

use collie_engine::{CancelReason, EngineError, ErrorKind};

use crate::error::{SqlError, SqlState};

/// Returns the SQL error for an engine failure.
pub fn from_engine(error: EngineError) -> SqlError {
    let state = |state, message: &str| SqlError::new(state, message);
    match error {
        EngineError::Conflict => {
            state(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        }
        EngineError::ReadChanged => state(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access due to read/write dependencies among transactions",
        )
        .hint("The transaction might succeed if retried."),
        EngineError::Deadlock => state(SqlState::DEADLOCK_DETECTED, "deadlock detected"),
        EngineError::LockTimeout => state(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"),
        EngineError::Cancelled => super::context::cancelled(CancelReason::User),
        EngineError::ReadOnly => {
            state(SqlState::READ_ONLY_SQL_TRANSACTION, "cannot execute this statement in a read-only transaction")
        }
        EngineError::OpenedReadOnly | EngineError::Salvaged | EngineError::Replica => {
            SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, error.to_string())
        }
        EngineError::Closed => state(SqlState::ADMIN_SHUTDOWN, "the database is closed"),
        EngineError::InvalidArgument { what } => {
            SqlError::new(SqlState::INTERNAL_ERROR, format!("engine call out of order: {what}"))
        }
        EngineError::TransactionLimit { .. } => SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string()),
        EngineError::SnapshotCancelled(why) => SqlError::new(SqlState::SNAPSHOT_TOO_OLD, why.to_string()).hint(
            "Run the transaction again in shorter steps, or raise txn.old_version_memory or txn.max_snapshot_age.",
        ),
        EngineError::OldVersionMemory { .. } => SqlError::new(SqlState::OUT_OF_MEMORY, error.to_string()),
        EngineError::OutOfMemory { .. } => SqlError::new(SqlState::OUT_OF_MEMORY, error.to_string())
            .hint("Reads and DELETE go on, and DROP TABLE. Memory is free again once no snapshot shows what is gone."),
        EngineError::TooManySessions { .. } => SqlError::new(SqlState::TOO_MANY_CONNECTIONS, error.to_string()),
        other if other.kind() == ErrorKind::NoSpace => SqlError::new(SqlState::DISK_FULL, other.to_string()),
        other => SqlError::new(SqlState::IO_ERROR, other.to_string()),
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> Self {
        from_engine(error)
    }
}
