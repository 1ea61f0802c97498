//! `DelayHistory`: how far one replica was behind, second by second, and percentiles of it.
//!
//! # Invariants
//! - D1. Nothing is understated: a percentile is the upper end of the bucket that it falls into, at most 1/16 above the truth, and a
//!   second in which nothing was heard counts with what was owed at its end.
//! - D2. Memory is bounded: [`SECONDS_MAX`] seconds, and three histograms of 4 KiB.
//!
//! Checked by the tests here.

use std::collections::VecDeque;

use collie_base::Lsn;

/// Seconds that are kept: ten minutes.
pub const SECONDS_MAX: usize = 600;

const SECOND_NS: u64 = 1_000_000_000;

/// So long one of the two histograms of what was last fills; percentiles are of one to two minutes.
const TURN_NS: u64 = 60 * SECOND_NS;

/// Buckets of each power of two.
const PARTS: usize = 16;

/// Seconds over which rates are taken.
const RATE_SECONDS: usize = 5;

/// Counts of delays in buckets whose width is a sixteenth of their beginning.
#[derive(Clone, Debug)]
struct Histogram {
    counts: Box<[u32]>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 62 * PARTS].into(), count: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Returns the bucket of a delay: below 16 ns its own, then sixteen for each power of two.
    fn bucket(delay_ns: u64) -> usize {
        let Some(power) = delay_ns.checked_ilog2().and_then(|power| power.checked_sub(4)) else {
            return usize::try_from(delay_ns).unwrap_or(0);
        };
        let part = usize::try_from(delay_ns >> power).unwrap_or(PARTS) % PARTS;
        (usize::try_from(power).unwrap_or(0) + 1) * PARTS + part
    }

    /// Returns the largest delay of a bucket.
    fn upper_ns(bucket: usize) -> u64 {
        let part = u64::try_from(bucket % PARTS).unwrap_or(0);
        match (bucket / PARTS).checked_sub(1) {
            None => part,
            Some(power) => ((part + 16 + 1) << power).wrapping_sub(1),
        }
    }

    fn add(&mut self, delay_ns: u64) {
        if let Some(count) = self.counts.get_mut(Self::bucket(delay_ns)) {
            *count = count.saturating_add(1);
            self.count += 1;
        }
        self.max_ns = self.max_ns.max(delay_ns);
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.max_ns) = (0, 0);
    }
}

/// Returns a delay that the given share of all is not above, in thousandths; 0 when there are none.
fn percentile_ns(of: &[&Histogram], thousandths: u64) -> u64 {
    let count: u64 = of.iter().map(|one| one.count).sum();
    let max_ns = of.iter().map(|one| one.max_ns).max().unwrap_or(0);
    let rank = (count * thousandths).div_ceil(1000).max(1);
    let mut below = 0;
    for bucket in 0..62 * PARTS {
        below += of.iter().map(|one| u64::from(one.counts.get(bucket).copied().unwrap_or(0))).sum::<u64>();
        if below >= rank {
            return Histogram::upper_ns(bucket).min(max_ns);
        }
    }
    max_ns
}

/// A second of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySecond {
    /// When it ended, on this node's clock.
    pub at_ns: u64,
    /// How many delays were measured in it.
    pub count: u64,
    /// Half of them were not longer, in nanoseconds; with none measured, what was owed at its end.
    pub p50_ns: u64,
    /// All but one in a hundred were not longer.
    pub p99_ns: u64,
    /// The longest, or what was owed at its end if that is more.
    pub max_ns: u64,
    /// What was durable here at its end.
    pub durable: Lsn,
    /// What the replica's readers saw at its end.
    pub applied: Lsn,
}

/// Percentiles of the last minute or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelaySummary {
    /// Half of the delays were not longer, in nanoseconds.
    pub p50_ns: u64,
    /// All but one in a hundred were not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// How far one replica was behind.
#[derive(Clone, Debug, Default)]
pub struct DelayHistory {
    second: Histogram,
    turns: [Histogram; 2],
    seconds: VecDeque<DelaySecond>,
    second_began_ns: u64,
    turn_began_ns: u64,
}

impl DelayHistory {
    /// Takes note of a delay that was measured.
    pub fn note(&mut self, delay_ns: u64) {
        self.second.add(delay_ns);
        self.turns[0].add(delay_ns);
    }

    /// Takes note of the time, several times a second: a replica shows `applied` of what is `durable`, and is behind by `delay_ns` as far
    /// as is known.
    pub fn tick(&mut self, now_ns: u64, delay_ns: u64, durable: Lsn, applied: Lsn) {
        if self.second_began_ns == 0 {
            (self.second_began_ns, self.turn_began_ns) = (now_ns, now_ns);
            return;
        }
        if now_ns.saturating_sub(self.second_began_ns) < SECOND_NS {
            return;
        }
        let count = self.second.count;
        if count == 0 {
            self.note(delay_ns); // D1
        }
        let one = [&self.second];
        let second = DelaySecond {
            at_ns: now_ns,
            count,
            p50_ns: percentile_ns(&one, 500),
            p99_ns: percentile_ns(&one, 990),
            max_ns: self.second.max_ns.max(delay_ns),
            durable,
            applied,
        };
        if self.seconds.len() == SECONDS_MAX {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second);
        self.second.clear();
        self.second_began_ns = now_ns;
        if now_ns.saturating_sub(self.turn_began_ns) >= TURN_NS {
            self.turns.swap(0, 1);
            self.turns[0].clear();
            self.turn_began_ns = now_ns;
        }
    }

    /// Returns the seconds, oldest first.
    pub fn seconds(&self) -> impl Iterator<Item = &DelaySecond> {
        self.seconds.iter()
    }

    /// Returns percentiles of the last minute or two.
    pub fn summary(&self) -> DelaySummary {
        let both = [&self.turns[0], &self.turns[1]];
        DelaySummary {
            p50_ns: percentile_ns(&both, 500),
            p99_ns: percentile_ns(&both, 990),
            max_ns: self.turns[0].max_ns.max(self.turns[1].max_ns),
        }
    }

    /// Returns how long the replica takes, at the rates of the last seconds, until it has made up for `behind_bytes`, in nanoseconds:
    /// 0 when it is not behind, `None` when it is not gaining, or nobody knows yet.
    pub fn drain_ns(&self, behind_bytes: u64) -> Option<u64> {
        if behind_bytes == 0 {
            return Some(0);
        }
        let last = self.seconds.back()?;
        let first = self.seconds.get(self.seconds.len().saturating_sub(RATE_SECONDS + 1))?;
        let time_ns = last.at_ns.checked_sub(first.at_ns).filter(|time| *time > 0)?;
        let gained = last.applied.bytes_since(first.applied).checked_sub(last.durable.bytes_since(first.durable))?;
        let drain = u128::from(behind_bytes) * u128::from(time_ns) / u128::from(gained).max(1);
        u64::try_from(drain).ok().filter(|_| gained > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    /// Goal: a second is what was measured in it, one without measures is what is owed, and the oldest go. Method: seconds one by one.
    #[test]
    fn seconds_are_what_was_measured_or_owed() {
        let mut history = DelayHistory::default();
        history.tick(1, 0, lsn(10), lsn(10));
        (1..=100).for_each(|ms| history.note(ms * 1_000_000));
        history.tick(SECOND_NS / 2, 0, lsn(10), lsn(10));
        assert_eq!(history.seconds().count(), 0);
        history.tick(SECOND_NS + 1, 0, lsn(10), lsn(10));
        history.tick(2 * SECOND_NS + 1, 77, lsn(10), lsn(5));
        let seconds: Vec<_> = history.seconds().copied().collect();
        let [measured, owed] = &seconds[..] else { panic!("{seconds:?}") };
        assert_eq!((measured.count, measured.max_ns), (100, 100_000_000));
        assert!((50_000_000..54_000_000).contains(&measured.p50_ns), "{measured:?}");
        assert!((99_000_000..=100_000_000).contains(&measured.p99_ns), "{measured:?}");
        assert_eq!((owed.count, owed.p50_ns, owed.p99_ns, owed.max_ns), (0, 77, 77, 77));
        (3..3 + SECONDS_MAX as u64).for_each(|n| history.tick(n * SECOND_NS + 1, 0, lsn(10), lsn(10)));
        assert_eq!(history.seconds().count(), SECONDS_MAX);
        assert_eq!(history.summary(), DelaySummary::default(), "what was is over after two minutes");
    }

    /// Goal: time to make up is the backlog by what is gained each second. Method: rates that gain, stand and lose.
    #[test]
    fn drain_time_is_backlog_by_gain() {
        let drained = |applied: u64, durable: u64| {
            let mut history = DelayHistory::default();
            (0..10).for_each(|n| history.tick(1 + n * SECOND_NS, 5, lsn(1000 + n * durable), lsn(n * applied)));
            history.drain_ns(1000)
        };
        assert_eq!(drained(30, 10), Some(50 * SECOND_NS));
        assert_eq!(drained(10, 10), None);
        assert_eq!(drained(10, 30), None);
        assert_eq!(DelayHistory::default().drain_ns(0), Some(0));
        assert_eq!(DelayHistory::default().drain_ns(1), None);
    }

    proptest! {
        /// Goal: D1: a percentile is not below the truth, and not more than a sixteenth above. Method: random delays, sorted.
        #[test]
        fn percentiles_are_never_understated(delays in vec(prop_oneof![0..40_u64, any::<u64>()], 1..300), share in 1..=1000_u64) {
            let mut histogram = Histogram::default();
            delays.iter().for_each(|delay| histogram.add(*delay));
            let mut sorted = delays.clone();
            sorted.sort_unstable();
            let rank = usize::try_from((delays.len() as u64 * share).div_ceil(1000)).unwrap();
            let truth = sorted[rank - 1];
            let told = percentile_ns(&[&histogram], share);
            prop_assert!(told >= truth && told - truth <= truth / 16, "{told} for {truth}");
        }
    }
}
