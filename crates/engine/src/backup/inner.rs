//! `Inner`: checks the files of a copy by the checksums inside them. Only these find rot that is older than the
//! copy's list, since the list records the rotten bytes as good.

use std::path::{Path, PathBuf};

use collie_env::Env;
use collie_store::{LevelSums, LevelsError, TableCheck};
use collie_wal::{WalError, inspect};

use super::manifest::Manifest;
use super::verify::BackupFault;
use crate::EngineError;
use crate::dir::control::Control;

/// The explanation that accompanies such a fault.
const BEFORE: &str = "it was so when the copy was made";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Inner {
    sums: LevelSums,
    /// The error that kept the list of tables from being read.
    unlisted: Option<LevelsError>,
}

impl Inner {
    /// Reads the checksums of the tables from the levels of the copy in `dir`. An error here is reported by
    /// [`Inner::rest`], because it may be one more symptom of a fault that the copy's list finds.
    pub(super) fn of(env: &Env, dir: &Path) -> Self {
        match LevelSums::of(env, &Control::levels_dir(dir)) {
            Ok(sums) => Self { sums, unlisted: None },
            Err(error) => Self { sums: LevelSums::default(), unlisted: Some(error) },
        }
    }

    /// Begins to compare the file at `path` with its checksum in the levels. Returns `None` if the file is not a
    /// table.
    pub(super) fn check(&self, path: &Path) -> Option<TableCheck> {
        self.sums.check(path)
    }

    /// Returns the fault of a table whose bytes match the copy's list.
    pub(super) fn end(check: Option<TableCheck>) -> Option<BackupFault> {
        check.and_then(|check| check.end().err()).map(fault_of)
    }

    /// Returns the faults in the copy in `dir` other than those of tables, once every file matches the copy's
    /// list: the first one each of the lists in the levels, of the control file, and of the log's frames.
    pub(super) fn rest(self, env: &Env, dir: &Path, manifest: &Manifest) -> Result<Vec<BackupFault>, EngineError> {
        let mut faults = Vec::new();
        match self.unlisted {
            Some(error @ (LevelsError::Io { .. } | LevelsError::NewerFormat { .. })) => {
                return Err(EngineError::levels(error));
            }
            other => faults.extend(other.map(fault_of)),
        }
        match Control::read(env, dir) {
            Ok(_) => {}
            Err(EngineError::BadControlFile { path, what }) => faults.push(fault(path, format!("has a bad {what}"))),
            Err(error) => return Err(error),
        }
        let log_dir = Control::log_dir(dir);
        match log_fault(env, &log_dir, manifest) {
            Ok(None) => {}
            Ok(Some(what)) => faults.push(fault(log_dir, what)),
            Err(error @ WalError::Io { .. }) => return Err(error.into()),
            Err(error) => faults.push(fault(log_dir, error.to_string())),
        }
        Ok(faults)
    }
}

/// Reads every frame of the log in `dir`. Returns a description of the first fault.
fn log_fault(env: &Env, dir: &Path, manifest: &Manifest) -> Result<Option<String>, WalError> {
    let found = inspect(env, dir)?;
    if let Some(damage) = found.damage() {
        return Err(damage);
    }
    for record in found.records(manifest.start) {
        record?;
    }
    let end = found.end();
    Ok((end < manifest.end)
        .then(|| format!("ends at {end}, and the copy says that it has everything below {}", manifest.end)))
}

fn fault(path: PathBuf, what: String) -> BackupFault {
    BackupFault { path, offset: None, what: format!("{what}; {BEFORE}") }
}

/// Describes the fault of a file of the levels.
fn fault_of(error: LevelsError) -> BackupFault {
    let text = error.to_string();
    let (LevelsError::TreeDamaged { path, .. } | LevelsError::ManifestDamaged { path, .. }) = error else {
        return fault(PathBuf::from("levels"), text);
    };
    let name = path.display().to_string();
    let what = text.strip_prefix(&name).map_or(&*text, |rest| rest.trim_start_matches([':', ' ']));
    let what = what.to_owned();
    fault(path, what)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
