//! `Samples`: the rows to which a model is fitted.

use super::Complexity;
use crate::TrainError;

/// One call of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The facts that were known before the call.
    pub features: &'a [f64],
    /// The cost, in the label's unit, before it is divided by the complexity.
    pub label: f64,
    /// The number of calls for which it stands: 1 / p.
    pub weight: f64,
    /// The time at which it was taken, in us since 1970.
    pub time_us: u64,
}

/// Rows of features with the logarithms of the calls' costs.
///
/// Shapes: `features` is `[rows, feature_count]`, row-major; the others `[rows]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    feature_count: usize,
    complexity: Complexity,
    features: Vec<f64>,
    targets_ln: Vec<f64>,
    weights: Vec<f64>,
    times_us: Vec<u64>,
}

impl Samples {
    /// Returns an empty set of rows.
    ///
    /// # Errors
    /// [`TrainError::Shape`] if the complexity names a missing feature.
    pub fn new(feature_count: usize, complexity: Complexity) -> Result<Self, TrainError> {
        if let Some(feature) = complexity.feature().map(usize::from).filter(|feature| *feature >= feature_count) {
            return Err(TrainError::Shape { found: feature_count, expected: feature + 1 });
        }
        let (features, targets_ln, weights, times_us) = Default::default();
        Ok(Self { feature_count, complexity, features, targets_ln, weights, times_us })
    }

    /// Returns an empty set of rows of the same shape.
    pub fn like(other: &Self) -> Self {
        let (features, targets_ln, weights, times_us) = Default::default();
        let Self { feature_count, complexity, .. } = *other;
        Self { feature_count, complexity, features, targets_ln, weights, times_us }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`TrainError::Shape`] for another number of features; [`TrainError::Number`] for a feature that is not finite,
    /// or a label or weight that is not a normal number above 0. Then nothing is added.
    pub fn push(&mut self, sample: Sample<'_>) -> Result<(), TrainError> {
        if sample.features.len() != self.feature_count {
            return Err(TrainError::Shape { found: sample.features.len(), expected: self.feature_count });
        }
        if sample.features.iter().any(|feature| !feature.is_finite()) {
            return Err(TrainError::Number { what: "a feature" });
        }
        for (what, value) in [("a label", sample.label), ("a weight", sample.weight)] {
            if !(value.is_normal() && value > 0.0) {
                return Err(TrainError::Number { what });
            }
        }
        self.features.extend_from_slice(sample.features);
        self.targets_ln.push((sample.label / self.complexity.of(sample.features)).ln());
        self.weights.push(sample.weight);
        self.times_us.push(sample.time_us);
        Ok(())
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.targets_ln.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.targets_ln.is_empty()
    }

    /// Returns the number of features of a row.
    pub const fn feature_count(&self) -> usize {
        self.feature_count
    }

    /// Returns the divisor of the labels.
    pub const fn complexity(&self) -> Complexity {
        self.complexity
    }

    /// Returns the features of a row.
    ///
    /// # Panics
    /// Past the last row, as `target_ln`, `weight` and `time_us` do.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.features[row * self.feature_count..(row + 1) * self.feature_count]
    }

    /// Returns ln of a row's label, divided by its complexity.
    pub fn target_ln(&self, row: usize) -> f64 {
        self.targets_ln[row]
    }

    /// Returns a row's weight.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights[row]
    }

    /// Returns the time at which a row was taken, in us since 1970.
    pub fn time_us(&self, row: usize) -> u64 {
        self.times_us[row]
    }

    /// Returns ln of all labels, divided by their complexity.
    pub fn targets_ln(&self) -> &[f64] {
        &self.targets_ln
    }

    /// Returns all weights.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// n_eff: returns the number of rows of equal weight that would tell as much.
    pub fn effective_rows(&self) -> f64 {
        let sum: f64 = self.weights.iter().sum();
        let squares: f64 = self.weights.iter().map(|weight| weight * weight).sum();
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// Returns the rows with these numbers, in that order.
    ///
    /// # Panics
    /// If a row does not exist.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Self::like(self);
        for row in rows {
            selected.features.extend_from_slice(self.row(*row));
            selected.targets_ln.push(self.targets_ln[*row]);
            selected.weights.push(self.weights[*row]);
            selected.times_us.push(self.times_us[*row]);
        }
        selected
    }

    /// Splits off the newest `newest_share` of the rows. Both parts are in the order of time; rows of equal times keep
    /// their order.
    pub fn split_by_time(&self, newest_share: f64) -> (Self, Self) {
        let mut rows: Vec<usize> = (0..self.len()).collect();
        rows.sort_by_key(|row| self.times_us[*row]);
        let newest = crate::numbers::count_of(self.len() as f64 * newest_share).min(self.len());
        let (older, newer) = rows.split_at(self.len() - newest);
        (self.select(older), self.select(newer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(features: &[f64], label: f64, time_us: u64) -> Sample<'_> {
        Sample { features, label, weight: 1.0, time_us }
    }

    /// Goal: a row from which nothing can be learned is refused. Method: each kind of bad row; the samples stay as they
    /// were.
    #[test]
    fn bad_rows_are_refused() {
        let mut samples = Samples::new(2, Complexity::Linear(1)).unwrap();
        samples.push(sample(&[1.0, 4.0], 8.0, 1)).unwrap();
        let before = samples.clone();
        assert_eq!(samples.push(sample(&[1.0], 1.0, 1)), Err(TrainError::Shape { found: 1, expected: 2 }));
        for (features, label, weight) in [
            ([f64::NAN, 1.0], 1.0, 1.0),
            ([f64::INFINITY, 1.0], 1.0, 1.0),
            ([1.0, 1.0], 0.0, 1.0),
            ([1.0, 1.0], -1.0, 1.0),
            ([1.0, 1.0], f64::INFINITY, 1.0),
            ([1.0, 1.0], 1.0, f64::NAN),
        ] {
            let refused = samples.push(Sample { features: &features, label, weight, time_us: 1 });
            assert!(matches!(refused, Err(TrainError::Number { .. })));
        }
        assert_eq!(samples, before);
        assert_eq!(samples.target_ln(0), 2.0_f64.ln());
        assert!(Samples::new(2, Complexity::Linear(2)).is_err());
    }

    /// Goal: the split is by time, not by order. Method: five rows with shuffled times.
    #[test]
    fn the_newest_rows_are_split_off() {
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for time in [30_u32, 10, 50, 20, 40] {
            samples.push(sample(&[f64::from(time)], 1.0, u64::from(time))).unwrap();
        }
        let (older, newer) = samples.split_by_time(0.4);
        let times = |samples: &Samples| (0..samples.len()).map(|row| samples.time_us(row)).collect::<Vec<_>>();
        assert_eq!((times(&older), times(&newer)), (vec![10, 20, 30], vec![40, 50]));
        assert_eq!(newer.row(1), [50.0]);
        assert_eq!(samples.effective_rows(), 5.0);
    }
}
