//! `EvalContext`: the input of a built-in function beyond its arguments. It is not a session: it is made from one per
//! statement. Functions that need the catalog or session state use [`SystemFunctions`].
//!
//! Checked by the tests of the functions that read it.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::io::TextContext;

/// Rows of a set-returning function, made on demand.
pub type Rows = Box<dyn Iterator<Item = Result<Value>> + Send>;

/// Everything that a built-in function may read besides its arguments. There is one per statement; it is cheap to make.
///
/// Times are microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// The settings by which values are read from text and written as text: time zone, date order, `bytea_output`.
    pub text: &'a TextContext,
    /// The start of the transaction, which `now()` returns.
    pub transaction_time: i64,
    /// The arrival of the statement, which `statement_timestamp()` returns.
    pub statement_time: i64,
    /// Reads the clock, as `clock_timestamp()` does.
    pub clock_time: &'a dyn Fn() -> i64,
    /// Answers functions that need the catalog or the session.
    pub system: &'a dyn SystemFunctions,
    /// Maximum length in bytes of a value that a function makes longer than its arguments.
    pub value_bytes_max: usize,
}

/// A value of this length or more is 54000, as in PostgreSQL.
const VALUE_BYTES_LIMIT: usize = 1 << 30;

/// Memory of one piece of text in a list, without its bytes: its value, its reference counts, and the allocator's
/// rounding.
pub(super) const ELEMENT_BYTES: usize = size_of::<Value>() + 24;

/// Returns the memory of a list of this many pieces of a text.
pub(super) fn list_bytes(subject: &str, pieces: usize) -> usize {
    subject.len().saturating_add(pieces.saturating_mul(ELEMENT_BYTES))
}

impl EvalContext<'_> {
    /// Returns the largest length in bytes that [`EvalContext::check_length`] accepts.
    pub(super) fn bytes_max(&self) -> usize {
        self.value_bytes_max.min(VALUE_BYTES_LIMIT - 1)
    }

    /// Checks the length in bytes of a value that is about to be made.
    ///
    /// # Errors
    /// 54000 from 1 GiB on; 53200 above [`EvalContext::value_bytes_max`].
    #[inline]
    pub fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes < VALUE_BYTES_LIMIT && bytes <= self.value_bytes_max { Ok(()) } else { Err(self.too_long(bytes)) }
    }

    #[cold]
    fn too_long(&self, bytes: usize) -> SqlError {
        if bytes >= VALUE_BYTES_LIMIT {
            return SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large");
        }
        SqlError::new(SqlState::OUT_OF_MEMORY, format!("out of memory for a value of {bytes} bytes"))
            .detail(format!("One statement may keep {} bytes in memory.", self.value_bytes_max))
            .hint("Make a shorter value, or raise server.statement_memory.")
    }
}

/// Answers the functions whose [`Implementation`](super::Implementation) is `System` or `SystemSet`.
///
/// `source` is the function's [`Proc::source`](super::Proc::source) (`pg_proc.prosrc`), or `name(type, ...)` for a
/// function that is not internal in PostgreSQL.
pub trait SystemFunctions {
    /// Computes one value.
    ///
    /// # Errors
    /// Those of the function; 0A000 for an unknown source.
    fn call(&self, source: &str, args: &[Value]) -> Result<Value>;

    /// Computes the rows of a set-returning function.
    ///
    /// # Errors
    /// As for [`SystemFunctions::call`].
    fn call_set(&self, source: &str, args: &[Value]) -> Result<Rows>;
}
