//! `PartitionedIndex`: ranges of keys, each a B-tree behind a lock, and a directory that is read without a lock.
//!
//! Threads meet only where their keys are neighbours, and a thread that is descheduled inside delays one range
//! only. A look-up has two steps: it finds the range in a sorted array that rarely changes and stays in the cache,
//! then the key in a B-tree of some thousand rows. A range that has grown is split; one that has shrunk is merged
//! with its neighbour.
//!
//! # Invariants
//! - N1. The partitions of a directory cover all keys: partition `i` holds the keys at or above `starts[i]` and
//!   below `starts[i + 1]`; `starts[0]` is the empty key. A partition's range never changes.
//! - N2. A partition whose range moves to other partitions is `retired`, under its write lock, and the directory
//!   that leads to the others is published before that lock is released. So a thread that finds a partition
//!   retired finds the others when it looks again.
//! - N3. Directories are replaced only under `changing`, which is taken before any partition's lock. No other code
//!   holds more than one lock of a partition, and no thread waits for `changing` while it holds such a lock.
//!
//! # Progress
//! Each call waits for the threads inside the partition it needs; an insert that splits, and a removal that
//! merges, also wait for other splits and merges. A call starts again when its partition is retired in between. A
//! call waits under a pin of the collector and releases the pin when the partition is free. Checked by
//! `index_checks` (model and threads), `partitioned/loom_models.rs` (N1 to N3), and with the family.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use collie_sync::{Mutex, Published, RwLock, RwLockWriteGuard, StripedCounter, mutant};

use super::{OrderedIndex, Span, tree_levels};
use crate::key::{Key, Probe};
use crate::row::Row;

/// Number of rows at which a partition is split. Small enough that a split delays other threads only briefly;
/// large enough that the directory of millions of rows fits into a cache, and that its copy, once per this many
/// inserts, costs only some nanoseconds per insert.
const SPLIT_ROWS: usize = 4096;

#[derive(Default)]
struct Rows {
    by_key: BTreeMap<Key, Arc<Row>>,
    /// Other partitions now have the range (N2).
    retired: bool,
}

#[derive(Default)]
struct Partition(RwLock<Rows>);

impl Partition {
    fn of(by_key: BTreeMap<Key, Arc<Row>>) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Rows { by_key, retired: false })))
    }
}

/// The mapping of keys to partitions (N1).
#[derive(Clone)]
struct Directory {
    starts: Vec<Key>,
    partitions: Vec<Arc<Partition>>,
}

impl Directory {
    fn empty() -> Self {
        Self { starts: vec![Key::new(b"")], partitions: vec![Arc::default()] }
    }

    /// Returns the place of the partition whose range contains `key`.
    fn place_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        Key: Borrow<Q>,
    {
        // The first start is below every key.
        self.starts.partition_point(|start| start.borrow() <= key).saturating_sub(1)
    }

    /// Returns the partition whose range contains the key.
    fn partition_of(&self, key: &Probe<'_>) -> &Partition {
        let place = match key {
            Probe::Short(key) => self.place_of(key),
            Probe::Long(key) => self.place_of(*key),
        };
        &self.partitions[place]
    }

    /// Returns the place of the partition where a visit of `span` begins.
    fn place_to_begin(&self, span: &Span<'_>) -> usize {
        match if span.reverse { span.end } else { span.start } {
            Bound::Included(key) | Bound::Excluded(key) => self.place_of(key),
            Bound::Unbounded if span.reverse => self.partitions.len() - 1,
            Bound::Unbounded => 0,
        }
    }

    /// Returns the part of `span` beyond the partition at `place`, in its direction; `None` if there is none.
    fn beyond<'a>(&'a self, place: usize, span: Span<'a>) -> Option<Span<'a>> {
        let rest = if span.reverse {
            (place > 0).then(|| Span { end: Bound::Excluded(&self.starts[place]), ..span })
        } else {
            self.starts.get(place + 1).map(|start| Span { start: Bound::Included(start), ..span })
        };
        rest.filter(|rest| !rest.is_empty())
    }
}

/// Rows by key, in partitions of fewer than `SPLIT` rows.
pub struct PartitionedIndex<const SPLIT: usize = SPLIT_ROWS> {
    directory: Published<Directory>,
    changing: Mutex<()>,
    rows: StripedCounter,
}

impl<const SPLIT: usize> Default for PartitionedIndex<SPLIT> {
    fn default() -> Self {
        Self {
            directory: Published::new(Directory::empty()),
            changing: Mutex::default(),
            rows: StripedCounter::default(),
        }
    }
}

impl<const SPLIT: usize> fmt::Debug for PartitionedIndex<SPLIT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.directory.read(|directory| directory.partitions.len());
        f.debug_struct("PartitionedIndex").field("rows", &self.len()).field("partitions", &partitions).finish()
    }
}

/// How one part of a visit ended.
enum Visited {
    /// The span ended.
    End,
    /// It found the requested number of rows.
    Enough,
    /// It found a partition retired: the visit continues from this key, or starts again if it is `None`.
    Again(Option<Key>),
}

impl<const SPLIT: usize> PartitionedIndex<SPLIT> {
    /// A partition with at most this many rows is merged; it is checked now and then while it shrinks.
    const MERGE: usize = SPLIT / 8;
    /// A removal that leaves a small partition with a multiple of this many rows looks for a neighbour to merge
    /// with.
    const MERGE_EVERY: usize = SPLIT.div_ceil(64);

    /// Calls `act` with the rows of the partition of `key`, under its write lock.
    fn write<R>(&self, key: &Key, act: impl FnOnce(&mut BTreeMap<Key, Arc<Row>>) -> R) -> R {
        let mut act = Some(act);
        loop {
            let done = self.directory.read(|directory| {
                let mut rows = directory.partitions[directory.place_of(key)].0.write();
                (!rows.retired).then(|| act.take().expect("the loop ends with it")(&mut rows.by_key))
            });
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Builds partitions, three quarters full, from rows in ascending order; returns them with the first key of
    /// each.
    fn build(rows: Vec<Arc<Row>>) -> Vec<(Key, BTreeMap<Key, Arc<Row>>)> {
        let (mut rows, mut parts) = (rows.into_iter(), Vec::new());
        loop {
            let part: BTreeMap<Key, Arc<Row>> =
                rows.by_ref().take((SPLIT / 4 * 3).max(1)).map(|row| (row.index_key().clone(), row)).collect();
            match part.first_key_value() {
                Some((first, _)) => parts.push((first.clone(), part)),
                None => return parts,
            }
        }
    }

    /// Inserts ascending rows as partitions of their own, if the index has no row between the first and the last.
    /// Otherwise returns them to the caller.
    fn splice(&self, rows: Vec<Arc<Row>>) -> Result<usize, Vec<Arc<Row>>> {
        let count = rows.len();
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(0) };
        let (first, last) = (first.index_key().clone(), last.index_key().clone());
        let span = Span { start: Bound::Included(&first), end: Bound::Included(&last), reverse: false };
        if !self.visit(span, 1, &mut |_, _| ()) {
            return Err(rows);
        }
        let mut parts = Self::build(rows); // outside the locks
        let early = mutant!("SPLICE_READS_EARLY").then(|| self.directory.read(Directory::clone));
        let _changing = self.changing.lock();
        let mut directory = early.unwrap_or_else(|| self.directory.read(Directory::clone));
        let place = directory.place_of(&first);
        let partition = Arc::clone(&directory.partitions[place]);
        let mut old = partition.0.write();
        // Checked again: other threads may have inserted rows in this range since.
        let next = directory.starts.get(place + 1);
        let is_inside = next.is_none_or(|next| last < *next) || mutant!("SPLICE_ACROSS_STARTS");
        let is_free = old.by_key.range::<Key, _>(&first..=&last).next().is_none() || mutant!("SPLICE_LOOKED_AT_ONCE");
        if !is_inside || !is_free {
            return Err(parts.into_iter().flat_map(|(_, part)| part.into_values()).collect());
        }
        let upper = old.by_key.split_off(&first);
        let lower = std::mem::take(&mut old.by_key);
        let start = directory.starts[place].clone();
        if lower.is_empty() {
            parts[0].0 = start; // N1
        } else {
            parts.insert(0, (start, lower));
        }
        if let Some((first, _)) = upper.first_key_value() {
            parts.push((first.clone(), upper));
        }
        let (starts, parts): (Vec<Key>, Vec<_>) = parts.into_iter().unzip();
        directory.starts.splice(place..=place, starts);
        directory.partitions.splice(place..=place, parts.into_iter().map(Partition::of));
        old.retired = !mutant!("SPLICE_NOT_RETIRED");
        self.directory.replace(directory); // N2: before the lock is released
        self.rows.add(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(count)
    }

    /// Inserts ascending rows where the index may already have some: all rows of one partition under one lock.
    fn insert_sorted(&self, rows: Vec<Arc<Row>>) -> usize {
        let (mut rows, mut put) = (rows.into_iter().peekable(), 0);
        while let Some(first) = rows.peek() {
            let mut last = Arc::clone(first);
            let (new, is_full) = self.directory.read(|directory| {
                let place = directory.place_of(last.index_key());
                let end = directory.starts.get(place + 1);
                let mut part = directory.partitions[place].0.write();
                let mut new = 0;
                let is_mine = !part.retired || mutant!("RUN_INTO_RETIRED");
                while is_mine && part.by_key.len() < SPLIT {
                    let Some(row) = rows.next_if(|row| end.is_none_or(|end| row.index_key() < end)) else { break };
                    if let Entry::Vacant(free) = part.by_key.entry(row.index_key().clone()) {
                        last = Arc::clone(free.insert(row));
                        new += 1;
                    }
                }
                (new, part.by_key.len() >= SPLIT)
            });
            put += new;
            self.rows.add(i64::try_from(new).unwrap_or(i64::MAX));
            if is_full {
                self.split(last.index_key());
            }
        }
        put
    }

    /// Splits the partition of `key`, if it is still large.
    fn split(&self, key: &Key) {
        let early = mutant!("DIRECTORY_READ_EARLY").then(|| self.directory.read(Directory::clone));
        let _changing = self.changing.lock();
        let mut directory = early.unwrap_or_else(|| self.directory.read(Directory::clone));
        let place = directory.place_of(key);
        let partition = Arc::clone(&directory.partitions[place]);
        let mut rows = partition.0.write();
        if rows.by_key.len() < SPLIT {
            return;
        }
        // Where keys arrive in ascending order no more come below the last one, so the lower part is left nearly
        // full.
        let is_last = rows.by_key.last_key_value().is_some_and(|(last, _)| last == key);
        let stay = if is_last { rows.by_key.len() / 8 * 7 } else { rows.by_key.len() / 2 }.max(1);
        let Some(start) = rows.by_key.keys().nth(stay).cloned() else { return };
        let upper = rows.by_key.split_off(&start);
        let lower = std::mem::take(&mut rows.by_key);
        directory.partitions[place] = Partition::of(lower);
        directory.partitions.insert(place + 1, Partition::of(upper));
        directory.starts.insert(place + 1, start);
        rows.retired = !mutant!("NOT_RETIRED");
        self.directory.replace(directory); // N2: before the lock is released
    }

    /// Merges the partition of `key` with a neighbour, if it is still small and both fit into one.
    fn merge(&self, key: &Key) {
        let _changing = self.changing.lock();
        let mut directory = self.directory.read(Directory::clone);
        let at = directory.place_of(key);
        for lower in [at, at.wrapping_sub(1)] {
            let (Some(left), Some(right)) =
                (directory.partitions.get(lower), directory.partitions.get(lower.wrapping_add(1)))
            else {
                continue;
            };
            let (left, right) = (Arc::clone(left), Arc::clone(right));
            let (mut left, mut right) = (left.0.write(), right.0.write());
            let (less, more) = (left.by_key.len().min(right.by_key.len()), left.by_key.len().max(right.by_key.len()));
            if less > Self::MERGE || (less > 0 && less + more > SPLIT / 4 * 3) {
                continue;
            }
            let mut rows = std::mem::take(&mut left.by_key);
            rows.append(&mut right.by_key);
            directory.partitions[lower] = Partition::of(rows);
            directory.partitions.remove(lower + 1);
            directory.starts.remove(lower + 1);
            let retired = !mutant!("NOT_RETIRED_BY_MERGE");
            (left.retired, right.retired) = (retired, retired);
            self.directory.replace(directory); // N2: before the locks are released
            return;
        }
    }

    /// Visits up to `max` rows, from partition to partition of one directory.
    fn visit_once(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> (Visited, usize) {
        self.directory.read(|directory| {
            let (mut place, mut seen, mut rest) = (directory.place_to_begin(&span), 0, span);
            let mut begun = false;
            loop {
                let rows = directory.partitions[place].0.read();
                if rows.retired {
                    let from = if span.reverse { rest.end } else { rest.start };
                    return match from {
                        Bound::Included(key) | Bound::Excluded(key) if begun && !mutant!("VISIT_BEGINS_AGAIN") => {
                            (Visited::Again(Some(Key::new(key))), seen)
                        }
                        _ => (Visited::Again(None), seen),
                    };
                }
                let mut range = rows.by_key.range::<[u8], _>((rest.start, rest.end));
                while seen < max {
                    let Some((key, row)) = (if span.reverse { range.next_back() } else { range.next() }) else { break };
                    visit(key, row);
                    seen += 1;
                }
                if seen == max {
                    return (Visited::Enough, seen);
                }
                match directory.beyond(place, rest) {
                    Some(beyond) => rest = beyond,
                    None => return (Visited::End, seen),
                }
                begun = true;
                place = if span.reverse { place - 1 } else { place + 1 };
            }
        })
    }
}

impl<const SPLIT: usize> OrderedIndex for PartitionedIndex<SPLIT> {
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R> {
        let (mut look, key) = (Some(look), Probe::of(key));
        loop {
            let found = self.directory.read(|directory| {
                let rows = directory.partition_of(&key).0.read();
                let look_at = |row| look.take().expect("the loop ends with it")(row);
                let find = || match &key {
                    Probe::Short(key) => rows.by_key.get(key),
                    Probe::Long(key) => rows.by_key.get(*key),
                };
                (!rows.retired).then(|| find().map(look_at))
            });
            if let Some(found) = found {
                return found;
            }
        }
    }

    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>> {
        let key = Key::new(key);
        let (made, rows) = self.write(&key, |rows| match rows.entry(key.clone()) {
            Entry::Occupied(present) => (Err(Arc::clone(present.get())), 0),
            Entry::Vacant(place) => {
                let (row, answer) = make(place.key().clone());
                place.insert(row);
                (Ok(answer), rows.len())
            }
        });
        if made.is_ok() {
            self.rows.add(1);
        }
        if rows >= SPLIT {
            self.split(&key);
        }
        made
    }

    fn load_sorted(&self, rows: Vec<Arc<Row>>) -> usize {
        if rows.len() < SPLIT / 4 {
            return self.insert_sorted(rows);
        }
        self.splice(rows).unwrap_or_else(|rows| self.insert_sorted(rows))
    }

    fn remove_if(&self, row: &Arc<Row>) -> bool {
        let key = row.index_key();
        let (removed, left) = self.write(key, |rows| {
            let found = rows.get(key).is_some_and(|present| Arc::ptr_eq(present, row));
            (found.then(|| rows.remove(key)).flatten(), rows.len())
        });
        if removed.is_none() {
            return false;
        }
        self.rows.add(-1);
        if left <= Self::MERGE && left.is_multiple_of(Self::MERGE_EVERY) {
            self.merge(key);
        }
        true
    }

    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool {
        let (mut left, mut from): (usize, Option<Key>) = (max, None);
        loop {
            let rest = match &from {
                // A visit moves from start key to start key: upwards it resumes at that key, downwards just below
                // it.
                Some(key) if span.reverse => Span { end: Bound::Excluded(key), ..span },
                Some(key) => Span { start: Bound::Included(key), ..span },
                None => span,
            };
            if rest.is_empty() {
                return true;
            }
            let (visited, seen) = self.visit_once(rest, left, visit);
            left -= seen;
            match visited {
                Visited::End => return true,
                Visited::Enough => return false,
                Visited::Again(key) => from = key.or(from),
            }
        }
    }

    fn len(&self) -> usize {
        usize::try_from(self.rows.sum()).unwrap_or(0)
    }

    /// Returns the number of halvings of the directory plus the levels of a partition with its share of the rows.
    /// Waits for no other thread.
    fn depth(&self) -> u32 {
        let partitions = self.directory.read(|directory| directory.partitions.len()).max(1);
        partitions.next_power_of_two().ilog2() + tree_levels(self.len().div_ceil(partitions))
    }

    fn clear(&self) {
        let _changing = self.changing.lock();
        let directory = self.directory.read(Directory::clone);
        let mut all: Vec<RwLockWriteGuard<'_, Rows>> = directory.partitions.iter().map(|part| part.0.write()).collect();
        self.directory.replace(Directory::empty());
        let gone: Vec<_> = all
            .iter_mut()
            .map(|rows| {
                rows.retired = true;
                std::mem::take(&mut rows.by_key)
            })
            .collect();
        drop(all);
        for rows in gone {
            // The rows are dropped here, outside the locks.
            self.rows.add(-i64::try_from(rows.len()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_models;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use collie_base::Lsn;

    fn insert(index: &PartitionedIndex<32>, number: u32) -> Arc<Row> {
        let made = index.get_or_insert(&number.to_be_bytes(), |key| {
            let row = Row::committed(key, b"", Lsn::FIRST);
            (Arc::clone(&row), row)
        });
        made.expect("it is new")
    }

    fn partitions(index: &PartitionedIndex<32>) -> usize {
        index.directory.read(|directory| directory.partitions.len())
    }

    fn row(number: u32) -> Arc<Row> {
        Row::committed(Key::new(&number.to_be_bytes()), b"", Lsn::FIRST)
    }

    /// Returns the keys in order, and the length of the longest partition; checks N1.
    fn keys(index: &PartitionedIndex<32>) -> (Vec<u32>, usize) {
        index.directory.read(|directory| {
            assert!(directory.starts[0].is_empty() && directory.starts.is_sorted());
            let (mut keys, mut longest) = (Vec::new(), 0);
            for (place, partition) in directory.partitions.iter().enumerate() {
                let rows = partition.0.read();
                assert!(!rows.retired);
                longest = longest.max(rows.by_key.len());
                for key in rows.by_key.keys() {
                    assert_eq!(directory.place_of(key), place, "N1");
                    keys.push(u32::from_be_bytes(key[..].try_into().expect("four bytes")));
                }
            }
            (keys, longest)
        })
    }

    /// Goal: sorted rows are inserted next to existing ones, in whatever order and by whatever thread their ranges
    /// come, and an existing key keeps its row. Method: threads load runs of several lengths, some twice, among
    /// rows before, between and behind them; then the directory is checked.
    #[test]
    fn sorted_rows_are_taken_in_beside_those_that_are_there() {
        for runs in [1, 3, 40, 333] {
            let index = PartitionedIndex::<32>::default();
            let staying: Vec<Arc<Row>> = (0..20_u32).map(|number| insert(&index, number * 1000)).collect();
            let put = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (index, put) = (&index, &put);
                    scope.spawn(move || {
                        // One thread goes from the end down; both load the same runs in the middle.
                        let all: Vec<u32> = (1..runs * 60).collect();
                        let mut runs: Vec<&[u32]> =
                            all.chunks(60).filter(|run| run[0] % 2 == thread || run[0] % 5 == 0).collect();
                        if thread == 1 {
                            runs.reverse();
                        }
                        for run in runs {
                            let rows = run.iter().map(|number| row(*number)).collect();
                            put.fetch_add(index.load_sorted(rows), std::sync::atomic::Ordering::Relaxed);
                        }
                    });
                }
            });
            let expected: std::collections::BTreeSet<u32> =
                (1..runs * 60).chain((0..20).map(|number| number * 1000)).collect();
            let (keys, longest) = keys(&index);
            assert_eq!(keys, expected.into_iter().collect::<Vec<u32>>());
            assert_eq!((index.len(), put.into_inner()), (keys.len(), keys.len() - staying.len()));
            assert!(longest <= 32, "{longest}");
            for row in &staying {
                assert_eq!(index.with(row.key(), |found| Arc::ptr_eq(found, row)), Some(true));
            }
        }
    }

    /// Goal: the depth of an index follows its rows: a search halves the directory and then descends one
    /// partition. Method: ascending rows, whose number bounds the depth, from an empty index to one with more than
    /// a thousand partitions and back.
    #[test]
    fn depth_grows_with_the_rows_and_falls_with_them() {
        let (index, mut before, mut rows) = (PartitionedIndex::<32>::default(), 0, Vec::new());
        assert_eq!(index.depth(), 0);
        for number in 0..40_000_u32 {
            rows.push(insert(&index, number));
            if rows.len().is_power_of_two() {
                let (depth, partitions) = (index.depth(), partitions(&index));
                let halvings = partitions.next_power_of_two().ilog2();
                assert!(
                    (halvings + 1..=halvings + 2).contains(&depth),
                    "{depth} with {partitions}: 32 rows are two levels"
                );
                assert!(depth >= before, "{depth} below {before} with {number} rows more");
                before = depth;
            }
        }
        assert!(before >= 11, "{before} for more than a thousand partitions");
        for row in &rows {
            assert!(index.remove_if(row));
        }
        assert!(index.depth() <= 2, "{} for none", index.depth());
    }

    /// Goal: keys that come and go leave no partitions behind. Method: a queue of a thousand keys moves up through
    /// fifty thousand keys, then shrinks to nothing; partitions are counted after each step.
    #[test]
    fn partitions_are_merged_when_their_keys_go() {
        let (index, mut queue) = (PartitionedIndex::<32>::default(), std::collections::VecDeque::new());
        for number in 0..50_000 {
            queue.push_back(insert(&index, number));
            if queue.len() > 1000 {
                assert!(queue.pop_front().is_some_and(|row| index.remove_if(&row)));
            }
            assert!(partitions(&index) <= 80, "{} for {} rows", partitions(&index), index.len());
        }
        // From the middle outwards, so from neither end of the queue.
        while let Some(row) = queue.remove(queue.len() / 2) {
            assert!(index.remove_if(&row));
        }
        assert!(partitions(&index) <= 3 && index.is_empty(), "{}", partitions(&index));
    }
}
