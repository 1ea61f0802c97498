//! P7: cores for work that can wait, taken in slices from a bucket.

use super::{Grant, Policy, Signals, TICK_US};

/// How long a slice of the processor is.
const SLICE_US: f64 = 1000.0;

/// Apply threads that wait longer for a processor make elastic work give way.
const RUN_QUEUE_US_MAX: f64 = 1000.0;

/// P7: replayed reads and fitting take slices of 1 ms from a bucket that is filled at a rate of q cores.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// q.
    cores: f64,
    /// What the bucket holds, in us, at most one tick of one core.
    bucket_us: f64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { cores: 0.01, bucket_us: 0.0 }
    }
}

impl Tokens {
    /// Takes a slice of 1 ms, if there is one.
    pub fn take_slice(&mut self) -> bool {
        let is_there = self.bucket_us >= SLICE_US;
        if is_there {
            self.bucket_us -= SLICE_US;
        }
        is_there
    }

    /// Returns what elastic work may take of `grant` in us per second, once samples have taken their part.
    pub fn elastic_us_per_s(&self, grant: Grant, samples_us_per_s: f64) -> f64 {
        (grant.collect_us_per_s - samples_us_per_s).max(0.0).min(self.cores * 1e6)
    }
}

impl Policy for Tokens {
    fn tick(&mut self, signals: &Signals) -> Grant {
        let next = if signals.run_queue_us_p99 > RUN_QUEUE_US_MAX { self.cores * 0.8 } else { self.cores + 0.01 };
        self.cores = next.clamp(0.01, 1.0);
        self.bucket_us = (self.bucket_us + self.cores * TICK_US).min(TICK_US);
        Grant { collect_us_per_s: self.cores * 1e6 }
    }

    /// Nothing is due to a replica that does not know how far it is behind.
    fn silence(&mut self) {
        self.bucket_us = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: elastic work gives way to apply threads and comes back slowly. Method: waits below and above a millisecond.
    #[test]
    fn tokens_follow_the_run_queue() {
        let mut tokens = Tokens::default();
        let mut cores =
            |run_queue_us_p99| tokens.tick(&Signals { run_queue_us_p99, ..Signals::default() }).collect_us_per_s / 1e6;
        let calm: Vec<f64> = (0..120).map(|_| cores(1000.0)).collect();
        assert!((calm[0] - 0.02).abs() < 1e-9 && calm[119] == 1.0);
        let busy: Vec<f64> = (0..40).map(|_| cores(1001.0)).collect();
        assert!((busy[0] - 0.8).abs() < 1e-9 && busy[39] == 0.01);
    }

    /// Goal: over any time the slices taken are the rate's, and nothing is saved up for longer than a tick. Method: take all
    /// there are, each tick, for ten seconds; then leave them for ten.
    #[test]
    fn tokens_are_slices_of_the_rate() {
        let mut tokens = Tokens::default();
        let calm = Signals::default();
        let mut rate_us = 0.0;
        let mut taken_us = 0.0;
        for _ in 0..100 {
            rate_us += tokens.tick(&calm).collect_us_per_s / 10.0;
            while tokens.take_slice() {
                taken_us += SLICE_US;
            }
        }
        assert!(rate_us - taken_us >= 0.0 && rate_us - taken_us < SLICE_US + 1.0, "{taken_us} of {rate_us}");
        for _ in 0..100 {
            tokens.tick(&calm);
        }
        assert_eq!((0..).take_while(|_| tokens.take_slice()).count(), 100);
    }

    /// Goal: elastic work gets what is left of the grant, and no more than its rate. Method: either is the smaller.
    #[test]
    fn elastic_work_is_inside_the_grant() {
        let tokens = Tokens { cores: 0.5, bucket_us: 0.0 };
        let grant = Grant { collect_us_per_s: 600_000.0 };
        assert_eq!(tokens.elastic_us_per_s(grant, 0.0), 500_000.0);
        assert_eq!(tokens.elastic_us_per_s(grant, 200_000.0), 400_000.0);
        assert_eq!(tokens.elastic_us_per_s(grant, 700_000.0), 0.0);
    }
}
