//! `Mixture`: the mixture sequential probability ratio test (Robbins, 1970; Johari et al., 2017). It may be evaluated
//! after every window, and still raises a false alarm with at most the probability that it promises.

/// t: the deviation of the effects for which the test is tuned, 1 %.
const EFFECT: f64 = 0.01;

/// A smaller variance would mistake rounding for an effect.
const VARIANCE_MIN: f64 = 1e-8;

/// The differences of windows; the test compares their likelihood with and without an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    variance: f64,
    windows: f64,
    sum: f64,
}

impl Mixture {
    /// Returns a test without windows. `variance` is the variance of the difference of two windows without an effect.
    pub const fn new(variance: f64) -> Self {
        let variance = if variance > VARIANCE_MIN { variance } else { VARIANCE_MIN };
        Self { variance, windows: 0.0, sum: 0.0 }
    }

    /// Adds the relative difference of a window from the baseline, above 0 if it is worse.
    pub fn add(&mut self, loss: f64) {
        self.windows += 1.0;
        self.sum += loss;
    }

    /// m: returns the mean difference.
    pub fn mean(&self) -> f64 {
        if self.windows == 0.0 { 0.0 } else { self.sum / self.windows }
    }

    /// Returns L_n, at most 1e300.
    pub fn ratio(&self) -> f64 {
        let (n, v, t2) = (self.windows, self.variance, EFFECT * EFFECT);
        let spread = v + n * t2;
        let exponent = self.sum * self.sum * t2 / (2.0 * v * spread);
        ((v / spread).sqrt() * exponent.min(690.0).exp()).min(1e300)
    }

    /// Returns whether the windows are worse: L_n is at least 20 on the worse side, which chance alone reaches in at
    /// most one run of twenty.
    pub fn is_worse(&self) -> bool {
        self.mean() > 0.0 && self.ratio() >= 20.0
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;

    use super::*;
    use crate::numbers::unit_interval;

    /// Returns noise with a deviation of 3 %.
    fn noise(chance: &SimRandom) -> f64 {
        (unit_interval(chance) - 0.5) * 0.03 * 12.0_f64.sqrt()
    }

    /// Goal: the ratio is the documented one. Method: L_n of ten windows of 2 % at a variance of 0.0009, computed with
    /// m as the documentation writes it.
    #[test]
    fn ratio_is_the_documented_one() {
        let mut mixture = Mixture::new(0.0009);
        (0..10).for_each(|_| mixture.add(0.02));
        let (n, t, v, m) = (10.0_f64, 0.01_f64, 0.0009_f64, 0.02_f64);
        let spread = v + n * t * t;
        let expected = (v / spread).sqrt() * (n * n * t * t * m * m / (2.0 * v * spread)).exp();
        assert!((mixture.ratio() - expected).abs() < 1e-9);
        assert_eq!(Mixture::new(0.0009).ratio(), 1.0);
    }

    /// Goal: a loss is found, a gain is not reported, and chance seldom is. Method: 200 runs of ten minutes each.
    #[test]
    fn losses_are_found_and_chance_seldom_is() {
        let found = |effect: f64| {
            let is_found = |seed: &u64| {
                let (chance, mut mixture) = (SimRandom::new(*seed), Mixture::new(0.0009));
                (0..600).any(|_| {
                    mixture.add(effect + noise(&chance));
                    mixture.is_worse()
                })
            };
            (0..200).filter(is_found).count()
        };
        assert_eq!(found(0.01), 200);
        assert_eq!(found(-0.01), 0);
        assert!(found(0.0) <= 10, "{} of 200", found(0.0));
    }
}
