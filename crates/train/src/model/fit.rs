//! `fit`: fits a model with its interval to samples; `Fitted`: predicts with it.

use super::{
    Complexity, CostModel as _, Model, Ridge, RidgeOptions, Samples, TreeOptions, Trees, conformal_quantile,
    cost_model::percentage_error,
};
use crate::TrainError;

/// With fewer rows only a ridge is fitted, since trees have too few rows to split.
pub const RIDGE_ROWS: usize = 1000;

/// The newest share of the rows, which validates the model and gives its interval.
const NEWEST_SHARE: f64 = 0.2;

/// The number of folds by time into which the newest rows are cut for the stated errors.
const FOLDS: usize = 4;

/// The least number of rows: a fifth of them must give a quantile, and folds of several rows.
const ROWS_MIN: usize = 50;

/// The options of a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FitOptions {
    /// The options of model A.
    pub ridge: RidgeOptions,
    /// The options of model B.
    pub trees: TreeOptions,
}

/// A model with the facts of its fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// The divisor of the labels.
    pub complexity: Complexity,
    /// The lowest and the highest value of each feature in training.
    pub ranges: Vec<(f64, f64)>,
    /// The lowest and the highest ln of a label in training, divided by its complexity.
    pub target_range_ln: (f64, f64),
    /// q: nine tenths of the newest residuals are at most this, in ln.
    pub quantile_ln: f64,
    /// The mean absolute percentage error of each fold of the newest rows, oldest first, 0.1 for 10 %.
    pub fold_errors: Vec<f64>,
    /// The times of the first and the last row, in us since 1970.
    pub window_us: (u64, u64),
    /// The number of rows, for training and validation together.
    pub rows: u64,
    /// n_eff.
    pub effective_rows: f64,
}

/// The prediction for one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The label, in its unit: above 0, finite.
    pub value: f64,
    /// The lower end of the interval that holds nine tenths of the calls.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether a value was outside of the ranges of training and was clamped. No decision uses such a prediction.
    pub clamped: bool,
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// Fits both kinds to the older four fifths by time and keeps the one with the smaller error on the newest fifth; below
/// [`RIDGE_ROWS`] rows it fits a ridge only. The interval comes from the residuals of that fifth.
///
/// Pure: the same samples and options give the same model. Cost: about a microsecond per row and feature for every ten
/// trees.
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
    // The interval must be that of the predictions that are made later, so these are clamped as `Fitted::predict_ln`
    // does.
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

    /// Returns the features clamped to the ranges of training, and whether that changed any of them.
    fn bring_into_range(&self, features: &[f64]) -> (Vec<f64>, bool) {
        let mut clamped = false;
        let bring = |(x, (low, high)): (&f64, &(f64, f64))| {
            let inside = crate::numbers::bounded(*x, *low, *high, *low);
            clamped |= inside != *x;
            inside
        };
        (features.iter().zip(&self.ranges).map(bring).collect(), clamped)
    }

    /// Predicts ln of the label, divided by the complexity; also returns whether the call was outside of the training.
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
        // Both kinds overshoot a little at the edges; that alone does not mark the prediction.
        let is_absurd = !(low - 1.0..=high + 1.0).contains(&predicted);
        Ok((brought, is_outside || is_absurd))
    }

    /// Predicts the label of a call.
    ///
    /// Shapes: `features` is one row, in the order of the schema. Units: those of the label. Cost: about a microsecond,
    /// one allocation. Pure. It is valid inside the ranges of training; outside of them the row is clamped and the
    /// prediction marked.
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
