//! `CostModel`: what every kind of model can do, and `Model`, one of either kind.

use super::{Ridge, Samples, Trees};
use crate::TrainError;

/// A model of ln of a label.
pub trait CostModel: Sized {
    /// What can be chosen about fitting.
    type Options;

    /// Fits a model to all rows of `samples`.
    ///
    /// # Errors
    /// [`TrainError::TooFew`] when there are fewer rows than the kind needs.
    fn fit(samples: &Samples, options: &Self::Options) -> Result<Self, TrainError>;

    /// Predicts ln of the label, divided by the complexity, for one row of as many features as the model was fitted to.
    fn predict_ln(&self, features: &[f64]) -> f64;

    /// Returns the interval around a prediction where residuals are at most `quantile_ln`, both in ln.
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

/// Returns the weighted mean absolute percentage error over `samples`, 0.1 for 10 %.
pub(super) fn percentage_error(samples: &Samples, predict_ln: impl Fn(&[f64]) -> f64) -> f64 {
    let (mut error, mut weight) = (0.0, 0.0);
    for row in 0..samples.len() {
        // A ratio of predicted to seen; capped so that one absurd prediction does not hide all others.
        let ratio = (predict_ln(samples.row(row)) - samples.target_ln(row)).min(10.0).exp();
        error += samples.weight(row) * (ratio - 1.0).abs();
        weight += samples.weight(row);
    }
    if weight > 0.0 { error / weight } else { f64::INFINITY }
}
