//! Parsing: PostgreSQL's own grammar, with a tree of our own as the result.
//!
//! `statements` is the only entry. Meaning is not checked: no name is looked up here, and no catalog is known. No type
//! of
//! the grammar's crate is visible outside this module, so the binding can be exchanged.
//!
//! # Steps
//! 1. `scan` reads the tokens once and bounds the nesting depth of the statement.
//! 2. `raw` runs the grammar and decodes its tree; beyond `DEPTH_INLINE` on a separate thread with a large stack.
//! 3. `convert` turns that tree into `ast`, and refuses what has no place there.
//!
//! # Invariants
//! - P1. No text panics, hangs or ends the process: every recursion over the structure of the text has a bound before
//!   it
//!   starts.
//! - P2. Every field of every node of the grammar is used, known to be empty, or answered with 0A000 (SQL-1).
//! - P3. Positions are byte offsets into the given text, also if it holds several statements.
//! - P4. The bound of `scan` is never below the depth that `convert` meets, so step 2 never overflows its stack.
//!
//! Checked by `tests`, with generated statements for P4 and random tokens for P1.

pub mod ast;
mod convert;
mod normal;
mod raw;
mod scan;
#[cfg(test)]
mod tests;

use std::ops::Range;

use collie_base::Lsn;
use collie_obs::word;

pub use ast::*;
pub use normal::{Literal, NormalForm, normal_form};

use crate::error::{Result, SqlError, SqlState};

/// Maximal length of a text in bytes. The grammar's tree is about ten times larger than the text.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Maximal depth of a tree in levels. See `ast` A2.
pub const DEPTH_MAX: u32 = 1_000;

/// Maximal number of terms of one AND or OR list.
pub const TERMS_MAX: usize = 65_536;

/// The largest nesting bound that is parsed on the caller's stack. A level takes up to 5 KiB of stack in a debug build,
/// so
/// this fits a quarter of a worker's 2 MiB.
const DEPTH_INLINE: u64 = 100;

/// The stack for deeper statements, in bytes. The grammar's own guards, set for 2 MiB of its frames, always answer
/// first.
const DEEP_STACK_BYTES: usize = 64 << 20;

/// The largest tree that the grammar may produce by repeating parts of the text, in bytes of text.
///
/// The only form it repeats is `SET (a, b) = x`: once per column, and nested ones multiply.
const EXPANSION_BYTES_MAX: u64 = 64 << 20;

/// One statement of a query string.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The tree of the statement.
    pub stmt: Stmt,
    /// The range of its bytes in the text, without the semicolon and surrounding whitespace.
    pub range: Range<usize>,
}

/// Parses the statements of `text`, in order. Empty ones (`;` alone, comments alone) are omitted.
///
/// Cost: about 5 us for a point select. Pure. A statement whose nesting bound is above 100 also costs a thread.
///
/// # Errors
/// 42601 with a position for a syntax error; 0A000 for what is not built, with a position where the grammar kept one;
/// 54000 above 16 MiB; 54001 if it is nested too deeply; 22021 if the text contains a NUL; 53200 if no thread or file
/// descriptor is free.
pub fn statements(text: &str) -> Result<Vec<Statement>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("query string of {} bytes is longer than the limit of {TEXT_BYTES_MAX} bytes", text.len()),
        )
        .hint("Send the statements in several query strings."));
    }
    let span = collie_obs::start::<collie_obs::Parse>().map(collie_obs::Span::with_allocations);
    let shape = scan::shape(text);
    if shape.expansion > EXPANSION_BYTES_MAX {
        return Err(too_complex("multiple-column assignments repeat too much of the statement", Pos::NONE));
    }
    let parsed = if shape.depth <= DEPTH_INLINE { parse_here(text) } else { parse_deep(text) };
    if let (Some(span), Ok(_)) = (span, &parsed) {
        let (ended, alloc_bytes) = span.end();
        let (text_bytes, tokens) = (word(text.len()), word(shape.tokens));
        ended.tell(Lsn::ZERO, collie_obs::Parse { text_bytes, tokens }, [alloc_bytes]);
    }
    parsed
}

/// Parses on a thread with a large stack.
fn parse_deep(text: &str) -> Result<Vec<Statement>> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("collie-parse-deep".into())
            .stack_size(DEEP_STACK_BYTES)
            .spawn_scoped(scope, || parse_here(text))
            .map_err(|error| {
                SqlError::new(SqlState::OUT_OF_MEMORY, format!("no thread for a deeply nested statement: {error}"))
                    .hint("Try again when fewer statements run, or nest less deeply.")
            })?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Parses and discards the result: the entry of the fuzz target. Bytes that are not UTF-8 are replaced.
pub fn fuzz_parse(data: &[u8]) {
    drop(statements(&String::from_utf8_lossy(data)));
}

/// Runs the grammar and the converter on this thread, whose stack must fit the statement (P4).
fn parse_here(text: &str) -> Result<Vec<Statement>> {
    convert::statements(text, raw::parse(text)?)
}

/// Returns the error for a statement that exceeds a limit on its structure: 54001.
fn too_complex(what: impl std::fmt::Display, pos: Pos) -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, format!("statement is too complex: {what}"))
        .at_opt(pos.get())
        .hint("Split the statement, or give the values as an array parameter.")
}
