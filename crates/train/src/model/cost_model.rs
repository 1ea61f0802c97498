//! `CostModel`: the functions of every kind of model, and `Model`, one of either kind.

use super::{Ridge, Samples, Trees};
use crate::TrainError;

/// A model of ln of a label.
pub trait CostModel: Sized {
    /// The options of a fit.
    type Options;

    /// Fits a model to all rows of `samples`.
    ///
    /// # Errors
    /// [`TrainError::TooFew`] if there are fewer rows than this kind of model needs.
    fn fit(samples: &Samples, options: &Self::Options) -> Result<Self, TrainError>;

    /// Predicts ln of the label, divided by the complexity, for one row with the number of features of the fit.
    fn predict_ln(&self, features: &[f64]) -> f64;

    /// Returns the interval around a prediction for residuals of at most `quantile_ln`, both in ln.
    fn interval_ln(&self, features: &[f64], quantile_ln: f64) -> (f64, f64) {
        let prediction = self.predict_ln(features);
        (prediction - quantile_ln, prediction + quantile_ln)
    }
}

/// A model of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A: linear in logarithms.
    Ridge(Ridge),
    /// B: boosted trees.
    Trees(Trees),
}

impl Model {
    /// Predicts ln of the label, divided by the complexity.
    pub fn predict_ln(&self, features: &[f64]) -> f64 {
        match self {
            Self::Ridge(ridge) => ridge.predict_ln(features),
            Self::Trees(trees) => trees.predict_ln(features),
        }
    }

    /// Returns the name of the kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ridge(_) => "ridge",
            Self::Trees(_) => "trees",
        }
    }
}

/// Returns the relative error of a prediction, given with the measurement in ln: 0.1 for 10 %. It is capped, so that
/// one absurd prediction does not hide all others.
pub fn relative_error(predicted_ln: f64, seen_ln: f64) -> f64 {
    ((predicted_ln - seen_ln).min(10.0).exp() - 1.0).abs()
}

/// Returns the weighted mean absolute percentage error over `samples`, 0.1 for 10 %.
pub(super) fn percentage_error(samples: &Samples, predict_ln: impl Fn(&[f64]) -> f64) -> f64 {
    let (mut error, mut weight) = (0.0, 0.0);
    for row in 0..samples.len() {
        error += samples.weight(row) * relative_error(predict_ln(samples.row(row)), samples.target_ln(row));
        weight += samples.weight(row);
    }
    if weight > 0.0 { error / weight } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: half and double have the right errors, and no error exceeds the cap. Method: known ratios.
    #[test]
    fn relative_errors_are_those_of_ratios() {
        for (predicted, seen, error) in [(2.0_f64, 1.0_f64, 1.0), (1.0, 2.0, 0.5), (3.0, 3.0, 0.0)] {
            assert!((relative_error(predicted.ln(), seen.ln()) - error).abs() < 1e-12);
        }
        assert_eq!(relative_error(900.0, 0.0), 10.0_f64.exp() - 1.0);
    }
}
