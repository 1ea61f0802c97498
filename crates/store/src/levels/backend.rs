//! `LevelStore`: what the LSM levels need from a library of sorted tables.
//!
//! One value serves all trees of a directory, each in its own subdirectory. The caller runs one call per tree at a time
//! and keeps the record of what was flushed. A backend may panic; its caller catches the panic.

use std::{
    fmt::{self, Debug},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use collie_base::Lsn;
use collie_env::is_full;

use lsm_tree::checksum::ChecksummedWriter;

use crate::levels::{Edit, Entry, TreeId};

/// Why a backend's call failed.
#[derive(Debug)]
pub(crate) enum BackendError {
    /// Bytes are missing or differ from what was written.
    Damaged { path: PathBuf, what: String },
    /// The disk is full, and the tree is as before the call.
    NoSpace { path: PathBuf },
    /// The tree's state is unknown until it is opened again.
    Failed { path: PathBuf, source: io::Error },
}

impl BackendError {
    /// Returns the error for a failure before anything of the tree changed; it is harmless if the disk is full.
    pub(crate) fn before_change(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_full(&source) { Self::NoSpace { path } } else { Self::Failed { path, source } }
    }
}

/// Numbers of files of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeFiles {
    pub(crate) tables: usize,
    pub(crate) runs: usize,
    /// The runs of level 0; only compaction reduces their number.
    pub(crate) new_runs: usize,
}

/// How far a compaction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As far as the shape of the levels requires.
    Due,
    /// Into one run with exactly one entry per live key (S13 of the design).
    Full,
}

/// Sorted tables on disk.
pub(crate) trait LevelStore: Send + Sync + Debug {
    /// Creates an empty tree. Durable on return, apart from the tree's name in its parent directory.
    fn create(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Opens a tree that must exist, and removes what an interrupted call left in it.
    fn open(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Adds one run with `edits`, strictly ascending by (family, key), each below `f`. Returns the bytes written.
    /// Durable on return; after a crash all of the run is there or none.
    fn apply<'a>(&self, tree: TreeId, f: Lsn, edits: &mut dyn Iterator<Item = Edit<'a>>) -> Result<u64, BackendError>;

    /// Visits each live entry, ascending by (family, key). Every byte passed on was checked against its checksum.
    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError>;

    /// Returns the highest position of an applied edit that was not merged away since, deletes included.
    fn highest(&self, tree: TreeId) -> Option<Lsn>;

    /// Merges runs; returns bytes written. The live entries stay the same.
    fn compact(&self, tree: TreeId, effort: Effort) -> Result<u64, BackendError>;

    /// Counts files.
    fn files(&self, tree: TreeId) -> TreeFiles;

    /// Returns the bytes of the table files, by asking the disk.
    fn bytes(&self, tree: TreeId) -> u64;

    /// Returns the files that hold entries, each with its number of entries.
    fn file_entries(&self, tree: TreeId) -> Vec<(PathBuf, u64)>;

    /// Returns the files that hold entries, each with the checksum ([`FileHash`]) of all its bytes, taken when it was
    /// written.
    fn table_sums(&self, tree: TreeId) -> Vec<(PathBuf, u128)>;

    /// Compares the on-disk list of files that hold entries with its checksum and with the list in memory.
    fn check_list(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Gives the tree's files second names, or copies them, in `to`, which exists and is empty. Durable on return.
    fn link_to(&self, tree: TreeId, to: &Path) -> Result<(), BackendError>;

    /// Closes a tree whose directory is about to be removed.
    fn forget(&self, tree: TreeId);
}

/// The checksum of a whole file, xxh3-128, as in the lists of tables, computed piece by piece.
pub(crate) struct FileHash(ChecksummedWriter<io::Sink>);

impl FileHash {
    /// Returns the checksum of no bytes yet.
    pub(crate) fn new() -> Self {
        Self(ChecksummedWriter::new(io::sink()))
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("a sink takes everything");
    }

    /// Returns the checksum of all bytes so far.
    pub(crate) fn finish(&self) -> u128 {
        self.0.checksum().into_u128()
    }

    /// Returns the checksum of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> u128 {
        let mut hash = Self::new();
        hash.update(bytes);
        hash.finish()
    }
}

impl Debug for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileHash").field(&self.finish()).finish()
    }
}

/// Returns the directory of a tree.
pub(crate) fn tree_dir(dir: &Path, tree: TreeId) -> PathBuf {
    dir.join(format!("tree-{:010}", tree.get()))
}

/// Returns the tree whose directory has this name.
pub(crate) fn tree_of_name(name: &str) -> Option<TreeId> {
    let digits = name.strip_prefix("tree-").filter(|digits| digits.len() == 10)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok().map(TreeId::new))?
}
