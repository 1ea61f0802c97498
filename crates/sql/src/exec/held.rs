//! [`Held`]: the account of one statement for the rows that it keeps in memory; [`Kept`]: the part of it that belongs
//! to one
//! operator.
//!
//! It is not an allocator's count: what is kept is added up by the sizes of its values, plus a constant for the
//! overhead.
//! The values of the one row that is being computed do not count; each is bounded by `EvalContext::check_length`.
//!
//! # Invariants
//! - H1. `taken` is the statement's part of the server's budget: at least `bytes`, in steps of [`STEP_BYTES`], and
//!   given
//!   back when the statement's account is dropped.
//! - H2. If an operator starts again, its earlier rows are off the account before its next row is on it: a sort in a
//!   subquery that runs for each row counts once.
//! - H3. A statement fails with 53200 before the row is kept, with the name of the operator that asked.

use std::sync::Arc;

use crate::{
    error::{Result, SqlError, SqlState},
    exec::query_memory::{QueryMemory, Refused},
    types::Value,
};

/// The bytes that a statement takes from the server's budget at a time.
const STEP_BYTES: u64 = 256 << 10;

/// Approximate overhead of a row in addition to its values: its box, its place in a list, and the allocator's overhead.
const ROW_BYTES: usize = 48;

/// Approximate overhead of a key in addition to its bytes, with its entry in a table.
const KEY_BYTES: usize = 48;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: u64,
    bytes_max: Option<u64>,
    taken: u64,
    server: Option<Arc<QueryMemory>>,
    /// Incremented by each [`Held::reset`]: what operators counted before is off the account.
    epoch: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back_all();
    }
}

impl Held {
    /// Creates an empty account that takes from `server` and allows at most `bytes_max`.
    pub(crate) fn of(server: Arc<QueryMemory>, bytes_max: u64) -> Self {
        Self { bytes_max: Some(bytes_max), server: Some(server), ..Self::default() }
    }

    /// Empties the account; the limits stay.
    pub(crate) fn reset(&mut self) {
        self.bytes = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.give_back_all();
    }

    fn give_back_all(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.server.iter().for_each(|server| server.give_back(taken));
    }

    fn add(&mut self, bytes: u64, operator: &'static str) -> Result<()> {
        let total = self.bytes.saturating_add(bytes);
        if total > self.taken {
            self.take(total, operator)?;
        }
        self.bytes = total;
        Ok(())
    }

    /// Takes bytes from the server's budget until the statement has `total` of them (H1).
    #[cold]
    fn take(&mut self, total: u64, operator: &'static str) -> Result<()> {
        if let Some(bytes_max) = self.bytes_max
            && total > bytes_max
        {
            return Err(out_of_memory(
                operator,
                &format!("One statement may keep {bytes_max} bytes of rows in memory."),
            ));
        }
        let wanted = total.max(self.taken.saturating_add(STEP_BYTES)).min(self.bytes_max.unwrap_or(u64::MAX));
        if let Some(server) = &self.server {
            server.take(wanted - self.taken).map_err(|Refused { bytes_max }| {
                out_of_memory(
                    operator,
                    &format!("All statements together may keep {bytes_max} bytes of rows in memory."),
                )
            })?;
        }
        self.taken = wanted;
        Ok(())
    }
}

/// Returns 53200 for the request of `operator`.
fn out_of_memory(operator: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, format!("out of memory for the rows that {operator} keeps"))
        .detail(detail)
        .hint("Have the statement read or return fewer rows, or raise server.statement_memory and server.query_memory.")
}

/// The memory that one operator keeps, on its statement's account.
#[derive(Debug)]
pub(crate) struct Kept {
    operator: &'static str,
    bytes: u64,
    /// What it has dropped but not yet taken off the account (H2).
    dropped: u64,
    epoch: u32,
}

impl Kept {
    /// Creates an empty part; errors name `operator`.
    pub(crate) const fn by(operator: &'static str) -> Self {
        Self { operator, bytes: 0, dropped: 0, epoch: 0 }
    }

    /// Notes that the operator has dropped everything that it kept.
    pub(crate) fn drop_all(&mut self) {
        self.dropped += std::mem::take(&mut self.bytes);
    }

    /// Counts a row that is kept.
    ///
    /// # Errors
    /// 53200 beyond the limits; the row is not counted then.
    #[inline]
    pub(crate) fn row(&mut self, held: &mut Held, values: &[Value]) -> Result<()> {
        self.bytes(held, ROW_BYTES + values.iter().map(bytes_of).sum::<usize>())
    }

    /// Counts values that are added to a row that is already kept.
    ///
    /// # Errors
    /// Those of [`Kept::row`].
    pub(crate) fn values(&mut self, held: &mut Held, values: &[Value]) -> Result<()> {
        self.bytes(held, values.iter().map(bytes_of).sum())
    }

    /// Counts a key that is kept.
    ///
    /// # Errors
    /// Those of [`Kept::row`].
    #[inline]
    pub(crate) fn key(&mut self, held: &mut Held, key: &[u8]) -> Result<()> {
        self.bytes(held, KEY_BYTES + key.len())
    }

    /// Counts bytes that are kept.
    ///
    /// # Errors
    /// Those of [`Kept::row`].
    pub(crate) fn bytes(&mut self, held: &mut Held, bytes: usize) -> Result<()> {
        if self.epoch != held.epoch {
            *self = Self { epoch: held.epoch, ..Self::by(self.operator) };
        }
        held.bytes -= std::mem::take(&mut self.dropped);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        held.add(bytes, self.operator)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes everything that it counted off the account.
    pub(crate) fn end(mut self, held: &mut Held) {
        if self.epoch == held.epoch {
            self.drop_all();
            held.bytes -= self.dropped;
        }
    }
}

/// Returns the approximate size of a value.
pub(crate) fn bytes_of(value: &Value) -> usize {
    let beside = match value {
        Value::Text(text) => text.len(),
        Value::Bytea(bytes) => bytes.len(),
        Value::Array(array) => array.values.iter().map(bytes_of).sum(),
        Value::Record(values) => values.iter().map(bytes_of).sum(),
        _ => 0,
    };
    size_of::<Value>() + beside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(server_bytes: u64, bytes_max: u64) -> (Held, Arc<QueryMemory>) {
        let server = Arc::new(QueryMemory::new(server_bytes));
        (Held::of(server.clone(), bytes_max), server)
    }

    /// Goal: kept rows count by their size, up to the statement's limit and not beyond, and the error names the
    /// operator.
    /// Method: keeps rows and keys of known sizes, at the limit and one byte above.
    #[test]
    fn rows_and_keys_count_up_to_the_limit() {
        let row = [Value::Int4(1), Value::text("12345678")];
        let row_bytes = u64::try_from(ROW_BYTES + 2 * size_of::<Value>() + 8).unwrap();
        let key_bytes = u64::try_from(KEY_BYTES + 3).unwrap();
        let (mut held, _server) = held(u64::MAX, row_bytes + key_bytes);
        let mut sort = Kept::by("a sort");
        sort.row(&mut held, &row).unwrap();
        sort.key(&mut held, b"abc").unwrap();
        let refused = Kept::by("a hash join").key(&mut held, b"").unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        assert_eq!(refused.report().message, "out of memory for the rows that a hash join keeps");
        held.reset();
        sort.row(&mut held, &row).unwrap();
        let nested = Value::Record([Value::text("x")].into());
        assert_eq!(bytes_of(&nested), 2 * size_of::<Value>() + 1);
    }

    /// Goal: an operator that runs again for each outer row counts its rows once, and a reset or an end takes them off
    /// (H2).
    /// Method: runs rounds that together would be far above the limit.
    #[test]
    fn operator_that_begins_again_counts_once() {
        let (mut held, server) = held(u64::MAX, 4096);
        let (mut inner, mut outer) = (Kept::by("a sort"), Kept::by("DISTINCT"));
        outer.bytes(&mut held, 1000).unwrap();
        for _ in 0..1000 {
            inner.bytes(&mut held, 3000).unwrap();
            inner.drop_all();
        }
        inner.bytes(&mut held, 3001).unwrap();
        inner.bytes(&mut held, 100).unwrap_err();
        inner.end(&mut held);
        outer.bytes(&mut held, 3000).unwrap();
        for _ in 0..10 {
            held.reset();
            assert_eq!(server.used_bytes(), 0);
            outer.bytes(&mut held, 4096).unwrap();
        }
        Kept::by("a sort").bytes(&mut held, 1).unwrap_err();
    }

    /// Goal: the server's budget bounds all statements together and gets everything back (H1). Method: uses two
    /// accounts on
    /// one budget, and drops one of them.
    #[test]
    fn statements_share_the_servers_budget() {
        let (mut first, server) = held(1 << 20, u64::MAX);
        let mut second = Held::of(server.clone(), u64::MAX);
        let mut rows = [Kept::by("a sort"), Kept::by("a sort")];
        rows[0].bytes(&mut first, 700 << 10).unwrap();
        let refused = rows[1].bytes(&mut second, 700 << 10).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        drop(first);
        rows[1].bytes(&mut second, 700 << 10).unwrap();
        drop(second);
        assert_eq!(server.used_bytes(), 0);
    }
}
