//! Bytes at rest: keys whose order is the order of their values, and rows read one column at a time.
//!
//! Not the wire: text and binary forms for clients are `types::io`'s. Nothing here knows tables or versions of them; it
//! is told column types. The normative byte layouts stand in [`key`] and [`row`] and in `docs/format.md`.

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

/// The error for bytes that no encoder here writes: XX001.
#[cold]
fn damaged(what: &str) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("malformed stored data: {what}"))
        .hint("Check the data directory, and restore from a backup if it is damaged.")
}

/// The error for a value that is not of its column's type: a broken invariant of the caller.
#[cold]
fn wrong_kind(oid: u32) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("a value does not have its column's type {oid}"))
}
