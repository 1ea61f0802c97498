//! `RangeMap`: wal-db's way: `fetch_add` for the position, finished ranges in an ordered map under a mutex.
//!
//! A finished range that begins at the boundary advances it, together with the adjoining ranges in the map; any other
//! waits in the map.
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `boundary` Release, finisher | `boundary` Acquire, sink | the bytes of all ranges below (others' by the mutex) |

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use collie_sync::Padded;
use parking_lot::Mutex;

use super::Protocol;

#[derive(Debug)]
pub(crate) struct RangeMap {
    next: Padded<AtomicU64>,
    /// Ends of finished ranges beyond the boundary, by start.
    finished: Padded<Mutex<BTreeMap<u64, u64>>>,
    boundary: Padded<AtomicU64>,
}

// SAFETY: K1: `fetch_add`. K2: under the mutex the boundary moves from the start of a range to its end after `finish`
// of that range has run.
unsafe impl Protocol for RangeMap {
    type Handle = ();
    type Turn<'a> = ();

    fn new(start: u64, _threads: usize, _ring_bytes: u64) -> Self {
        Self {
            next: Padded::new(AtomicU64::new(start)),
            finished: Padded::default(),
            boundary: Padded::new(AtomicU64::new(start)),
        }
    }

    fn handle(&self, _thread: usize) {}

    fn begin(&self, _handle: &mut (), bytes: u64) -> (u64, ()) {
        (self.next.fetch_add(bytes, Ordering::AcqRel), ())
    }

    fn finish(&self, _handle: &mut (), _turn: (), start: u64, end: u64) {
        let mut finished = self.finished.lock();
        if self.boundary.load(Ordering::Relaxed) != start {
            finished.insert(start, end);
            return;
        }
        let mut at = end;
        while let Some(first) = finished.first_entry().filter(|first| *first.key() == at) {
            at = first.remove();
        }
        self.boundary.store(at, Ordering::Release);
    }

    fn reserved(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    fn boundary(&self) -> u64 {
        self.boundary.load(Ordering::Acquire)
    }
}
