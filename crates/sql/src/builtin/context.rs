//! `EvalContext`: what a built-in function may know beyond its arguments. Not a session: it is made per statement
//! from one, and anything that needs the catalog or session state goes through [`SystemFunctions`].
//!
//! Checked by the tests of the functions that read it.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::io::TextContext;

/// Rows of a set-returning function, made as they are asked for.
pub type Rows = Box<dyn Iterator<Item = Result<Value>> + Send>;

/// Everything a built-in function may read besides its arguments. One per statement; cheap to make.
///
/// Times are microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// How values are read from and written as text: time zone, date order, `bytea_output`.
    pub text: &'a TextContext,
    /// When the transaction began: what `now()` returns.
    pub transaction_time: i64,
    /// When the statement arrived: what `statement_timestamp()` returns.
    pub statement_time: i64,
    /// Reads the clock: what `clock_timestamp()` returns.
    pub clock_time: &'a dyn Fn() -> i64,
    /// Answers functions that need the catalog or the session.
    pub system: &'a dyn SystemFunctions,
    /// The most bytes that one value may have which a function makes longer than its arguments.
    pub value_bytes_max: usize,
}

/// The longest value that PostgreSQL makes; beyond it is 54000.
const VALUE_BYTES_LIMIT: usize = 1 << 30;

/// Memory of one piece of text in a list of them, without its bytes: its value, the counts of who shares it, and what the allocator rounds.
pub(super) const ELEMENT_BYTES: usize = size_of::<Value>() + 24;

/// Returns the memory of a list of so many pieces of a text.
pub(super) fn list_bytes(subject: &str, pieces: usize) -> usize {
    subject.len().saturating_add(pieces.saturating_mul(ELEMENT_BYTES))
}

impl EvalContext<'_> {
    /// Returns the most bytes for which [`EvalContext::check_length`] is content.
    pub(super) fn bytes_max(&self) -> usize {
        self.value_bytes_max.min(VALUE_BYTES_LIMIT - 1)
    }

    /// Checks the length of a value that is about to be made, in bytes.
    ///
    /// # Errors
    /// 54000 from 1 GiB on; 53200 beyond [`EvalContext::value_bytes_max`].
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
/// `source` is the function's [`Proc::source`](super::Proc::source) (`pg_proc.prosrc`), or for the functions that are
/// not internal ones in PostgreSQL, `name(type, ...)`.
pub trait SystemFunctions {
    /// Computes one value.
    ///
    /// # Errors
    /// Whatever the function raises; 0A000 for a source that it does not know.
    fn call(&self, source: &str, args: &[Value]) -> Result<Value>;

    /// Computes the rows of a set-returning function.
    ///
    /// # Errors
    /// As [`SystemFunctions::call`].
    fn call_set(&self, source: &str, args: &[Value]) -> Result<Rows>;
}
