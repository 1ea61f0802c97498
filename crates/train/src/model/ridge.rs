//! `Ridge`: a linear model of ln of the features and its square (Hoerl and Kennard, 1970).
//!
//! Each feature x gives two columns, l = ln(1 + x) and l^2. Columns are scaled to mean 0 and deviation 1. The penalty
//! is per row, so it means the same for few rows as for many; the intercept has none.

use super::{CostModel, Samples};
use crate::TrainError;

/// The options of a ridge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RidgeOptions {
    /// The penalty on a squared coefficient of a column of deviation 1, per row.
    pub penalty: f64,
}

impl Default for RidgeOptions {
    fn default() -> Self {
        Self { penalty: 1e-3 }
    }
}

/// Model A.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    /// The intercept, then two weights per feature: of ln(1 + x) and of its square.
    pub(super) weights: Vec<f64>,
}

/// Calls `add` for each column of a row.
fn columns(features: &[f64], mut add: impl FnMut(usize, f64)) {
    for (feature, x) in features.iter().enumerate() {
        let log = x.max(0.0).ln_1p();
        add(2 * feature, log);
        add(2 * feature + 1, log * log);
    }
}

/// Solves `matrix x = right` for a positive definite, row-major matrix by Cholesky decomposition.
fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for column in 0..n {
        for row in column..n {
            let dot: f64 = (0..column).map(|k| matrix[row * n + k] * matrix[column * n + k]).sum();
            let rest = matrix[row * n + column] - dot;
            // The penalty keeps pivots above 0, except for rounding.
            matrix[row * n + column] =
                if row == column { rest.max(1e-12).sqrt() } else { rest / matrix[column * n + column] };
        }
    }
    for row in 0..n {
        let dot: f64 = (0..row).map(|k| matrix[row * n + k] * right[k]).sum();
        right[row] = (right[row] - dot) / matrix[row * n + row];
    }
    for row in (0..n).rev() {
        let dot: f64 = (row + 1..n).map(|k| matrix[k * n + row] * right[k]).sum();
        right[row] = (right[row] - dot) / matrix[row * n + row];
    }
    right
}

impl CostModel for Ridge {
    type Options = RidgeOptions;

    fn fit(samples: &Samples, options: &RidgeOptions) -> Result<Self, TrainError> {
        if samples.is_empty() {
            return Err(TrainError::TooFew { rows: 0, needed: 1 });
        }
        let n = 2 * samples.feature_count();
        let total: f64 = samples.weights().iter().sum();
        let rows = || (0..samples.len()).map(|row| (samples.row(row), samples.weight(row) / total));
        let (mut means, mut deviations) = (vec![0.0; n], vec![0.0; n]);
        for (features, share) in rows() {
            columns(features, |column, value| means[column] += share * value);
        }
        for (features, share) in rows() {
            columns(features, |column, value| deviations[column] += share * (value - means[column]).powi(2));
        }
        // A column without variance tells nothing; with any deviation its coefficient is 0.
        deviations.iter_mut().for_each(|d| *d = if *d > 1e-18 { d.sqrt() } else { 1.0 });
        let target_mean: f64 = rows().zip(samples.targets_ln()).map(|((_, share), target)| share * target).sum();
        let (mut matrix, mut right, mut row) = (vec![0.0; n * n], vec![0.0; n], vec![0.0; n]);
        for ((features, share), target) in rows().zip(samples.targets_ln()) {
            columns(features, |column, value| row[column] = (value - means[column]) / deviations[column]);
            for i in 0..n {
                right[i] += share * row[i] * (target - target_mean);
                for j in 0..=i {
                    matrix[i * n + j] += share * row[i] * row[j];
                }
            }
        }
        for i in 0..n {
            matrix[i * n + i] += options.penalty;
        }
        let solved = solve(matrix, right);
        let mut weights = vec![target_mean];
        for column in 0..n {
            let weight = solved[column] / deviations[column];
            weights[0] -= weight * means[column];
            weights.push(weight);
        }
        Ok(Self { weights })
    }

    fn predict_ln(&self, features: &[f64]) -> f64 {
        let mut sum = self.weights[0];
        columns(features, |column, value| sum += self.weights[1 + column] * value);
        sum
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;

    use super::*;
    use crate::{
        model::{Complexity, Sample},
        numbers::unit_interval,
    };

    fn samples(rows: &[(f64, f64, f64)]) -> Samples {
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for (x, target_ln, weight) in rows {
            let row = Sample { features: &[*x], label: target_ln.exp(), weight: *weight, time_us: 0 };
            samples.push(row).unwrap();
        }
        samples
    }

    /// Goal: the weights are those of the closed form. Method: five weighted rows of one feature; the two normal
    /// equations of the standardised columns are solved by Cramer's rule, and the predictions are compared.
    #[test]
    fn ridge_equals_its_closed_form() {
        let rows = [(0.0, 0.3, 1.0), (1.0, 0.9, 2.0), (4.0, 1.1, 1.0), (20.0, 2.5, 3.0), (300.0, 2.0, 1.0)];
        let penalty = 0.2;
        let total: f64 = rows.iter().map(|row| row.2).sum();
        let mean = |of: &dyn Fn(&(f64, f64, f64)) -> f64| rows.iter().map(|row| row.2 / total * of(row)).sum::<f64>();
        let log = |row: &(f64, f64, f64)| row.0.ln_1p();
        let (m1, m2) = (mean(&log), mean(&|row| log(row).powi(2)));
        let d1 = mean(&|row| (log(row) - m1).powi(2)).sqrt();
        let d2 = mean(&|row| (log(row).powi(2) - m2).powi(2)).sqrt();
        let z1 = |row: &(f64, f64, f64)| (log(row) - m1) / d1;
        let z2 = |row: &(f64, f64, f64)| (log(row).powi(2) - m2) / d2;
        let target = mean(&|row| row.1);
        let (a, b, c) = (
            mean(&|row| z1(row).powi(2)) + penalty,
            mean(&|row| z1(row) * z2(row)),
            mean(&|row| z2(row).powi(2)) + penalty,
        );
        let (p, q) = (mean(&|row| z1(row) * (row.1 - target)), mean(&|row| z2(row) * (row.1 - target)));
        let determinant = a * c - b * b;
        let (w1, w2) = ((p * c - b * q) / determinant, (a * q - b * p) / determinant);
        let ridge = Ridge::fit(&samples(&rows), &RidgeOptions { penalty }).unwrap();
        for row in &rows {
            let expected = target + w1 * z1(row) + w2 * z2(row);
            assert!((ridge.predict_ln(&[row.0]) - expected).abs() < 1e-10);
        }
        assert_eq!(ridge.weights.len(), 3);
    }

    /// Goal: a power law is learned. Method: label = 3 x^0.7 over four decades, predicted between the rows.
    #[test]
    fn ridge_learns_a_power_law() {
        let chance = SimRandom::new(2);
        let draw = || 10.0_f64.powf(1.0 + 4.0 * unit_interval(&chance));
        let rows: Vec<_> = (0..400).map(|_| draw()).map(|x| (x, (3.0 * x.powf(0.7)).ln(), 1.0)).collect();
        let ridge = Ridge::fit(&samples(&rows), &RidgeOptions::default()).unwrap();
        for _ in 0..50 {
            let x = draw();
            assert!((ridge.predict_ln(&[x]) - (3.0 * x.powf(0.7)).ln()).abs() < 0.05, "at {x}");
        }
    }

    /// Goal: constant and equal columns do no harm. Method: one row; rows with the same feature.
    #[test]
    fn ridge_of_constant_columns_is_the_mean() {
        for rows in [vec![(5.0, 1.5, 1.0)], vec![(5.0, 1.0, 1.0), (5.0, 2.0, 1.0)]] {
            let ridge = Ridge::fit(&samples(&rows), &RidgeOptions::default()).unwrap();
            assert!((ridge.predict_ln(&[5.0]) - 1.5).abs() < 1e-9);
        }
        assert!(matches!(Ridge::fit(&samples(&[]), &RidgeOptions::default()), Err(TrainError::TooFew { .. })));
    }
}
