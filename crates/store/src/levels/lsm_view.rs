//! `LsmView`: reads trees of [`LsmStore`](super::lsm::LsmStore) without opening them, since the crate's own open
//! deletes what an interrupted call left.
//!
//! The version file names the tables; each is opened by itself. Files that it does not name are ignored.
//!
//! The version file is an archive of sections. Its last 38 bytes are: `SFA!`, version 1, kind of checksum 0, checksum
//! of the table of contents (16), position and length of the table of contents (8 each). The table of contents is
//! `TOC!`, a count (4), and for each section its position and length (8 each) and its name (a length of 2 bytes, and
//! the bytes). Section `tables`: number of levels (1), per level number of runs (1), per run number of tables (4), per
//! table its id (8), kind of checksum 0 (1), checksum (16), offset of its sequence numbers (8). Little-endian.
//!
//! # Invariants
//! - W1. Nothing is written, and calls that would write are refused.
//! - W2. A scan sees the same entries as a scan after an ordinary open.
//!
//! Checked by `view.rs`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::{
    Lsn,
    codec::{DecodeError, Reader},
};
use collie_env::Files;
use lsm_tree::{Cache, Checksum, DescriptorTable, Table};
use parking_lot::Mutex;

use super::lsm::{TABLES, file_entries, judge_read, read_version_file, scan_runs, table_bytes, table_sum};
use crate::levels::{
    Edit, Entry, LevelOptions, TreeId,
    backend::{BackendError, Effort, LevelStore, TreeFiles, tree_dir},
};

/// Length of the trailer of a version file, which locates the table of contents.
const TRAILER_BYTES: usize = 38;

/// A table as the version file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) id: u64,
    /// Checksum of the whole file.
    pub(super) checksum: u128,
    sequence_offset: u64,
}

/// A tree's tables, by level and run, newest first.
#[derive(Clone)]
struct Opened {
    dir: PathBuf,
    levels: Vec<Vec<VecDeque<Table>>>,
}

impl Opened {
    fn runs(&self) -> impl Iterator<Item = &VecDeque<Table>> {
        self.levels.iter().flatten()
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.runs().flatten()
    }
}

/// The trees of a directory, for reading.
pub(crate) struct LsmView {
    files: Arc<dyn Files>,
    dir: PathBuf,
    cache: Arc<Cache>,
    descriptors: Arc<DescriptorTable>,
    trees: Mutex<BTreeMap<TreeId, Arc<Opened>>>,
}

impl fmt::Debug for LsmView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LsmView").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl LsmView {
    /// Creates a view of the trees under `dir` on the operating system's disk.
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, options: &LevelOptions) -> Self {
        Self {
            files,
            dir: dir.to_owned(),
            cache: Arc::new(Cache::with_capacity_bytes(options.cache_bytes)),
            descriptors: Arc::new(DescriptorTable::new(options.descriptors)),
            trees: Mutex::default(),
        }
    }

    fn opened(&self, tree: TreeId) -> Arc<Opened> {
        self.trees.lock().get(&tree).cloned().expect("callers open a tree before they use it")
    }

    fn open_table(&self, tree: TreeId, dir: &Path, named: Named) -> Result<Table, BackendError> {
        let path = dir.join(TABLES).join(named.id.to_string());
        let opened = Table::recover(
            path.clone(),
            Checksum::from_raw(named.checksum),
            named.sequence_offset,
            u64::from(tree.get()),
            self.cache.clone(),
            Some(self.descriptors.clone()),
            false,
            false,
        );
        opened.map_err(|error| judge_read(&path, error))
    }

    /// Returns the error of calls that would write (W1).
    fn refusal(&self) -> BackendError {
        BackendError::Failed { path: self.dir.clone(), source: io::ErrorKind::ReadOnlyFilesystem.into() }
    }
}

/// Returns the tables that a version file names, by level and run.
pub(super) fn decode_version(bytes: &[u8]) -> Result<Vec<Vec<Vec<Named>>>, DecodeError> {
    let bad = |what| DecodeError { what };
    let trailer = bytes.len().checked_sub(TRAILER_BYTES).and_then(|at| bytes.get(at..)).unwrap_or_default();
    let mut reader = Reader::new(trailer);
    if reader.bytes(4)? != b"SFA!" || reader.bytes(2)? != [1, 0] {
        return Err(bad("kind of archive"));
    }
    let _checksum = reader.u128()?; // the caller checked the whole file
    let part = |at: u64, len: u64| {
        let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        bytes.get(at..at.checked_add(len)?)
    };
    let (at, len) = (reader.u64()?, reader.u64()?);
    let mut contents = Reader::new(part(at, len).ok_or(bad("table of contents"))?);
    if contents.bytes(4)? != b"TOC!" {
        return Err(bad("table of contents"));
    }
    let mut tables = None;
    for _ in 0..contents.u32()? {
        let (at, len) = (contents.u64()?, contents.u64()?);
        let name_bytes = u16::from_le_bytes([contents.u8()?, contents.u8()?]);
        if contents.bytes(usize::from(name_bytes))? == b"tables" {
            tables = part(at, len);
        }
    }
    let mut reader = Reader::new(tables.ok_or(bad("list of tables"))?);
    let mut levels = Vec::new();
    for _ in 0..reader.u8()? {
        let mut runs = Vec::new();
        for _ in 0..reader.u8()? {
            let mut run = Vec::new();
            for _ in 0..reader.u32()? {
                let (id, kind, checksum) = (reader.u64()?, reader.u8()?, reader.u128()?);
                if kind != 0 {
                    return Err(bad("kind of checksum"));
                }
                run.push(Named { id, checksum, sequence_offset: reader.u64()? });
            }
            runs.push(run);
        }
        levels.push(runs);
    }
    reader.finish()?;
    Ok(levels)
}

/// Returns the tables in the list of the tree in `dir`, each with the checksum of all its bytes from that list.
pub(super) fn sums_in(files: &dyn Files, dir: &Path) -> Result<Vec<(PathBuf, u128)>, BackendError> {
    let (path, bytes) = read_version_file(files, dir)?;
    let levels = decode_version(&bytes);
    let levels = levels.map_err(|error| BackendError::Damaged { path, what: error.to_string() })?;
    let named = levels.into_iter().flatten().flatten();
    Ok(named.map(|named| (dir.join(TABLES).join(named.id.to_string()), named.checksum)).collect())
}

impl LevelStore for LsmView {
    fn create(&self, _tree: TreeId) -> Result<(), BackendError> {
        Err(self.refusal())
    }

    fn open(&self, tree: TreeId) -> Result<(), BackendError> {
        let dir = tree_dir(&self.dir, tree);
        let (path, bytes) = read_version_file(&*self.files, &dir)?;
        let named = decode_version(&bytes);
        let named = named.map_err(|error| BackendError::Damaged { path, what: error.to_string() })?;
        let open_run = |run: Vec<Named>| run.into_iter().map(|named| self.open_table(tree, &dir, named)).collect();
        let open_level = |runs: Vec<Vec<Named>>| runs.into_iter().map(open_run).collect();
        let levels = named.into_iter().map(open_level).collect::<Result<_, _>>()?;
        self.trees.lock().insert(tree, Arc::new(Opened { dir, levels }));
        Ok(())
    }

    fn apply<'a>(
        &self,
        _tree: TreeId,
        _f: Lsn,
        _edits: &mut dyn Iterator<Item = Edit<'a>>,
    ) -> Result<u64, BackendError> {
        Err(self.refusal())
    }

    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError> {
        let opened = self.opened(tree);
        scan_runs(&opened.dir, opened.runs().cloned(), visit)
    }

    fn highest(&self, tree: TreeId) -> Option<Lsn> {
        self.opened(tree).tables().map(Table::get_highest_seqno).max().map(Lsn::new)
    }

    fn compact(&self, _tree: TreeId, _effort: Effort) -> Result<u64, BackendError> {
        Err(self.refusal())
    }

    fn files(&self, tree: TreeId) -> TreeFiles {
        let opened = self.opened(tree);
        TreeFiles {
            tables: opened.tables().count(),
            runs: opened.runs().count(),
            new_runs: opened.levels.first().map_or(0, Vec::len),
        }
    }

    fn bytes(&self, tree: TreeId) -> u64 {
        let opened = self.opened(tree);
        opened.tables().map(|table| table_bytes(&*self.files, table)).sum()
    }

    fn file_entries(&self, tree: TreeId) -> Vec<(PathBuf, u64)> {
        self.opened(tree).tables().map(file_entries).collect()
    }

    fn table_sums(&self, tree: TreeId) -> Vec<(PathBuf, u128)> {
        self.opened(tree).tables().map(table_sum).collect()
    }

    fn check_list(&self, tree: TreeId) -> Result<(), BackendError> {
        read_version_file(&*self.files, &self.opened(tree).dir).map(drop)
    }

    fn link_to(&self, _tree: TreeId, _to: &Path) -> Result<(), BackendError> {
        Err(self.refusal())
    }

    fn forget(&self, tree: TreeId) {
        self.trees.lock().remove(&tree);
    }
}
