//! Partitions of three rows under drawn schedules: they split and merge all the time while others look for their rows.

use std::ops::Bound;
use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{
    model::{Draw, Explored, sample},
    thread,
};

use super::{OrderedIndex, PartitionedIndex, Row, Span};
use crate::key::Key;

type Small = PartitionedIndex<3>;

fn insert(index: &Small, key: u8) -> Option<Arc<Row>> {
    let make = |key: Key| {
        let row = Row::committed(key, b"", Lsn::FIRST);
        (Arc::clone(&row), row)
    };
    index.get_or_insert(&[key], make).ok()
}

/// Inserts `keys` and removes the first two of those it put in. Returns the rows that stay.
fn writer(index: &Small, keys: &[u8]) -> Vec<Arc<Row>> {
    let mut mine: Vec<_> = keys.iter().filter_map(|key| insert(index, *key)).collect();
    for row in mine.drain(..mine.len().min(2)) {
        assert!(index.remove_if(&row), "I3: who put a row in takes it out");
    }
    mine
}

fn visited(index: &Small, reverse: bool) -> Vec<u8> {
    let mut found = Vec::new();
    let whole = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse };
    assert!(index.visit(whole, usize::MAX, &mut |key, _| found.push(key[0])));
    if reverse {
        found.reverse();
    }
    assert!(found.is_sorted_by(|a, b| a < b), "I2: in order: {found:?}");
    found
}

/// Two threads insert the same and other keys around three rows that stay, and remove some; one looks.
fn mix() {
    let index = Arc::new(Small::default());
    let stay: Vec<_> = [20, 50, 80].iter().map(|key| insert(&index, *key).expect("it is new")).collect();
    let writers = [&[10, 30, 40, 60, 70][..], &[70, 40, 30, 45, 90]].map(|keys| {
        let index = Arc::clone(&index);
        thread::spawn(move || writer(&index, keys))
    });
    let reader = thread::spawn({
        let (index, stay) = (Arc::clone(&index), stay.clone());
        move || {
            for reverse in [false, true] {
                let found = visited(&index, reverse);
                assert!([20, 50, 80].iter().all(|key| found.contains(key)), "I2: passed over: {found:?}");
                for row in &stay {
                    let same = index.with(row.key(), |found| Arc::ptr_eq(found, row));
                    assert_eq!(same, Some(true), "I1: a row that stays");
                }
            }
        }
    });
    let mut rows = stay;
    for writer in writers {
        rows.extend(writer.join().expect("it ends"));
    }
    reader.join().expect("it ends");
    let mut keys: Vec<u8> = rows.iter().map(|row| row.key()[0]).collect();
    keys.sort_unstable();
    assert_eq!(visited(&index, false), keys, "I3: what was put in and not taken out");
    assert_eq!(index.len(), keys.len());
}

const DEPTHS: [Option<usize>; 2] = [None, Some(4)];

/// Goal: I1 to I3 hold however threads mix over splits and merges. Method: drawn schedules under each rule.
#[test]
fn shuttle_partitions_keep_their_promises_in_a_mix() {
    let executions = if std::env::var_os("SHUTTLE_LONG").is_some() { 100_000 } else { 2_000 };
    for depth in DEPTHS {
        match sample(None, Draw { seed: 1, depth, executions }, mix) {
            Explored::Passed(passed) => assert_eq!(passed, executions as u64, "not all were run"),
            Explored::Failed(message) => panic!("{message}"),
        }
    }
}

/// Goal: the mix sees what goes wrong. Method: one mistake at a time, until an execution fails as was meant.
#[test]
fn shuttle_mistakes_of_partitions_are_caught() {
    for mistake in ["PARTITION_NOT_RETIRED", "PARTITION_RETIRED_UNSEEN"] {
        let caught = DEPTHS.iter().find_map(|depth| {
            let draw = Draw { seed: 1, depth: *depth, executions: 20_000 };
            // On a thread of its own: a failed execution leaves rows behind, which end outside of any execution.
            match std::thread::spawn(move || sample(Some(mistake), draw, mix)).join().expect("it reports") {
                Explored::Passed(_) => None,
                Explored::Failed(message) => Some(message),
            }
        });
        let message = caught.unwrap_or_else(|| panic!("{mistake} goes unnoticed"));
        assert!(["I1", "I2", "I3"].iter().any(|broken| message.contains(broken)), "{mistake}: {message}");
    }
}
