//! Tests of the parser: statements of clients, the content of the tree, positions of errors, and nesting depth.
//!
//! Expected positions are byte offsets from 0, as `SqlError` keeps them; a client sees characters counted from 1.

mod clients;
mod depth;
mod errors;
mod trees;

use super::{Stmt, statements};
use crate::error::{SqlError, SqlState};

/// Parses a text that contains exactly one statement.
fn one(text: &str) -> Stmt {
    let mut all = statements(text).unwrap_or_else(|error| panic!("{text}: {error:?} at {:?}", error.report().position));
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0).stmt
}

/// Parses a text that must fail.
fn failure(text: &str) -> SqlError {
    match statements(text) {
        Err(error) => error,
        Ok(parsed) => panic!("{text} was accepted: {parsed:?}"),
    }
}

/// Checks the code and position of an error.
fn check_error(text: &str, state: SqlState, position: Option<u32>) {
    let error = failure(text);
    assert_eq!((error.state(), error.report().position), (state, position), "{text}: {error}");
}
