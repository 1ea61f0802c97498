//! `fit`: fits packages to the samples of a data directory (`collie train fit`).

use std::{collections::BTreeSet, path::Path};

use collie_env::Env;
use collie_obs::UnitSchema;
use collie_train::{
    LabelId, TrainError, UnitId,
    model::{FitOptions, Package, Samples, Wanted},
};

use crate::{
    FileName, PackageDir, SampleDir, SampleRow, SamplesError,
    evaluate::percentage_error,
    schema_hash,
    training::{read_rows, samples_of},
};

/// A running server fits again once the new rows are this share of the rows that a model was fitted to.
const NEW_SHARE: f64 = 0.1;

/// The newest share of the rows, on which the model in use is judged: the part on which `train` validates the new
/// model.
const NEWEST_SHARE: f64 = 0.2;

/// What to fit.
#[derive(Clone, Debug)]
pub struct FitRequest<'a> {
    /// The data directory with the samples.
    pub data: &'a Path,
    /// The directory into which packages are written.
    pub models: &'a Path,
    /// The numbers of the units; empty for all.
    pub units: BTreeSet<u8>,
    /// The node whose samples are used; required if there are several.
    pub node: Option<String>,
    /// Most rows of a unit, the newest ones; 100,000 rows take about 20 MiB.
    pub rows_max: usize,
    /// Leaves a model unchanged while the new rows are less than a tenth of the rows that it was fitted to.
    pub only_if_new: bool,
}

/// The result for one unit's label.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FitVerdict {
    /// The package was written.
    Written,
    /// There are few samples that the model in use was not fitted to.
    Unchanged,
    /// There are too few samples.
    TooFew {
        /// The least number of samples.
        needed: usize,
    },
    /// The new model is worse than the one in use, or it cannot be used or fitted (RT11).
    Refused(TrainError),
}

/// The fit of one unit's label, and what it is based on.
#[derive(Clone, Debug)]
pub struct FitOutcome {
    /// The unit.
    pub unit: &'static UnitSchema,
    /// The index of the label.
    pub label: u8,
    /// The number of rows that were read.
    pub rows: u64,
    /// The number of weights that were cut at [`WEIGHT_MAX`](crate::WEIGHT_MAX).
    pub cut_weights: u64,
    /// The number of files that could not be used.
    pub skipped_files: u64,
    /// The fitted model, whether it was written or not.
    pub package: Option<Package>,
    /// The error of the model in use on the newest rows, 0.1 for 10 %.
    pub incumbent_error: Option<f64>,
    /// The result.
    pub verdict: FitVerdict,
}

/// Fits a model to each label of each unit that has samples, and replaces the model in use unless the new one's error
/// on the same rows is more than 1.1 times as large. It calls `report` after each label, and before that `skipped` with
/// the first file of a unit that could not be used.
///
/// The same samples give the same packages. Cost: one thread, about a second per 100,000 rows and label; about 600
/// bytes of memory per row.
///
/// # Errors
/// [`SamplesError::NoSamples`], [`SamplesError::Nodes`] and [`SamplesError::Unit`] for a request that cannot be met;
/// [`SamplesError::Io`] when a package cannot be written; the packages before it are in place. A file that cannot be
/// read is skipped and counted.
pub fn fit(
    env: &Env,
    request: &FitRequest<'_>,
    skipped: &mut dyn FnMut(&SamplesError),
    report: &mut dyn FnMut(&FitOutcome),
) -> Result<(), SamplesError> {
    let known: BTreeSet<u8> = collie_obs::UNITS.iter().map(|unit| unit.id).collect();
    if let Some(unknown) = request.units.difference(&known).next() {
        return Err(SamplesError::Unit { name: unknown.to_string() });
    }
    let dir = SampleDir::new(env.files.clone(), request.data);
    let names = of_one_node(dir.list()?, request)?;
    let packages = PackageDir::new(env.files.clone(), request.models);
    for unit in collie_obs::UNITS {
        if !(request.units.is_empty() || request.units.contains(&unit.id)) {
            continue;
        }
        let read = read_rows(&dir, unit, &names, request.rows_max);
        read.skipped_because.iter().for_each(&mut *skipped);
        if read.rows.is_empty() {
            continue;
        }
        for label in 0..u8::try_from(unit.labels.len()).expect("at most four labels") {
            let hardware: Vec<u64> = read.hardware.iter().copied().collect();
            let mut outcome = fit_label(unit, label, &read.rows, hardware, &packages, request.only_if_new);
            outcome.skipped_files = read.skipped_files;
            if let (FitVerdict::Written, Some(package)) = (&outcome.verdict, &outcome.package) {
                packages.store(package)?;
            }
            report(&outcome);
        }
    }
    Ok(())
}

/// Returns the files of the requested node, without context rows.
fn of_one_node(mut names: Vec<FileName>, request: &FitRequest<'_>) -> Result<Vec<FileName>, SamplesError> {
    names.retain(|name| name.unit != crate::CONTEXT_UNIT);
    if let Some(node) = &request.node {
        names.retain(|name| name.node == *node);
    }
    let nodes: BTreeSet<&str> = names.iter().map(|name| name.node.as_str()).collect();
    match nodes.len() {
        0 => Err(SamplesError::NoSamples { dir: request.data.to_owned() }),
        1 => Ok(names),
        _ => Err(SamplesError::Nodes { nodes: nodes.into_iter().map(str::to_owned).collect() }),
    }
}

/// Fits and judges one model; writes nothing.
fn fit_label(
    unit: &'static UnitSchema,
    label: u8,
    rows: &[SampleRow],
    hardware: Vec<u64>,
    packages: &PackageDir,
    only_if_new: bool,
) -> FitOutcome {
    let (unit_id, label_id, schema) = (UnitId::new(unit.id), LabelId::new(label), schema_hash(unit));
    let mut outcome = FitOutcome {
        unit,
        label,
        rows: u64::try_from(rows.len()).expect("rows fit memory"),
        cut_weights: 0,
        skipped_files: 0,
        package: None,
        incumbent_error: None,
        verdict: FitVerdict::Unchanged,
    };
    let samples = match samples_of(unit, label, rows) {
        Ok((samples, cut)) => {
            outcome.cut_weights = cut;
            samples
        }
        Err(error) => return FitOutcome { verdict: FitVerdict::Refused(error), ..outcome },
    };
    // A damaged package or one of another schema does not count as a model in use: any fitted model is better.
    let incumbent = packages.load(unit_id, label_id).ok().flatten().filter(|package| package.schema == schema);
    if only_if_new && incumbent.as_ref().is_some_and(|package| has_little_new(package, &samples)) {
        return outcome;
    }
    // Both models are judged on the same newest rows, so that a worse one does not replace a better one (S5).
    outcome.incumbent_error = incumbent.and_then(|package| error_on_newest(&package, &samples));
    match collie_train::model::fit(&samples, &FitOptions::default()) {
        Ok(fitted) => {
            let package =
                Package { unit: unit_id, label: label_id, schema_version: unit.version, schema, hardware, fitted };
            let incumbent_error = outcome.incumbent_error;
            let admitted = package.admit(&Wanted { unit: unit_id, label: label_id, schema, incumbent_error });
            outcome.verdict = admitted.map_or_else(FitVerdict::Refused, |()| FitVerdict::Written);
            outcome.package = Some(package);
        }
        Err(TrainError::TooFew { needed, .. }) => outcome.verdict = FitVerdict::TooFew { needed },
        Err(error) => outcome.verdict = FitVerdict::Refused(error),
    }
    outcome
}

fn has_little_new(package: &Package, samples: &Samples) -> bool {
    let (_, last_us) = package.fitted.window_us;
    let new = (0..samples.len()).filter(|row| samples.time_us(*row) > last_us).count();
    (new as f64) < NEW_SHARE * package.fitted.rows as f64
}

/// Returns the error of a package on the rows on which the new model is validated; none if it is not a finite number.
fn error_on_newest(package: &Package, samples: &Samples) -> Option<f64> {
    let (_, newest) = samples.split_by_time(NEWEST_SHARE);
    let error = percentage_error(package, &newest);
    error.is_finite().then_some(error)
}

#[cfg(test)]
mod fit_tests;
