//! Tests of the kind that is kept, the coverage of intervals, and calls unlike those of training.

use collie_env::SimRandom;

use super::*;
use crate::{model::Sample, numbers::unit_interval};

/// Returns a normal deviate (Box and Muller, 1958).
fn normal(chance: &SimRandom) -> f64 {
    let radius = (-2.0 * (1.0 - unit_interval(chance)).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * unit_interval(chance)).cos()
}

/// Returns calls with ten features, most of them without effect, and log-normal noise of 15 % on the label.
fn calls(rows: usize, seed: u64, cost: impl Fn(&[f64]) -> f64) -> Samples {
    let chance = SimRandom::new(seed);
    let mut samples = Samples::new(10, Complexity::Constant).unwrap();
    for row in 0..rows {
        let features: Vec<f64> = (0..10).map(|_| 10.0_f64.powf(4.0 * unit_interval(&chance)).floor()).collect();
        let label = cost(&features) * (0.15 * normal(&chance)).exp();
        let time_us = u64::try_from(row).unwrap();
        samples.push(Sample { features: &features, label, weight: 1.0, time_us }).unwrap();
    }
    samples
}

fn power(features: &[f64]) -> f64 {
    2.0 * (1.0 + features[0]).powf(0.6) * (1.0 + features[1]).powf(0.2)
}

/// The cost of a scan that jumps where the caches end.
fn cliffs(features: &[f64]) -> f64 {
    let per_row = if features[0] < 100.0 {
        1.0
    } else if features[0] < 2000.0 {
        6.0
    } else {
        30.0
    };
    per_row * (1.0 + features[1]).powf(0.3) * if features[2] > 1000.0 { 3.0 } else { 1.0 }
}

/// Goal: the kind that validates better is kept, and a ridge with few rows. Method: a power law, and a cost with jumps.
#[test]
fn the_kind_that_validates_better_is_kept() {
    let options = FitOptions::default();
    let kind = |samples: &Samples| fit(samples, &options).unwrap().model.kind();
    assert_eq!(kind(&calls(3000, 1, power)), "ridge");
    assert_eq!(kind(&calls(3000, 1, cliffs)), "trees");
    assert_eq!(kind(&calls(RIDGE_ROWS - 1, 1, cliffs)), "ridge");
    let few = fit(&calls(49, 1, power), &options);
    assert_eq!(few, Err(TrainError::TooFew { rows: 49, needed: 50 }));
}

/// Goal: errors are near those of the noise alone, 12 %. Method: both costs, on 3,000 rows.
#[test]
fn errors_are_near_the_noise() {
    for (cost, limit) in [(power as fn(&[f64]) -> f64, 0.14), (cliffs, 0.18)] {
        let error = fit(&calls(3000, 3, cost), &FitOptions::default()).unwrap().error();
        assert!((0.10..limit).contains(&error), "{error}");
    }
}

/// Goal: nine tenths of new calls lie inside their interval. Method: 10,000 calls that were not fitted, for both kinds.
#[test]
fn intervals_cover_nine_tenths_of_new_calls() {
    for cost in [power as fn(&[f64]) -> f64, cliffs] {
        let fitted = fit(&calls(8000, 5, cost), &FitOptions::default()).unwrap();
        let fresh = calls(10_000, 6, cost);
        let is_inside = |row: &usize| {
            let prediction = fitted.predict(fresh.row(*row)).unwrap();
            (prediction.low..=prediction.high).contains(&fresh.target_ln(*row).exp())
        };
        let inside = (0..fresh.len()).filter(is_inside).count();
        assert!((8800..=9200).contains(&inside), "{}: {inside} of 10,000", fitted.model.kind());
    }
}

/// Goal: M2. Method: features that are far outside, not numbers, or of another count.
#[test]
fn calls_unlike_those_of_training_are_marked() {
    let fitted = fit(&calls(500, 1, power), &FitOptions::default()).unwrap();
    let usual = [100.0; 10];
    assert!(!fitted.predict(&usual).unwrap().clamped);
    for odd in [1e12, -1.0, f64::NAN, f64::INFINITY] {
        let mut features = usual;
        features[0] = odd;
        let prediction = fitted.predict(&features).unwrap();
        assert!(prediction.clamped && prediction.high.is_finite() && prediction.low > 0.0, "{odd}: {prediction:?}");
    }
    assert_eq!(fitted.predict(&usual[..9]), Err(TrainError::Shape { found: 9, expected: 10 }));
}

/// Goal: a label is divided by its complexity before it is learned, and multiplied afterwards. Method: a cost of 7 per
/// row, which a model of constant labels per row learns exactly.
#[test]
fn long_units_are_learned_per_row() {
    let mut samples = Samples::new(1, Complexity::Linear(0)).unwrap();
    for rows in 1..=60 {
        let (features, label) = ([f64::from(rows)], 7.0 * f64::from(rows));
        samples.push(Sample { features: &features, label, weight: 1.0, time_us: 0 }).unwrap();
    }
    let fitted = fit(&samples, &FitOptions::default()).unwrap();
    assert!((fitted.predict(&[30.0]).unwrap().value - 210.0).abs() < 1e-6);
}
