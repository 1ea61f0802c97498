//! `Bins`: each feature, cut into bins with about equal numbers of rows.

use crate::model::Samples;

/// Most bins of a feature, so that the number of a bin fits into a byte.
pub(super) const BINS_MAX: usize = 255;

/// The cuts of every feature, and the bin of every row.
#[derive(Debug)]
pub(super) struct Bins {
    /// By feature: the upper bounds of all bins but the last, ascending.
    pub(super) cuts: Vec<Vec<f64>>,
    /// By feature, then by row.
    pub(super) of_rows: Vec<Vec<u8>>,
}

/// Returns a number that is at least `low` and below `high`, the middle if there is one.
fn between(low: f64, high: f64) -> f64 {
    let middle = low + (high - low) / 2.0;
    if middle < high && middle >= low { middle } else { low }
}

/// Cuts sorted values: between all distinct ones if they are few, otherwise so that bins have about equal numbers of
/// rows.
fn cut(sorted: &[f64], bins_max: usize) -> Vec<f64> {
    let distinct = 1 + sorted.windows(2).filter(|pair| pair[0] < pair[1]).count();
    let mut cuts = Vec::new();
    let mut bins_full = 0;
    for (at, pair) in sorted.windows(2).enumerate() {
        if pair[0] == pair[1] {
            continue;
        }
        let bins_here = (at + 1) * bins_max / sorted.len();
        if distinct <= bins_max || bins_here > bins_full {
            cuts.push(between(pair[0], pair[1]));
            bins_full = bins_here;
        }
    }
    cuts
}

impl Bins {
    /// Cuts every feature of `samples` into at most `bins_max` bins.
    pub(super) fn new(samples: &Samples, bins_max: usize) -> Self {
        let mut cuts = Vec::with_capacity(samples.feature_count());
        let mut of_rows = Vec::with_capacity(samples.feature_count());
        for feature in 0..samples.feature_count() {
            let values: Vec<f64> = (0..samples.len()).map(|row| samples.row(row)[feature]).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let of_feature = cut(&sorted, bins_max);
            // x <= cuts[b] exactly if the bin of x is at most b.
            let bin = |x: &f64| u8::try_from(of_feature.partition_point(|cut| cut < x)).expect("at most 255 bins");
            of_rows.push(values.iter().map(bin).collect());
            cuts.push(of_feature);
        }
        Self { cuts, of_rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: few values are all kept apart; many make bins with about equal numbers of rows. Method: 3 values; 10,000
    /// values; the same value for half of the rows.
    #[test]
    fn cuts_separate_values_evenly() {
        assert_eq!(cut(&[1.0, 1.0, 2.0, 4.0], 255), [1.5, 3.0]);
        assert_eq!(cut(&[5.0, 5.0], 255), []);
        let many: Vec<f64> = (0..10_000).map(f64::from).collect();
        let cuts = cut(&many, 255);
        assert_eq!(cuts.len(), 254);
        assert!(cuts.windows(2).all(|pair| (38.0..=41.0).contains(&(pair[1] - pair[0]))));
        let skewed: Vec<f64> = (0..10_000).map(|n| f64::from((n - 5000).max(0))).collect();
        let cuts = cut(&skewed, 255);
        assert!((120..=254).contains(&cuts.len()) && cuts[0] == 0.5, "{}", cuts.len());
    }

    /// Goal: neighbouring floating-point numbers are still kept apart. Method: a number and the next one.
    #[test]
    fn a_cut_separates_neighbours() {
        for low in [1.0, 0.3, -7.5, 1e300, 0.0] {
            let high = f64::next_up(low);
            let cut = between(low, high);
            assert!(low <= cut && cut < high);
        }
        assert!((-f64::MAX..f64::MAX).contains(&between(-f64::MAX, f64::MAX)));
    }
}
