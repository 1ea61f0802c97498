//! The call of the grammar: from text to its tree, with the positions of errors.
//!
//! The call of the grammar's crate loses the position of an error. So the C function below it is declared here, which
//! is
//! the only `unsafe` code of this crate.
//!
//! # Invariants
//! - R1. At most one thread is in the C function. The function replaces the process's standard error with a pipe and
//!   restores it at the end; two threads that overlap would leave the pipe in place for good.
//! - R2. What the C function allocated is freed exactly once, by `call`.
//!
//! Checked by `parse/tests/errors.rs` and `parse/tests/depth.rs`.

#![expect(unsafe_code, reason = "the one call into the grammar's C library")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use pg_query::protobuf::ParseResult;
use prost::Message;

use super::{Pos, too_complex};
use crate::error::{Result, SqlError, SqlState};

/// `PgQueryError` of `pg_query.h`.
#[repr(C)]
struct RawError {
    message: *mut c_char,
    function: *mut c_char,
    file: *mut c_char,
    line: c_int,
    /// In characters, from 1; 0 if unknown.
    cursor: c_int,
    context: *mut c_char,
}

/// `PgQueryProtobufParseResult` of `pg_query.h`, with its `PgQueryProtobuf` inlined.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawAnswer {
    tree_bytes: usize,
    tree: *mut c_char,
    stderr: *mut c_char,
    error: *mut RawError,
}

unsafe extern "C" {
    fn pg_query_parse_protobuf_opts(input: *const c_char, options: c_int) -> RawAnswer;
    fn pg_query_free_protobuf_parse_result(answer: RawAnswer);
}

/// Enforces R1.
static GRAMMAR: Mutex<()> = Mutex::new(());

/// The message of the C function if it could not create its pipe. The rest of that error is not initialized.
const NO_PIPE: &[u8] = b"Failed to open pipe, too many open file descriptors";

/// The result of the call: the decoded tree, or a message and a cursor.
type Outcome = Result<ParseResult, (String, c_int)>;

/// Runs the grammar on `text`. The caller's stack must fit the statement.
pub(super) fn parse(text: &str) -> Result<ParseResult> {
    let input = CString::new(text).map_err(|nul| {
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": 0x00")
            .at_opt(u32::try_from(nul.nul_position()).ok())
    })?;
    call(&input)?.map_err(|(message, cursor)| error(text, message, cursor))
}

/// Calls the C function and takes ownership of its result.
fn call(input: &CStr) -> Result<Outcome> {
    // Only a panic in the safe code below poisons the lock, and the lock guards no data.
    let alone = GRAMMAR.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: `input` ends in NUL and outlives the call, the two functions are declared as in their header, and `alone`
    // ensures R1. On success `tree` points to `tree_bytes` bytes; on an error `error` is not null and its message ends
    // in
    // NUL. The answer is freed once (R2), except for the one error whose other fields are uninitialized, which is
    // leaked.
    unsafe {
        let answer = pg_query_parse_protobuf_opts(input.as_ptr(), 0);
        drop(alone);
        if let Some(error) = answer.error.as_ref() {
            let message = CStr::from_ptr(error.message).to_bytes();
            if message == NO_PIPE {
                return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "no file descriptor is free to parse a statement")
                    .hint("Close connections, or raise the limit on open files (ulimit -n)."));
            }
            let outcome = (String::from_utf8_lossy(message).into_owned(), error.cursor);
            pg_query_free_protobuf_parse_result(answer);
            return Ok(Err(outcome));
        }
        let tree = if answer.tree.is_null() {
            Ok(ParseResult::default())
        } else {
            ParseResult::decode(std::slice::from_raw_parts(answer.tree.cast::<u8>(), answer.tree_bytes))
        };
        pg_query_free_protobuf_parse_result(answer);
        tree.map(Ok).map_err(|error| {
            SqlError::new(SqlState::INTERNAL_ERROR, format!("the grammar's tree cannot be decoded: {error}"))
        })
    }
}

/// The grammar's messages that are not syntax errors, by words in them; the first match counts.
const STATES: [(&str, SqlState); 20] = [
    ("memory exhausted", SqlState::STATEMENT_TOO_COMPLEX),
    ("stack depth limit exceeded", SqlState::STATEMENT_TOO_COMPLEX),
    ("too deep", SqlState::STATEMENT_TOO_COMPLEX),
    ("LIMIT #,# syntax", SqlState::SYNTAX_ERROR),
    ("not yet implemented", SqlState::FEATURE_NOT_SUPPORTED),
    ("is not implemented", SqlState::FEATURE_NOT_SUPPORTED),
    ("not supported", SqlState::FEATURE_NOT_SUPPORTED),
    ("only supported for", SqlState::FEATURE_NOT_SUPPORTED),
    ("no longer supported", SqlState::FEATURE_NOT_SUPPORTED),
    ("constraints cannot be ", SqlState::FEATURE_NOT_SUPPORTED),
    ("cannot include schema elements", SqlState::FEATURE_NOT_SUPPORTED),
    ("current database cannot be changed", SqlState::FEATURE_NOT_SUPPORTED),
    ("aggregates cannot have output arguments", SqlState::FEATURE_NOT_SUPPORTED),
    ("invalid byte sequence", SqlState::CHARACTER_NOT_IN_REPERTOIRE),
    ("precision for type float", SqlState::INVALID_PARAMETER_VALUE),
    ("column number must be in range", SqlState::INVALID_PARAMETER_VALUE),
    ("invalid Unicode escape character", SqlState::SYNTAX_ERROR),
    ("frame ", SqlState::WINDOWING_ERROR),
    ("out of memory", SqlState::OUT_OF_MEMORY),
    ("invalid memory alloc", SqlState::OUT_OF_MEMORY),
];

/// Returns the error for a message of the grammar, with its code and position.
fn error(text: &str, message: String, cursor: c_int) -> SqlError {
    // The grammar returns no code. Its syntax errors quote the text, in which words must not be searched.
    let state = if message.starts_with("syntax error at ") {
        SqlState::SYNTAX_ERROR
    } else {
        let known = STATES.iter().find(|(words, _)| message.contains(words));
        known.map_or(SqlState::SYNTAX_ERROR, |&(_, state)| state)
    };
    if state == SqlState::STATEMENT_TOO_COMPLEX {
        return too_complex("it is nested too deeply", Pos::NONE);
    }
    SqlError::new(state, message).at_opt(position(text, cursor).get())
}

/// Converts a cursor, counted in characters from 1, to a byte offset.
fn position(text: &str, cursor: c_int) -> Pos {
    let Some(skip) = usize::try_from(cursor).ok().and_then(|cursor| cursor.checked_sub(1)) else {
        return Pos::NONE;
    };
    let offset = text.char_indices().nth(skip).map_or(text.len(), |(offset, _)| offset);
    u32::try_from(offset).map_or(Pos::NONE, Pos::new)
}
