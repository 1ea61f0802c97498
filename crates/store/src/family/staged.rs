//! `Staged`: rows that will enter a family's index while its directory is opened. They are found by a hash of
//! their keys, and sorted once at the end.
//!
//! A log has keys in no order. Inserted one by one into an index larger than the caches, each key would cost a
//! miss per level; here each costs one miss, and the final sort moves words instead of touching places in memory.
//!
//! # Invariants
//! - G1. The row of a key is here or in the index, never in both. Each `Staged` has one thread, which gets all
//!   writes of its keys.
//! - G2. There is no free slot between a row's home slot, which its hash determines, and the slot where it is.
//!   There always is a free slot.
//! - G3. Rows here are marked as unflushed but are in no list: no flush runs before they enter the index, and then
//!   they are listed.
//!
//! Checked by the tests below, and by the engine's replay against a map.

use std::cmp::Ordering;
use std::sync::Arc;

use collie_base::Lsn;

use super::Family;
use super::loading::{Loaded, LoggedWrite};
use crate::epoch::Pin;
use crate::index::OrderedIndex;
use crate::key::Key;
use crate::row::Row;
use crate::unflushed::listed_bytes;

/// Initial number of slots; the number is always a power of two.
const SLOTS_MIN: usize = 64;
/// Approximate number of rows in one range of keys: few enough that a range fits into a processor's cache, and
/// enough that the copy of the index's directory, one per range, costs little.
const RANGE_ROWS: usize = 1 << 15;

/// Keys that one [`Staged::warm`] loads: a processor has about this many loads in flight.
pub const WARMED: usize = 16;

#[derive(Debug)]
struct Slot {
    hash: u64,
    row: Arc<Row>,
}

/// Rows of one family that are not in its index yet, owned by one thread.
#[derive(Debug)]
pub struct Staged {
    /// Whether the index has no rows.
    is_alone: bool,
    slots: Vec<Option<Slot>>,
    rows: usize,
    /// The common prefix of all keys; `None` before the first key.
    prefix: Option<Vec<u8>>,
    /// Counted memory of the rows and versions.
    memory: i64,
    /// Approximate bytes that the rows count for in the lists of unflushed rows.
    listed_bytes: u64,
    /// The rows need the log from this position on.
    since: Lsn,
}

impl Staged {
    /// Creates an empty set for `family`. No other thread may put rows of its keys into the family until the set
    /// was taken in.
    pub fn new<I: OrderedIndex>(family: &Family<I>) -> Self {
        Self {
            is_alone: family.index.is_empty(),
            slots: Vec::new(),
            rows: 0,
            prefix: None,
            memory: 0,
            listed_bytes: 0,
            since: Lsn::MAX,
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns whether the family's index has rows, so that each write first looks there, best in key order.
    pub fn is_over_rows(&self) -> bool {
        !self.is_alone
    }

    /// Returns the home slot of this hash. Uses its upper bits, since the lower ones may have selected the thread.
    fn home(&self, hash: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        usize::try_from(hash >> (u64::BITS - bits)).unwrap_or(0)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Returns the slot of the key's row, or the free slot where it would go. There must be slots.
    fn place_of(&self, hash: u64, key: &[u8]) -> usize {
        let mut at = self.home(hash);
        while self.slots[at].as_ref().is_some_and(|slot| slot.hash != hash || slot.row.key() != key) {
            at = self.next(at); // G2
        }
        at
    }

    /// Loads into the cache the memory that writes to keys of these hashes will touch. The loads of different keys
    /// overlap, which they would not if each key was written before the next look-up. The result means nothing; it
    /// only keeps the compiler from dropping the loads.
    #[must_use]
    pub fn warm(&self, hashes: impl Iterator<Item = u64>, pin: &Pin) -> u64 {
        if self.slots.is_empty() {
            return 0;
        }
        let (mut rows, mut sum) = ([None; WARMED], 0);
        for (hash, row) in hashes.zip(&mut rows) {
            *row = self.slots[self.home(hash)].as_ref().filter(|slot| slot.hash == hash).map(|slot| &slot.row);
        }
        for row in rows.into_iter().flatten() {
            sum ^= row.newest_stamp(pin);
        }
        sum
    }

    fn get(&self, hash: u64, key: &[u8]) -> Option<&Arc<Row>> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.place_of(hash, key)].as_ref().map(|slot| &slot.row)
    }

    /// Adds a row whose key is not present.
    fn insert(&mut self, hash: u64, row: Arc<Row>) {
        if self.rows + self.rows / 4 >= self.slots.len() {
            self.grow();
        }
        let key = row.key();
        let same = match &self.prefix {
            Some(prefix) => prefix.iter().zip(key).take_while(|(one, other)| one == other).count(),
            None => key.len(),
        };
        self.prefix.get_or_insert_with(|| key.to_vec()).truncate(same);
        let place = self.place_of(hash, key);
        self.slots[place] = Some(Slot { hash, row });
        self.rows += 1;
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(|| None).take(slots).collect());
        // In the order of the old slots, which is nearly the order of the new ones.
        for slot in old.into_iter().flatten() {
            let mut at = self.home(slot.hash);
            while self.slots[at].is_some() {
                at = self.next(at);
            }
            self.slots[at] = Some(slot);
        }
    }

    /// Takes out a dead row; returns `false` if it is not here.
    fn remove(&mut self, hash: u64, row: &Arc<Row>) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let mut free = self.place_of(hash, row.key());
        if !self.slots[free].as_ref().is_some_and(|slot| Arc::ptr_eq(&slot.row, row)) {
            return false;
        }
        self.slots[free] = None;
        self.memory -= i64::try_from(row.row_bytes()).unwrap_or(i64::MAX);
        self.listed_bytes -= self.listed_bytes / u64::try_from(self.rows).unwrap_or(u64::MAX);
        self.rows -= 1;
        // G2: each row behind the free slot moves up, unless the free slot is in front of its home slot.
        let mut at = self.next(free);
        while let Some(slot) = &self.slots[at] {
            let mask = self.slots.len() - 1;
            let (from_home, from_free) = (at.wrapping_sub(self.home(slot.hash)) & mask, at.wrapping_sub(free) & mask);
            if from_home >= from_free {
                self.slots.swap(at, free);
                free = at;
            }
            at = self.next(at);
        }
        true
    }
}

/// Staged rows in key order, each with a word of its key that decides most comparisons.
#[derive(Debug)]
pub struct Ordered {
    rows: Vec<(u128, Arc<Row>)>,
    listed_bytes: u64,
    since: Lsn,
}

/// Orders by the word, and where the words are equal by the whole key.
fn order(one: &(u128, Arc<Row>), other: &(u128, Arc<Row>)) -> Ordering {
    one.0.cmp(&other.0).then_with(|| one.1.key().cmp(other.1.key()))
}

/// Returns the 16 bytes of a key that follow its first `skip` bytes, as a big-endian word.
fn word(key: &[u8], skip: usize) -> u128 {
    let (mut bytes, rest) = ([0; 16], &key[skip..]);
    let len = rest.len().min(bytes.len());
    bytes[..len].copy_from_slice(&rest[..len]);
    u128::from_be_bytes(bytes)
}

impl Ordered {
    /// Returns the length of the prefix that the keys of all these rows share.
    pub fn prefix_bytes<'a>(all: impl IntoIterator<Item = &'a Staged>) -> usize {
        let mut prefixes = all.into_iter().filter_map(|staged| staged.prefix.as_deref());
        let Some(first) = prefixes.next() else { return 0 };
        let same = |other: &[u8]| first.iter().zip(other).take_while(|(one, other)| one == other).count();
        prefixes.map(same).min().unwrap_or(first.len()).min(first.len())
    }

    /// Sorts rows of `family` whose keys all share their first `prefix_bytes` bytes. Nothing more is staged
    /// afterwards.
    pub fn new<I: OrderedIndex>(family: &Family<I>, staged: Staged, prefix_bytes: usize) -> Self {
        let Staged { slots, rows: count, memory, listed_bytes, since, .. } = staged;
        family.count(memory);
        let mut rows = Vec::with_capacity(count);
        rows.extend(slots.into_iter().flatten().map(|slot| (word(slot.row.key(), prefix_bytes), slot.row)));
        rows.sort_unstable_by(order);
        Self { rows, listed_bytes, since }
    }

    /// Cuts sorted sets of one family into ranges of keys. Each range holds its part of every set, and any thread
    /// may take it in.
    pub fn ranges(mut all: Vec<Self>) -> Vec<Vec<Self>> {
        let total: usize = all.iter().map(|one| one.rows.len()).sum();
        let Some(longest) = all.iter().max_by_key(|one| one.rows.len()) else { return Vec::new() };
        let step = longest.rows.len() / total.div_ceil(RANGE_ROWS).max(1) + 1;
        let starts: Vec<(u128, Arc<Row>)> =
            longest.rows.iter().step_by(step).skip(1).map(|(word, row)| (*word, Arc::clone(row))).collect();
        let mut ranges: Vec<Vec<Self>> = starts
            .iter()
            .rev()
            .map(|start| {
                all.iter_mut()
                    .map(|one| {
                        let at = one.rows.partition_point(|row| order(row, start).is_lt());
                        let bytes = one.listed_bytes / one.rows.len().max(1) as u64 * (one.rows.len() - at) as u64;
                        one.listed_bytes -= bytes;
                        Self { rows: one.rows.split_off(at), listed_bytes: bytes, since: one.since }
                    })
                    .collect()
            })
            .collect();
        ranges.push(all);
        ranges
    }
}

impl<I: OrderedIndex> Family<I> {
    /// Does what [`Family::replay`] does, but stages a key that is new to the index in `staged`. `hash` is the
    /// hash of the key, by one function for all writes.
    pub fn stage(&self, write: &LoggedWrite<'_>, hash: u64, staged: &mut Staged, pin: &Pin) -> Loaded {
        let LoggedWrite { key, value, csn, since, is_settled } = *write;
        if !staged.is_alone
            && let Some(row) = self.index.with(key, Arc::clone)
        {
            return self.replay_over(row, write, pin);
        }
        let old_bytes = match (staged.get(hash, key), value) {
            (Some(row), _) => {
                let Some(grown) = row.load(value, csn, is_settled, pin) else { return Loaded::default() };
                let dead = row.is_dead().then(|| Arc::clone(row));
                staged.memory += grown.all;
                if let Some(row) = dead {
                    staged.remove(hash, &row);
                    return Loaded { old_bytes: grown.old, kept: None };
                }
                grown.old
            }
            (None, None) if is_settled => return Loaded::default(),
            (None, value) => {
                let row = match value {
                    Some(value) => Row::committed(Key::new(key), value, csn),
                    None => Row::deleted(Key::new(key), csn),
                };
                let _listed_later = self.unflushed.is_some() && row.mark(); // G3
                staged.memory += i64::try_from(row.loaded_bytes()).unwrap_or(i64::MAX);
                staged.listed_bytes += listed_bytes(key, value.map_or(0, <[u8]>::len));
                let old_bytes = if value.is_none() { row.old_version_bytes(pin) } else { 0 };
                staged.insert(hash, row);
                i64::try_from(old_bytes).unwrap_or(i64::MAX)
            }
        };
        staged.since = staged.since.min(since);
        // The LSM tree has nothing of this row, so the deletion stays only for commits that may precede it.
        let kept = if value.is_none() { staged.get(hash, key).map(Arc::clone) } else { None };
        Loaded { old_bytes, kept }
    }

    /// Does what [`Family::settle`] does for a row that may be staged.
    pub fn settle_staged(&self, row: &Arc<Row>, csn: Lsn, hash: u64, staged: &mut Staged, pin: &Pin) -> i64 {
        if !staged.get(hash, row.key()).is_some_and(|here| Arc::ptr_eq(here, row)) {
            return self.settle(row, csn, pin);
        }
        let grown = row.settle(csn, pin);
        staged.memory += grown.all;
        if row.is_dead() {
            staged.remove(hash, row);
        }
        grown.old
    }

    /// Puts the rows of one range into the index. Other threads may do so with other ranges in parallel.
    pub fn take_in(&self, range: Vec<Ordered>) {
        let since = range.iter().map(|part| part.since).min().unwrap_or(Lsn::MAX);
        let bytes = range.iter().map(|part| part.listed_bytes).sum();
        let mut parts = range.into_iter();
        let mut rows = parts.next().map(|part| part.rows).unwrap_or_default();
        for part in parts {
            rows.extend(part.rows);
        }
        rows.sort_by(order); // merges the sorted parts
        let rows: Vec<Arc<Row>> = rows.into_iter().map(|(_, row)| row).collect();
        if let Some(lists) = self.unflushed.as_ref().filter(|_| !rows.is_empty()) {
            lists.append(rows.iter().map(Arc::clone), bytes, since); // G3
        }
        let count = rows.len();
        let put = self.index.load_sorted(rows);
        assert_eq!(put, count, "G1: a key is staged once, and not in the index");
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use collie_base::CfId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Goal: G2, and all staged rows come out in order. Method: random insertions and removals of keys, many
        /// of which share one home slot, compared with a map; then the order of the rows is checked.
        #[test]
        fn staged_rows_are_a_map(steps in proptest::collection::vec(any::<(bool, u8)>(), 0..400), skew in 0_u32..64) {
            let family = Family::<crate::RowIndex>::new(CfId::new(1));
            let (mut staged, mut map) = (Staged::new(&family), BTreeMap::new());
            let hash = |key: &[u8]| u64::from(key[3]).wrapping_mul(0x9E37_79B9_7F4A_7C15) << skew;
            for (put, key) in steps {
                let key = [7, 7, 7, key];
                match map.remove(&key) {
                    Some(row) => prop_assert!(staged.remove(hash(&key), &row) && !staged.remove(hash(&key), &row)),
                    None if put => {
                        let row = Row::committed(Key::new(&key), b"", Lsn::FIRST);
                        staged.insert(hash(&key), Arc::clone(&row));
                        map.insert(key, row);
                    }
                    None => prop_assert!(staged.get(hash(&key), &key).is_none()),
                }
                prop_assert_eq!(staged.len(), map.len());
                for (key, row) in &map {
                    prop_assert!(staged.get(hash(key), key).is_some_and(|found| Arc::ptr_eq(found, row)));
                }
            }
            let prefix = Ordered::prefix_bytes([&staged]);
            prop_assert!(map.is_empty() || prefix >= 3);
            let ordered = Ordered::new(&family, staged, prefix);
            prop_assert!(ordered.rows.iter().map(|(_, row)| row.key()).eq(map.keys().map(|key| &key[..])));
        }
    }

    /// Goal: T62: rows that the log puts and deletes leave nothing in memory. Method: a thousand keys, each put,
    /// changed and deleted, the deletions settled at once or later; one key that stays; then a check of every
    /// counter.
    #[test]
    fn rows_put_and_deleted_in_the_log_leave_nothing() {
        for is_settled in [true, false] {
            let family = Family::<crate::RowIndex>::with_levels(CfId::new(1));
            let (mut staged, pin, mut old_bytes, mut kept) = (Staged::new(&family), crate::pin(), 0, Vec::new());
            let hash = |key: &[u8]| u64::from_be_bytes(key.try_into().expect("eight bytes")) << 32;
            for number in 0..1000_u64 {
                let (key, csn) = (number.to_be_bytes(), |at| Lsn::new(5000 + 10 * number + at));
                let values: [(Option<&[u8]>, u64); 3] = [(Some(b"one"), 0), (Some(b"other"), 1), (None, 2)];
                for (value, at) in values.into_iter().filter(|(value, _)| number != 500 || value.is_some()) {
                    let write = LoggedWrite { key: &key, value, csn: csn(at), since: csn(0), is_settled };
                    let loaded = family.stage(&write, hash(&key), &mut staged, &pin);
                    old_bytes += loaded.old_bytes;
                    kept.extend(loaded.kept.map(|row| (row, csn(at))));
                }
            }
            assert_eq!(kept.len(), if is_settled { 0 } else { 999 });
            for (row, csn) in kept {
                old_bytes += family.settle_staged(&row, csn, hash(row.key()), &mut staged, &pin);
            }
            assert_eq!((old_bytes, staged.len()), (0, 1));
            family.take_in(vec![Ordered::new(&family, staged, 0)]);
            let (unflushed, stat) = (family.unflushed(), family.stat());
            assert_eq!((unflushed.rows, unflushed.since, stat.rows), (1, Some(Lsn::new(5000)), 1));
            let one = Family::<crate::RowIndex>::with_levels(CfId::new(1));
            one.load(&500_u64.to_be_bytes(), Some(b"other"), Lsn::new(10_001));
            assert_eq!(stat.memory_bytes, one.stat().memory_bytes);
        }
    }

    /// Goal: ranges keep every row once and do not overlap. Method: two lists of interleaved keys, longer than a
    /// range.
    #[test]
    fn ranges_have_every_row_once_and_do_not_overlap() {
        let family = Family::<crate::RowIndex>::new(CfId::new(1));
        let list = |from: u32| {
            let mut staged = Staged::new(&family);
            for number in (from..(1 << 16) + 7).step_by(2) {
                let row = Row::committed(Key::new(&number.to_be_bytes()), b"", Lsn::FIRST);
                staged.insert(u64::from(number.wrapping_mul(0x9E37_79B9)) << 32, row);
            }
            Ordered::new(&family, staged, 0)
        };
        let ranges = Ordered::ranges(vec![list(0), list(1)]);
        assert!(ranges.len() >= 2, "{}", ranges.len());
        let mut spans: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for range in ranges {
            let mut keys: Vec<Vec<u8>> =
                range.iter().flat_map(|part| part.rows.iter().map(|(_, row)| row.key().to_vec())).collect();
            keys.sort();
            spans.push((keys[0].clone(), keys[keys.len() - 1].clone()));
            family.take_in(range);
        }
        spans.sort();
        assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
        assert_eq!(family.stat().rows, 2 * RANGE_ROWS as u64 + 7);
    }
}
