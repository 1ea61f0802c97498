//! [`Incoming`]: packages that a user put into `models/incoming`: they are evaluated on incoming samples for a while,
//! next to the models in use, then taken or refused.
//!
//! # Invariants
//! - I1. A package of another schema than this program's, or a file that is no package, is refused without being
//!   evaluated (TRAIN-11).
//! - I2. It is taken only after its shadow time, with [`SAMPLES_MIN`] samples, if at least `COVERAGE_MIN` of these
//!   lay inside its intervals, and its error on them is at most 1.1 times that of the model in use on the same samples.
//! - I3. File names show the outcome: a package that is taken leaves the folder, one that is refused becomes
//!   `NAME.refused`.
//!
//! A file that is being copied there is not complete yet: a file that is no package is refused only if its length is
//! the same as a second before.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use collie_env::{Access, Files};
use collie_samples::{SampleRow, features_of, label_of, unit_of, weight_of};
use collie_sql::catalog::system::ModelRow;
use collie_train::{TrainError, model::Package};

use super::{
    judge::Judged,
    models::{self, ENDING, Loaded, Models},
};

/// The folder inside that of the models.
const FOLDER: &str = "incoming";

/// The suffix for the name of a refused package.
const REFUSED: &str = ".refused";

/// With fewer samples there is no verdict.
pub(super) const SAMPLES_MIN: usize = 100;

/// The least fraction of samples inside the intervals.
const COVERAGE_MIN: f64 = 0.85;

/// The factor by which its error may be above that of the model in use: the same as for the admission of packages
/// (`Package::admit`).
const WORSE_MAX: f64 = 1.1;

/// A package under evaluation.
#[derive(Debug)]
struct Candidate {
    package: Package,
    since_ns: u64,
    own: Judged,
    incumbent: Judged,
}

/// A change to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The file's name.
    pub(super) file: String,
    /// The outcome.
    pub(super) what: &'static str,
    /// The reason.
    pub(super) why: String,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Incoming {
    files: Arc<dyn Files>,
    dir: PathBuf,
    candidates: BTreeMap<String, Candidate>,
    /// Files that are no packages, or not yet, with their lengths.
    unfinished: BTreeMap<String, u64>,
}

impl Incoming {
    /// Watches the folder of `models`.
    pub(super) fn new(files: Arc<dyn Files>, models: &Models) -> Self {
        let dir = models.dir().join(FOLDER);
        Self { files, dir, candidates: BTreeMap::new(), unfinished: BTreeMap::new() }
    }

    /// Evaluates candidates on samples.
    pub(super) fn take(&mut self, loaded: &Loaded, rows: &[SampleRow]) {
        if self.candidates.is_empty() {
            return;
        }
        for row in rows {
            let Some(unit) = unit_of(row.sample.ou, row.sample.version) else { continue };
            let of_unit = self.candidates.values_mut().filter(|candidate| candidate.package.unit.get() == unit.id);
            for Candidate { package, own, incumbent, .. } in of_unit {
                let (features, weight) = (features_of(unit, row), weight_of(row));
                let seen = label_of(row, package.label.get());
                if let Ok(predicted) = package.predict(&features) {
                    own.add(&predicted, seen, weight);
                }
                if let Some((_, predicted)) = loaded.prediction(package.unit, package.label, &features) {
                    incumbent.add(&predicted, seen, weight);
                }
            }
        }
    }

    /// Scans the folder, once a second: new packages are evaluated from now on; those whose time is over replace the
    /// models in use or are refused. Returns the changes; after a package was taken, the models must be loaded.
    pub(super) fn look(&mut self, now_ns: u64, shadow: Duration, models: &Models) -> Vec<Change> {
        let names = self.files.list(&self.dir).unwrap_or_default();
        let names: Vec<String> = names.into_iter().filter(|name| name.ends_with(ENDING)).collect();
        self.candidates.retain(|name, _| names.contains(name));
        self.unfinished.retain(|name, _| names.contains(name));
        let mut changes = Vec::new();
        for name in names {
            if !self.candidates.contains_key(&name) {
                changes.extend(self.begin(&name, now_ns));
            } else if let Some(verdict) = self.verdict(&name, now_ns, shadow) {
                changes.push(self.end(&name, verdict, models));
            }
        }
        changes
    }

    fn begin(&mut self, name: &str, now_ns: u64) -> Option<Change> {
        let path = self.dir.join(name);
        let suited = models::read(&*self.files, &path).and_then(|package| {
            models::suits(&package, &path)?;
            Ok(package)
        });
        let length = self.files.open(&path, Access::Read).and_then(|file| file.len()).unwrap_or(0);
        match suited {
            Ok(package) => {
                self.unfinished.remove(name);
                let own = Judged::new(package.hash());
                let candidate = Candidate { package, since_ns: now_ns, own, incumbent: Judged::default() };
                self.candidates.insert(name.to_owned(), candidate);
                let why = "it was put into models/incoming".to_owned();
                Some(Change { file: name.to_owned(), what: "is judged", why })
            }
            Err(why) if self.unfinished.insert(name.to_owned(), length) == Some(length) => {
                self.unfinished.remove(name);
                Some(self.refuse(name, why))
            }
            Err(_perhaps_not_whole) => None,
        }
    }

    /// Returns whether a candidate may be taken, or why not; `None`: its evaluation continues.
    fn verdict(&self, name: &str, now_ns: u64, shadow: Duration) -> Option<Result<(), String>> {
        let Candidate { since_ns, own, incumbent, .. } = self.candidates.get(name)?;
        let is_over = u128::from(now_ns.saturating_sub(*since_ns)) >= shadow.as_nanos();
        if !is_over || own.coverage().samples() < SAMPLES_MIN {
            return None;
        }
        let share = own.coverage().share().unwrap_or(0.0);
        let error = own.error().unwrap_or(f64::INFINITY);
        Some(if share < COVERAGE_MIN {
            let (inside, least) = (100.0 * share, 100.0 * COVERAGE_MIN);
            Err(format!(
                "{inside:.0} % of {} samples were inside its intervals, less than {least} %",
                own.coverage().samples()
            ))
        } else {
            match incumbent.error() {
                Some(incumbent) if error.is_nan() || error > WORSE_MAX * incumbent => {
                    Err(TrainError::Worse { error, incumbent }.to_string())
                }
                _ => Ok(()),
            }
        })
    }

    fn end(&mut self, name: &str, verdict: Result<(), String>, models: &Models) -> Change {
        let Some(candidate) = self.candidates.remove(name) else { return self.refuse(name, "it is gone".to_owned()) };
        let error = candidate.own.error().unwrap_or(0.0);
        if let Err(why) = verdict {
            return self.refuse(name, why);
        }
        match models.store(&candidate.package) {
            Ok(()) => {
                // If the file stays, it is evaluated once more, and found as good as itself.
                let _removed = self.files.remove(&self.dir.join(name));
                let samples = candidate.own.coverage().samples();
                let why = format!("its error is {:.1} % on the last {samples} samples", 100.0 * error);
                Change { file: name.to_owned(), what: "is active", why }
            }
            // Its evaluation starts again at the next scan.
            Err(why) => Change { file: name.to_owned(), what: "cannot be used", why },
        }
    }

    fn refuse(&mut self, name: &str, why: String) -> Change {
        let (from, to) = (self.dir.join(name), self.dir.join(format!("{name}{REFUSED}")));
        // If it cannot be renamed, it is refused again at the next scan, which only repeats the report.
        let _renamed = self.files.replace(&from, &to);
        Change { file: name.to_owned(), what: "is refused", why }
    }

    /// Returns the candidates as rows.
    pub(super) fn rows(&self) -> Vec<ModelRow> {
        let row = |(name, candidate): (&String, &Candidate)| ModelRow {
            state: "shadow",
            coverage: candidate.own.coverage().share(),
            error_seen: candidate.own.error(),
            is_stale: candidate.own.coverage().is_stale(),
            ..models::model_row(format!("{FOLDER}/{name}"), &candidate.package)
        };
        self.candidates.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests;
