//! [`Models`]: the packages of models in a server's directory, `models/ou=13-label=0.package` and so on, and those of
//! them that are in use.
//!
//! # Invariants
//! - MO1. A package in use was decoded as a whole and has a schema of this program (TRAIN-11).
//! - MO2. A prediction uses one immutable set of models: a new set replaces it by one swap of a pointer.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::EPOCH_2000_US;
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

/// The ending of package names.
pub(super) const ENDING: &str = ".package";

/// A package of the largest model has 130 KiB.
pub(super) const PACKAGE_BYTES_MAX: u64 = 4 << 20;

/// Models in use. Immutable.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    packages: BTreeMap<(UnitId, LabelId), (Package, u64)>,
}

impl Loaded {
    /// Predicts a label of a call of `unit` with these `features`, as [`collie_samples::features_of`] returns them: the
    /// value, and the ends of the interval that covers nine tenths, in the label's unit. Returns `None` if there is no
    /// model for it, if the model has another number of features, or if the call lies outside of the training ranges,
    /// so that no decision may use it.
    ///
    /// Cost: about a microsecond and one allocation. Pure.
    pub(super) fn predict(&self, unit: UnitId, label: LabelId, features: &[f64]) -> Option<(f64, f64, f64)> {
        let (_, Prediction { value, low, high, clamped }) = self.prediction(unit, label, features)?;
        (!clamped).then_some((value, low, high))
    }

    /// Returns the model's hash and its prediction, even for a call outside of the training ranges.
    pub(super) fn prediction(&self, unit: UnitId, label: LabelId, features: &[f64]) -> Option<(u64, Prediction)> {
        let (package, hash) = self.packages.get(&(unit, label))?;
        package.predict(features).ok().map(|prediction| (*hash, prediction))
    }

    /// Returns the hash that identifies the model's package in the journal of decisions.
    pub(super) fn hash(&self, unit: UnitId, label: LabelId) -> Option<u64> {
        self.packages.get(&(unit, label)).map(|(_, hash)| *hash)
    }

    /// Returns the number of samples to which the models of elapsed times were fitted.
    pub(super) fn rows(&self) -> u64 {
        let of_time = self.packages.iter().filter(|((_, label), _)| label.get() == 0);
        of_time.map(|(_, (package, _))| package.fitted.rows).sum()
    }

    /// Returns the number of models.
    pub(super) fn len(&self) -> usize {
        self.packages.len()
    }
}

/// A file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Its name.
    pub(super) file: String,
    /// The reason, in words.
    pub(super) why: String,
}

/// The models of a server. Lock order: none of its locks is held while another is taken.
#[derive(Debug)]
pub(super) struct Models {
    files: Arc<dyn Files>,
    dir: PathBuf,
    loaded: RwLock<Arc<Loaded>>,
    /// The files refused at the last load, so that each is reported once.
    refused: Mutex<Vec<Refused>>,
}

/// Checks whether a package may be used here at all (MO1).
pub(super) fn suits(package: &Package, path: &Path) -> Result<(), String> {
    unit_for(package, path).map(|_unit| ()).map_err(|error| why(&error))
}

/// Returns the problem, without the path, which the row or line already has.
fn why(error: &SamplesError) -> String {
    match error {
        SamplesError::Package { source, .. } => source.to_string(),
        SamplesError::Io { op, source, .. } => format!("cannot {op}: {source}"),
        other => other.to_string(),
    }
}

impl Models {
    /// Makes the models of the folder `dir`, which need not exist. None is in use before [`Models::load`].
    pub(super) fn new(files: Arc<dyn Files>, dir: PathBuf) -> Self {
        Self { files, dir, loaded: RwLock::default(), refused: Mutex::default() }
    }

    /// Returns the folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the models in use (MO2).
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().clone()
    }

    /// Uses the packages in the folder from now on. Returns the number of models in use, and the files that are refused
    /// and were not at the last load.
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

    /// Puts a package into the folder, replacing the one of the same name; it is in use after the next load.
    ///
    /// # Errors
    /// Those of the disk, in words; then the previous package is still there.
    ///
    /// # Durability
    /// That of [`PackageDir::store`].
    pub(super) fn store(&self, package: &Package) -> Result<(), String> {
        let stored = PackageDir::new(self.files.clone(), &self.dir).store(package);
        stored.map(|_path| ()).map_err(|error| error.to_string())
    }

    /// Returns every package in the folder, by name. A file that cannot be decoded, or has another schema, is listed
    /// with the reason.
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
/// Those of the disk, or that the file is no package, in words.
pub(super) fn read(files: &dyn Files, path: &Path) -> Result<Package, String> {
    let bytes = read_all(files, path, PACKAGE_BYTES_MAX).map_err(|error| error.to_string())?;
    Package::decode(&bytes).map_err(|error: TrainError| error.to_string())
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns the description of a package as a row.
pub(super) fn model_row(file: String, package: &Package) -> ModelRow {
    let fitted = &package.fitted;
    let at = |us: u64| i64::try_from(us).unwrap_or(i64::MAX).saturating_sub(EPOCH_2000_US);
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
mod tests;
