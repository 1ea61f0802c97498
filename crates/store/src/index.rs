//! `OrderedIndex`: the set of existing rows, in key order.
//!
//! An index maps keys to rows and knows nothing of versions. No cursor keeps a lock or a place: a scan continues
//! from the last key it saw. The reference implementation is one B-tree behind one read-write lock. Families use
//! [`RowIndex`]: ranges of keys with a lock for each, chosen by the measurements in
//! `docs/decisions/0067-rows-in-partitions.md`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

// Rows are read under the lock, so shuttle must model it. In loom models it would only be one more thing to
// explore: no thread ever waits for it there.
#[cfg(shuttle)]
use collie_sync::RwLock;
use collie_sync::mutant;
#[cfg(not(shuttle))]
use parking_lot::RwLock;

mod partitioned;

use crate::key::Key;
use crate::row::Row;
pub use partitioned::PartitionedIndex;

/// The index of a family. Models examine rows and not indexes, so they use the reference implementation.
#[cfg(not(any(loom, shuttle)))]
pub type RowIndex = PartitionedIndex;
/// The index of a family. Models examine rows and not indexes, so they use the reference implementation.
#[cfg(any(loom, shuttle))]
pub type RowIndex = BTreeIndex;

/// Keys between two ends, in one of two directions.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The lower end.
    pub start: Bound<&'a [u8]>,
    /// The upper end.
    pub end: Bound<&'a [u8]>,
    /// Whether the direction is from the upper end down.
    pub reverse: bool,
}

impl<'a> Span<'a> {
    /// Returns whether no key can be inside.
    pub fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
                start >= end
            }
            _ => false,
        }
    }

    /// Returns the remainder of the span after `key`, in its direction.
    #[must_use]
    pub fn after(self, key: &'a [u8]) -> Self {
        let beyond = |bound: Bound<&[u8]>, side: fn(&[u8], &[u8]) -> bool| match bound {
            Bound::Included(at) | Bound::Excluded(at) => side(key, at),
            Bound::Unbounded => true,
        };
        if self.reverse {
            let end = if beyond(self.end, |key, at| key <= at) { Bound::Excluded(key) } else { self.end };
            Self { end, ..self }
        } else {
            let start = if beyond(self.start, |key, at| key >= at) { Bound::Excluded(key) } else { self.start };
            Self { start, ..self }
        }
    }
}

/// Rows by key. Every call is atomic by itself.
pub trait OrderedIndex: Send + Sync {
    /// Calls `look` with the row at `key`. `look` must not call the index.
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R>;

    /// Returns the row at `key`, or inserts the one that `make` returns. `make` must not call the index; its
    /// result is dropped unused when another call was first.
    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>>;

    /// Inserts rows that are in ascending key order, except those whose key is already present; returns how many
    /// it inserted. Other threads may see some of them before others.
    fn load_sorted(&self, rows: Vec<Arc<Row>>) -> usize {
        let put = |row: &Arc<Row>| self.get_or_insert(row.key(), |_| (Arc::clone(row), ())).is_ok();
        rows.iter().filter(|row| put(row)).count()
    }

    /// Removes the entry at the row's key if it still is this row.
    fn remove_if(&self, row: &Arc<Row>) -> bool;

    /// Visits up to `max` rows of `span` in its order; returns whether the span ended before `max`. `visit` must
    /// not call the index.
    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool;

    /// Returns how many rows there are.
    fn len(&self) -> usize;

    /// Returns whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate number of levels that a search for a key descends, computed from the number of rows
    /// alone.
    fn depth(&self) -> u32 {
        tree_levels(self.len())
    }

    /// Removes every row.
    fn clear(&self);
}

/// Returns the approximate number of levels of the standard library's B-tree with this many keys; the library does
/// not expose it. Its nodes have 5 to 11 keys. Nodes left by splits of ascending keys have 6 keys and so 7
/// children, which this formula assumes; a root has 12 before it is split.
fn tree_levels(keys: usize) -> u32 {
    const ROOT_CHILDREN: usize = 12;
    const CHILDREN: usize = 7;
    if keys == 0 { 0 } else { 1 + (keys / ROOT_CHILDREN).checked_ilog(CHILDREN).map_or(0, |levels| levels + 1) }
}

/// The reference implementation: a B-tree behind a read-write lock.
#[derive(Debug, Default)]
pub struct BTreeIndex(RwLock<BTreeMap<Key, Arc<Row>>>);

impl OrderedIndex for BTreeIndex {
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R> {
        self.0.read().get(key).map(look)
    }

    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>> {
        match self.0.write().entry(Key::new(key)) {
            Entry::Occupied(present) => Err(Arc::clone(present.get())),
            Entry::Vacant(place) => {
                let (row, answer) = make(place.key().clone());
                place.insert(row);
                Ok(answer)
            }
        }
    }

    fn remove_if(&self, row: &Arc<Row>) -> bool {
        let mut rows = self.0.write();
        let same = |present: &Arc<Row>| Arc::ptr_eq(present, row) || mutant!("REMOVED_BY_KEY");
        let found = rows.get(row.key()).is_some_and(same);
        found && rows.remove(row.key()).is_some()
    }

    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool {
        if span.is_empty() {
            return true;
        }
        let rows = self.0.read();
        let mut range = rows.range::<[u8], _>((span.start, span.end));
        for _ in 0..max {
            let Some((key, row)) = (if span.reverse { range.next_back() } else { range.next() }) else { return true };
            visit(key, row);
        }
        false
    }

    fn len(&self) -> usize {
        self.0.read().len()
    }

    fn clear(&self) {
        let rows = std::mem::take(&mut *self.0.write());
        drop(rows); // outside the lock: the time to drop rows is proportional to their number
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod promises {
    use super::*;
    use crate::index_checks::{check_against_a_map, check_under_threads};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Goal: the reference implementation is a map. Method: random steps on both.
        #[test]
        fn floor_is_a_map(steps in proptest::collection::vec(any::<(u8, u16)>(), 1..120)) {
            check_against_a_map::<BTreeIndex>(&steps);
        }

        /// Goal: partitions together are one map. Method: random steps on both, runs of which fill and empty
        /// partitions.
        #[test]
        fn partitions_are_one_map(steps in proptest::collection::vec(any::<(u8, u16)>(), 1..120)) {
            check_against_a_map::<PartitionedIndex<32>>(&steps);
        }
    }

    /// Goal: threads lose nothing in the reference implementation. Method: the stress test of every index.
    #[test]
    fn floor_loses_nothing_under_threads() {
        check_under_threads::<BTreeIndex>(100);
    }

    /// Goal: threads lose nothing in partitions that split and merge. Method: the stress test of every index.
    #[test]
    fn partitions_lose_nothing_under_threads() {
        check_under_threads::<PartitionedIndex<32>>(100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the computed levels are within the bounds of the standard library's tree. Method: numbers of keys up
    /// to millions; the least levels are those of nodes with 11 keys, the most those of nodes with 5 below a root
    /// with one.
    #[test]
    fn tree_levels_are_some_that_such_a_tree_can_have() {
        assert_eq!([0, 1, 11, 12, 83, 84, 587, 588].map(tree_levels), [0, 1, 1, 2, 2, 3, 3, 4]);
        for keys in std::iter::successors(Some(1_usize), |keys| Some(keys + keys / 15 + 1)).take(240) {
            let levels = tree_levels(keys);
            let (least, most) = (2 * 6_usize.pow(levels - 1) - 1, 12_usize.pow(levels) - 1);
            assert!((least..=most).contains(&keys), "{keys} keys in {levels} levels, which have {least} to {most}");
        }
    }

    /// Goal: continuing after a key never widens a span, whatever the key. Method: every small span and key, both
    /// ways.
    #[test]
    fn span_after_a_key_is_the_part_of_the_span_beyond_it() {
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let ends: Vec<Bound<&[u8]>> = keys
            .iter()
            .flat_map(|key| [Bound::Included(*key), Bound::Excluded(*key)])
            .chain([Bound::Unbounded])
            .collect();
        let inside = |span: &Span<'_>, key: &[u8]| {
            (match span.start {
                Bound::Included(at) => key >= at,
                Bound::Excluded(at) => key > at,
                Bound::Unbounded => true,
            }) && (match span.end {
                Bound::Included(at) => key <= at,
                Bound::Excluded(at) => key < at,
                Bound::Unbounded => true,
            })
        };
        for (start, end) in ends.iter().flat_map(|s| ends.iter().map(move |e| (*s, *e))) {
            for reverse in [false, true] {
                let span = Span { start, end, reverse };
                for after in keys {
                    let rest = span.after(after);
                    for key in keys {
                        let beyond = if reverse { key < after } else { key > after };
                        assert_eq!(
                            inside(&rest, key),
                            inside(&span, key) && beyond,
                            "{span:?} after {after:?}: {key:?}"
                        );
                        assert!(!(span.is_empty() && inside(&span, key)));
                    }
                }
            }
        }
    }
}
