//! `Flags`: Border-Collie as published: `fetch_add` for the position, a black or white flag per worker, scanned.
//!
//! A worker turns its flag black, takes its position, copies, and turns white. The flag's word holds the end of the
//! worker's last record: while it is black, nothing of that worker below that end is unfinished. The boundary is the
//! lowest of the black bounds and of the position read before the scan. (Border-Collie paper, SIGMOD 2020. No waiter is
//! notified when the boundary moves, and one stopped worker holds it back; Collie's own protocols address both.)
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `flag` black Release, then `next` AcqRel, worker | `next` Acquire, then `flag` Acquire, scan | that it is black |
//! | `flag` white Release, worker | `flag` Acquire, scan | the record's bytes |
//! | `boundary` AcqRel, scan | `boundary` AcqRel, scan | the bytes below, seen by an earlier scan |

use std::sync::atomic::{AtomicU64, Ordering};

use collie_sync::Padded;

use super::Protocol;

const BLACK: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Flags {
    next: Padded<AtomicU64>,
    flags: Box<[Padded<AtomicU64>]>,
    boundary: Padded<AtomicU64>,
}

/// A worker's number and the end of its last record.
#[derive(Debug)]
pub(crate) struct Worker {
    number: usize,
    end: u64,
}

// SAFETY: K1: `fetch_add`. K2: a range below the position that the scan read first was taken before that load, so its
// worker's flag was black before it. If the scan sees the flag white, the range is finished; if black, its bound is at
// or below the start of the range.
unsafe impl Protocol for Flags {
    type Handle = Worker;
    type Turn<'a> = &'a AtomicU64;

    fn new(start: u64, threads: usize, _ring_bytes: u64) -> Self {
        Self {
            next: Padded::new(AtomicU64::new(start)),
            flags: (0..threads).map(|_| Padded::new(AtomicU64::new(start))).collect(),
            boundary: Padded::new(AtomicU64::new(start)),
        }
    }

    fn handle(&self, thread: usize) -> Worker {
        assert!(thread < self.flags.len(), "one flag per thread");
        Worker { number: thread, end: self.flags[thread].load(Ordering::Acquire) & !BLACK }
    }

    fn begin<'a>(&'a self, handle: &mut Worker, bytes: u64) -> (u64, &'a AtomicU64) {
        let flag: &AtomicU64 = &self.flags[handle.number];
        flag.store(BLACK | handle.end, Ordering::Release);
        (self.next.fetch_add(bytes, Ordering::AcqRel), flag)
    }

    /// Raises the bound. Otherwise two workers that were idle for long would hold the boundary below the room for which
    /// both wait. (Not in the paper, which has no ring to fill; without it the harness comes to a standstill.)
    fn blocked(&self, turn: &&AtomicU64, start: u64) {
        turn.store(BLACK | start, Ordering::Release);
    }

    fn finish<'a>(&'a self, handle: &mut Worker, turn: &'a AtomicU64, _start: u64, end: u64) {
        handle.end = end;
        turn.store(end, Ordering::Release);
    }

    fn reserved(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    fn boundary(&self) -> u64 {
        let mut bound = self.reserved();
        for flag in &self.flags {
            let flag = flag.load(Ordering::Acquire);
            if flag & BLACK != 0 {
                bound = bound.min(flag & !BLACK);
            }
        }
        self.boundary.fetch_max(bound, Ordering::AcqRel).max(bound)
    }
}
