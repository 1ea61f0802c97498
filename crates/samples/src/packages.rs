//! `PackageDir`: a node's models, one file for each unit and label.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Files, read_all};
use collie_train::{LabelId, UnitId, model::Package};

use crate::{SamplesError, publish::publish};

/// The limit for reading a package; that of the largest model has 130 KiB.
const PACKAGE_BYTES_MAX: u64 = 4 << 20;

const ENDING: &str = ".package";

/// A directory of packages.
#[derive(Clone, Debug)]
pub struct PackageDir {
    files: Arc<dyn Files>,
    dir: PathBuf,
}

impl PackageDir {
    /// Returns the directory of packages at `dir`, which need not exist.
    pub fn new(files: Arc<dyn Files>, dir: &Path) -> Self {
        Self { files, dir: dir.to_owned() }
    }

    /// Returns the path of the package of a unit's label: `ou=13-label=0.package`.
    pub fn path(&self, unit: UnitId, label: LabelId) -> PathBuf {
        self.dir.join(format!("ou={:02}-label={}{ENDING}", unit.get(), label.get()))
    }

    /// Returns the paths of all packages, sorted.
    ///
    /// # Errors
    /// [`SamplesError::Io`]. A missing directory is no error.
    pub fn list(&self) -> Result<Vec<PathBuf>, SamplesError> {
        match self.files.list(&self.dir) {
            Ok(names) => {
                Ok(names.iter().filter(|name| name.ends_with(ENDING)).map(|name| self.dir.join(name)).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(SamplesError::Io { op: "list", path: self.dir.clone(), source }),
        }
    }

    /// Reads the package at `path`.
    ///
    /// # Errors
    /// [`SamplesError::Io`], or [`SamplesError::Package`] for bytes that are not a package.
    pub fn read(&self, path: &Path) -> Result<Package, SamplesError> {
        let bytes = read_all(&*self.files, path, PACKAGE_BYTES_MAX).map_err(|source| SamplesError::Io {
            op: "read",
            path: path.to_owned(),
            source,
        })?;
        Package::decode(&bytes).map_err(|source| SamplesError::Package { path: path.to_owned(), source })
    }

    /// Reads the package of a unit's label, if there is one.
    ///
    /// # Errors
    /// Those of `read`, except for a missing file.
    pub fn load(&self, unit: UnitId, label: LabelId) -> Result<Option<Package>, SamplesError> {
        match self.read(&self.path(unit, label)) {
            Ok(package) => Ok(Some(package)),
            Err(SamplesError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the package of the same unit and label, if there is one. The caller checks before whether it may do so
    /// ([`Package::admit`]).
    ///
    /// # Errors
    /// [`SamplesError::Io`]; then the old package is still there.
    ///
    /// # Durability
    /// A power cut leaves the old package or the new one, whole.
    pub fn store(&self, package: &Package) -> Result<PathBuf, SamplesError> {
        let path = self.path(package.unit, package.label);
        publish(&*self.files, &path, &package.encode())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use collie_env::Env;
    use collie_train::model::sample_package;

    use super::*;

    /// Goal: a power cut leaves the old package or the new one. Method: the new one is stored, and the power fails at
    /// each call of the disk.
    #[test]
    fn a_package_is_replaced_whole_or_not_at_all() {
        let (old, new) = (sample_package(false), sample_package(true));
        let dir_of = |env: &Env| PackageDir::new(env.files.clone(), "/data/models".as_ref());
        let prepared = || {
            let (env, disk) = Env::simulated(7);
            dir_of(&env).store(&old).unwrap();
            (env, disk)
        };
        let (env, disk) = prepared();
        let before = disk.calls();
        dir_of(&env).store(&new).unwrap();
        let calls = disk.calls() - before;
        assert_eq!(dir_of(&env).load(new.unit, new.label).unwrap(), Some(new.clone()));
        assert_eq!(dir_of(&env).list().unwrap().len(), 1);
        for call in 1..=calls {
            for seed in 0..8 {
                let (env, disk) = prepared();
                disk.fail_call(disk.calls() + call, collie_env::Fault::PowerCut);
                let stored = dir_of(&env).store(&new);
                let after = Env::over(disk.power_cut(seed), 7);
                let found = dir_of(&after).load(new.unit, new.label).unwrap().expect("one of them is there");
                assert!(found == old || found == new, "call {call}, seed {seed}");
                assert!(stored.is_err() || found == new, "call {call}, seed {seed}: stored, and gone");
            }
        }
    }

    /// Goal: bytes that are not a package are an error, and a missing file is `None`. Method: other bytes, and an empty
    /// directory.
    #[test]
    fn bytes_that_are_no_package_are_refused() {
        let (env, _disk) = Env::simulated(7);
        let dir = PackageDir::new(env.files.clone(), "/data/models".as_ref());
        let (unit, label) = (UnitId::new(13), LabelId::new(0));
        assert_eq!(dir.load(unit, label).unwrap(), None);
        assert!(dir.list().unwrap().is_empty());
        publish(&*env.files, &dir.path(unit, label), b"COLLIEMP and no more").unwrap();
        assert!(matches!(dir.load(unit, label), Err(SamplesError::Package { .. })));
    }
}
