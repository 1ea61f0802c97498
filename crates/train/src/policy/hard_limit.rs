//! P2: off above a limit of the delay, on again once the delay has stayed well below it.

use super::{Grant, Policy, Signals};

/// The consecutive ticks below the lower limit after which collection starts again.
const CALM_TICKS: u32 = 5;

/// The weight of the newest tick in the mean.
const NEWEST: f64 = 0.1;

/// P2, which is also the last guard around every other policy.
#[derive(Clone, Debug)]
pub struct HardLimit {
    limit_us: f64,
    /// h: collection starts again below this share of the limit.
    restart_share: f64,
    mean_us: Option<f64>,
    calm_ticks: u32,
    on: bool,
}

impl HardLimit {
    /// Returns a policy that collects until the mean delay exceeds `limit_us`, and again after five ticks below half of
    /// it.
    pub const fn new(limit_us: f64) -> Self {
        Self { limit_us, restart_share: 0.5, mean_us: None, calm_ticks: 0, on: true }
    }

    /// Takes the delay of a tick; returns whether collection is on. A tick without commits leaves the mean as it is and
    /// counts as calm, since it delays no commit; after enough such ticks the mean starts afresh.
    pub fn allows(&mut self, delay_us: Option<f64>) -> bool {
        let Some(delay_us) = delay_us else {
            self.calm_ticks += 1;
            if !self.on && self.calm_ticks >= CALM_TICKS {
                (self.on, self.mean_us) = (true, None);
            }
            return self.on;
        };
        let mean = self.mean_us.map_or(delay_us, |mean| (1.0 - NEWEST) * mean + NEWEST * delay_us);
        self.mean_us = Some(mean);
        if self.on && mean > self.limit_us {
            self.on = false;
            self.calm_ticks = 0;
        } else if !self.on {
            self.calm_ticks = if mean < self.restart_share * self.limit_us { self.calm_ticks + 1 } else { 0 };
            self.on = self.calm_ticks >= CALM_TICKS;
        }
        self.on
    }
}

impl Policy for HardLimit {
    fn tick(&mut self, signals: &Signals) -> Grant {
        if self.allows(signals.delay_us) { Grant { collect_us_per_s: signals.offered_us_per_s } } else { Grant::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: collection is off above the limit and on only after five consecutive calm ticks. Method: delays with a
    /// known mean.
    #[test]
    fn hard_limit_waits_until_it_is_calm() {
        let mut guard = HardLimit::new(100.0);
        assert!(guard.allows(Some(100.0)), "the limit itself is allowed");
        assert!(!guard.allows(Some(200.0)), "a mean of 110");
        let mut off_ticks = 0;
        while !guard.allows(Some(0.0)) {
            off_ticks += 1;
        }
        // 110 * 0.9^8 is the first mean below 50; the fifth such tick switches on.
        assert_eq!(off_ticks, 11);
    }

    /// Goal: a tick that is not calm restarts the count. Method: four calm ticks, one above the limit, then the rest.
    #[test]
    fn hard_limit_counts_calm_ticks_in_a_row() {
        let mut guard = HardLimit::new(100.0);
        assert!(!guard.allows(Some(2000.0)));
        for spike in [900.0, 0.0] {
            while guard.mean_us.is_some_and(|mean| mean >= 50.0) {
                assert!(!guard.allows(Some(0.0)), "the tick that falls below is the first calm one");
            }
            for _ in 0..3 {
                assert!(!guard.allows(Some(0.0)));
            }
            assert_eq!(guard.allows(Some(spike)), spike == 0.0, "only the fifth calm tick in a row switches on");
        }
    }

    /// Goal: a tick without commits neither hides a long delay nor keeps collection off if commits have stopped.
    /// Method: a mean above the limit, four ticks without commits and one far above it; then five without commits.
    #[test]
    fn hard_limit_learns_nothing_from_ticks_without_commits() {
        let mut guard = HardLimit::new(100.0);
        assert!(guard.allows(None) && !guard.allows(Some(200.0)));
        let mean = guard.mean_us;
        assert!((0..4).all(|_| !guard.allows(None)) && guard.mean_us == mean);
        assert!(!guard.allows(Some(500.0)), "and the count begins anew");
        assert!((0..4).all(|_| !guard.allows(None)) && guard.allows(None));
        assert!(!guard.allows(Some(101.0)), "the mean too");
    }
}
