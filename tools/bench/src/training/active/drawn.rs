//! Synthetic units similar to those of a server: frequent and rare ones, most of whose calls are small while a few
//! take most of the time.
//!
//! Sizes follow a bounded Pareto distribution; the cost of a call is known except for log-normal noise. So the error
//! of a model is measured against the truth, without noise. Rates, tails and noise resemble those of TPC-C's units; no
//! unit is a recording.

use collie_train::{budget::Bucket, model::Complexity};
use collie_workload::Chance;

use super::population::{Call, Held, Population, Source, Unit};

/// The mean errors for which samples are counted.
const ERRORS: [f64; 2] = [0.20, 0.12];

/// The number of kinds of calls that judge a model: sizes less than a tenth of a binary magnitude apart.
const HELD: u32 = 200;

/// The range of the second feature; `THIRD` is that of the third, which has no effect.
const SECOND: (u32, u32) = (1, 8);
const THIRD: (u32, u32) = (0, 3);

/// The parameters of a unit.
struct Kind {
    name: &'static str,
    calls_per_s: f64,
    /// How fast large sizes become rare: the share of sizes above x is x^-tail.
    tail: f64,
    size_max: f64,
    /// The standard deviation of ln of the cost, for calls of one kind.
    noise: f64,
    /// The cost in ns of a call with a size and a second feature.
    cost_ns: fn(f64, f64) -> f64,
}

static KINDS: [Kind; 6] = [
    Kind {
        name: "point read",
        calls_per_s: 20_000.0,
        tail: 1.6,
        size_max: 1e2,
        noise: 0.2,
        cost_ns: |steps, columns| 300.0 + 45.0 * steps + 6.0 * columns,
    },
    Kind {
        name: "row write",
        calls_per_s: 10_000.0,
        tail: 1.2,
        size_max: 4e3,
        noise: 0.3,
        cost_ns: |bytes, columns| 400.0 + 3.0 * bytes + 40.0 * columns,
    },
    Kind {
        name: "commit wait",
        calls_per_s: 3_000.0,
        tail: 0.9,
        size_max: 1e4,
        noise: 0.7,
        cost_ns: |kib_ahead, waiters| 60_000.0 + 400.0 * kib_ahead.powf(0.9) + 300.0 * waiters,
    },
    Kind {
        name: "log flush",
        calls_per_s: 1_000.0,
        tail: 0.8,
        size_max: 1e4,
        noise: 0.4,
        // Beyond a MiB the device's own memory is full.
        cost_ns: |kib, flights| 80_000.0 + 300.0 * kib + 600.0 * (kib - 1_024.0).max(0.0) + 2_000.0 * flights,
    },
    Kind {
        name: "scan",
        calls_per_s: 300.0,
        tail: 0.7,
        size_max: 3e4,
        noise: 0.25,
        // Rows beyond the size of the caches.
        cost_ns: |rows, columns| (200.0 + rows * (20.0 + columns)) * if rows > 1e4 { 3.0 } else { 1.0 },
    },
    Kind {
        name: "compaction",
        calls_per_s: 100.0,
        tail: 0.6,
        size_max: 1e4,
        noise: 0.3,
        // In thousands of rows.
        cost_ns: |rows, runs| 50_000.0 + 12_000.0 * rows * (rows + 1.0).ln() * (1.0 + runs.ln() / 4.0),
    },
];

impl Kind {
    /// Returns the share of sizes that are at most `size`.
    fn share_below(&self, size: f64) -> f64 {
        (1.0 - size.powf(-self.tail)) / (1.0 - self.size_max.powf(-self.tail))
    }

    /// Returns the size that a share of `share` does not exceed.
    fn size_at(&self, share: f64) -> f64 {
        (1.0 - share * (1.0 - self.size_max.powf(-self.tail))).powf(-self.tail.recip()).clamp(1.0, self.size_max)
    }

    /// Returns the kinds of calls that judge a model, at sizes evenly spaced in their logarithm.
    fn held(&self) -> Vec<Held> {
        let mut chance = Chance::new(0, 0);
        let edge = |step: u32| self.size_max.powf(f64::from(step) / f64::from(HELD));
        let held = |step: u32| {
            let size = edge(step).midpoint(edge(step + 1)).round();
            let [second, third] = [SECOND, THIRD].map(|(low, high)| f64::from(chance.within(low, high)));
            let weight = self.share_below(edge(step + 1)) - self.share_below(edge(step));
            Held { features: vec![size, second, third], label: (self.cost_ns)(size, second), weight }
        };
        (0..HELD).map(held).collect()
    }
}

impl Source for &'static Kind {
    fn call(&self, chance: &mut Chance) -> Call {
        let size = self.size_at(1.0 - chance.share()).round();
        let (second, third) = (chance.within(SECOND.0, SECOND.1), chance.within(THIRD.0, THIRD.1));
        // Box and Muller, 1958.
        let radius = (-2.0 * chance.share().ln()).sqrt();
        let normal = radius * (2.0 * std::f64::consts::PI * chance.share()).cos();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousands, whole")]
        let bucket = Bucket::of(&[size as u32, second, third]);
        let features = vec![size, f64::from(second), f64::from(third)];
        let label = (self.cost_ns)(size, f64::from(second)) * (self.noise * normal).exp();
        Call { bucket, features, label }
    }
}

/// Returns the units.
pub(super) fn population() -> Population {
    let unit = |kind: &'static Kind| Unit {
        name: kind.name.to_owned(),
        calls_per_s: kind.calls_per_s,
        feature_count: 3,
        complexity: Complexity::Constant,
        source: Box::new(kind),
        held: kind.held(),
    };
    let name = format!("{} drawn units", KINDS.len());
    Population { name, units: KINDS.iter().map(unit).collect(), errors: ERRORS.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::count_of;

    /// Goal: sizes follow the given distribution. Method: of 20,000 calls of each unit, how many are below its 10th,
    /// 50th, 90th and 99th percentile; the weights of the judging kinds sum to one.
    #[test]
    fn sizes_are_those_of_a_bounded_pareto_distribution() {
        for kind in &KINDS {
            let mut chance = Chance::new(3, 1);
            let sizes: Vec<f64> = (0..20_000).map(|_| kind.size_at(1.0 - chance.share())).collect();
            for share in [0.1, 0.5, 0.9, 0.99] {
                let below = sizes.iter().filter(|size| **size <= kind.size_at(share)).count();
                assert!((count_of(below) / 20_000.0 - share).abs() < 0.01, "{}: {below} below {share}", kind.name);
                assert!((kind.share_below(kind.size_at(share)) - share).abs() < 1e-9, "{}", kind.name);
            }
            let held = kind.held();
            assert!((held.iter().map(|held| held.weight).sum::<f64>() - 1.0).abs() < 1e-9, "{}", kind.name);
            assert!(held.iter().all(|held| held.weight > 0.0 && held.label > 0.0), "{}", kind.name);
        }
    }

    /// Goal: the tail is heavy where it should be: few calls take most of the time. Method: the share of the time that
    /// the largest hundredth of scans takes, and that of the noise, whose median is 1.
    #[test]
    fn few_calls_take_most_of_the_time() {
        let scan = KINDS.iter().find(|kind| kind.name == "scan").unwrap();
        let held = scan.held();
        let time = |of: &mut dyn Iterator<Item = &Held>| of.map(|held| held.weight * held.label).sum::<f64>();
        let limit = scan.size_at(0.99);
        let large = time(&mut held.iter().filter(|held| held.features[0] > limit));
        let all = time(&mut held.iter());
        assert!(large > 0.6 * all, "{large} of {all}");
        let mut chance = Chance::new(4, 1);
        let above = (0..10_000).filter(|_| {
            let call = scan.call(&mut chance);
            call.label > (scan.cost_ns)(call.features[0], call.features[1])
        });
        assert!((count_of(above.count()) / 10_000.0 - 0.5).abs() < 0.02);
    }
}
