//! [`Held`]: how much of the rows that it meets a statement keeps in memory, where that is limited.
//!
//! Not an allocator's count: what is put away is added up by the sizes of its values, and what is dropped again is not taken off. So a
//! statement that keeps rows more than once (a sort inside a subquery that runs for each row) is stopped early, never late. The values of
//! one row that is being computed do not count.
//!
//! Statements of clients have no limit, and pay one branch for each row that they keep.

use crate::{
    error::{Result, SqlError, SqlState},
    types::Value,
};

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    bytes: u64,
    bytes_max: u64,
}

impl Default for Held {
    fn default() -> Self {
        Self { bytes: 0, bytes_max: u64::MAX }
    }
}

impl Held {
    /// Nothing is kept yet, and at most `bytes_max` may be.
    pub(crate) fn limited(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max }
    }

    /// Begins anew under the same limit.
    pub(crate) fn reset(&mut self) {
        self.bytes = 0;
    }

    /// Returns whether anything is counted.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.bytes_max < u64::MAX
    }

    /// Counts a row that is kept.
    ///
    /// # Errors
    /// 53200 beyond the limit.
    #[inline]
    pub(crate) fn row(&mut self, values: &[Value]) -> Result<()> {
        if self.is_limited() { self.add(values.iter().map(bytes_of).sum()) } else { Ok(()) }
    }

    /// Counts a key that is kept.
    ///
    /// # Errors
    /// 53200 beyond the limit.
    #[inline]
    pub(crate) fn key(&mut self, key: &[u8]) -> Result<()> {
        if self.is_limited() { self.add(size_of::<Box<[u8]>>() + key.len()) } else { Ok(()) }
    }

    #[cold]
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        let text = format!("the statement keeps more than {} bytes of rows in memory", self.bytes_max);
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, text))
    }
}

/// Returns how much a value takes up, about.
fn bytes_of(value: &Value) -> usize {
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

    /// Goal: what is kept is counted by its size, up to the limit and not beyond; without a limit nothing is refused. Method: rows and
    /// keys of known sizes, at the limit and one byte above.
    #[test]
    fn rows_and_keys_count_up_to_the_limit() {
        let row = [Value::Int4(1), Value::text("12345678")];
        let row_bytes = u64::try_from(2 * size_of::<Value>() + 8).unwrap();
        let key_bytes = u64::try_from(size_of::<Box<[u8]>>() + 3).unwrap();
        let mut held = Held::limited(row_bytes + key_bytes);
        held.row(&row).unwrap();
        held.key(b"abc").unwrap();
        assert_eq!(held.key(b"").unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        held.reset();
        held.row(&row).unwrap();
        let nested = Value::Record([Value::text("x")].into());
        assert_eq!(bytes_of(&nested), 2 * size_of::<Value>() + 1);
        let mut unlimited = Held::default();
        for _ in 0..1000 {
            unlimited.row(&row).unwrap();
        }
    }
}
