//! Bytes at rest: keys whose byte order is the order of their values, and rows that are read one column at a time.
//!
//! The text and binary forms for clients are in `types::io`. This module knows neither tables nor versions of them: the
//! caller passes the column types. [`key`], [`row`] and `docs/format.md` define the byte layouts.

pub mod key;
mod key_read;
pub mod row;
mod row_read;
mod value_bytes;

#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod row_tests;

pub use key::KeyColumn;
pub use row::RowLayout;

use crate::error::{SqlError, SqlState};

/// Makes the XX001 error for bytes that no encoder here writes.
#[cold]
fn damaged(what: &str) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("malformed stored data: {what}"))
        .hint("Check the data directory, and restore from a backup if it is damaged.")
}

/// Makes the error for a value of another type than its column's: the caller broke an invariant.
#[cold]
fn wrong_kind(oid: u32) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("a value does not have its column's type {oid}"))
}
