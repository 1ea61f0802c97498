//! `gather`: sorts the rows that appliers have staged and puts them into the indexes of their families.
//!
//! First each applier's rows of each family are sorted. Then ranges of keys, with the parts of all appliers, enter
//! the index. Each of the two steps runs in parallel, in any order.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use collie_base::CfId;
use collie_store::{Family, Ordered, Staged};
use parking_lot::Mutex;

/// Rows of one family that one applier has staged.
#[derive(Debug)]
pub(crate) struct StagedRows {
    pub(crate) family: Arc<Family>,
    pub(crate) staged: Staged,
}

/// The number of rows from which on threads are worthwhile.
const THREADS_FROM_ROWS: usize = 20_000;

/// Puts all rows into the indexes, with up to `threads` threads.
///
/// # Panics
/// If one of the threads panicked.
pub(crate) fn gather(all: Vec<StagedRows>, threads: usize) {
    let rows: usize = all.iter().map(|one| one.staged.len()).sum();
    let threads = if rows < THREADS_FROM_ROWS { 1 } else { threads };
    let mut by_family: BTreeMap<CfId, Vec<StagedRows>> = BTreeMap::new();
    for one in all {
        by_family.entry(one.family.id()).or_default().push(one);
    }
    let mut unordered = Vec::new();
    for parts in by_family.into_values() {
        let prefix = Ordered::prefix_bytes(parts.iter().map(|part| &part.staged));
        unordered.extend(parts.into_iter().map(|part| (part, prefix)));
    }
    let ordered = side_by_side(threads, unordered, |(StagedRows { family, staged }, prefix)| {
        let ordered = Ordered::new(&family, staged, prefix);
        (family, ordered)
    });
    let mut by_family: BTreeMap<CfId, (Arc<Family>, Vec<Ordered>)> = BTreeMap::new();
    for (family, part) in ordered {
        by_family.entry(family.id()).or_insert_with(|| (family, Vec::new())).1.push(part);
    }
    let mut ranges = Vec::new();
    for (family, parts) in by_family.into_values() {
        ranges.extend(Ordered::ranges(parts).into_iter().map(|range| (Arc::clone(&family), range)));
    }
    side_by_side(threads, ranges, |(family, range)| family.take_in(range));
}

/// Calls `act` for each item, on up to `threads` threads including this one. Returns the results in no order.
fn side_by_side<T: Send, R: Send>(threads: usize, items: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let others = threads.min(items.len()).saturating_sub(1);
    let left = Mutex::new(items.into_iter());
    let work = || {
        let mut answers = Vec::new();
        loop {
            // A statement of its own, so that the lock is released before the work begins.
            let next = left.lock().next();
            let Some(item) = next else { return answers };
            answers.push(act(item));
        }
    };
    std::thread::scope(|scope| {
        let start = |number| {
            let builder = std::thread::Builder::new().name(format!("collie-open-{number}"));
            builder.spawn_scoped(scope, work)
        };
        let started: Vec<_> = (0..others).map_while(|number| start(number).ok()).collect();
        let mut answers = work();
        for thread in started {
            answers.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        answers
    })
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: each item is worked on once, with any number of threads. Method: numbers, with no, fewer and more
    /// items than threads.
    #[test]
    fn items_side_by_side_are_worked_on_once() {
        for (threads, count) in [(1, 5), (4, 0), (4, 2), (3, 100)] {
            let mut squares = side_by_side(threads, (0..count).collect(), |number: u64| number * number);
            squares.sort_unstable();
            assert_eq!(squares, (0..count).map(|number| number * number).collect::<Vec<u64>>());
        }
    }
}
