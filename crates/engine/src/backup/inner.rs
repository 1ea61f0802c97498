//! `Inner`: what the files of a copy say of themselves, by the checksums inside: rot that was there before the copy's list was made, which has
//! that for whole, is found by these alone.

use std::path::{Path, PathBuf};

use collie_env::Env;
use collie_store::{LevelSums, LevelsError, TableCheck};
use collie_wal::{WalError, inspect};

use super::manifest::Manifest;
use super::verify::BackupFault;
use crate::EngineError;
use crate::control::Control;

/// What rot of this kind means.
const BEFORE: &str = "it was so when the copy was made";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Inner {
    sums: LevelSums,
    /// Why the tables are not known.
    unlisted: Option<LevelsError>,
}

impl Inner {
    /// Reads what the levels of the copy in `dir` say of their tables. What is wrong with that is told by [`Inner::rest`]: it may be
    /// one more sign of what the copy's list finds.
    pub(super) fn of(env: &Env, dir: &Path) -> Self {
        match LevelSums::of(env, &Control::levels_dir(dir)) {
            Ok(sums) => Self { sums, unlisted: None },
            Err(error) => Self { sums: LevelSums::default(), unlisted: Some(error) },
        }
    }

    /// Begins to compare the file at `path` with what the levels have of it; `None`: it is no table.
    pub(super) fn check(&self, path: &Path) -> Option<TableCheck> {
        self.sums.check(path)
    }

    /// Returns what is wrong with a table whose bytes are as the copy's list has them.
    pub(super) fn end(check: Option<TableCheck>) -> Option<BackupFault> {
        check.and_then(|check| check.end().err()).map(fault_of)
    }

    /// Returns what is wrong in the copy in `dir`, tables apart, of which every file is as its list has it: the first thing of the levels'
    /// lists, of the control file and of the log's frames each.
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

/// Reads every frame of the log in `dir`; says what is wrong, if anything is.
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

/// Says what is wrong with a file of the levels.
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
#[path = "inner_tests.rs"]
mod tests;
