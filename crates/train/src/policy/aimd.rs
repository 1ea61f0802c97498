//! P5: additive increase, multiplicative decrease, as in congestion control.

use super::{Grant, Policy, Signals};

/// P5: it needs no model of cost, only a delay to stay below.
#[derive(Clone, Debug)]
pub struct Aimd {
    target_us: f64,
    /// s: the share of the offered work that is collected.
    share: f64,
}

impl Aimd {
    /// Returns a policy that raises the share by a hundredth per tick up to a delay of `target_us`, and halves it
    /// above.
    pub const fn new(target_us: f64) -> Self {
        Self { target_us, share: 0.05 }
    }
}

impl Policy for Aimd {
    fn tick(&mut self, signals: &Signals) -> Grant {
        if let Some(delay_us) = signals.delay_us {
            let next = if delay_us <= self.target_us { self.share + 0.01 } else { self.share / 2.0 };
            self.share = next.clamp(0.001, 1.0);
        }
        Grant { collect_us_per_s: self.share * signals.offered_us_per_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the share rises slowly, falls fast, and never reaches 0. Method: calm ticks, then ticks above the target.
    #[test]
    fn aimd_climbs_slowly_and_falls_fast() {
        let mut policy = Aimd::new(2000.0);
        let mut share = |us| {
            policy.tick(&Signals { delay_us: Some(us), offered_us_per_s: 1.0, ..Signals::default() }).collect_us_per_s
        };
        let calm: Vec<f64> = (0..100).map(|_| share(2000.0)).collect();
        assert!((calm[9] - 0.15).abs() < 1e-9 && calm[99] == 1.0);
        let over: Vec<f64> = (0..20).map(|_| share(2001.0)).collect();
        assert!(over[0] == 0.5 && over[19] == 0.001);
    }
}
