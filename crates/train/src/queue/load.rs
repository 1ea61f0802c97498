//! `Load`: draws the arrivals, which both runs of a pair share.

use collie_env::SimRandom;

use super::{Disturbance, RUN_MS};
use crate::numbers::unit_interval;

/// The mean work of a commit, in us.
const COMMIT_US: f64 = 71.4;

/// Heavy commits: their share of all commits, and the factor of their work.
const HEAVY_SHARE: f64 = 0.04;
const HEAVY_FACTOR: f64 = 10.0;

/// Commits that arrive in one millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) commits: f64,
    pub(super) work_us: f64,
}

/// A source of random numbers from a seed.
pub(super) struct Load(SimRandom);

impl Load {
    pub(super) fn new(seed: u64) -> Self {
        Self(SimRandom::new(seed))
    }

    fn unit(&self) -> f64 {
        unit_interval(&self.0)
    }

    /// Returns a normal deviate (Box and Muller, 1958).
    fn normal(&self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }

    /// Draws the arrivals of each millisecond of a run.
    pub(super) fn arrivals(&self, kind: Disturbance) -> Vec<Arrivals> {
        let light_us = COMMIT_US / (1.0 - HEAVY_SHARE + HEAVY_SHARE * HEAVY_FACTOR);
        let (mut held, mut held_heavy) = (0.0, 0.0);
        let mut all = Vec::with_capacity(RUN_MS);
        for at_ms in 0..RUN_MS {
            let rate = kind.commits_per_ms(at_ms as f64 / 1000.0);
            let mut commits = self.normal(rate, rate.sqrt()).round().max(0.0);
            let mut heavy = 0.0;
            let mut left = commits;
            while left > 0.0 {
                heavy += f64::from(u8::from(self.unit() < HEAVY_SHARE));
                left -= 1.0;
            }
            if kind.holds(at_ms) {
                (held, held_heavy) = (held + commits, held_heavy + heavy);
                (commits, heavy) = (0.0, 0.0);
            } else {
                (commits, heavy) = (commits + held, heavy + held_heavy);
                (held, held_heavy) = (0.0, 0.0);
            }
            let work_us = (commits + heavy * (HEAVY_FACTOR - 1.0)) * light_us + kind.long_us(at_ms);
            all.push(Arrivals { commits, work_us });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the load is the documented one: the rate, the work of a commit, and no loss where arrivals are held back.
    /// Method: the totals of a steady run and of one with stalls, from the same seed.
    #[test]
    fn the_load_is_as_described() {
        let totals = |kind| {
            let all = Load::new(3).arrivals(kind);
            all.iter().fold((0.0, 0.0), |(commits, work_us), at| (commits + at.commits, work_us + at.work_us))
        };
        let (commits, work_us) = totals(Disturbance::Steady);
        assert!((commits / 1.2e6 - 1.0).abs() < 0.01 && (work_us / commits / COMMIT_US - 1.0).abs() < 0.01);
        let (stalled, stalled_us) = totals(Disturbance::NetworkStall);
        assert_eq!((stalled, stalled_us.round()), (commits, work_us.round()));
    }
}
