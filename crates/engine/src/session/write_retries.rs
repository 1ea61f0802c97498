//! `WriteRetries`: the number of unsuccessful attempts of a statement to write a row, which it waited for or found
//! changed; used to measure the final write.
//!
//! A session does not know SQL statements: it counts consecutive calls for one row. A call for another row in between
//! resets the count, and so does the beginning of a statement.

use collie_base::CfId;
use collie_txn::RowKey;

/// The row that the open statement tries to write, and the number of unsuccessful attempts.
#[derive(Debug, Default)]
pub(crate) struct WriteRetries(Option<(RowKey, u32)>);

impl WriteRetries {
    /// Counts an unsuccessful write of the row, whose caller has to try again.
    pub(crate) fn again(&mut self, cf: CfId, key: &[u8]) {
        let times = self.times(cf, key);
        match &mut self.0 {
            Some((_, counted)) if times > 0 => *counted = times.saturating_add(1),
            other => *other = Some((RowKey::new(cf, key), 1)),
        }
    }

    /// Returns the number of unsuccessful writes of the row.
    pub(crate) fn times(&self, cf: CfId, key: &[u8]) -> u32 {
        let of_row = self.0.as_ref().filter(|(row, _)| row.family() == cf && row.key() == key);
        of_row.map_or(0, |(_, times)| *times)
    }

    /// Resets the count, since another statement begins.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.0.is_some() {
            self.0 = None;
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: calls are counted for their row, and until a statement begins. Method: two rows with one key in two
    /// families, and another key.
    #[test]
    fn calls_are_counted_by_their_row() {
        let (mut tried, one, two) = (WriteRetries::default(), CfId::new(16), CfId::new(17));
        assert_eq!(tried.times(one, b"k"), 0);
        tried.again(one, b"k");
        tried.again(one, b"k");
        assert_eq!([tried.times(one, b"k"), tried.times(two, b"k"), tried.times(one, b"l")], [2, 0, 0]);
        tried.again(two, b"k");
        assert_eq!([tried.times(one, b"k"), tried.times(two, b"k")], [0, 1]);
        tried.clear();
        assert_eq!(tried.times(two, b"k"), 0);
    }
}
