//! `explain`: the facts that a package states, and the features on which its predictions depend (`collie train
//! explain`).

use std::path::Path;

use collie_env::Env;
use collie_obs::UnitSchema;
use collie_train::model::{Complexity, Package};

use crate::{PackageDir, SamplesError, evaluate::unit_for};

/// The number of steps over a feature's range; a prediction is made at both ends of each.
const STEPS: u32 = 64;

/// How much the prediction changes with one feature.
#[derive(Clone, Debug)]
pub struct FeatureWeight {
    /// The feature's name.
    pub name: &'static str,
    /// The unit in which it counts.
    pub unit: &'static str,
    /// Its lowest and its highest value in training.
    pub range: (f64, f64),
    /// The highest prediction over its range divided by the lowest, with the other features in the middle of theirs: 1
    /// for a feature without effect there.
    pub factor: f64,
}

/// A package with its unit and the weight of each feature.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The unit.
    pub unit: &'static UnitSchema,
    /// The package.
    pub package: Package,
    /// The divisor of the label: `1`, `rows`, `bytes_in log2 bytes_in`.
    pub divided_by: String,
    /// The features, the one with the largest factor first.
    pub features: Vec<FeatureWeight>,
}

/// Reads the package at `path` and predicts at 65 places of each feature's range.
///
/// # Errors
/// [`SamplesError::Io`], [`SamplesError::Unit`], or [`SamplesError::Package`] for a package that is damaged or has
/// another schema than this program.
pub fn explain(env: &Env, path: &Path) -> Result<Explanation, SamplesError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let package = PackageDir::new(env.files.clone(), dir).read(path)?;
    let unit = unit_for(&package, path)?;
    let middle: Vec<f64> = package.fitted.ranges.iter().map(|range| between(*range, 0.5)).collect();
    let mut features = Vec::with_capacity(unit.features.len());
    for (at, (field, range)) in unit.features.iter().zip(&package.fitted.ranges).enumerate() {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for step in 0..=STEPS {
            let mut row = middle.clone();
            row[at] = between(*range, f64::from(step) / f64::from(STEPS));
            let (predicted_ln, _) = package
                .fitted
                .predict_ln(&row)
                .map_err(|source| SamplesError::Package { path: path.to_owned(), source })?;
            (low, high) = (low.min(predicted_ln), high.max(predicted_ln));
        }
        features.push(FeatureWeight { name: field.name, unit: field.unit, range: *range, factor: (high - low).exp() });
    }
    features.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    let named = |at: u16| unit.features.get(usize::from(at)).map_or("?", |field| field.name);
    let divided_by = match package.fitted.complexity {
        Complexity::Constant => "1".to_owned(),
        Complexity::Linear(at) => named(at).to_owned(),
        Complexity::Linearithmic(at) => format!("{0} log2 {0}", named(at)),
    };
    Ok(Explanation { unit, package, divided_by, features })
}

/// Returns the number at `share` of the way through a range, on the scale of ln(1 + x), since features span decades.
fn between((low, high): (f64, f64), share: f64) -> f64 {
    if share >= 1.0 {
        return high;
    }
    let (from, to) = (low.max(0.0).ln_1p(), high.max(0.0).ln_1p());
    (from + share * (to - from)).exp_m1().clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: places are inside the range and reach its ends. Method: a range from 0, one of a single number, and one
    /// over decades.
    #[test]
    fn places_reach_from_end_to_end() {
        for range in [(0.0, 1.0), (5.0, 5.0), (1.0, 1e9)] {
            assert_eq!((between(range, 0.0), between(range, 1.0)), range);
        }
        assert!((between((0.0, 99.0), 0.5) - 9.0).abs() < 1e-9);
    }
}
