//! `Latencies`: counts of durations in buckets at most 1/64 wide, so that percentiles of millions of durations
//! take 30 KiB.

mod shared;

pub use shared::SharedLatencies;

const SUB_BITS: u32 = 6;
const SUBS: u64 = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    usize::try_from(u64::from(shift) * SUBS + (ns >> shift)).expect("below BUCKETS")
}

/// Returns the longest duration that belongs in `bucket`.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let low = bucket - shift * SUBS;
    ((low + 1) << shift).wrapping_sub(1)
}

impl Latencies {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        self.record_times(ns, 1);
    }

    /// Counts one duration `times` times.
    pub fn record_times(&mut self, ns: u64, times: u32) {
        if times > 0 {
            self.buckets[bucket(ns)] += u64::from(times);
            self.count += u64::from(times);
            self.sum_ns = self.sum_ns.wrapping_add(ns.wrapping_mul(u64::from(times)));
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Resets all counts to zero.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum_ns, self.max_ns) = (0, 0, 0);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the counts added since `before`, an earlier copy of this histogram. The longest duration is exact
    /// only to 1/64.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets: Box<[u64]> = pairs.map(|(now, before)| now.saturating_sub(*before)).collect();
        let longest = buckets.iter().rposition(|count| *count > 0);
        Self {
            count: buckets.iter().sum(),
            sum_ns: self.sum_ns.wrapping_sub(before.sum_ns),
            max_ns: longest.map_or(0, |bucket| highest(bucket).min(self.max_ns)),
            buckets,
        }
    }

    /// Returns the mean duration, or `None` if no duration was counted.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Returns the number of counted durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest duration, exactly, or 0 if no duration was counted.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the duration that `per_mille` of 1000 durations do not exceed, rounded up by at most 1/64; 0 if
    /// none was counted.
    pub fn at_per_mille(&self, per_mille: u64) -> u64 {
        self.at(per_mille, 1000)
    }

    /// Returns the duration that `part` of `whole` durations do not exceed, rounded up by at most 1/64; 0 if none
    /// was counted.
    pub fn at(&self, part: u64, whole: u64) -> u64 {
        let wanted = (self.count * part).div_ceil(whole).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return highest(bucket).min(self.max_ns);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every duration has a bucket; buckets are in order and at most 1/64 wide. Method: values around all
    /// powers of two.
    #[test]
    fn buckets_are_narrow_and_ordered() {
        let mut last = 0;
        for power in 0..64 {
            for ns in [1_u64 << power, (1 << power) + (1 << power) / 3, ((1 << power) - 1) * 2 + 1] {
                let at = bucket(ns);
                assert!(at >= last && at < BUCKETS, "{ns}");
                let top = highest(at);
                assert!(top >= ns && top - ns <= ns / 64, "{ns} to {top}");
                last = at;
            }
        }
        assert_eq!((bucket(0), highest(0)), (0, 0));
    }

    /// Goal: percentiles are those of the sorted list. Method: 1 to 1000 us, counted in two halves that are then
    /// merged.
    #[test]
    fn percentiles_match_a_sorted_list() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        (1..=500).for_each(|us| low.record(us * 1000));
        (501..=1000).for_each(|us| high.record(us * 1000));
        low.merge(&high);
        for (per_mille, exact) in [(500, 500_000), (990, 990_000), (999, 999_000), (1000, 1_000_000)] {
            let found = low.at_per_mille(per_mille);
            assert!(found >= exact && found <= exact + exact / 64, "{per_mille}: {found}");
        }
        assert_eq!((low.count(), low.max_ns()), (1000, 1_000_000));
        assert_eq!(low.at(9_990, 10_000), low.at_per_mille(999));
        low.clear();
        assert_eq!((low.count(), low.max_ns(), low.at_per_mille(500)), (0, 0, 0));
        assert_eq!(Latencies::default().at_per_mille(500), 0);
        assert_eq!((low.mean_ns(), Latencies::default().mean_ns()), (None, None));
    }

    /// Goal: the difference of two copies holds the durations counted between them and no others. Method: long
    /// durations before the first copy, 1 to 1000 us after it, against the exact figures; the difference of a copy
    /// with itself.
    #[test]
    fn a_difference_is_of_what_came_in_between() {
        let mut latencies = Latencies::default();
        (0..50).for_each(|_| latencies.record(1_000_000_000));
        let before = latencies.clone();
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let between = latencies.since(&before);
        assert_eq!((between.count(), between.mean_ns()), (1000, Some(500_500.0)));
        let (p99, max) = (between.at_per_mille(990), between.max_ns());
        assert!((990_000..1_010_000).contains(&p99) && (1_000_000..1_016_000).contains(&max), "{p99}, {max}");
        let none = before.since(&before);
        assert_eq!((none.count(), none.max_ns(), none.mean_ns()), (0, 0, None));
    }
}
