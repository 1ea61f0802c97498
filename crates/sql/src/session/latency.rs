//! `Latencies`: how many messages of clients were answered, and how long that took, since the database was opened.
//!
//! A histogram of microseconds with eight steps for each power of two, in stripes, so that sessions on different cores write to different
//! lines. Who wants a second's figures looks twice. A message of the extended protocol counts from its last Execute to its answer.
//!
//! # Progress
//! `note`: wait-free, two `fetch_add`s. `seen`: a load for each step of each stripe.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Stripes that sessions write to, by their process ids.
const STRIPES: usize = 16;
/// Bits of a number below its highest that tell steps apart.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Longer than this counts as this: more than an hour.
const OCTAVES: usize = 30;
const BUCKETS: usize = OCTAVES * STEPS;

/// A line of its own on any machine that there is.
#[repr(align(128))]
#[derive(Debug)]
struct Stripe {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Latencies(Box<[Stripe; STRIPES]>);

impl Default for Latencies {
    fn default() -> Self {
        let word = |_| AtomicU64::new(0);
        Self(Box::new(array::from_fn(|_| Stripe { counts: array::from_fn(word), sum_us: AtomicU64::new(0) })))
    }
}

/// Returns the step that `us` falls into.
fn bucket_of(us: u64) -> usize {
    let octave = us.max(1).ilog2().saturating_sub(STEP_BITS);
    let step = us >> octave; // below 2 x STEPS: the highest bit and the three after it
    let place = usize::try_from(step).unwrap_or(0) + usize::try_from(octave).unwrap_or(0) * STEPS;
    place.min(BUCKETS - 1)
}

/// Returns the lowest time of a step.
fn lowest_us(bucket: usize) -> f64 {
    let octave = (bucket / STEPS).saturating_sub(1);
    let step = bucket - octave * STEPS;
    step as f64 * (1_u64 << octave) as f64
}

impl Latencies {
    /// Notes that a session answered a message in `us`.
    #[inline]
    pub(super) fn note(&self, pid: u32, us: u64) {
        let stripe = &self.0[usize::try_from(pid).unwrap_or(0) % STRIPES];
        stripe.counts[bucket_of(us)].fetch_add(1, Relaxed);
        stripe.sum_us.fetch_add(us, Relaxed);
    }

    /// Returns what was noted so far.
    pub(super) fn seen(&self) -> Answered {
        let count = |bucket: usize| self.0.iter().map(|stripe| stripe.counts[bucket].load(Relaxed)).sum::<u64>();
        Answered {
            counts: (0..BUCKETS).map(count).collect(),
            sum_us: self.0.iter().map(|stripe| stripe.sum_us.load(Relaxed)).sum(),
        }
    }
}

/// Messages that were answered, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    counts: Vec<u64>,
    sum_us: u64,
}

impl Answered {
    /// Returns what came since `before`, which is of the same database or of none.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |bucket: usize| before.counts.get(bucket).copied().unwrap_or(0);
        Self {
            counts: self.counts.iter().enumerate().map(|(at, count)| count.saturating_sub(earlier(at))).collect(),
            sum_us: self.sum_us.saturating_sub(before.sum_us),
        }
    }

    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how long one took in the mean, in microseconds; `None` of none.
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_us as f64 / count as f64)
    }

    /// Returns within how long the part `share` of them was answered, in microseconds: within a step as if they were spread evenly, so
    /// off by an eighth at the most. `None` of none.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let wanted = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let inside = *count as f64;
            if below + inside >= wanted {
                let (low, high) = (lowest_us(bucket), lowest_us(bucket + 1));
                return Some(low + (high - low) * ((wanted - below) / inside));
            }
            below += inside;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: steps follow each other without a gap, and each holds what is between its ends. Method: every time up to 100,000 us, and ends
    /// of the scale.
    #[test]
    fn every_time_falls_into_its_step() {
        for us in (0..100_000).chain([u64::from(u32::MAX), 1 << 31]) {
            let bucket = bucket_of(us);
            let (low, high) = (lowest_us(bucket), lowest_us(bucket + 1));
            assert!((low..high).contains(&(us as f64)), "{us} in {low}..{high}");
            assert!(high - low <= (low / 8.0).max(1.0), "{low}..{high}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// Goal: counts, means and quantiles are of what came in between, whoever noted it. Method: 1 to 1,000 us of three sessions after others,
    /// against the exact figures.
    #[test]
    fn quantiles_are_of_what_came_in_between() {
        let latencies = Latencies::default();
        (0..50).for_each(|pid| latencies.note(pid, 1_000_000));
        let before = latencies.seen();
        (1..=1000_u32).for_each(|us| latencies.note(us % 3, u64::from(us)));
        let answered = latencies.seen().since(&before);
        assert_eq!((answered.count(), answered.mean_us()), (1000, Some(500.5)));
        for (share, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = answered.quantile_us(share).unwrap();
            assert!((found / exact - 1.0).abs() < 0.06, "{share}: {found}");
        }
        let none = before.since(&before);
        assert_eq!((none.count(), none.mean_us(), none.quantile_us(0.5)), (0, None, None));
        assert_eq!(before.since(&Answered::default()), before);
    }
}
