//! P8: divides a grant among units so that the error of their predictions becomes smallest (Neyman, 1934, with costs).
//!
//! With n samples per second of a unit, its part of the error is w sg^2 / n. At a given cost the sum is smallest where
//! n is proportional to sqrt(w / c) sg, between the unit's least number of samples and its number of calls. Both limits
//! are met exactly: the cost is a piecewise linear function of the factor, so the factor is solved for between two
//! corners.

use crate::{UnitId, numbers::bounded};

/// eps: the least probability of a unit that is not left out.
pub const PROBABILITY_MIN: f64 = 0.001;

/// A unit among which a grant is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitBudget {
    /// The unit.
    pub unit: UnitId,
    /// w: its share of the time that pending decisions are about; 1 / units if there are none.
    pub weight: f64,
    /// sg: the residual standard deviation of its model in log space; 1 without a model.
    pub deviation: f64,
    /// c: the measured work per sample, in us; of a replayed read, its whole run.
    pub cost_us: f64,
    /// lam: calls per second.
    pub calls_per_s: f64,
    /// The information that a sample adds (see [`super::Information`]).
    pub information: f64,
}

impl UnitBudget {
    /// Returns the unit with every field in its range. A value that is not a number becomes the worst: no weight, no
    /// deviation, the highest cost or rate.
    fn sanitized(self) -> Self {
        Self {
            weight: bounded(self.weight, 0.0, 1e9, 0.0),
            deviation: bounded(self.deviation, 0.0, 1e9, 0.0),
            cost_us: bounded(self.cost_us, 1e-3, 1e9, 1e9),
            calls_per_s: bounded(self.calls_per_s, 0.0, 1e12, 1e12),
            ..self
        }
    }

    /// Returns the work that the least probability takes, in us per second.
    pub(super) fn floor_us_per_s(&self) -> f64 {
        let unit = self.sanitized();
        PROBABILITY_MIN * unit.calls_per_s * unit.cost_us
    }

    /// Returns the samples per second for a factor.
    fn samples_per_s(&self, factor: f64) -> f64 {
        (factor * self.slope()).clamp(PROBABILITY_MIN * self.calls_per_s, self.calls_per_s)
    }

    /// Returns the samples per second per unit of the factor; 0 if the corners would be too large to compute with.
    fn slope(&self) -> f64 {
        let slope = (self.weight / self.cost_us).sqrt() * self.deviation;
        if slope > 1e-15 { slope } else { 0.0 }
    }
}

/// The part of a grant that a unit gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The unit.
    pub unit: UnitId,
    /// p: the probability with which a call is sampled.
    pub probability: f64,
    /// The cost at the unit's rate of calls, in us per second.
    pub cost_us_per_s: f64,
}

fn cost_us_per_s(units: &[UnitBudget], factor: f64) -> f64 {
    units.iter().map(|unit| unit.cost_us * unit.samples_per_s(factor)).sum()
}

/// Returns the factor at which the units cost `grant`, or infinity if all of their calls cost less.
fn factor_for(units: &[UnitBudget], grant: f64) -> f64 {
    let mut corners: Vec<f64> = Vec::with_capacity(2 * units.len());
    for unit in units.iter().filter(|unit| unit.slope() > 0.0) {
        corners.extend([PROBABILITY_MIN, 1.0].map(|end| end * unit.calls_per_s / unit.slope()));
    }
    corners.sort_by(f64::total_cmp);
    let (mut low, mut low_cost) = (0.0, cost_us_per_s(units, 0.0));
    for high in corners {
        let high_cost = cost_us_per_s(units, high);
        if high_cost > grant {
            return low + (high - low) * ((grant - low_cost) / (high_cost - low_cost)).clamp(0.0, 1.0);
        }
        (low, low_cost) = (high, high_cost);
    }
    f64::INFINITY
}

/// Divides `grant_us_per_s` among the units.
///
/// Returns a share for each unit, in order. All are zero if the grant does not even pay for [`PROBABILITY_MIN`] of
/// each; then units have to be shed first ([`super::Shedding`]). Cost: quadratic in the number of units. Pure.
pub fn allocate(units: &[UnitBudget], grant_us_per_s: f64) -> Vec<Share> {
    let grant = bounded(grant_us_per_s, 0.0, 1e12, 0.0);
    let sane: Vec<UnitBudget> = units.iter().map(|unit| unit.sanitized()).collect();
    let is_affordable = cost_us_per_s(&sane, 0.0) <= grant;
    let factor = factor_for(&sane, grant);
    let share = |unit: &UnitBudget, probability: f64| Share {
        unit: unit.unit,
        probability,
        cost_us_per_s: probability * unit.calls_per_s * unit.cost_us,
    };
    let probability = |unit: &UnitBudget| {
        if !is_affordable {
            0.0
        } else if unit.calls_per_s == 0.0 || unit.slope() == 0.0 {
            // A unit without calls gets the least, since the cost of a first burst of calls is unknown; so does a unit
            // of no value.
            PROBABILITY_MIN
        } else if factor.is_infinite() {
            1.0
        } else {
            (unit.samples_per_s(factor) / unit.calls_per_s).min(1.0)
        }
    };
    let mut shares: Vec<Share> = sane.iter().map(|unit| share(unit, probability(unit))).collect();
    // Rounding must not let the costs exceed the grant (B1).
    let total: f64 = shares.iter().map(|share| share.cost_us_per_s).sum();
    if total > grant && total > 0.0 {
        let scale = grant / total * (1.0 - 1e-12);
        for share in &mut shares {
            share.probability *= scale;
            share.cost_us_per_s *= scale;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;
    use proptest::prelude::*;

    use super::*;
    use crate::numbers::unit_interval;

    fn unit(number: u8, weight: f64, deviation: f64, cost_us: f64, calls_per_s: f64) -> UnitBudget {
        UnitBudget { unit: UnitId::new(number), weight, deviation, cost_us, calls_per_s, information: 1.0 }
    }

    fn error(units: &[UnitBudget], probabilities: &[f64]) -> f64 {
        let each = |(unit, p): (&UnitBudget, &f64)| unit.weight * unit.deviation.powi(2) / (p * unit.calls_per_s);
        units.iter().zip(probabilities).map(each).sum()
    }

    /// Returns the smallest error of four units over all divisions of the grant into parts of 1 / `steps`.
    fn brute_force(units: &[UnitBudget], grant: f64, steps: u32) -> f64 {
        let probability = |unit: &UnitBudget, part: u32| {
            let p = grant * f64::from(part) / f64::from(steps) / unit.cost_us / unit.calls_per_s;
            if p < PROBABILITY_MIN { 0.0 } else { p.min(1.0) }
        };
        let mut best = f64::INFINITY;
        for a in 0..=steps {
            for b in 0..=steps - a {
                for c in 0..=steps - a - b {
                    let parts = [a, b, c, steps - a - b - c];
                    let all: Vec<f64> = units.iter().zip(parts).map(|(unit, part)| probability(unit, part)).collect();
                    best = best.min(error(units, &all));
                }
            }
        }
        best
    }

    /// Goal: no division of the grant is better, and the best of a grid is as good. Method: brute force on 4 units in
    /// 12 random cases, some with a unit whose calls are all sampled.
    #[test]
    fn allocation_agrees_with_brute_force_on_four_units() {
        let chance = SimRandom::new(11);
        let draw = |low: f64, high: f64| low * (high / low).powf(unit_interval(&chance));
        let mut capped = 0;
        for case in 0..12 {
            let units: Vec<UnitBudget> = (0..4)
                .map(|n| unit(n, draw(0.1, 1.0), draw(0.3, 1.5), draw(0.1, 1.0), draw(300.0, 30_000.0)))
                .collect();
            let grant = draw(300.0, 3000.0);
            let shares = allocate(&units, grant);
            let probabilities: Vec<f64> = shares.iter().map(|share| share.probability).collect();
            capped += usize::from(probabilities.iter().any(|p| *p >= 1.0));
            let (ours, best) = (error(&units, &probabilities), brute_force(&units, grant, 100));
            assert!(ours <= best * (1.0 + 1e-9), "case {case}: {ours}, a grid finds {best}");
            assert!(best <= ours * 1.01, "case {case}: {ours} is less than any division gives: {best}");
        }
        assert!((1..12).contains(&capped), "{capped} cases with a unit sampled wholly");
    }

    /// Goal: Neyman's rule holds if no limit is reached. Method: two units whose shares are known: twice the deviation
    /// gives twice the samples, four times the cost gives half of them.
    #[test]
    fn allocation_follows_neyman() {
        let shares = allocate(&[unit(1, 1.0, 1.0, 1.0, 1e6), unit(2, 1.0, 2.0, 1.0, 1e6)], 30_000.0);
        assert!((shares[0].probability - 0.01).abs() < 1e-9 && (shares[1].probability - 0.02).abs() < 1e-9);
        let shares = allocate(&[unit(1, 1.0, 1.0, 1.0, 1e6), unit(2, 1.0, 1.0, 4.0, 1e6)], 30_000.0);
        assert!((shares[0].probability / shares[1].probability - 2.0).abs() < 1e-9);
        assert!((shares.iter().map(|share| share.cost_us_per_s).sum::<f64>() - 30_000.0).abs() < 1e-6);
    }

    /// Goal: a unit of no value still gets the least probability, and a grant above all costs samples all calls of the
    /// others. Method: a unit of weight 0 together with one of weight 1.
    #[test]
    fn allocation_keeps_the_floor() {
        let shares = allocate(&[unit(1, 0.0, 1.0, 1.0, 1000.0), unit(2, 1.0, 1.0, 1.0, 1000.0)], 1e9);
        assert_eq!(shares.iter().map(|share| share.probability).collect::<Vec<_>>(), [PROBABILITY_MIN, 1.0]);
        let poor = allocate(&[unit(1, 1.0, 1.0, 1.0, 1000.0); 3], 2.9);
        assert!(poor.iter().all(|share| share.probability == 0.0), "3 us are needed: {poor:?}");
    }

    proptest! {
        /// Goal: B1 and B2 hold for any units. Method: random units, some with values that are not numbers.
        #[test]
        fn allocation_never_exceeds_the_grant(
            units in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>(), 0.0..1e9_f64), 0..12), grant: f64
        ) {
            let units: Vec<UnitBudget> = units.into_iter().map(|(w, sg, c, calls)| unit(1, w, sg, c, calls)).collect();
            let shares = allocate(&units, grant);
            let total: f64 = shares.iter().map(|share| share.cost_us_per_s).sum();
            prop_assert!(total <= grant.max(0.0));
            let is_off = shares.iter().all(|share| share.probability == 0.0);
            let is_on = shares.iter().all(|share| (PROBABILITY_MIN * 0.999..=1.0).contains(&share.probability));
            prop_assert!(is_off || is_on, "{shares:?}");
        }
    }
}
