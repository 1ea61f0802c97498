//! `LevelStore`: what the levels need of the library that keeps sorted tables.
//!
//! One value serves all trees of a directory, each in a directory of its own under it. The caller runs one call per tree
//! at a time and keeps the record of what was flushed; a backend may panic, its caller catches that.

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
    /// Bytes are not as they were written, or missing.
    Damaged { path: PathBuf, what: String },
    /// The disk is full, and the tree is as before the call.
    NoSpace { path: PathBuf },
    /// The tree's state is unknown until it is opened again.
    Failed { path: PathBuf, source: io::Error },
}

impl BackendError {
    /// A failure before anything of the tree was changed; harmless if the disk is full.
    pub(crate) fn before_change(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_full(&source) { Self::NoSpace { path } } else { Self::Failed { path, source } }
    }
}

/// Files of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeFiles {
    pub(crate) tables: usize,
    pub(crate) runs: usize,
    /// Those of level 0, which only compaction makes fewer.
    pub(crate) new_runs: usize,
}

/// How far a compaction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As far as the shape of the levels asks for.
    Due,
    /// Into one run, with one entry per live key and no other (S13 of the design).
    Full,
}

/// Sorted tables on disk.
pub(crate) trait LevelStore: Send + Sync + Debug {
    /// Makes an empty tree. Durable on return, apart from the tree's name in the directory above.
    fn create(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Opens a tree that must be there, and removes what an interrupted call left in it.
    fn open(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Adds one run with `edits`, strictly ascending by (family, key), every one below `f`. Durable on return; after a crash
    /// all or none of it is there.
    fn apply<'a>(&self, tree: TreeId, f: Lsn, edits: &mut dyn Iterator<Item = Edit<'a>>) -> Result<u64, BackendError>;

    /// Visits each live entry, ascending by (family, key). Every byte handed out was checked against its checksum.
    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError>;

    /// Returns the highest position of an edit that was applied and not merged away since, deletes included.
    fn highest(&self, tree: TreeId) -> Option<Lsn>;

    /// Merges runs; returns bytes written. The live entries stay the same.
    fn compact(&self, tree: TreeId, effort: Effort) -> Result<u64, BackendError>;

    /// Counts files.
    fn files(&self, tree: TreeId) -> TreeFiles;

    /// Returns the bytes of the table files; asks the disk.
    fn bytes(&self, tree: TreeId) -> u64;

    /// Returns the files that hold entries, each with how many.
    fn file_entries(&self, tree: TreeId) -> Vec<(PathBuf, u64)>;

    /// Returns the files that hold entries, each with the checksum of all its bytes ([`FileHash`]) as it was when it was written.
    fn table_sums(&self, tree: TreeId) -> Vec<(PathBuf, u128)>;

    /// Compares what says on disk which files hold entries with its own checksum, and with what is in memory.
    fn check_list(&self, tree: TreeId) -> Result<(), BackendError>;

    /// Gives the tree's files second names, or copies, in `to`, which exists and is empty. Durable on return.
    fn link_to(&self, tree: TreeId, to: &Path) -> Result<(), BackendError>;

    /// Lets go of a tree whose directory is about to be removed.
    fn forget(&self, tree: TreeId);
}

/// The checksum of a whole file, xxh3-128, as lists of tables have it: taken piece by piece.
pub(crate) struct FileHash(ChecksummedWriter<io::Sink>);

impl FileHash {
    /// Of no bytes yet.
    pub(crate) fn new() -> Self {
        Self(ChecksummedWriter::new(io::sink()))
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("a sink takes everything");
    }

    /// Returns the checksum of everything taken.
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
