//! `Interval`: the median of paired ratios with its 95 % interval, by resampling the runs (percentile bootstrap:
//! Efron, Annals of Statistics, 1979).
//!
//! # What always holds
//! - S1. The same values and the same seed give the same interval.
//! - S2. The interval lies within the lowest and the highest value, and contains the median.
//! - S3. With fewer than six values it is the full range: the median lies between the extremes with less than 97 %, so
//!   a bootstrap would claim too much.

use collie_env::SimRandom;

use crate::Spread;
use crate::measures::median;
use crate::report::{Figure, Row};

/// The number of resamples.
const DRAWS: usize = 4_000;
/// The share of resamples that is left out at each end.
const TAIL: f64 = 0.025;
/// See S3: the median lies between the extremes of n values with probability 1 - 2^(1-n), of six with 96.9 %.
const VALUES_MIN: usize = 6;

/// A median with its interval. See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// The middle value.
    pub(crate) median: f64,
    /// The ends of the 95 % interval of the median.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Returns the interval of the median of `values`; `None` if there are none.
    pub(crate) fn of(values: &[f64], seed: u64) -> Option<Self> {
        let first = *values.first()?;
        let (low, high) = values.iter().fold((first, first), |(low, high), &value| (low.min(value), high.max(value)));
        let median_of_all = median(values);
        if values.len() < VALUES_MIN {
            return Some(Self { median: median_of_all, low, high });
        }
        let random = SimRandom::new(seed);
        let mut drawn = vec![0.0; values.len()];
        let mut medians: Vec<f64> = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            drawn.fill_with(|| values[below(&random, values.len())]);
            medians.push(median(&drawn));
        }
        medians.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place below some thousands")]
            let place = (share * crate::txn::count_of(DRAWS - 1)).round() as usize;
            medians[place]
        };
        Some(Self { median: median_of_all, low: at(TAIL), high: at(1.0 - TAIL) })
    }

    /// Returns it as a figure of a row; the suffix `.._ci95` of the key marks the range as an interval.
    pub(crate) fn figure(&self) -> Figure {
        Figure::Runs(Spread { median: self.median, low: self.low, high: self.high })
    }
}

/// Adds the median of `values` with its interval to `row`; says that there are none if there are none.
pub(crate) fn with_interval(row: Row, key: &'static str, values: &[f64], seed: u64) -> Row {
    match Interval::of(values, seed) {
        Some(interval) => row.figure(key, interval.figure()),
        None => row.absent(key, "nothing ended"),
    }
}

fn below(random: &SimRandom, end: usize) -> usize {
    let end = u64::try_from(end).expect("a number of runs");
    usize::try_from(random.below(end)).expect("below a number of runs")
}

/// Returns the ratio of `with` to `without`, run by run. Runs in which `without` is 0 are left out.
pub(crate) fn paired_ratios(with: &[f64], without: &[f64]) -> Vec<f64> {
    let pairs = with.iter().zip(without);
    pairs.filter(|(_, without)| **without > 0.0).map(|(with, without)| with / without).collect()
}

/// Measures every arm once in each run, in their order and in the next run backwards (A B B A), so that linear drift
/// affects all arms equally. Returns the results of `measure` by arm and run.
///
/// # Errors
/// The first error of `measure`, which is called with arm and run.
pub(crate) fn in_balanced_order<T>(
    arms: usize,
    runs: u32,
    mut measure: impl FnMut(usize, u32) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = (0..arms).map(|_| Vec::new()).collect();
    for run in 0..runs {
        for place in 0..arms {
            let arm = if run % 2 == 0 { place } else { arms - 1 - place };
            all[arm].push(measure(arm, run)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: S1 to S3. Method: the same values with one seed and with another; few values; none; equal ones.
    #[test]
    fn an_interval_is_the_seeds_and_holds_the_median() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        let one = Interval::of(&values, 7).unwrap();
        assert_eq!((one.median, Interval::of(&values, 7)), (6.0, Some(one)));
        assert!(1.0 <= one.low && one.low < 6.0 && 6.0 < one.high && one.high <= 11.0, "{one:?}");
        assert_eq!(Interval::of(&[3.0, 1.0, 2.0], 7), Some(Interval { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!((Interval::of(&[], 7), Interval::of(&[2.0; 9], 7).map(|of| of.high - of.low)), (None, Some(0.0)));
    }

    /// Goal: the interval is that of the median, not wider and not narrower. Method: the interval of an odd number of
    /// values by their order is known exactly: of 25 distinct ones a resampled median falls on the k-th with a
    /// binomial probability. Its 2.5 % and 97.5 % ends are computed here from that, and the bootstrap's are within one
    /// place.
    #[test]
    fn an_interval_is_that_of_the_binomial() {
        const COUNT: u32 = 25;
        let values: Vec<f64> = (1..=COUNT).map(f64::from).collect();
        // The resampled median is at most the k-th value if at least 13 of 25 draws are; each is with probability k /
        // 25.
        let at_most = |k: u32| {
            let p = f64::from(k) / f64::from(COUNT);
            let mut choose = 1.0;
            let mut sum = 0.0;
            for hits in 0..=COUNT {
                let exponents = [hits, COUNT - hits].map(|exponent| i32::try_from(exponent).unwrap());
                if hits > COUNT / 2 {
                    sum += choose * p.powi(exponents[0]) * (1.0 - p).powi(exponents[1]);
                }
                choose = choose * f64::from(COUNT - hits) / f64::from(hits + 1);
            }
            sum
        };
        let quantile = |share: f64| (1..=COUNT).find(|k| at_most(*k) >= share).map(f64::from).unwrap();
        let found = Interval::of(&values, 1).unwrap();
        assert!((found.low - quantile(TAIL)).abs() <= 1.0, "{found:?}, {}", quantile(TAIL));
        assert!((found.high - quantile(1.0 - TAIL)).abs() <= 1.0, "{found:?}, {}", quantile(1.0 - TAIL));
    }

    /// Goal: ratios compare the same run, and a run with 0 is left out. Method: three runs.
    #[test]
    fn ratios_are_of_the_same_run() {
        assert_eq!(paired_ratios(&[1.0, 6.0, 5.0], &[2.0, 3.0, 0.0]), [0.5, 2.0]);
    }

    /// Goal: no arm is always the first. Method: three arms in three runs, in the order of the calls.
    #[test]
    fn arms_take_turns_in_being_first() {
        let mut order = Vec::new();
        let by_arm = in_balanced_order(3, 3, |arm, run| {
            order.push(arm);
            Ok((arm, run))
        });
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1, 2]);
        assert_eq!(by_arm.unwrap()[1], [(1, 0), (1, 1), (1, 2)]);
        assert!(in_balanced_order(1, 1, |_, _| anyhow::bail!("no disk") as anyhow::Result<()>).is_err());
    }
}
