//! `Shards`: B-trees with a lock each; a hash of the key selects one. Writers rarely collide; a scan holds every lock
//! and merges.

use std::cmp::Ordering;
use std::collections::btree_map::{Entry, Range};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

use collie_store::{Key, OrderedIndex, Row, Span};
use collie_sync::Padded;
use parking_lot::RwLock;

const SHARDS: u64 = 64;

type Rows = BTreeMap<Key, Arc<Row>>;

/// Sixty-four B-trees.
pub(crate) struct Shards(Vec<Padded<RwLock<Rows>>>);

impl Default for Shards {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Padded::default()).collect())
    }
}

impl Shards {
    fn of(&self, key: &[u8]) -> &RwLock<Rows> {
        let mix = |hash: u64, part: &[u8]| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        let hash = key.chunks(8).fold(0, mix).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.0[usize::try_from(hash % SHARDS).expect("below SHARDS")]
    }
}

/// The next row of one shard in a merge. The order is that of a max-heap: the row to visit next is the greatest.
struct Next<'a> {
    key: &'a Key,
    row: &'a Arc<Row>,
    rest: Range<'a, Key, Arc<Row>>,
    reverse: bool,
}

impl<'a> Next<'a> {
    fn of(mut rest: Range<'a, Key, Arc<Row>>, reverse: bool) -> Option<Self> {
        let (key, row) = if reverse { rest.next_back() } else { rest.next() }?;
        Some(Self { key, row, rest, reverse })
    }
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.reverse { self.key.cmp(other.key) } else { other.key.cmp(self.key) }
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next<'_> {}

impl OrderedIndex for Shards {
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R> {
        self.of(key).read().get(key).map(look)
    }

    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>> {
        match self.of(key).write().entry(Key::new(key)) {
            Entry::Occupied(present) => Err(Arc::clone(present.get())),
            Entry::Vacant(place) => {
                let (row, answer) = make(place.key().clone());
                place.insert(row);
                Ok(answer)
            }
        }
    }

    fn remove_if(&self, row: &Arc<Row>) -> bool {
        let mut rows = self.of(row.key()).write();
        let found = rows.get(row.key()).is_some_and(|present| Arc::ptr_eq(present, row));
        found && rows.remove(row.key()).is_some()
    }

    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool {
        if span.is_empty() {
            return true;
        }
        let shards: Vec<_> = self.0.iter().map(|shard| shard.read()).collect();
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (span.start, span.end);
        let ranges = shards.iter().map(|rows| rows.range::<[u8], _>(bounds));
        let mut heads: BinaryHeap<Next<'_>> = ranges.filter_map(|range| Next::of(range, span.reverse)).collect();
        for _ in 0..max {
            let Some(head) = heads.pop() else { return true };
            visit(head.key, head.row);
            heads.extend(Next::of(head.rest, span.reverse));
        }
        false
    }

    fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.read().len()).sum()
    }

    fn clear(&self) {
        for shard in &self.0 {
            drop(std::mem::take(&mut *shard.write()));
        }
    }
}
