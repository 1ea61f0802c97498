//! `StripedCounter`: a sum to which many threads add, each in its own cache line. `StripedCounters`: several sums with
//! common additions, all of a thread's in one line.
//!
//! A figure, not a lock: `sum` is exact once no thread adds, and until then it is off by the additions in progress. One
//! stripe may be below zero, since one thread may subtract what another added. Its words are the standard library's in
//! models too, since they order nothing.
//!
//! # Progress
//! `add`: wait-free; a read-modify-write of a line that is hardly ever shared. `sum`: one load per stripe.

use crate::Padded;
use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
};

/// Number of stripes: up to this many threads that add at one time use different lines.
const STRIPES: usize = 16;

/// Returns the calling thread's number below `stripes`, the same for the lifetime of the thread: for callers that keep
/// one list or word per stripe. Threads share numbers if there are more threads than stripes.
#[must_use]
pub fn stripe_below(stripes: usize) -> usize {
    // A thread that is being torn down no longer has its own stripe.
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

/// `N` sums in stripes.
#[derive(Debug)]
pub struct StripedCounters<const N: usize> {
    stripes: [Padded<[AtomicI64; N]>; STRIPES],
}

impl<const N: usize> Default for StripedCounters<N> {
    fn default() -> Self {
        const { assert!(size_of::<Padded<[AtomicI64; N]>>() == 128, "the sums of a stripe lie in one line") };
        Self { stripes: std::array::from_fn(|_| Padded::new(std::array::from_fn(|_| AtomicI64::new(0)))) }
    }
}

impl<const N: usize> StripedCounters<N> {
    /// Adds to each sum its amount, which may be negative. A zero amount costs no write.
    #[inline]
    pub fn add(&self, amounts: [i64; N]) {
        let stripe = &self.stripes[stripe_below(STRIPES)];
        for (word, amount) in stripe.iter().zip(amounts) {
            if amount != 0 {
                word.fetch_add(amount, Relaxed);
            }
        }
    }

    /// Returns the sum at `place`.
    ///
    /// # Panics
    /// If `place` is not below `N`.
    #[must_use]
    pub fn sum(&self, place: usize) -> i64 {
        self.stripes.iter().map(|stripe| stripe[place].load(Relaxed)).fold(0, i64::wrapping_add)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: nothing is lost, whichever threads add and subtract. Method: more threads than stripes, some add what
    /// others subtract, one adds more.
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

    /// Goal: sums in one line are independent, and each is exact. Method: threads add to one or two of three sums at a
    /// time.
    #[test]
    fn sums_that_lie_together_are_exact_each() {
        let counters = StripedCounters::<3>::default();
        std::thread::scope(|scope| {
            for thread in 0..4_i64 {
                let counters = &counters;
                scope.spawn(move || (0..1000).for_each(|_| counters.add([thread, -1, 0])));
            }
        });
        assert_eq!([0, 1, 2].map(|place| counters.sum(place)), [6000, -4000, 0]);
    }
}
