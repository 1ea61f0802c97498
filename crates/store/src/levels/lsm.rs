//! `LsmStore`: trees kept by the crate lsm-tree, under rules that make it safe here.
//!
//! # Invariants
//! - R1. One counter for all trees, in the LSN domain: it is raised to f before tables of a flush at f are registered,
//!   and an entry's sequence number is its CSN. The counter of visible numbers is a dummy.
//! - R2. Level 0 of a tree never has more than [`RUNS_MAX`] runs: the crate writes their number as one byte, unchecked.
//! - R3. The caller avoids flushes smaller than [`crate::FLUSH_FLOOR_BYTES`] where it can: each costs seven syncs.
//! - R4. The version file is compared with its checksum before the crate opens a tree. The crate would not compare
//!   them, and deletes every table that the file does not name. A tree without its `current` file is refused, because
//!   the crate would start an empty one.
//! - R5. Keys begin with their family, 4 bytes big-endian: the crate panics on an empty key, and families of an atomic
//!   group share a tree.
//! - R6. The crate's ingestion, `drop_range` and memtables are never used, and a tree is in one thread at a time. Reads
//!   bypass its caches and its merge: each run is scanned by itself, so that a damaged block can be attributed to its
//!   file.
//! - R7. If the disk is full before the new version has its name, the tree is as before; after any other failure its
//!   state is unknown.
//!
//! This code uses parts of the crate that are hidden from its documentation, hence the exact version in the manifest of
//! the workspace. Checked by `rules_tests.rs` (each rule, and what happens without it) and `differential_tests.rs`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::{CfId, Lsn, codec::Reader};
use collie_env::{Access, Files, is_full, read_all};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, InternalValue, SequenceNumberCounter,
    Table, Tree, UserKey, ValueType,
    compaction::Leveled,
    config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry},
    table::Scanner,
};
use parking_lot::Mutex;

use crate::levels::{
    Compression, Edit, Entry, LevelOptions, RUNS_DUE, TreeId,
    backend::{BackendError, Effort, FileHash, LevelStore, TreeFiles, tree_dir},
};

/// Above every sequence number: old versions of tables and of entries are never read.
pub(super) const WATERMARK: u64 = (1 << 63) - 1;
const BLOOM_BITS_PER_KEY: f32 = 10.0;
const CURRENT: &str = "current";
pub(super) const TABLES: &str = "tables";
/// Length of the file `current`: version u64, xxh3-128 of the version file, kind of checksum (0).
const CURRENT_BYTES: u64 = 25;
/// Maximum length of a version file, enough for more than a million tables.
const VERSION_BYTES_MAX: u64 = 64 << 20;

/// The lsm-tree trees of a directory.
pub(crate) struct LsmStore {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: LevelOptions,
    /// The counter of R1.
    counter: SequenceNumberCounter,
    cache: Arc<Cache>,
    descriptors: Arc<DescriptorTable>,
    trees: Mutex<BTreeMap<TreeId, Arc<Opened>>>,
}

struct Opened {
    dir: PathBuf,
    tree: Tree,
}

impl fmt::Debug for LsmStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LsmStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl LsmStore {
    /// Creates a store for trees under `dir` on the operating system's disk.
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path, options: LevelOptions) -> Self {
        Self {
            files,
            dir: dir.to_owned(),
            options,
            counter: SequenceNumberCounter::default(),
            cache: Arc::new(Cache::with_capacity_bytes(options.cache_bytes)),
            descriptors: Arc::new(DescriptorTable::new(options.descriptors)),
            trees: Mutex::default(),
        }
    }

    fn opened(&self, tree: TreeId) -> Arc<Opened> {
        self.trees.lock().get(&tree).cloned().expect("callers open a tree before they use it")
    }

    fn open_tree(&self, tree: TreeId) -> Result<(), BackendError> {
        let dir = tree_dir(&self.dir, tree);
        let compression = match self.options.compression {
            Compression::Lz4 => CompressionType::Lz4,
            Compression::None => CompressionType::None,
        };
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS_PER_KEY));
        let opened = Config::new(&dir, self.counter.clone(), SequenceNumberCounter::default())
            .use_cache(self.cache.clone())
            .use_descriptor_table(Some(self.descriptors.clone()))
            .data_block_compression_policy(CompressionPolicy::all(compression))
            .filter_policy(FilterPolicy::all(bloom))
            .open();
        let tree_opened = match opened {
            Ok(AnyTree::Standard(tree)) => tree,
            Ok(AnyTree::Blob(_)) => unreachable!("key-value separation is not asked for"),
            Err(error) => return Err(judge_read(&dir, error)),
        };
        if let Some(highest) = tree_opened.get_highest_persisted_seqno() {
            self.counter.fetch_max(highest + 1);
        }
        self.trees.lock().insert(tree, Arc::new(Opened { dir, tree: tree_opened }));
        Ok(())
    }

    /// Classifies a failure of a call that adds or replaces tables (R7).
    fn failure(&self, opened: &Opened, error: lsm_tree::Error) -> BackendError {
        let path = opened.dir.clone();
        let source = match error {
            lsm_tree::Error::Io(source) => source,
            other => return BackendError::Damaged { path, what: describe(&other) },
        };
        if is_full(&source) && self.is_unchanged(opened) && self.sweep(opened).is_ok() {
            return BackendError::NoSpace { path };
        }
        BackendError::Failed { path, source }
    }

    /// Returns whether an open would take the version that is in memory.
    fn is_unchanged(&self, opened: &Opened) -> bool {
        let current = read_all(&*self.files, &opened.dir.join(CURRENT), CURRENT_BYTES);
        let named = current.ok().and_then(|bytes| decode_current(&bytes)).map(|(version, _)| version);
        named == Some(opened.tree.current_version().id())
    }

    /// Removes the tables that the version does not name: leftovers of a failed call.
    fn sweep(&self, opened: &Opened) -> io::Result<()> {
        let tables = opened.dir.join(TABLES);
        let version = opened.tree.current_version();
        for name in self.files.list(&tables)? {
            if !version.iter_tables().any(|table| table.id().to_string() == name) {
                self.files.remove(&tables.join(&name))?;
            }
        }
        Ok(())
    }

    /// Runs `call` and returns the bytes of the tables that it added.
    fn adding(&self, opened: &Opened, call: impl FnOnce(&Tree) -> lsm_tree::Result<()>) -> Result<u64, BackendError> {
        let before: Vec<u64> = opened.tree.current_version().iter_tables().map(Table::id).collect();
        call(&opened.tree).map_err(|error| self.failure(opened, error))?;
        let version = opened.tree.current_version();
        let added = version.iter_tables().filter(|table| !before.contains(&table.id()));
        Ok(added.map(|table| self.table_bytes(table)).sum())
    }

    fn table_bytes(&self, table: &Table) -> u64 {
        table_bytes(&*self.files, table)
    }
}

/// Returns the length of a table's file; the crate's own figure leaves out index, filter and meta blocks.
pub(super) fn table_bytes(files: &dyn Files, table: &Table) -> u64 {
    let len = files.open(&table.path, Access::Read).and_then(|file| file.len());
    len.unwrap_or(table.metadata.file_size)
}

/// Returns a table's file and its number of entries, including deletions and older entries of a key.
pub(super) fn file_entries(table: &Table) -> (PathBuf, u64) {
    (table.path.to_path_buf(), table.metadata.item_count)
}

/// Returns a table's file, and the checksum of all its bytes, taken while it was written.
pub(super) fn table_sum(table: &Table) -> (PathBuf, u128) {
    (table.path.to_path_buf(), table.checksum().into_u128())
}

/// Reads the version file of the tree in `dir` and makes the checks that the crate omits (R4). Returns its path too.
pub(super) fn read_version_file(files: &dyn Files, dir: &Path) -> Result<(PathBuf, Vec<u8>), BackendError> {
    let damaged = |path: &Path, what: &str| BackendError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let read = |path: &Path, limit| match read_all(files, path, limit) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(damaged(path, "the file is missing")),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(damaged(path, "the file is too long")),
        Err(error) => Err(BackendError::before_change(path, error)),
    };
    let current = dir.join(CURRENT);
    let bytes = read(&current, CURRENT_BYTES)?;
    let (version, checksum) = decode_current(&bytes).ok_or_else(|| damaged(&current, "not a version number"))?;
    let path = dir.join(format!("v{version}"));
    let bytes = read(&path, VERSION_BYTES_MAX)?;
    if FileHash::of(&bytes) != checksum {
        return Err(damaged(&path, "bad checksum of the list of tables"));
    }
    Ok((path, bytes))
}

/// Visits each live entry of the runs of the tree in `dir`; `runs` come newest first.
pub(super) fn scan_runs(
    dir: &Path,
    runs: impl Iterator<Item = VecDeque<Table>>,
    visit: &mut dyn FnMut(Entry<'_>),
) -> Result<(), BackendError> {
    let mut merge = Merge::default();
    for tables in runs {
        merge.add(RunScan { tables, scanner: None, path: Arc::new(dir.to_owned()) })?;
    }
    let mut last: Option<UserKey> = None;
    while let Some((item, path)) = merge.next()? {
        let key = item.key.user_key;
        if last.as_ref() == Some(&key) {
            continue;
        }
        let damaged = |what: &str| BackendError::Damaged { path: path.to_path_buf(), what: what.to_owned() };
        match item.key.value_type {
            ValueType::Value => {
                let (cf, key) = key.split_first_chunk().ok_or_else(|| damaged("a key without its family"))?;
                let (cf, csn) = (CfId::new(u32::from_be_bytes(*cf)), Lsn::new(item.key.seqno));
                visit(Entry { cf, key, value: &item.value, csn });
            }
            ValueType::Tombstone => {}
            ValueType::WeakTombstone | ValueType::Indirection => {
                return Err(damaged("an entry of a kind that is never written"));
            }
        }
        last = Some(key);
    }
    Ok(())
}

fn describe(error: &lsm_tree::Error) -> String {
    match error {
        lsm_tree::Error::ChecksumMismatch { .. } => "bad checksum".to_owned(),
        lsm_tree::Error::Unrecoverable => "tables are missing or their list cannot be read".to_owned(),
        lsm_tree::Error::Io(source) => source.to_string(),
        other => format!("unreadable ({other})"),
    }
}

/// Classifies a failed read: missing bytes are damage, an error of the disk is not.
pub(super) fn judge_read(path: &Path, error: lsm_tree::Error) -> BackendError {
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    match error {
        lsm_tree::Error::Io(source)
            if !matches!(source.kind(), NotFound | UnexpectedEof | InvalidData | InvalidInput) =>
        {
            BackendError::Failed { path: path.to_owned(), source }
        }
        error => BackendError::Damaged { path: path.to_owned(), what: describe(&error) },
    }
}

/// Returns the version and the checksum.
fn decode_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut reader = Reader::new(bytes);
    let (version, checksum, kind) = (reader.u64().ok()?, reader.u128().ok()?, reader.u8().ok()?);
    (kind == 0 && reader.is_empty()).then_some((version, checksum))
}

/// Returns the key as the crate stores it (R5).
fn prefixed(cf: CfId, key: &[u8]) -> UserKey {
    UserKey::from([&cf.get().to_be_bytes()[..], key].concat())
}

impl LevelStore for LsmStore {
    fn create(&self, tree: TreeId) -> Result<(), BackendError> {
        let dir = tree_dir(&self.dir, tree);
        self.files.create_dir_all(&dir).map_err(|source| BackendError::before_change(&dir, source))?;
        self.open_tree(tree)
    }

    fn open(&self, tree: TreeId) -> Result<(), BackendError> {
        let dir = tree_dir(&self.dir, tree);
        read_version_file(&*self.files, &dir)?;
        let io = |source| BackendError::before_change(&dir, source);
        // These are the crate's own temporary files; the crate cleans up the rest.
        for name in self.files.list(&dir).map_err(io)?.iter().filter(|name| name.starts_with(".tmp")) {
            self.files.remove(&dir.join(name)).map_err(io)?;
        }
        self.open_tree(tree)
    }

    fn apply<'a>(&self, tree: TreeId, f: Lsn, edits: &mut dyn Iterator<Item = Edit<'a>>) -> Result<u64, BackendError> {
        let opened = self.opened(tree);
        self.counter.fetch_max(f.get());
        let items = edits.map(|edit| {
            let kind = if edit.value.is_some() { ValueType::Value } else { ValueType::Tombstone };
            let key = prefixed(edit.cf, edit.key);
            Ok(InternalValue::from_components(key, edit.value.unwrap_or(&[]), edit.csn.get(), kind))
        });
        self.adding(&opened, |tree| match tree.flush_to_tables(items)? {
            Some((tables, _)) if !tables.is_empty() => tree.register_tables(&tables, None, None, &[], WATERMARK),
            _ => Ok(()),
        })
    }

    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError> {
        let opened = self.opened(tree);
        let version = opened.tree.current_version();
        let runs = version.iter_levels().flat_map(|level| level.iter());
        scan_runs(&opened.dir, runs.map(|run| run.iter().cloned().collect()), visit)
    }

    fn highest(&self, tree: TreeId) -> Option<Lsn> {
        self.opened(tree).tree.get_highest_persisted_seqno().map(Lsn::new)
    }

    fn compact(&self, tree: TreeId, effort: Effort) -> Result<u64, BackendError> {
        let opened = self.opened(tree);
        let target = self.options.table_bytes;
        match effort {
            Effort::Full if self.files(tree).runs <= 1 && opened.tree.tombstone_count() == 0 => Ok(0),
            Effort::Full => self.adding(&opened, |tree| tree.major_compact(target, WATERMARK)),
            Effort::Due => {
                let strategy = Leveled::default().with_l0_threshold(RUNS_DUE).with_table_target_size(target);
                let strategy = Arc::new(strategy);
                let mut bytes = 0;
                loop {
                    let before = opened.tree.current_version().id();
                    bytes += self.adding(&opened, |tree| tree.compact(strategy.clone(), WATERMARK))?;
                    if opened.tree.current_version().id() == before {
                        return Ok(bytes);
                    }
                }
            }
        }
    }

    fn files(&self, tree: TreeId) -> TreeFiles {
        let version = self.opened(tree).tree.current_version();
        TreeFiles {
            tables: version.table_count(),
            runs: version.iter_levels().map(|level| level.run_count()).sum(),
            new_runs: version.l0().run_count(),
        }
    }

    fn bytes(&self, tree: TreeId) -> u64 {
        let version = self.opened(tree).tree.current_version();
        version.iter_tables().map(|table| self.table_bytes(table)).sum()
    }

    fn file_entries(&self, tree: TreeId) -> Vec<(PathBuf, u64)> {
        let version = self.opened(tree).tree.current_version();
        version.iter_tables().map(file_entries).collect()
    }

    fn table_sums(&self, tree: TreeId) -> Vec<(PathBuf, u128)> {
        let version = self.opened(tree).tree.current_version();
        version.iter_tables().map(table_sum).collect()
    }

    fn check_list(&self, tree: TreeId) -> Result<(), BackendError> {
        let opened = self.opened(tree);
        read_version_file(&*self.files, &opened.dir)?;
        if self.is_unchanged(&opened) {
            return Ok(());
        }
        let what = "it names another list of tables than the newest".to_owned();
        Err(BackendError::Damaged { path: opened.dir.join(CURRENT), what })
    }

    fn link_to(&self, tree: TreeId, to: &Path) -> Result<(), BackendError> {
        let opened = self.opened(tree);
        let version = opened.tree.current_version();
        let link = || -> io::Result<()> {
            self.files.create_dir_all(&to.join(TABLES))?;
            for table in version.iter_tables() {
                let name = Path::new(TABLES).join(table.id().to_string());
                self.files.hard_link(&opened.dir.join(&name), &to.join(&name))?;
            }
            self.files.sync_dir(&to.join(TABLES))?;
            // Copies, since the crate overwrites these in place.
            for name in [format!("v{}", version.id()), CURRENT.to_owned()] {
                let bytes = read_all(&*self.files, &opened.dir.join(&name), VERSION_BYTES_MAX)?;
                let copy = self.files.create(&to.join(&name))?;
                copy.write_at(0, &bytes)?;
                copy.sync_data()?;
            }
            self.files.sync_dir(to)
        };
        link().map_err(|source| BackendError::before_change(to, source))
    }

    fn forget(&self, tree: TreeId) {
        self.trees.lock().remove(&tree);
    }
}

/// A scan of the tables of one run, one after the other.
struct RunScan {
    tables: VecDeque<Table>,
    scanner: Option<Scanner>,
    /// The table being read.
    path: Arc<PathBuf>,
}

impl RunScan {
    fn next(&mut self) -> Result<Option<InternalValue>, BackendError> {
        loop {
            if let Some(item) = self.scanner.as_mut().and_then(Iterator::next) {
                return item.map(Some).map_err(|error| self.damaged(error));
            }
            let Some(table) = self.tables.pop_front() else { return Ok(None) };
            self.path = table.path.clone();
            self.scanner = Some(table.scan().map_err(|error| self.damaged(error))?);
        }
    }

    fn damaged(&self, error: lsm_tree::Error) -> BackendError {
        judge_read(&self.path, error)
    }
}

/// Runs merged by key, newest entry of a key first.
#[derive(Default)]
struct Merge {
    runs: Vec<RunScan>,
    /// Next key of each run that has one: by key, then newest entry first, then newer run first.
    order: BinaryHeap<Reverse<(UserKey, Reverse<u64>, usize)>>,
    heads: Vec<Option<InternalValue>>,
}

impl Merge {
    /// Adds a run that is older than all added before.
    fn add(&mut self, run: RunScan) -> Result<(), BackendError> {
        self.runs.push(run);
        self.heads.push(None);
        self.advance(self.runs.len() - 1)
    }

    fn advance(&mut self, at: usize) -> Result<(), BackendError> {
        self.heads[at] = self.runs[at].next()?;
        if let Some(item) = &self.heads[at] {
            self.order.push(Reverse((item.key.user_key.clone(), Reverse(item.key.seqno), at)));
        }
        Ok(())
    }

    /// Returns the next entry and its table.
    fn next(&mut self) -> Result<Option<(InternalValue, Arc<PathBuf>)>, BackendError> {
        let Some(Reverse((_, _, at))) = self.order.pop() else { return Ok(None) };
        let item = self.heads[at].take().expect("what is in the order has a head");
        let path = self.runs[at].path.clone();
        self.advance(at)?;
        Ok(Some((item, path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collie_env::Env;

    /// Goal: R7: if the disk is full before the new version has its name, the tree is as before, without leftovers of
    /// the call; once an open may take another version, nothing is removed and the tree's state is unknown; the same
    /// holds after any other error. Method: a partial table next to a tree, and each failure classified.
    #[test]
    fn full_disk_is_harmless_only_before_the_new_version_has_its_name() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let store = LsmStore::new(env.files.clone(), dir.path(), LevelOptions::default());
        let tree = TreeId::new(1);
        store.create(tree).unwrap();
        let edit = Edit { cf: CfId::new(16), key: b"k", csn: Lsn::new(20), value: Some(b"v") };
        store.apply(tree, Lsn::new(30), &mut std::iter::once(edit)).unwrap();
        let opened = store.opened(tree);
        let tables = opened.dir.join(TABLES);
        let part = tables.join("99");
        let full = || lsm_tree::Error::Io(io::ErrorKind::StorageFull.into());
        let names = || env.files.list(&tables).unwrap().len();

        env.files.create(&part).unwrap();
        let eio = store.failure(&opened, lsm_tree::Error::Io(io::Error::other("the disk is broken")));
        assert!(matches!(eio, BackendError::Failed { .. }), "{eio:?}");
        assert_eq!(names(), 2);
        let harmless = store.failure(&opened, full());
        assert!(matches!(harmless, BackendError::NoSpace { .. }), "{harmless:?}");
        assert_eq!(names(), 1, "the part is removed, the table is not");

        env.files.create(&part).unwrap();
        let current = env.files.open(&opened.dir.join(CURRENT), Access::ReadWrite).unwrap();
        current.write_at(0, &77_u64.to_le_bytes()).unwrap();
        let unknown = store.failure(&opened, full());
        assert!(matches!(unknown, BackendError::Failed { .. }), "{unknown:?}");
        assert_eq!(names(), 2, "what the other version may name stays");
    }
}
