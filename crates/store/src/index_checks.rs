//! The checks that every ordered index must pass: a model, and threads that interfere with each other.
//!
//! They serve this crate's own indexes and those that a benchmark compares with them; a check that fails panics
//! with its finding.
//!
//! # Guarantees of an index
//! - I1. Every call, including a visit, sees the effect of a call that returned before it began.
//! - I2. A visit follows the order of its span strictly, never leaves the span, and skips no row that is present
//!   throughout.
//! - I3. Among inserts of one key only one succeeds until its row is removed; a row is removed once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use collie_base::Lsn;

use crate::{Key, OrderedIndex, Row, Span};

/// One step of [`check_against_a_map`]: the operation and its key.
pub type Step = (u8, u16);

/// Keys in one run of inserts or removals: some leaves of a tree.
const RUN: u16 = 200;

/// Returns key `number`: short keys, long ones, some that are prefixes of others, and the empty one; their order
/// differs from the order of the numbers.
fn key_of(number: u16) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    match number % 5 {
        _ if number == 0 => Vec::new(),
        0 => bytes[..1].to_vec(),
        1 => [&bytes[..], b"and more than is kept in place"].concat(),
        _ => bytes.to_vec(),
    }
}

fn row_of(key: &[u8]) -> Arc<Row> {
    Row::committed(Key::new(key), b"", Lsn::FIRST)
}

/// Inserts a new row; returns it, or the existing one.
fn insert(index: &impl OrderedIndex, key: &[u8]) -> Result<Arc<Row>, Arc<Row>> {
    index.get_or_insert(key, |key| {
        let row = row_of(&key);
        (Arc::clone(&row), row)
    })
}

fn whole(reverse: bool) -> Span<'static> {
    Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse }
}

/// Visits all of `span`, `batch` rows at a time, and continues after the last key each time.
fn keys_of(index: &impl OrderedIndex, span: Span<'_>, batch: usize) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let last = found.last().cloned();
        let rest = last.as_deref().map_or(span, |key| span.after(key));
        let before = found.len();
        let ended = index.visit(rest, batch, &mut |key, row| {
            assert_eq!(key, row.key(), "a row stands at its key");
            found.push(key.to_vec());
        });
        assert!(found.len() - before <= batch, "more than was asked for");
        let ordered = |pair: &[Vec<u8>]| if span.reverse { pair[0] > pair[1] } else { pair[0] < pair[1] };
        assert!(found[before.saturating_sub(1)..].windows(2).all(ordered), "out of order (I2)");
        if ended {
            return found;
        }
        assert_eq!(found.len() - before, batch, "neither the end nor as many as were asked for");
    }
}

/// Checks a new index against a map: applies each step to both and compares the results.
pub fn check_against_a_map<I: OrderedIndex + Default>(steps: &[Step]) {
    let (index, mut map) = (I::default(), BTreeMap::<Vec<u8>, Arc<Row>>::new());
    for (what, number) in steps {
        let key = key_of(*number);
        match what % 10 {
            // One key, or a run of them.
            what @ 0..=2 => {
                let end = if what == 2 { number.saturating_add(RUN) } else { number.saturating_add(1) };
                for number in *number..end {
                    let key = key_of(number);
                    match (insert(&index, &key), map.entry(key)) {
                        (Ok(row), Entry::Vacant(place)) => drop(place.insert(row)),
                        (Err(row), Entry::Occupied(known)) => assert!(Arc::ptr_eq(&row, known.get())),
                        (found, known) => panic!("insert said {found:?}, the map has {known:?}"),
                    }
                }
            }
            3 => {
                for number in *number..number.saturating_add(RUN) {
                    let removed = map.remove(&key_of(number));
                    assert!(removed.is_none_or(|row| index.remove_if(&row)), "the map has what the index has not");
                }
            }
            4 => match map.remove(&key) {
                Some(row) => assert!(index.remove_if(&row) && !index.remove_if(&row), "removed once (I3)"),
                None => assert!(!index.remove_if(&row_of(&key))),
            },
            5 => assert!(!index.remove_if(&row_of(&key)), "another row at the same key stays"),
            6 | 7 => {
                let other = key_of(number.wrapping_mul(31));
                let reverse = what % 10 == 6;
                let (start, end) = match number % 4 {
                    0 => (Bound::Included(&key[..]), Bound::Included(&other[..])),
                    1 => (Bound::Excluded(&key[..]), Bound::Unbounded),
                    2 => (Bound::Unbounded, Bound::Excluded(&key[..])),
                    _ => (Bound::Excluded(&key[..]), Bound::Excluded(&other[..])),
                };
                let span = Span { start, end, reverse };
                let mut expected: Vec<&Vec<u8>> = Vec::new();
                if !span.is_empty() {
                    expected.extend(map.range::<[u8], _>((start, end)).map(|(key, _)| key));
                }
                if reverse {
                    expected.reverse();
                }
                let found = keys_of(&index, span, usize::from(number % 70) + 1);
                assert!(found.iter().eq(expected), "{span:?}");
            }
            8 => {
                // In order; some of the keys are already present.
                let mut keys: Vec<Vec<u8>> = (*number..number.saturating_add(RUN)).map(key_of).collect();
                keys.sort();
                keys.dedup();
                let rows: Vec<Arc<Row>> = keys.iter().map(|key| row_of(key)).collect();
                let new = rows.iter().filter(|row| !map.contains_key(row.key())).count();
                assert_eq!(index.load_sorted(rows.clone()), new, "what is there stays");
                for row in rows {
                    map.entry(row.key().to_vec()).or_insert(row);
                }
            }
            _ if number % 64 == 0 => {
                index.clear();
                map.clear();
            }
            _ => {
                let found = index.with(&key, Arc::clone);
                assert_eq!(found.as_ref().map(Arc::as_ptr), map.get(&key).map(Arc::as_ptr));
            }
        }
        assert_eq!((index.len(), index.is_empty()), (map.len(), map.is_empty()));
    }
    assert!(keys_of(&index, whole(false), 100).iter().eq(map.keys()));
    index.clear();
    drop(index);
    // Removed rows and rows dropped with the index are freed eventually: then only this test still references its
    // rows.
    let mine: Vec<_> = map.into_values().collect();
    collected(|| mine.iter().all(|row| Arc::strong_count(row) == 1), "rows are kept by an index that is gone");
}

/// Waits for the epoch collector; panics with `what` if `done` never becomes true.
fn collected(mut done: impl FnMut() -> bool, what: &str) {
    for _ in 0..1_000_000 {
        if done() {
            return;
        }
        collie_sync::epoch::pin().flush();
        std::thread::yield_now();
    }
    panic!("{what}");
}

/// Checks that threads lose nothing (I1 to I3): some insert and remove around rows that stay, all compete for the
/// same few keys, one appends and publishes its progress, some look up and visit in both directions. `turns` is
/// the number of rounds of each writer.
pub fn check_under_threads<I: OrderedIndex + Default>(turns: u32) {
    const STAYING: u32 = 300;
    const BETWEEN: u32 = 20;
    const WANTED: u32 = 3;
    let (index, won, removed) = (I::default(), AtomicUsize::new(0), AtomicUsize::new(0));
    let (appended, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let key = |number: u32| [b"k".as_slice(), &number.to_be_bytes()].concat();
    let last = |number: usize| [b"z".as_slice(), &u32::try_from(number).unwrap_or(0).to_be_bytes()].concat();
    let staying: Vec<Arc<Row>> =
        (0..STAYING).map(|number| insert(&index, &key(number * BETWEEN)).expect("a new index")).collect();
    let toggle = |key: &[u8]| match insert(&index, key) {
        Ok(_) => drop(won.fetch_add(1, Relaxed)),
        Err(row) => {
            if index.remove_if(&row) {
                removed.fetch_add(1, Relaxed);
            }
        }
    };
    let look = |reverse: bool| {
        let known = appended.load(Acquire);
        let found = keys_of(&index, whole(reverse), 61);
        let mut there = staying.iter().filter(|row| found.iter().any(|key| key == row.key()));
        assert_eq!(there.by_ref().count(), staying.len(), "a row that stays was passed over (I2)");
        let ends = found.iter().filter(|key| key.starts_with(b"z")).count();
        assert!(ends >= known, "{known} were appended before the visit began, {ends} seen (I1)");
    };
    std::thread::scope(|scope| {
        let (index, stop, staying, appended) = (&index, &stop, &staying, &appended);
        let (toggle, look) = (&toggle, &look);
        let mut writers = Vec::new();
        for writer in 0..2_u32 {
            writers.push(scope.spawn(move || {
                // Runs of neighbours come and go, so that leaves split and merge under the other threads.
                for turn in 0..turns {
                    // In half of the rounds both writers use the same keys.
                    let from = (turn * 7 + turn % 2 * writer * 3) % STAYING * BETWEEN;
                    for number in from..from + 10 * BETWEEN {
                        if number % BETWEEN != 0 {
                            toggle(&key(number));
                        }
                    }
                    (0..WANTED).for_each(|number| toggle(&[b'a', u8::try_from(number).unwrap_or(0)]));
                }
            }));
        }
        writers.push(scope.spawn(move || {
            for number in 0..usize::try_from(turns).unwrap_or(0) {
                assert!(insert(index, &last(number)).is_ok());
                appended.store(number + 1, Release);
            }
        }));
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                for row in staying {
                    let same = index.with(row.key(), |found| Arc::ptr_eq(found, row));
                    assert_eq!(same, Some(true), "a row that stays was not found");
                }
            }
        });
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                look(false);
                look(true);
            }
        });
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join().is_ok()).collect();
        stop.store(true, Relaxed);
        assert!(ends.iter().all(|ok| *ok), "a writer failed");
    });
    let rows = index.len();
    let expected = staying.len() + appended.load(Relaxed) + won.load(Relaxed) - removed.load(Relaxed);
    assert_eq!((rows, keys_of(&index, whole(false), 100).len()), (expected, expected), "wins and removals (I3)");
}
