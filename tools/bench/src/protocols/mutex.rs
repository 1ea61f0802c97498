//! `OneMutex`: one mutex, held while the position is taken and the record copied. The simplest correct log.
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `boundary` Release, appender | `boundary` Acquire, sink | the record's bytes |

use std::sync::atomic::{AtomicU64, Ordering};

use collie_sync::Padded;
use parking_lot::{Mutex, MutexGuard};

use super::Protocol;

#[derive(Debug)]
pub(crate) struct OneMutex {
    next: Mutex<u64>,
    boundary: Padded<AtomicU64>,
}

// SAFETY: K1: `next` grows under the mutex by the assigned bytes, and the turn holds the mutex until `finish`. K2: only
// `finish` stores `boundary`, in the order of positions.
unsafe impl Protocol for OneMutex {
    type Handle = ();
    type Turn<'a> = MutexGuard<'a, u64>;

    fn new(start: u64, _threads: usize, _ring_bytes: u64) -> Self {
        Self { next: Mutex::new(start), boundary: Padded::new(AtomicU64::new(start)) }
    }

    fn handle(&self, _thread: usize) {}

    fn begin<'a>(&'a self, _handle: &mut (), _bytes: u64) -> (u64, Self::Turn<'a>) {
        let next = self.next.lock();
        (*next, next)
    }

    fn finish<'a>(&'a self, _handle: &mut (), mut turn: Self::Turn<'a>, _start: u64, end: u64) {
        *turn = end;
        self.boundary.store(end, Ordering::Release);
    }

    /// Returns the boundary: positions reserved beyond it are being copied under the mutex.
    fn reserved(&self) -> u64 {
        self.boundary()
    }

    fn boundary(&self) -> u64 {
        self.boundary.load(Ordering::Acquire)
    }
}
