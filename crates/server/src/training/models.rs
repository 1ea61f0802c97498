//! [`Models`]: the packages of models in a server's directory, `models/ou=13-label=0.package` and so on, and those of them that are in use.
//!
//! # Invariants
//! - MO1. What is in use was decoded whole and is of a schema of this program (RT11).
//! - MO2. Whoever predicts holds one set of models, which nobody changes: a new one takes its place by one swap of a pointer.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Files, read_all};
use collie_samples::{PackageDir, SamplesError, unit_for};
use collie_sql::catalog::system::{Model, ModelRow};
use collie_train::{
    LabelId, TrainError, UnitId,
    model::{Package, Prediction},
};
use parking_lot::{Mutex, RwLock};

use super::{
    judge::Judge,
    units::{label_name, name_of},
};
use crate::replication::EPOCH_DIFFERENCE;

/// How names of packages end.
pub(super) const ENDING: &str = ".package";

/// A package of the largest model is 130 KiB.
pub(super) const PACKAGE_BYTES_MAX: u64 = 4 << 20;

/// Models in use. Never changed.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    packages: BTreeMap<(UnitId, LabelId), (Package, u64)>,
}

impl Loaded {
    /// Predicts a label of a call of `unit` whose features are `features`, as [`collie_samples::features_of`] has them: the value and the ends of
    /// the interval that is to hold nine tenths, in the label's unit. `None`: there is no model for it, it is for another number of
    /// features, or the call lies outside of what the model has seen, so that no decision should go by it.
    ///
    /// Cost: about a microsecond and one allocation. Pure.
    pub(super) fn predict(&self, unit: UnitId, label: LabelId, features: &[f64]) -> Option<(f64, f64, f64)> {
        let (_, Prediction { value, low, high, clamped }) = self.prediction(unit, label, features)?;
        (!clamped).then_some((value, low, high))
    }

    /// Returns the model's hash and what it says, also of a call that it has seen nothing like.
    pub(super) fn prediction(&self, unit: UnitId, label: LabelId, features: &[f64]) -> Option<(u64, Prediction)> {
        let (package, hash) = self.packages.get(&(unit, label))?;
        package.predict(features).ok().map(|prediction| (*hash, prediction))
    }

    /// Returns what names the model's package, as the journal of decisions does.
    pub(super) fn hash(&self, unit: UnitId, label: LabelId) -> Option<u64> {
        self.packages.get(&(unit, label)).map(|(_, hash)| *hash)
    }

    /// Returns how many samples the models of elapsed times were made of.
    pub(super) fn rows(&self) -> u64 {
        let of_time = self.packages.iter().filter(|((_, label), _)| label.get() == 0);
        of_time.map(|(_, (package, _))| package.fitted.rows).sum()
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.packages.len()
    }
}

/// A file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Its name.
    pub(super) file: String,
    /// Why, in words.
    pub(super) why: String,
}

/// Order of locks: none of them is held while another is taken.
#[derive(Debug)]
pub(super) struct Models {
    files: Arc<dyn Files>,
    dir: PathBuf,
    loaded: RwLock<Arc<Loaded>>,
    /// What was refused at the last load, so that it is told once.
    refused: Mutex<Vec<Refused>>,
}

/// Says whether a package may be used here at all (MO1).
pub(super) fn suits(package: &Package, path: &Path) -> Result<(), String> {
    unit_for(package, path).map(|_unit| ()).map_err(|error| why(&error))
}

/// Says what is wrong, without the path, which the row or line has already.
fn why(error: &SamplesError) -> String {
    match error {
        SamplesError::Package { source, .. } => source.to_string(),
        SamplesError::Io { op, source, .. } => format!("cannot {op}: {source}"),
        other => other.to_string(),
    }
}

impl Models {
    /// Those in the folder `dir`, which need not exist. None is in use before [`Models::load`].
    pub(super) fn new(files: Arc<dyn Files>, dir: PathBuf) -> Self {
        Self { files, dir, loaded: RwLock::default(), refused: Mutex::default() }
    }

    /// Returns where they lie.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns those in use (MO2).
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().clone()
    }

    /// Uses what lies in the folder from now on. Returns how many are in use, and what was refused and was not at the load before.
    pub(super) fn load(&self) -> (usize, Vec<Refused>) {
        let packages = PackageDir::new(self.files.clone(), &self.dir);
        let mut loaded = Loaded::default();
        let mut refused = Vec::new();
        let paths = packages.list().unwrap_or_else(|error| {
            refused.push(Refused { file: self.dir.display().to_string(), why: why(&error) });
            Vec::new()
        });
        for path in paths {
            let read = packages.read(&path).map_err(|error| why(&error));
            let suited = read.and_then(|package| {
                suits(&package, &path)?;
                let wanted = packages.path(package.unit, package.label);
                let misplaced = || format!("it is the model of {}: give it that name", file_name(&wanted));
                if wanted == path { Ok(package) } else { Err(misplaced()) }
            });
            match suited {
                Ok(package) => {
                    let hash = package.hash();
                    loaded.packages.insert((package.unit, package.label), (package, hash));
                }
                Err(why) => refused.push(Refused { file: file_name(&path), why }),
            }
        }
        let count = loaded.len();
        *self.loaded.write() = Arc::new(loaded);
        let before = std::mem::replace(&mut *self.refused.lock(), refused.clone());
        refused.retain(|refused| !before.contains(refused));
        (count, refused)
    }

    /// Puts a package into the folder, in the place of what was there; it is in use after the next load.
    ///
    /// # Errors
    /// The disk's, in words; what was there is still there.
    ///
    /// # Durability
    /// As [`PackageDir::store`].
    pub(super) fn store(&self, package: &Package) -> Result<(), String> {
        let stored = PackageDir::new(self.files.clone(), &self.dir).store(package);
        stored.map(|_path| ()).map_err(|error| error.to_string())
    }

    /// Returns every package in the folder, by name. What cannot be decoded, or is of another schema, is there with the reason.
    pub(super) fn rows(&self, judge: &Judge) -> Vec<ModelRow> {
        let loaded = self.loaded();
        let refused = self.refused.lock().clone();
        let names = self.files.list(&self.dir).unwrap_or_default();
        let why_not = |file: &str| refused.iter().find(|refused| refused.file == file).map(|told| told.why.clone());
        let row = |file: String| {
            let package = match read(&*self.files, &self.dir.join(&file)) {
                Ok(package) => package,
                Err(why) => {
                    return ModelRow { file, state: "refused", refused: Some(why), ..ModelRow::default() };
                }
            };
            let row = model_row(file, &package);
            if let Some(why) = why_not(&row.file) {
                return ModelRow { state: "refused", refused: Some(why), ..row };
            }
            if loaded.hash(package.unit, package.label) != Some(package.hash()) {
                return ModelRow { state: "unused", ..row };
            }
            let (coverage, error_seen, is_stale) = judge.of(package.unit, package.label);
            ModelRow { state: "active", coverage, error_seen, is_stale, ..row }
        };
        names.into_iter().filter(|name| name.ends_with(ENDING)).map(row).collect()
    }
}

/// Reads a package.
///
/// # Errors
/// The disk's, or that it is none, in words.
pub(super) fn read(files: &dyn Files, path: &Path) -> Result<Package, String> {
    let bytes = read_all(files, path, PACKAGE_BYTES_MAX).map_err(|error| error.to_string())?;
    Package::decode(&bytes).map_err(|error: TrainError| error.to_string())
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns what a package says of itself, as a row.
pub(super) fn model_row(file: String, package: &Package) -> ModelRow {
    let fitted = &package.fitted;
    let at = |us: u64| i64::try_from(us).unwrap_or(i64::MAX).saturating_sub(EPOCH_DIFFERENCE);
    let model = Model {
        unit_id: package.unit.get(),
        unit: name_of(package.unit),
        label: label_name(package.unit, package.label),
        schema_version: package.schema_version,
        kind: fitted.model.kind(),
        rows: fitted.rows,
        effective_rows: fitted.effective_rows,
        error: fitted.error(),
        trained: (at(fitted.window_us.0), at(fitted.window_us.1)),
        hash: package.hash(),
    };
    ModelRow { file, model: Some(model), ..ModelRow::default() }
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
