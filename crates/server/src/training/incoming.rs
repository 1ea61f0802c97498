//! [`Incoming`]: packages that somebody put into `models/incoming`: looked at, judged on the samples that come in for a while beside the
//! models in use, then taken or refused.
//!
//! # Invariants
//! - I1. A package of another schema than this program's, or that is none, is refused without being judged (RT11).
//! - I2. It is taken only after the time of its shadow, with [`SAMPLES_MIN`] samples, if nine tenths of these (less a little) lay inside its
//!   intervals, and its error on them is at most 1.1 times that of the model in use on the same samples.
//! - I3. What was decided shows in names: a package that is taken leaves the folder, one that is refused becomes `NAME.refused`.
//!
//! A file that is being copied there is not whole yet: one that is none is refused only if it is as long as a second before.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use collie_env::{Access, Files};
use collie_samples::{SampleRow, features_of, label_of, unit_of, weight_of};
use collie_sql::catalog::system::ModelRow;
use collie_train::{TrainError, model::Package};

use super::{
    judge::Judged,
    models::{self, ENDING, Loaded, Models},
};

/// The folder in that of models.
const FOLDER: &str = "incoming";

/// What is added to the name of a package that was refused.
const REFUSED: &str = ".refused";

/// Fewer samples say nothing.
pub(super) const SAMPLES_MIN: usize = 100;

/// The least part of samples inside of intervals.
const COVERAGE_MIN: f64 = 0.85;

/// How much worse than the model in use it may be: as when packages are admitted (`Package::admit`).
const WORSE_MAX: f64 = 1.1;

/// A package that is judged.
#[derive(Debug)]
struct Candidate {
    package: Package,
    since_ns: u64,
    own: Judged,
    incumbent: Judged,
}

/// A change that somebody should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The file's name.
    pub(super) file: String,
    /// What became of it.
    pub(super) what: &'static str,
    /// Why.
    pub(super) why: String,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Incoming {
    files: Arc<dyn Files>,
    dir: PathBuf,
    candidates: BTreeMap<String, Candidate>,
    /// Files that are no packages, with their lengths: perhaps not yet.
    unfinished: BTreeMap<String, u64>,
}

impl Incoming {
    /// Of the folder of `models`.
    pub(super) fn new(files: Arc<dyn Files>, models: &Models) -> Self {
        let dir = models.dir().join(FOLDER);
        Self { files, dir, candidates: BTreeMap::new(), unfinished: BTreeMap::new() }
    }

    /// Judges candidates by samples.
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

    /// Looks at the folder, once a second: new packages are judged from now on, those whose time is over are put into the place of the models
    /// in use or refused. Returns what changed; after a package was taken, models have to be loaded.
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

    /// Returns whether a candidate may be taken, or why not; `None`: it is judged on.
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
                // One that stays is judged once more, and found as good as itself.
                let _removed = self.files.remove(&self.dir.join(name));
                let samples = candidate.own.coverage().samples();
                let why = format!("its error is {:.1} % on the last {samples} samples", 100.0 * error);
                Change { file: name.to_owned(), what: "is active", why }
            }
            // It is judged anew from the next look on.
            Err(why) => Change { file: name.to_owned(), what: "cannot be used", why },
        }
    }

    fn refuse(&mut self, name: &str, why: String) -> Change {
        let (from, to) = (self.dir.join(name), self.dir.join(format!("{name}{REFUSED}")));
        // Where it cannot be renamed it is refused again at the next look: said again, and nothing else.
        let _renamed = self.files.replace(&from, &to);
        Change { file: name.to_owned(), what: "is refused", why }
    }

    /// Returns candidates as rows.
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
#[path = "incoming_tests.rs"]
mod tests;
