//! `Affine`: corrects a model of many nodes for one of them.

/// The number of calibration samples for a correction; with fewer there is none.
pub const CALIBRATION_MIN: usize = 50;

/// The number of samples meaning "no correction" that are added for shrinkage.
const PRIOR_SAMPLES: f64 = 10.0;

/// Adds `offset_ln + slope (p - centre_ln)` to a prediction p, in log space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Affine {
    /// The part that is added to every prediction.
    pub offset_ln: f64,
    /// The part that is added per unit of the prediction.
    pub slope: f64,
    /// The mean of the predictions to which it was fitted.
    pub centre_ln: f64,
}

impl Affine {
    /// Fits a correction to pairs of a prediction and a measurement, both in ln, shrunk toward no correction. On these
    /// pairs its squared error is never above that without correction.
    pub fn fit(pairs: &[(f64, f64)]) -> Self {
        if pairs.len() < CALIBRATION_MIN || pairs.iter().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
            return Self::default();
        }
        let n = pairs.len() as f64;
        let centre_ln = pairs.iter().map(|(predicted, _)| predicted).sum::<f64>() / n;
        let offset_ln = pairs.iter().map(|(predicted, seen)| seen - predicted).sum::<f64>() / (n + PRIOR_SAMPLES);
        let squares: f64 = pairs.iter().map(|(predicted, _)| (predicted - centre_ln).powi(2)).sum();
        let products: f64 = pairs.iter().map(|(predicted, seen)| (seen - predicted) * (predicted - centre_ln)).sum();
        Self { offset_ln, slope: products / (squares + PRIOR_SAMPLES), centre_ln }
    }

    /// Corrects a prediction, in ln.
    pub fn apply(&self, predicted_ln: f64) -> f64 {
        predicted_ln + self.offset_ln + self.slope * (predicted_ln - self.centre_ln)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: a node that is twice as slow and grows faster is corrected. Method: 500 pairs of a known line.
    #[test]
    fn affine_finds_a_slower_node() {
        let line = |predicted: f64| 2.0_f64.ln() + 1.1 * predicted;
        let pairs: Vec<_> = (0..500).map(|n| f64::from(n) / 50.0).map(|p| (p, line(p))).collect();
        let affine = Affine::fit(&pairs);
        for predicted in [0.0, 3.0, 9.0] {
            assert!((affine.apply(predicted) - line(predicted)).abs() < 0.05);
        }
        assert_eq!(Affine::fit(&pairs[..CALIBRATION_MIN - 1]), Affine::default());
        assert_eq!(Affine::default().apply(4.0), 4.0);
    }

    proptest! {
        /// Goal: a correction is never worse than none. Method: random pairs; squared errors before and after.
        #[test]
        fn affine_never_worsens_its_pairs(pairs in prop::collection::vec((-20.0..20.0_f64, -20.0..20.0_f64), 50..80)) {
            let affine = Affine::fit(&pairs);
            let before: f64 = pairs.iter().map(|(predicted, seen)| (seen - predicted).powi(2)).sum();
            let after: f64 = pairs.iter().map(|(predicted, seen)| (seen - affine.apply(*predicted)).powi(2)).sum();
            prop_assert!(after <= before + 1e-9, "{before} became {after}");
        }
    }
}
