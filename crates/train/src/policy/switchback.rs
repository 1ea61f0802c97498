//! P4: one tick of five without collection shows the cost of the others.

use super::{Grant, Policy, Signals};

/// The ticks of a cycle; the first one is the control. The very first tick is a control, since it precedes any grant.
const CYCLE: u32 = 5;

/// The weight of the newest tick in both means.
const NEWEST: f64 = 0.1;

/// The least delay in the denominator of the ratio, in us.
const DELAY_US_MIN: f64 = 1.0;

/// P4: keeps the delay with collection at (1 + b) times the delay without it, with no floor.
#[derive(Clone, Debug)]
pub struct Switchback {
    share_bound: f64,
    /// s: the share of the offered work that is collected, outside of control ticks.
    share: f64,
    without_us: Option<f64>,
    with_us: Option<f64>,
    /// The place of the current tick in the cycle.
    place: u32,
}

impl Switchback {
    /// Returns a policy that lets the delay grow by `share_bound`, 0.1 for 10 %.
    pub const fn new(share_bound: f64) -> Self {
        Self { share_bound, share: 0.02, without_us: None, with_us: None, place: 0 }
    }
}

impl Policy for Switchback {
    fn tick(&mut self, signals: &Signals) -> Grant {
        let was_control = self.place == 0;
        let mean = if was_control { &mut self.without_us } else { &mut self.with_us };
        if let Some(delay) = signals.delay_us {
            *mean = Some(mean.map_or(delay, |mean| (1.0 - NEWEST) * mean + NEWEST * delay));
        }
        self.place = (self.place + 1) % CYCLE;
        if self.place > 0 {
            return Grant { collect_us_per_s: self.share * signals.offered_us_per_s };
        }
        // The cycle ends, and the next one begins with its control.
        if let (Some(without), Some(with)) = (self.without_us, self.with_us) {
            let slack = 1.0 + self.share_bound - with / without.max(DELAY_US_MIN);
            self.share = (self.share * (1.5 * slack).clamp(-0.7, 0.1).exp()).clamp(0.001, 1.0);
        }
        Grant::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the share grows if collection costs nothing, and shrinks if it costs more than allowed. Method: delays
    /// that do not and that do depend on collection in the tick.
    #[test]
    fn switchback_follows_the_ratio_of_its_ticks() {
        let run = |cost_us: f64| {
            let mut policy = Switchback::new(0.1);
            let (mut collects, mut last) = (false, 0.0);
            for _ in 0..400 {
                let delay_us = 1000.0 + if collects { cost_us } else { 0.0 };
                let grant =
                    policy.tick(&Signals { delay_us: Some(delay_us), offered_us_per_s: 1.0, ..Signals::default() });
                collects = grant.collect_us_per_s > 0.0;
                if collects {
                    last = grant.collect_us_per_s;
                }
            }
            last
        };
        assert_eq!(run(0.0), 1.0);
        assert_eq!(run(500.0), 0.001);
    }

    /// Goal: every fifth tick is a control. Method: the grants of twenty ticks.
    #[test]
    fn switchback_leaves_out_every_fifth_tick() {
        let mut policy = Switchback::new(0.1);
        let signals = Signals { delay_us: Some(10.0), offered_us_per_s: 1.0, ..Signals::default() };
        let off: Vec<usize> = (0..20).filter(|_| policy.tick(&signals) == Grant::NONE).collect();
        assert_eq!(off, [4, 9, 14, 19]);
    }
}
