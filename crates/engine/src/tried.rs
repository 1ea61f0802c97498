//! `Tried`: how often a statement had to come again to write a row, which it waited for or found changed: for who measures the write that
//! stands at last.
//!
//! A session knows no statement of SQL's: it counts calls for one row in a row. What another row is tried for in between is forgotten, as is
//! everything when a statement begins.

use collie_base::CfId;
use collie_txn::RowKey;

/// The row that the open statement has to come back to, and how often it was there.
#[derive(Debug, Default)]
pub(crate) struct Tried(Option<(RowKey, u32)>);

impl Tried {
    /// A write of `row` did not stand: its caller has to come again.
    pub(crate) fn again(&mut self, cf: CfId, key: &[u8]) {
        let times = self.times(cf, key);
        match &mut self.0 {
            Some((_, counted)) if times > 0 => *counted = times.saturating_add(1),
            other => *other = Some((RowKey::new(cf, key), 1)),
        }
    }

    /// Returns how often a write of the row did not stand.
    pub(crate) fn times(&self, cf: CfId, key: &[u8]) -> u32 {
        let of_row = self.0.as_ref().filter(|(row, _)| row.family() == cf && row.key() == key);
        of_row.map_or(0, |(_, times)| *times)
    }

    /// Another statement begins.
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

    /// Goal: calls are counted for the row that they were for, and until a statement begins. Method: two rows with one key in two families,
    /// and another key.
    #[test]
    fn calls_are_counted_by_their_row() {
        let (mut tried, one, two) = (Tried::default(), CfId::new(16), CfId::new(17));
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
