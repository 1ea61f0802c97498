//! `LinkBuffer`: MySQL 8's way: `fetch_add` for the position, then a link from the record's start to its end.
//!
//! A finished appender stores its end in the entry of its start. A thread that wants the boundary follows the links
//! from the last position reached. An entry may be reused once the boundary has passed it, so an appender that is more
//! than the table's length ahead of the boundary waits.
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `links` Release, appender | `links` Acquire, follower | the record's bytes |
//! | `boundary` Release, follower | `boundary` Acquire, all | the same, and the entries passed |

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::yield_now,
};

use collie_sync::Padded;
use parking_lot::Mutex;

use super::Protocol;

/// Entries, one for each position modulo this: the default of `innodb_log_recent_written_size`.
const LINKS: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct LinkBuffer {
    next: Padded<AtomicU64>,
    links: Box<[AtomicU64]>,
    boundary: Padded<AtomicU64>,
    following: Padded<Mutex<()>>,
}

impl LinkBuffer {
    fn link(&self, at: u64) -> &AtomicU64 {
        &self.links[usize::try_from(at % LINKS).expect("below the number of links")]
    }
}

// SAFETY: K1: `fetch_add`. K2: an entry leads from a start to an end that `finish` of that range stored. An end that is
// not beyond `at` is from an earlier lap, since ranges of a lap end at or below those of the next begin. One follower
// at a time stores the boundary.
unsafe impl Protocol for LinkBuffer {
    type Handle = ();
    type Turn<'a> = ();

    fn new(start: u64, _threads: usize, _ring_bytes: u64) -> Self {
        Self {
            next: Padded::new(AtomicU64::new(start)),
            links: (0..LINKS).map(|_| AtomicU64::new(0)).collect(),
            boundary: Padded::new(AtomicU64::new(start)),
            following: Padded::default(),
        }
    }

    fn handle(&self, _thread: usize) {}

    fn begin(&self, _handle: &mut (), bytes: u64) -> (u64, ()) {
        assert!(bytes < LINKS, "a link reaches less than a lap");
        (self.next.fetch_add(bytes, Ordering::AcqRel), ())
    }

    fn finish(&self, _handle: &mut (), _turn: (), start: u64, end: u64) {
        while start - self.boundary.load(Ordering::Acquire) >= LINKS {
            if start - self.boundary() >= LINKS {
                yield_now();
            }
        }
        self.link(start).store(end, Ordering::Release);
    }

    fn reserved(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    fn boundary(&self) -> u64 {
        let Some(_following) = self.following.try_lock() else { return self.boundary.load(Ordering::Acquire) };
        let from = self.boundary.load(Ordering::Relaxed);
        let mut at = from;
        loop {
            let end = self.link(at).load(Ordering::Acquire);
            if end <= at {
                break;
            }
            at = end;
            // In steps, so that appenders waiting for an entry can continue.
            if at - from >= LINKS / 4 {
                break;
            }
        }
        self.boundary.store(at, Ordering::Release);
        at
    }
}
