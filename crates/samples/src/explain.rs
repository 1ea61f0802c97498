//! `explain`: what a package says of itself, and which features its predictions turn on (`collie train explain`).

use std::path::Path;

use collie_env::Env;
use collie_obs::UnitSchema;
use collie_train::model::{Complexity, Package};

use crate::{PackageDir, SamplesError, evaluate::unit_for};

/// Places within a feature's range at which a prediction is made.
const STEPS: u32 = 64;

/// How much a prediction moves with one feature.
#[derive(Clone, Debug)]
pub struct FeatureWeight {
    /// The feature's name.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Its lowest and highest value in training.
    pub range: (f64, f64),
    /// The highest prediction over its range divided by the lowest, with the others in the middle of theirs: 1 for a feature that does not
    /// matter there.
    pub factor: f64,
}

/// A package, in words.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The unit.
    pub unit: &'static UnitSchema,
    /// The package.
    pub package: Package,
    /// By what the label is divided: `1`, `rows`, `bytes_in log2 bytes_in`.
    pub divided_by: String,
    /// The features, the weightiest first.
    pub features: Vec<FeatureWeight>,
}

/// Reads the package at `path` and asks it at 65 places of each feature.
///
/// # Errors
/// As the package is: unreadable, damaged, or of another schema than this program's.
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

/// Returns the number at `share` of the way through a range, by the logarithm of 1 + x: features span decades.
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

    /// Goal: places are inside the range and reach its ends. Method: ranges from 0, of one number, and of decades.
    #[test]
    fn places_reach_from_end_to_end() {
        for range in [(0.0, 1.0), (5.0, 5.0), (1.0, 1e9)] {
            assert_eq!((between(range, 0.0), between(range, 1.0)), range);
        }
        assert!((between((0.0, 99.0), 0.5) - 9.0).abs() < 1e-9);
    }
}
