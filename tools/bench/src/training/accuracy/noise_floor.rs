//! `noise_floor`: the error of a model that knows everything that the features can tell.
//!
//! Calls with the same features do not take the same time. Models predict the mean of the logarithm; the deviation
//! from the mean of calls with identical features cannot be explained by any model of these features.
//!
//! A row's deviation from the mean of its group is too small, since the row is part of the group: with n rows by a
//! factor of sqrt((n - 1) / n). It is scaled up by that, so that pairs give the same result as large groups.

use std::collections::BTreeMap;

use collie_train::model::{Samples, relative_error};

use crate::txn::count_of;

/// With fewer rows that have a twin there is no result.
const ROWS_MIN: usize = 30;

/// The error that is left when the features are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoiseFloor {
    /// Weighted mean relative error around the mean of identical calls, 0.1 for 10 %.
    pub(super) error: f64,
    /// Weighted share of the rows that have a twin; the error covers these.
    pub(super) share: f64,
}

/// Returns the error within groups of rows with identical features; `None` if fewer than 30 rows have a twin.
pub(super) fn noise_floor(samples: &Samples) -> Option<NoiseFloor> {
    let mut groups: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
    for row in 0..samples.len() {
        // Features are counts and sizes: equal numbers have equal bits.
        groups.entry(samples.row(row).iter().map(|x| x.to_bits()).collect()).or_default().push(row);
    }
    let (mut rows, mut error, mut weight) = (0, 0.0, 0.0);
    for group in groups.values().filter(|group| group.len() > 1) {
        let n = count_of(group.len());
        let mean = group.iter().map(|row| samples.target_ln(*row)).sum::<f64>() / n;
        let stretch = (n / (n - 1.0)).sqrt();
        for row in group {
            let off = stretch * (mean - samples.target_ln(*row));
            error += samples.weight(*row) * relative_error(off, 0.0);
            weight += samples.weight(*row);
        }
        rows += group.len();
    }
    let all: f64 = samples.weights().iter().sum();
    (rows >= ROWS_MIN).then(|| NoiseFloor { error: error / weight, share: weight / all })
}

#[cfg(test)]
mod tests {
    use collie_env::{Random as _, SimRandom};
    use collie_train::model::{Complexity, Sample};

    use super::*;

    fn samples(rows: impl IntoIterator<Item = (f64, f64, f64)>) -> Samples {
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for (feature, label, weight) in rows {
            samples.push(Sample { features: &[feature], label, weight, time_us: 0 }).unwrap();
        }
        samples
    }

    /// Draws from the normal distribution: the sum of twelve uniform values, minus six.
    fn normal(chance: &SimRandom) -> f64 {
        let uniform = || f64::from(u32::try_from(chance.u64() >> 32).unwrap()) / 2.0_f64.powi(32);
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// Goal: the floor is the known error of log-normal noise, both for large groups and for pairs. Method: noise of
    /// 0.15, for which the mean of |e^x - 1| is e^(s^2/2) (2 Phi(s) - 1) = 0.1206, in 20 groups of 1,000 and in 10,000
    /// pairs.
    #[test]
    fn floor_of_log_normal_noise_is_its_closed_form() {
        for (groups, each) in [(20_u32, 1_000), (10_000, 2)] {
            let chance = SimRandom::new(11);
            let rows = (0..groups).flat_map(|group| vec![group; each]);
            let all = samples(rows.map(|group| {
                let middle = 100.0 + f64::from(group);
                (f64::from(group), middle * (0.15 * normal(&chance)).exp(), 1.0)
            }));
            let floor = noise_floor(&all).unwrap();
            assert!((floor.error - 0.1206).abs() < 0.003, "{groups} groups: {floor:?}");
            assert_eq!(floor.share, 1.0);
        }
    }

    /// Goal: by hand: the error of a pair of labels a and b is that of (b / a)^(+-1/sqrt 2). Method: twenty equal
    /// pairs, weights 1 and 3, and one row without a twin that is heavier than all.
    #[test]
    fn pairs_are_told_by_hand() {
        let pair = |group: u32| [(f64::from(group), 2.0, 1.0), (f64::from(group), 8.0, 3.0)];
        let rows = (0..20).flat_map(pair).chain([(99.0, 5.0, 80.0)]);
        let floor = noise_floor(&samples(rows)).unwrap();
        let off = 4.0_f64.powf(0.5_f64.sqrt());
        let expected = ((off - 1.0) + 3.0 * (1.0 - 1.0 / off)) / 4.0;
        assert!((floor.error - expected).abs() < 1e-12, "{floor:?}, not {expected}");
        assert!((floor.share - 0.5).abs() < 1e-12);
    }

    /// Goal: no repeated features, no floor; no noise, a floor of 0. Method: rows that all differ; forty equal rows.
    #[test]
    fn floor_needs_repeats() {
        assert_eq!(noise_floor(&samples((0..500).map(|row| (f64::from(row), 3.0, 1.0)))), None);
        assert_eq!(noise_floor(&samples((0..28).map(|_| (1.0, 3.0, 1.0)))), None);
        let floor = noise_floor(&samples((0..40).map(|_| (1.0, 3.0, 1.0)))).unwrap();
        assert!(floor.error.abs() < 1e-12 && floor.share == 1.0);
    }
}
