//! `evaluate`: how well packages predict samples (`collie train evaluate`).

use std::path::Path;

use collie_env::Env;
use collie_obs::UnitSchema;
use collie_train::model::{Coverage, Package, Samples, relative_error};

use crate::{
    PackageDir, SampleDir, SamplesError,
    columns::unit_of,
    schema_hash,
    training::{features_of, label_of, read_rows, samples_of, weight_of},
};

/// The result of judging a package on samples.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The unit.
    pub unit: &'static UnitSchema,
    /// The index of the label.
    pub label: u8,
    /// `ridge` or `trees`.
    pub kind: &'static str,
    /// The package's hash.
    pub hash: u64,
    /// The number of samples that it was judged on.
    pub rows: u64,
    /// Weighted mean absolute percentage error on them, 0.1 for 10 %; NaN without rows.
    pub error: f64,
    /// The error that the package states from its own validation.
    pub stated_error: f64,
    /// Weighted share of the samples inside their interval, nominally 0.9; NaN without rows.
    pub coverage: f64,
    /// The factor by which an interval extends above and below its prediction.
    pub factor: f64,
    /// Weighted share of the samples that lie outside of the ranges of training.
    pub clamped: f64,
    /// Whether fewer than 850 of the last 1,000 samples were inside: then decisions must not use the model.
    pub is_stale: bool,
}

/// Judges every package of `models`, a directory or one file, on the newest `rows_max` samples of its unit under
/// `data`, of all nodes or of one. The samples are taken oldest first, so that the newest ones decide whether the
/// package is stale.
///
/// # Errors
/// [`SamplesError::NoPackages`] and [`SamplesError::NoSamples`] where there are none; [`SamplesError::Package`] for a
/// package that is damaged or has another schema than this program.
pub fn evaluate(
    env: &Env,
    data: &Path,
    models: &Path,
    node: Option<&str>,
    rows_max: usize,
) -> Result<Vec<Evaluation>, SamplesError> {
    let packages = PackageDir::new(env.files.clone(), models);
    let is_file = models.extension().is_some_and(|ending| ending == "package");
    let paths = if is_file { vec![models.to_owned()] } else { packages.list()? };
    if paths.is_empty() {
        return Err(SamplesError::NoPackages { path: models.to_owned() });
    }
    let dir = SampleDir::new(env.files.clone(), data);
    let mut names = dir.list()?;
    names.retain(|name| name.unit != crate::CONTEXT_UNIT && node.is_none_or(|node| name.node == node));
    if names.is_empty() {
        return Err(SamplesError::NoSamples { dir: data.to_owned() });
    }
    let mut evaluations = Vec::with_capacity(paths.len());
    for path in paths {
        let package = packages.read(&path)?;
        let unit = unit_for(&package, &path)?;
        let mut rows = read_rows(&dir, unit, &names, rows_max).rows;
        // `Coverage` keeps the last 1,000 samples, so the newest must come last.
        rows.sort_by_key(|row| row.time_us);
        let mut coverage = Coverage::default();
        let (mut inside, mut clamped, mut weights) = (0.0, 0.0, 0.0);
        for row in &rows {
            let predicted = package
                .predict(&features_of(unit, row))
                .map_err(|source| SamplesError::Package { path: path.clone(), source })?;
            let is_inside = (predicted.low..=predicted.high).contains(&label_of(row, package.label.get()));
            coverage.add(is_inside);
            let weight = weight_of(row);
            weights += weight;
            inside += weight * f64::from(u8::from(is_inside));
            clamped += weight * f64::from(u8::from(predicted.clamped));
        }
        let (samples, _) = samples_of(unit, package.label.get(), &rows)
            .map_err(|source| SamplesError::Package { path: path.clone(), source })?;
        evaluations.push(Evaluation {
            unit,
            label: package.label.get(),
            kind: package.fitted.model.kind(),
            hash: package.hash(),
            rows: u64::try_from(rows.len()).expect("rows fit memory"),
            error: percentage_error(&package, &samples),
            stated_error: package.fitted.error(),
            coverage: inside / weights,
            factor: package.fitted.quantile_ln.exp(),
            clamped: clamped / weights,
            is_stale: coverage.is_stale(),
        });
    }
    Ok(evaluations)
}

/// Finds the unit of a package in this program.
///
/// # Errors
/// [`SamplesError::Unit`] if there is none, [`SamplesError::Package`] if it has another schema.
pub fn unit_for(package: &Package, path: &Path) -> Result<&'static UnitSchema, SamplesError> {
    let (id, version) = (package.unit.get(), package.schema_version);
    let unit = unit_of(id, version).ok_or_else(|| SamplesError::Unit { name: format!("{id} of version {version}") })?;
    let expected = schema_hash(unit);
    let is_label = usize::from(package.label.get()) < unit.labels.len();
    if package.schema != expected || !is_label {
        let source = collie_train::TrainError::Schema { found: package.schema, expected };
        return Err(SamplesError::Package { path: path.to_owned(), source });
    }
    Ok(unit)
}

/// Returns the weighted mean absolute percentage error of a package, 0.1 for 10 %; NaN without rows. Features are
/// clamped to the ranges of training.
pub(crate) fn percentage_error(package: &Package, samples: &Samples) -> f64 {
    let (mut error, mut weights) = (0.0, 0.0);
    for row in 0..samples.len() {
        let Ok((predicted_ln, _)) = package.fitted.predict_ln(samples.row(row)) else { return f64::NAN };
        error += samples.weight(row) * relative_error(predicted_ln, samples.target_ln(row));
        weights += samples.weight(row);
    }
    error / weights
}
