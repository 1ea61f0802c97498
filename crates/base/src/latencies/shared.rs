//! `SharedLatencies`: a histogram in which many threads count without waiting for each other.
//!
//! The counts are split into stripes, so that threads on different cores write to different cache lines. To get
//! the figures of one second, a reader subtracts two copies.
//!
//! # Progress
//! `record`: wait-free, two `fetch_add`s. `copy`: a load for each bucket of each stripe. Words are independent and
//! order nothing, so a copy may include a duration in its count but not yet in its sum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{BUCKETS, Latencies, bucket, highest};

/// Number of stripes: 240 KiB in all.
const STRIPES: usize = 8;

/// One stripe. Its alignment gives it cache lines of its own on every current machine.
#[repr(align(128))]
#[derive(Debug)]
struct Stripe {
    sum_ns: AtomicU64,
    buckets: Box<[AtomicU64]>,
}

impl Default for Stripe {
    fn default() -> Self {
        Self { sum_ns: AtomicU64::new(0), buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

/// A histogram that threads share; see the module's documentation.
#[derive(Debug, Default)]
pub struct SharedLatencies([Stripe; STRIPES]);

impl SharedLatencies {
    /// Counts one duration. `who` is the number of a session or of a thread; callers with the same `who` share
    /// cache lines.
    #[inline]
    pub fn record(&self, who: u32, ns: u64) {
        let stripe = &self.0[usize::try_from(who).unwrap_or(0) % STRIPES];
        stripe.buckets[bucket(ns)].fetch_add(1, Relaxed);
        stripe.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Returns all counts so far. The longest duration is exact only to 1/64.
    pub fn copy(&self) -> Latencies {
        let count = |at: usize| self.0.iter().map(|stripe| stripe.buckets[at].load(Relaxed)).sum::<u64>();
        let buckets: Box<[u64]> = (0..BUCKETS).map(count).collect();
        Latencies {
            count: buckets.iter().sum(),
            sum_ns: self.0.iter().map(|stripe| stripe.sum_ns.load(Relaxed)).fold(0, u64::wrapping_add),
            max_ns: buckets.iter().rposition(|count| *count > 0).map_or(0, highest),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: many threads count the same as one thread. Method: four threads, each with a quarter of 1 to 4000 us,
    /// against one histogram of all of them.
    #[test]
    fn many_threads_count_as_one() {
        let (shared, mut alone) = (SharedLatencies::default(), Latencies::default());
        (1..=4000).for_each(|us| alone.record(us * 1000));
        std::thread::scope(|scope| {
            for who in 0..4_u16 {
                let shared = &shared;
                scope.spawn(move || {
                    (1..=4000).skip(who.into()).step_by(4).for_each(|us| shared.record(9 * u32::from(who), us * 1000))
                });
            }
        });
        let copy = shared.copy();
        assert_eq!((copy.count(), copy.mean_ns()), (4000, alone.mean_ns()));
        for per_mille in [1, 500, 990] {
            assert_eq!(copy.at_per_mille(per_mille), alone.at_per_mille(per_mille));
        }
        assert!((4_000_000..4_063_000).contains(&copy.max_ns()), "{}", copy.max_ns());
        assert_eq!(SharedLatencies::default().copy().count(), 0);
    }
}
