//! `StripedCounter`: a sum that many threads add to, each in its own cache line.
//!
//! A figure, not a lock: `sum` is exact once nobody adds, and meanwhile off by what is being added. One stripe may be below
//! zero: what one thread added another took away. Its words are the standard library's in models too, since nothing is
//! ordered by them.
//!
//! # Progress
//! `add`: wait-free; a read-modify-write of a line that is hardly ever shared. `sum`: one load per stripe.

use crate::Padded;
use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
};

/// Threads that add at one time do so in different lines, up to this many.
const STRIPES: usize = 16;

/// Returns the calling thread's number below `stripes`, the same for the life of the thread: for who keeps one list or word
/// per stripe. Threads share numbers once there are more of them.
#[must_use]
pub fn stripe_below(stripes: usize) -> usize {
    // A thread that is being torn down has no stripe of its own any more.
    STRIPE.try_with(Cell::get).unwrap_or(0) % stripes
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

std::thread_local! {
    static STRIPE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Relaxed) % STRIPES);
}

/// A sum in stripes.
#[derive(Debug, Default)]
pub struct StripedCounter {
    stripes: [Padded<AtomicI64>; STRIPES],
}

impl StripedCounter {
    /// Adds `amount`, which may be negative.
    #[inline]
    pub fn add(&self, amount: i64) {
        self.stripes[stripe_below(STRIPES)].fetch_add(amount, Relaxed);
    }

    /// Returns the sum.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.stripes.iter().map(|stripe| stripe.load(Relaxed)).fold(0, i64::wrapping_add)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: nothing is lost, whichever threads add and take away. Method: more threads than stripes, some add what others
    /// take away, one adds more.
    #[test]
    fn sum_of_all_threads_is_exact_once_they_are_done() {
        let counter = StripedCounter::default();
        std::thread::scope(|scope| {
            for thread in 0..2 * STRIPES {
                let counter = &counter;
                scope.spawn(move || {
                    (0..1000).for_each(|_| counter.add(if thread % 2 == 0 { 3 } else { -3 }));
                });
            }
            (0..10).for_each(|_| counter.add(7));
        });
        assert_eq!(counter.sum(), 70);
    }
}
