//! `fit`: from samples to a model with its interval, and what it predicts.

use super::{
    Complexity, CostModel as _, Model, Ridge, RidgeOptions, Samples, TreeOptions, Trees, conformal_quantile,
    cost_model::percentage_error,
};
use crate::TrainError;

/// With fewer rows only a ridge is fitted: trees have too little to cut.
pub const RIDGE_ROWS: usize = 1000;

/// The newest part of the rows, which validates and bounds.
const NEWEST_SHARE: f64 = 0.2;

/// Into how many folds by time the newest part is cut, for the errors that are told.
const FOLDS: usize = 4;

/// The least rows: a fifth of them must give a quantile, and folds of several rows.
const ROWS_MIN: usize = 50;

/// What can be chosen about fitting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FitOptions {
    /// Of model A.
    pub ridge: RidgeOptions,
    /// Of model B.
    pub trees: TreeOptions,
}

/// A model with what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// By what labels were divided.
    pub complexity: Complexity,
    /// Lowest and highest value of each feature in training.
    pub ranges: Vec<(f64, f64)>,
    /// Lowest and highest ln of a label in training, divided by its complexity.
    pub target_range_ln: (f64, f64),
    /// q: nine tenths of the newest residuals are at most this, in ln.
    pub quantile_ln: f64,
    /// Mean absolute percentage error of each fold of the newest rows, oldest first, 0.1 for 10 %.
    pub fold_errors: Vec<f64>,
    /// First and last time of the rows, in us since 1970.
    pub window_us: (u64, u64),
    /// Rows fitted and validated.
    pub rows: u64,
    /// n_eff.
    pub effective_rows: f64,
}

/// What a model says about one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The label, in its unit: above 0, finite.
    pub value: f64,
    /// Lower end of the interval that holds nine tenths.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Something lay outside what was seen in training and was brought to its edge. No decision is made of such a prediction.
    pub clamped: bool,
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// Fits both kinds to the older four fifths by time, keeps the one with the smaller error on the newest fifth; below
/// [`RIDGE_ROWS`] rows a ridge. The interval comes from the residuals of that fifth.
///
/// Pure: same samples and options, same model. Cost: about a microsecond per row, feature and tree of ten.
///
/// # Errors
/// [`TrainError::TooFew`] below 50 rows.
pub fn fit(samples: &Samples, options: &FitOptions) -> Result<Fitted, TrainError> {
    if samples.len() < ROWS_MIN {
        return Err(TrainError::TooFew { rows: samples.len(), needed: ROWS_MIN });
    }
    let (older, newest) = samples.split_by_time(NEWEST_SHARE);
    let error = |model: &Model| percentage_error(&newest, |features| model.predict_ln(features));
    let mut model = Model::Ridge(Ridge::fit(&older, &options.ridge)?);
    if samples.len() >= RIDGE_ROWS {
        let trees = Model::Trees(Trees::fit(&older, &options.trees)?);
        if error(&trees) < error(&model) {
            model = trees;
        }
    }
    let ranges: Vec<(f64, f64)> = (0..samples.feature_count())
        .map(|feature| range((0..samples.len()).map(|row| samples.row(row)[feature])))
        .collect();
    let target_range_ln = range(samples.targets_ln().iter().copied());
    let predict_ln = |features: &[f64]| model.predict_ln(features).clamp(target_range_ln.0, target_range_ln.1);
    let residuals: Vec<f64> =
        (0..newest.len()).map(|row| newest.target_ln(row) - predict_ln(newest.row(row))).collect();
    let quantile_ln =
        conformal_quantile(&residuals).ok_or(TrainError::TooFew { rows: samples.len(), needed: ROWS_MIN })?;
    let fold_errors = (0..FOLDS)
        .map(|fold| (fold * newest.len() / FOLDS..(fold + 1) * newest.len() / FOLDS).collect::<Vec<_>>())
        .map(|rows| percentage_error(&newest.select(&rows), predict_ln))
        .collect();
    Ok(Fitted {
        complexity: samples.complexity(),
        ranges,
        target_range_ln,
        quantile_ln,
        fold_errors,
        window_us: (older.time_us(0), newest.time_us(newest.len() - 1)),
        rows: u64::try_from(samples.len()).expect("rows fit memory"),
        effective_rows: samples.effective_rows(),
        model,
    })
}

impl Fitted {
    /// Returns the mean of the folds' errors.
    pub fn error(&self) -> f64 {
        self.fold_errors.iter().sum::<f64>() / (self.fold_errors.len().max(1) as f64)
    }

    /// Returns the features within what was seen in training, and whether they had to be brought there.
    fn bring_into_range(&self, features: &[f64]) -> (Vec<f64>, bool) {
        let mut clamped = false;
        let bring = |(x, (low, high)): (&f64, &(f64, f64))| {
            let inside = crate::numbers::bounded(*x, *low, *high, *low);
            clamped |= inside != *x;
            inside
        };
        (features.iter().zip(&self.ranges).map(bring).collect(), clamped)
    }

    /// Predicts ln of the label, divided by the complexity, and whether something was brought into range.
    ///
    /// # Errors
    /// [`TrainError::Shape`] for another number of features.
    pub fn predict_ln(&self, features: &[f64]) -> Result<(f64, bool), TrainError> {
        if features.len() != self.ranges.len() {
            return Err(TrainError::Shape { found: features.len(), expected: self.ranges.len() });
        }
        let (inside, is_outside) = self.bring_into_range(features);
        let predicted = self.model.predict_ln(&inside);
        let (low, high) = self.target_range_ln;
        let brought = crate::numbers::bounded(predicted, low, high, high);
        // Trees and lines overshoot a little at the edges; that alone is no reason for doubt.
        let is_absurd = !(low - 1.0..=high + 1.0).contains(&predicted);
        Ok((brought, is_outside || is_absurd))
    }

    /// Predicts the label of a call.
    ///
    /// Shapes: `features` is one row, in the order of the schema. Units: those of the label. Cost: about a microsecond, one
    /// allocation. Pure. Valid inside the ranges seen in training; outside, the row is brought to their edge and the prediction marked.
    ///
    /// # Errors
    /// [`TrainError::Shape`] for another number of features.
    pub fn predict(&self, features: &[f64]) -> Result<Prediction, TrainError> {
        let (predicted_ln, clamped) = self.predict_ln(features)?;
        let factor = self.complexity.of(features);
        let value = |ln: f64| factor * ln.exp();
        let (low, high) = (value(predicted_ln - self.quantile_ln), value(predicted_ln + self.quantile_ln));
        Ok(Prediction { value: value(predicted_ln), low, high, clamped })
    }
}

#[cfg(test)]
mod fit_tests;
