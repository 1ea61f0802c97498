//! `InsertLocks`: PostgreSQL's way: 8 insert locks, a spinlock around the insert position, copies in parallel.
//!
//! An inserter holds one of 8 locks from before it takes its position until its copy is done. A thread that needs the
//! boundary reads the position and then checks each lock. If a lock is free, nothing below the position is unfinished
//! under it. If it is held, the thread waits for it, unless the holder has published from where on it works
//! (`inserting_at`), which it does before it waits for room. A thread that had to wait for its lock uses the next one
//! from then on, as in PostgreSQL.
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `spin` Release, holder | `spin` Acquire, next holder | `next` |
//! | `held` Release, holder | `held` Acquire, boundary | the record's bytes |
//! | `inserting_at` Release | `inserting_at` Acquire, boundary | nothing: a bound |

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::yield_now,
};

use collie_sync::Padded;
use parking_lot::{Mutex, MutexGuard};

use super::Protocol;

const LOCKS: usize = 8;
/// Number of attempts at the spinlock before the thread yields the processor.
const SPINS: u32 = 100;

#[derive(Debug, Default)]
struct InsertLock {
    lock: Mutex<()>,
    held: AtomicBool,
    /// 0 means unknown.
    inserting_at: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct InsertLocks {
    spin: Padded<AtomicBool>,
    /// Written under `spin`.
    next: Padded<AtomicU64>,
    locks: [Padded<InsertLock>; LOCKS],
    boundary: Padded<AtomicU64>,
}

/// One of the locks, held.
pub(crate) struct Held<'a> {
    lock: &'a InsertLock,
    _guard: MutexGuard<'a, ()>,
}

impl InsertLocks {
    fn under_spinlock<R>(&self, act: impl FnOnce() -> R) -> R {
        let mut spins = 0;
        while self.spin.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins < SPINS { spin_loop() } else { yield_now() }
        }
        let result = act();
        self.spin.store(false, Ordering::Release);
        result
    }
}

// SAFETY: K1: `next` is read and advanced under the spinlock. K2: a lock is held from before its holder takes a
// position until `finish`, and the position is read before the locks are checked. So a lock seen free hides nothing
// below it, and a held one bounds the result by what its holder has published, or is waited for. `fetch_max` keeps the
// boundary from falling.
unsafe impl Protocol for InsertLocks {
    type Handle = usize;
    type Turn<'a> = Held<'a>;

    fn new(start: u64, _threads: usize, _ring_bytes: u64) -> Self {
        Self {
            spin: Padded::default(),
            next: Padded::new(AtomicU64::new(start)),
            locks: Default::default(),
            boundary: Padded::new(AtomicU64::new(start)),
        }
    }

    fn handle(&self, thread: usize) -> usize {
        thread % LOCKS
    }

    fn begin<'a>(&'a self, handle: &mut usize, bytes: u64) -> (u64, Held<'a>) {
        let lock: &InsertLock = &self.locks[*handle];
        let guard = lock.lock.try_lock().unwrap_or_else(|| {
            let guard = lock.lock.lock();
            // This thread holds the lock now; its next append tries the neighbouring one.
            *handle = (*handle + 1) % LOCKS;
            guard
        });
        lock.inserting_at.store(0, Ordering::Relaxed);
        lock.held.store(true, Ordering::Release);
        let start = self.under_spinlock(|| {
            let start = self.next.load(Ordering::Relaxed);
            self.next.store(start + bytes, Ordering::Relaxed);
            start
        });
        (start, Held { lock, _guard: guard })
    }

    fn blocked(&self, turn: &Held<'_>, start: u64) {
        turn.lock.inserting_at.store(start, Ordering::Release);
    }

    fn finish<'a>(&'a self, _handle: &mut usize, turn: Held<'a>, _start: u64, _end: u64) {
        turn.lock.held.store(false, Ordering::Release);
    }

    fn reserved(&self) -> u64 {
        self.under_spinlock(|| self.next.load(Ordering::Relaxed))
    }

    fn boundary(&self) -> u64 {
        // The spinlock orders this thread after every inserter below `bound`, so it sees their `held`.
        let mut bound = self.reserved();
        for lock in &self.locks {
            let mut spins = 0;
            while lock.held.load(Ordering::Acquire) {
                let at = lock.inserting_at.load(Ordering::Acquire);
                if at != 0 {
                    bound = bound.min(at);
                    break;
                }
                spins += 1;
                if spins < SPINS { spin_loop() } else { yield_now() }
            }
        }
        self.boundary.fetch_max(bound, Ordering::AcqRel).max(bound)
    }
}
