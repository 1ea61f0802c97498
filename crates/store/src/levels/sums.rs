//! `LevelSums`: the expected contents of table files, by the checksums stored in the levels, so that a copy never
//! propagates rot.
//!
//! MANIFEST has a checksum over each record; each tree's list of tables has one over itself, and one over all bytes of
//! each table. So one of them covers every byte that an open reads, including bytes that rot before a copy is made and
//! checksums of the copy are computed.
//!
//! # Invariants
//! - U1. A table that was put back from an older copy, or that belongs to another tree, is detected like a rotten one.
//! - U2. Nothing is written, and the table library opens nothing, since its open removes files.
//!
//! Not detected: a whole tree put back from an older copy, list and all.
//!
//! Checked by `sums_tests.rs`.

use std::{
    io,
    path::{Path, PathBuf},
};

use collie_base::{CfId, Lsn, Map};
use collie_env::{Access, Env, Files};

use super::{
    Levels, LevelsError, TreeId,
    backend::{FileHash, tree_dir, tree_of_name},
    lsm_view, map,
};
use crate::{levels::manifest::KnownTree, levels::manifest::Manifest};

/// Bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The tables of some levels and their expected contents. See the module's documentation.
#[derive(Debug, Default)]
pub struct LevelSums {
    tables: Map<PathBuf, Expected>,
}

/// The expected contents of a table.
#[derive(Clone, Debug)]
struct Expected {
    tree: TreeId,
    sum: u128,
    cfs: Vec<CfId>,
    flush_lsn: Lsn,
}

impl Expected {
    fn damaged(self, path: &Path, what: String) -> LevelsError {
        LevelsError::TreeDamaged { path: path.to_owned(), cfs: self.cfs, flush_lsn: self.flush_lsn, what }
    }
}

impl LevelSums {
    /// Reads MANIFEST in `dir`, and the lists of tables of the trees that it names. The result is empty if there are no
    /// levels.
    ///
    /// # Errors
    /// `ManifestDamaged`, `NewerFormat`; `TreeDamaged` if a list is missing or differs from what was written; `Io`.
    pub fn of(env: &Env, dir: &Path) -> Result<Self, LevelsError> {
        let files = &*env.files;
        let Some(contents) = Manifest::read(files, dir)? else {
            let names = match files.list(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                names => names.map_err(|error| LevelsError::io("list", dir, error))?,
            };
            if names.iter().any(|name| tree_of_name(name).is_some()) {
                return Err(Manifest::missing(dir));
            }
            return Ok(Self::default());
        };
        let mut sums = Self::default();
        for known in contents.state.trees.values() {
            sums.add_tree(files, dir, known)?;
        }
        Ok(sums)
    }

    /// Adds the tables of a tree from its list in `dir`.
    fn add_tree(&mut self, files: &dyn Files, dir: &Path, known: &KnownTree) -> Result<(), LevelsError> {
        let tree = tree_dir(dir, known.tree.id);
        let found = match files.is_real() {
            true => lsm_view::sums_in(files, &tree),
            false => map::sums_in(files, &tree),
        };
        self.add(known, found.map_err(|error| LevelsError::of_tree(known, error))?);
        Ok(())
    }

    fn add(&mut self, known: &KnownTree, tables: Vec<(PathBuf, u128)>) {
        let (tree, flush_lsn) = (known.tree.id, known.tree.flush.lsn);
        self.tables.extend(tables.into_iter().map(|(path, sum)| {
            let cfs = known.tree.cfs.clone();
            (path, Expected { tree, sum, cfs, flush_lsn })
        }));
    }

    /// Returns the paths of the tables, ascending.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.tables.keys().cloned().collect();
        paths.sort_unstable();
        paths
    }

    /// Begins a check of the file at `path`; `None` if it is not a table.
    pub fn check(&self, path: &Path) -> Option<TableCheck> {
        let expected = self.tables.get(path)?.clone();
        Some(TableCheck { path: path.to_owned(), expected, hash: FileHash::new() })
    }

    /// Reads every table and returns an error for each that differs from what was written. `step` receives the number
    /// of bytes of each piece; its error ends the reading.
    ///
    /// # Errors
    /// Errors of `step`; `Io` for errors of the disk other than a missing file.
    pub fn read_all<E: From<LevelsError>>(
        &self,
        files: &dyn Files,
        step: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Vec<LevelsError>, E> {
        let mut faults = Vec::new();
        for path in self.paths() {
            let Some(mut check) = self.check(&path) else { continue };
            let file = match files.open(&path, Access::Read) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    faults.push(check.missing());
                    continue;
                }
                Err(error) => return Err(LevelsError::io("read", &path, error).into()),
            };
            let (mut at, mut piece) = (0, vec![0; PIECE_BYTES]);
            loop {
                let count = file.read_at(at, &mut piece).map_err(|error| LevelsError::io("read", &path, error))?;
                if count == 0 {
                    break;
                }
                check.piece(&piece[..count]);
                at += count as u64;
                step(count as u64)?;
            }
            faults.extend(check.end().err());
        }
        Ok(faults)
    }
}

/// A check of one table, which takes all bytes of the file in order.
#[derive(Debug)]
pub struct TableCheck {
    path: PathBuf,
    expected: Expected,
    hash: FileHash,
}

impl TableCheck {
    /// Adds the next bytes of the file.
    pub fn piece(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// Returns the tree of the table.
    pub fn tree(&self) -> TreeId {
        self.expected.tree
    }

    /// Returns whether the bytes taken are those that were written.
    ///
    /// # Errors
    /// `TreeDamaged`, which names the file and its families.
    pub fn end(self) -> Result<(), LevelsError> {
        let (stored, computed) = (self.expected.sum, self.hash.finish());
        if stored == computed {
            return Ok(());
        }
        let what = format!("is not as it was written: checksum {computed:032x}, {stored:032x} in its tree's list");
        Err(self.expected.damaged(&self.path, what))
    }

    /// Returns the error for a missing file.
    pub fn missing(self) -> LevelsError {
        self.expected.damaged(&self.path, "the file is missing".to_owned())
    }
}

impl Levels {
    /// Returns the tables of a tree of open levels, after a comparison of its list on disk with the list in memory.
    /// Waits for a running job of the tree.
    ///
    /// # Errors
    /// `TreeDamaged` if the list differs from what was written; `InvalidCall` if there is no such tree; `TreeFailed`,
    /// `Io`.
    pub fn sums_of(&self, tree: TreeId) -> Result<LevelSums, LevelsError> {
        let job = self.job(tree)?;
        let _job = job.lock();
        let known = self.known(tree)?;
        self.check_failed(tree)?;
        let looked_at = self.guarded(&known, |backend| {
            backend.check_list(tree)?;
            Ok(backend.table_sums(tree))
        });
        let mut sums = LevelSums::default();
        sums.add(&known, looked_at.map_err(|error| self.refuse(&known, error))?);
        Ok(sums)
    }

    /// Replaces the error of an unreadable tree by one that names the damaged file, if a file differs from what was
    /// written; otherwise returns the error unchanged.
    pub(super) fn blame(files: &dyn Files, dir: &Path, known: &KnownTree, error: LevelsError) -> LevelsError {
        if !matches!(error, LevelsError::TreeDamaged { .. }) {
            return error;
        }
        let mut sums = LevelSums::default();
        if let Err(list @ LevelsError::TreeDamaged { .. }) = sums.add_tree(files, dir, known) {
            return list;
        }
        let found = sums.read_all::<LevelsError>(files, &mut |_| Ok(()));
        found.ok().and_then(|faults| faults.into_iter().next()).unwrap_or(error)
    }
}
