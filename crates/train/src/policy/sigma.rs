//! P3: off while the delay is far above its mean. For comparison only: it learns from the windows that it disturbs.

use super::{Grant, Policy, Signals};

/// The weight of the newest tick, 1/300: half a minute.
const NEWEST: f64 = 1.0 / 300.0;

/// k: the number of standard deviations that are allowed.
const DEVIATIONS: f64 = 3.0;

/// P3.
#[derive(Clone, Debug, Default)]
pub struct Sigma {
    /// The mean in us and the variance in us^2 so far.
    seen: Option<(f64, f64)>,
}

impl Policy for Sigma {
    fn tick(&mut self, signals: &Signals) -> Grant {
        // A tick without commits delays none, and has no delay to learn from.
        let Some(delay) = signals.delay_us else { return Grant { collect_us_per_s: signals.offered_us_per_s } };
        let (mean, variance) = self.seen.unwrap_or((delay, (0.5 * delay).powi(2)));
        let is_allowed = delay <= mean + DEVIATIONS * variance.sqrt();
        let error = delay - mean;
        self.seen = Some((mean + NEWEST * error, (1.0 - NEWEST) * (variance + NEWEST * error * error)));
        if is_allowed { Grant { collect_us_per_s: signals.offered_us_per_s } } else { Grant::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an outlier switches collection off, and a delay that stays high becomes normal. Method: one lasting jump.
    #[test]
    fn sigma_gets_used_to_a_high_delay() {
        let mut policy = Sigma::default();
        let mut is_on = |delay_us| {
            let signals = Signals { delay_us: Some(delay_us), offered_us_per_s: 10.0, ..Signals::default() };
            policy.tick(&signals).collect_us_per_s > 0.0
        };
        assert!((0..50).all(|_| is_on(1000.0)));
        assert!(!is_on(5000.0));
        assert!((0..600).any(|_| is_on(5000.0)), "its weakness, which the comparison shows");
    }
}
