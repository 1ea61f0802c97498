//! `Rows`: the rows that an index is filled with, made before anything is timed; and the random numbers that select
//! them.

use std::sync::Arc;

use collie_base::Lsn;
use collie_store::{Key, OrderedIndex, Row};

/// Rows in the order of their keys.
pub(crate) struct Rows(Vec<Arc<Row>>);

/// Returns a key of `bytes` bytes: a part that all keys share, a number, and a constant rest. The numbers differ by
/// two, so that a key fits between any two.
fn key(bytes: usize, number: u64) -> Vec<u8> {
    let mut key = vec![b'k'; bytes];
    let at = (bytes - 8).min(bytes * 4 / 5);
    key[at..at + 8].copy_from_slice(&(2 * number).to_be_bytes());
    key
}

impl Rows {
    /// Creates `count` rows with keys of `key_bytes` bytes, at least 8.
    pub(crate) fn new(key_bytes: usize, count: u64) -> Self {
        Self((0..count).map(|number| Row::committed(Key::new(&key(key_bytes, number)), b"", Lsn::FIRST)).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn at(&self, place: usize) -> &Arc<Row> {
        &self.0[place]
    }

    /// Returns a random place.
    pub(crate) fn any(&self, dice: &mut Dice) -> usize {
        dice.below(self.0.len())
    }

    /// Returns the places in random order; the same order for the same seed.
    pub(crate) fn shuffled(&self, seed: u64) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.0.len()).collect();
        let mut dice = Dice::new(seed);
        for at in (1..places.len()).rev() {
            places.swap(at, dice.below(at + 1));
        }
        places
    }

    /// Inserts all rows into a new index in random order.
    pub(crate) fn filled<I: OrderedIndex + Default>(&self) -> I {
        let index = I::default();
        for place in self.shuffled(1) {
            put(&index, self.at(place));
        }
        index
    }
}

/// Inserts a row; returns whether its key was absent.
pub(crate) fn put(index: &impl OrderedIndex, row: &Arc<Row>) -> bool {
    index.get_or_insert(row.key(), |_| (Arc::clone(row), ())).is_ok()
}

/// A repeatable random sequence; cheap, since it runs while the clock does.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `sides`, which is at most 2^32.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let scaled = (u128::from(self.0) * sides as u128) >> 64;
        usize::try_from(scaled).expect("below sides")
    }
}
