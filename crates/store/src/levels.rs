//! [`Levels`]: the LSM trees of a directory on disk, and the record of what was flushed to them.
//!
//! A tree holds the newest committed state of the keys of one family, or of an atomic group of families, below the
//! position of its last flush. It is the base image that lets the log be cut. This module knows no transactions, no
//! rows in memory and no log: positions and counts come from the caller, which must load each tree before flushing to
//! it.
//!
//! # Invariants
//! - V1. If [`Levels::flush`] returned success, its effect survives a power cut: `FlushBegin`, then tables, then
//!   `FlushDone`, each durable before the next. (S4 of the design.)
//! - V2. A crash in between leaves the tables as before or as after the flush, and the next load tells which: every
//!   edit of a flush lies at or above the position of the recorded flush before it, so a tree with an entry there
//!   contains the flush, and the flush is recorded. After an error `flush_lsn` is the older position until that load.
//!   After a crash it must be the position of the tables themselves: a write that the log lacks, or has without its
//!   newest deletion, must not be replayed over tables that are newer.
//! - V3. No table holds an entry at or above the position of the last flush begun (half of S1; the caller ensures that
//!   this position is durable).
//! - V4. [`Levels::load`] counts live keys and compares the count with MANIFEST: a tree that lacks tables is refused.
//! - V5. One job per tree at a time (S10); jobs of different trees run in parallel. A checkpoint waits for all.
//! - V6. A tree whose state is unknown, after an I/O error or a panic in the table library, takes no job until it is
//!   opened again or rewritten ([`Levels::replace_tree`]). Memory and log have its rows.
//! - V7. An open deletes directories of trees that MANIFEST does not name, and refuses if a named tree is missing.
//! - V8. A family that joins a tree has no commit below the position of the tree's last flush that the caller did not
//!   pass to that flush. So the position holds for this family too.
//! - V9. Levels opened for reading write nothing: [`Levels::load`] settles interrupted flushes in memory only, and
//!   calls that would change something are refused.
//!
//! Locks, in this order: `pause`, the job of one tree, `manifest`, `next`, `counters`. `failed` is held alone or under
//! a job.
//!
//! Checked by `levels/levels_tests.rs`, `crash_tests.rs` (V1, V2, V7 at every call on a simulated disk),
//! `rules_tests.rs` (the rules of `lsm.rs`), `lsm_crash_tests.rs` (V2, and merges, on lsm-tree's files) and
//! `differential_tests.rs` (lsm-tree against the map).

mod backend;
mod calls;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod differential_tests;
mod error;
#[cfg(test)]
mod levels_tests;
mod lsm;
#[cfg(test)]
mod lsm_crash_tests;
mod lsm_view;
pub(crate) mod manifest;
mod map;
mod replace;
#[cfg(test)]
mod rules_tests;
mod sums;
#[cfg(test)]
mod sums_tests;
mod view;

use std::{
    any::Any,
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::{CfId, Lsn};
use collie_env::{Env, Files};
use collie_obs::{Compact, word};
use collie_sync::mutant;
use parking_lot::{Mutex, MutexGuard, RwLock};

use self::{
    backend::{BackendError, Effort, LevelStore, tree_dir, tree_of_name},
    lsm::LsmStore,
    map::MapStore,
};
pub use self::{
    calls::{
        Compacted, Compression, Edit, Entry, Flushed, LevelOptions, LevelStat, LevelsFound, LevelsNoted, TreeId,
        TreeStat, TreeState, TreeWritten,
    },
    error::LevelsError,
    replace::{AddRows, Replaced},
    sums::{LevelSums, TableCheck},
};
use crate::{
    levels::manifest::CARRY_BYTES_MAX, levels::manifest::Flush, levels::manifest::KnownTree,
    levels::manifest::Manifest, levels::manifest::Record, levels::manifest::Tree,
};

/// Minimum size of an automatic flush, in bytes of entries: its seven syncs cost the same for one row as for a hundred
/// thousand. The caller that decides to flush applies it; [`Levels::flush`] takes any size.
pub const FLUSH_FLOOR_BYTES: u64 = 16 << 20;
/// Number of runs in level 0 at which a compaction is due.
const RUNS_DUE: u8 = 8;
/// Number of runs in level 0 at which a flush compacts first: 256 runs would be recorded as none.
const RUNS_MAX: usize = 64;
const KEY_BYTES_MAX: usize = 65_531;
const VALUE_BYTES_MAX: usize = 64 << 20;

/// The LSM levels of a directory. See the module's documentation.
#[derive(Debug)]
pub struct Levels {
    files: Arc<dyn Files>,
    dir: PathBuf,
    backend: Box<dyn LevelStore>,
    /// Held shared by jobs and exclusively by a checkpoint.
    pause: RwLock<()>,
    jobs: Mutex<BTreeMap<TreeId, Arc<Mutex<Job>>>>,
    manifest: Mutex<Manifest>,
    /// Number of keys that loading found, by family.
    loaded: Mutex<BTreeMap<CfId, u64>>,
    counters: Mutex<TreeWritten>,
    /// The figures of each tree as last reported.
    told: Mutex<BTreeMap<TreeId, TreeStat>>,
    /// Why trees take no job (V6).
    failed: Mutex<BTreeMap<TreeId, String>>,
    /// The next tree id is drawn at or above this one: each lower id is or was a tree's, or was drawn since the open.
    next: Mutex<TreeId>,
    /// Opened for reading (V9).
    to_read: bool,
}

/// State that successive jobs of a tree share.
#[derive(Debug, Default)]
struct Job {
    loaded: bool,
    written: TreeWritten,
}

impl Levels {
    /// Opens the LSM levels in `dir`, which is created if missing and must be used by nothing else. Deletes directories
    /// of trees that a crash left without a name in MANIFEST.
    ///
    /// On the operating system's disk lsm-tree keeps the tables; on any other (`Files::is_real`) a map does, which
    /// writes a whole tree with each flush.
    ///
    /// # Durability
    /// MANIFEST is rewritten if there is room for it; an open after a crash at any point finds the same state.
    ///
    /// # Errors
    /// `ManifestDamaged`, `NewerFormat`, `TreeDamaged` (a named tree is missing or cannot be opened), `NoSpace`, `Io`.
    /// Then no named tree has lost anything.
    pub fn open(env: &Env, dir: &Path, options: &LevelOptions) -> Result<(Self, LevelsFound), LevelsError> {
        let backend: Box<dyn LevelStore> = if env.files.is_real() {
            Box::new(LsmStore::new(env.files.clone(), dir, *options))
        } else {
            Box::new(MapStore::new(env.files.clone(), dir))
        };
        Self::open_with(env, dir, backend)
    }

    fn open_with(env: &Env, dir: &Path, backend: Box<dyn LevelStore>) -> Result<(Self, LevelsFound), LevelsError> {
        let files = env.files.clone();
        files.create_dir_all(dir).map_err(|error| LevelsError::io("create", dir, error))?;
        let names = files.list(dir).map_err(|error| LevelsError::io("list", dir, error))?;
        let present: Vec<TreeId> = names.iter().filter_map(|name| tree_of_name(name)).collect();
        let (manifest, found) = Manifest::open(env, dir, present.is_empty())?;
        let named = manifest.state().trees.clone();
        let mut levels = Self {
            files,
            dir: dir.to_owned(),
            backend,
            pause: RwLock::default(),
            jobs: Mutex::default(),
            manifest: Mutex::new(manifest),
            loaded: Mutex::default(),
            counters: Mutex::default(),
            told: Mutex::default(),
            failed: Mutex::default(),
            next: Mutex::new(TreeId::new(0)),
            to_read: false,
        };
        for known in named.values() {
            let opened = levels.guarded(known, |backend| backend.open(known.tree.id));
            let opened = opened.map_err(|error| levels.refuse(known, error));
            opened.map_err(|error| Self::blame(&*levels.files, dir, known, error))?;
            levels.jobs.get_mut().insert(known.tree.id, Arc::default());
        }
        let mut deleted_dirs = Vec::new();
        for tree in present.iter().filter(|tree| !named.contains_key(tree)) {
            let path = tree_dir(dir, *tree);
            levels.files.remove_dir_all(&path).map_err(|error| LevelsError::io("remove", &path, error))?;
            deleted_dirs.push(path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
        }
        if !deleted_dirs.is_empty() {
            levels.files.sync_dir(dir).map_err(|error| LevelsError::io("sync", dir, error))?;
        }
        let interrupted = named.values().filter(|known| !known.begun.is_empty()).map(|known| known.tree.id).collect();
        let (created, torn_bytes) = (found.created, found.torn_bytes);
        Ok((levels, LevelsFound { created, deleted_dirs, torn_bytes, interrupted }))
    }

    /// Returns whether the levels are on the operating system's disk.
    pub fn is_real(&self) -> bool {
        self.files.is_real()
    }

    /// Returns the trees, by id.
    pub fn trees(&self) -> Vec<TreeState> {
        self.manifest.lock().state().trees.values().map(state_of).collect()
    }

    /// Returns the tree of a family; `None` before [`Levels::create_tree`] and after [`Levels::drop_cf`].
    pub fn tree_of(&self, cf: CfId) -> Option<TreeId> {
        self.manifest.lock().state().tree_of(cf)
    }

    /// Creates an empty tree for `cfs`, ascending: one family, or the members of an atomic group. It needs no load.
    ///
    /// # Durability
    /// Durable on return. After an error or a crash the tree exists, empty, or does not exist.
    ///
    /// # Errors
    /// `InvalidCall` if a family has a tree, or if the tree of its former group may still hold its keys; `NoSpace`,
    /// `Io`, `TreeFailed`.
    pub fn create_tree(&self, cfs: &[CfId]) -> Result<TreeId, LevelsError> {
        if cfs.is_empty() || !cfs.is_sorted_by(|a, b| a < b) {
            return Err(LevelsError::InvalidCall { what: "families must be ascending, and some" });
        }
        self.check_writable()?;
        let _pause = self.pause.read();
        let mut manifest = self.manifest.lock();
        let taken = |known: &KnownTree| cfs.iter().any(|cf| known.tree.has_or_had(*cf));
        if manifest.state().trees.values().any(taken) {
            return Err(LevelsError::InvalidCall { what: "a family has a tree" });
        }
        let id = self.draw_id(&manifest);
        let tree = Tree::empty(id, cfs.to_vec());
        let known = KnownTree::new(tree.clone());
        let made = self.guarded(&known, |backend| backend.create(id)).map_err(|error| self.refuse(&known, error));
        let made = made.and_then(|()| {
            self.files.sync_dir(&self.dir).map_err(|error| LevelsError::io("sync", &self.dir, error))?;
            manifest.append(&Record::Tree(tree))
        });
        if let Err(error) = made {
            self.backend.forget(id); // if MANIFEST does not name it after all, the next open deletes its directory
            return Err(error);
        }
        self.jobs.lock().insert(id, Arc::new(Mutex::new(Job { loaded: true, ..Job::default() })));
        Ok(id)
    }

    /// Adds a family to the tree of its atomic group, without keys. It must have no commit below the tree's `flush_lsn`
    /// that the tables lack (V8).
    ///
    /// # Durability
    /// Durable on return. After an error or a crash the tree has it or not.
    ///
    /// # Errors
    /// `InvalidCall` if the family has a tree, or if the tree of its former group may still hold its keys; `NoSpace`,
    /// `Io`.
    pub fn add_family(&self, tree: TreeId, cf: CfId) -> Result<(), LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        let job = self.job(tree)?;
        let _job = job.lock();
        self.manifest.lock().append(&Record::FamilyAdded(tree, cf))
    }

    /// Returns one existing family of each tree that holds keys of dropped families: its next flush removes those keys.
    pub fn to_be_rewritten(&self) -> Vec<CfId> {
        let manifest = self.manifest.lock();
        let trees = manifest.state().trees.values().map(|known| &known.tree);
        trees.filter(|tree| !tree.dropped.is_empty()).filter_map(|tree| tree.cfs.first().copied()).collect()
    }

    /// Returns one existing family of each tree that failed and must be rewritten.
    pub fn to_be_replaced(&self) -> Vec<CfId> {
        let failed: Vec<TreeId> = self.failed.lock().keys().copied().collect();
        if failed.is_empty() {
            return Vec::new();
        }
        let manifest = self.manifest.lock();
        let trees = failed.iter().filter_map(|tree| manifest.state().trees.get(tree));
        trees.filter_map(|known| known.tree.cfs.first().copied()).collect()
    }

    /// Returns how many keys with a value loading found in a family; 0 before its tree was loaded.
    pub fn keys_loaded(&self, cf: CfId) -> u64 {
        self.loaded.lock().get(&cf).copied().unwrap_or(0)
    }

    /// Visits every live entry of a tree, ascending by (family, key), and compares their number with MANIFEST. Settles
    /// an interrupted flush: records it if the tables have it, forgets it if not (V2); so read `flush_lsn` after this
    /// call. Returns the number of entries visited.
    ///
    /// Every byte is checked against its checksum before its entry is visited, but damage further on is found only
    /// later: after an error discard all entries visited so far.
    ///
    /// # Errors
    /// `TreeDamaged`, `LiveKeysDiffer`, `TreeFailed`; `Io` (also of MANIFEST, if there is something to settle).
    pub fn load(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<u64, LevelsError> {
        let _pause = self.pause.read();
        let job = self.job(tree)?;
        let mut job = job.lock();
        let known = self.known(tree)?;
        self.check_failed(tree)?;
        let (mut found, mut visited, mut above) = (0_u64, 0_u64, None);
        let ceiling = known.ceiling();
        let mut keys: Vec<(CfId, u64)> = Vec::new();
        let scanned = self.guarded(&known, |backend| {
            backend.scan(tree, &mut |entry| {
                found += 1;
                if entry.csn >= ceiling {
                    above.get_or_insert(entry.csn);
                } else if known.tree.cfs.binary_search(&entry.cf).is_ok() {
                    visited += 1;
                    match keys.last_mut().filter(|(cf, _)| *cf == entry.cf) {
                        Some((_, count)) => *count += 1,
                        None => keys.push((entry.cf, 1)),
                    }
                    visit(entry);
                }
            })
        });
        scanned.map_err(|error| self.refuse(&known, error))?;
        let path = tree_dir(&self.dir, tree);
        let (cfs, flush_lsn) = (known.tree.cfs.clone(), known.tree.flush.lsn);
        // V3: no flush of ours left an entry at or above the last one begun.
        if let Some(csn) = above {
            let what = format!("an entry committed at {csn}, at or above the last flush");
            return Err(LevelsError::TreeDamaged { path, cfs, flush_lsn, what });
        }
        // V2: the highest entry tells whether an interrupted flush took effect. V4: the count must fit.
        let highest = self.backend.highest(tree);
        let applied = known.applied(highest).filter(|_| !mutant!("INTERRUPTED_FLUSH_FORGOTTEN"));
        let expected = known.possible_live_keys();
        if !expected.contains(&found) || applied.is_some_and(|flush| flush.live_keys != found) {
            return Err(LevelsError::LiveKeysDiffer { path, cfs, flush_lsn, expected, found });
        }
        // The outcome is settled before the next flush or merge can change what the tables tell.
        if let Some(flush) = applied {
            self.manifest.lock().settle(&Record::Done(tree, flush))?;
        } else if !known.begun.is_empty() {
            self.manifest.lock().settle(&Record::Settled(tree, found))?;
        }
        job.loaded = true;
        self.loaded.lock().extend(keys);
        Ok(visited)
    }

    /// Adds the newest states below `f` of the keys that changed since the last flush, and records that every commit
    /// below `f` to the tree's families is in the tables. `f` must be durable in the log. `live_keys_after` is the
    /// number of keys of the tree's existing families that have a value afterwards.
    ///
    /// `edits` ascend strictly by (family, key) and lie below `f`. An edit may repeat an entry of the tables, and may
    /// delete a key that they lack. After an error the next flush must contain the edits of this one again, in their
    /// newest state, with a delete for each key that no longer has a value; `live_keys_after` never depends on whether
    /// the failed flush took effect.
    ///
    /// # Durability
    /// Durable on return (V1). After an error or a crash the tables hold all of the flush or none; `flush_lsn` is the
    /// older one.
    ///
    /// # Progress
    /// Waits for the tree's other jobs and for a checkpoint; compacts first if the tree has too many runs.
    ///
    /// # Errors
    /// `InvalidCall`: nothing was done. `NoSpace` and `Io` of MANIFEST: the caller may try again. `TreeFailed` after
    /// other failures in the table library. `TreeDamaged` if the tables to be merged are damaged.
    pub fn flush(
        &self,
        tree: TreeId,
        f: Lsn,
        edits: &[Edit<'_>],
        live_keys_after: u64,
    ) -> Result<Flushed, LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        let job = self.job(tree)?;
        let mut job = job.lock();
        let known = self.known(tree)?;
        self.check_failed(tree)?;
        check_flush(&known, &job, f, edits, live_keys_after)?;
        let flush = Flush { lsn: f, live_keys: live_keys_after };
        let garbage = self.keys_of_dropped(&known)?;
        let mut table_bytes = 0;
        // The crate counts level-0 runs in one byte (R2).
        if !edits.is_empty() || !garbage.is_empty() {
            if self.backend.files(tree).new_runs >= RUNS_MAX {
                self.run_compaction(&mut job, &known, Effort::Due)?;
            }
            if self.backend.files(tree).new_runs >= RUNS_MAX {
                self.run_compaction(&mut job, &known, Effort::Full)?;
            }
            // V1: each of the three steps is durable before the next begins.
            self.manifest.lock().append(&Record::Begin(tree, flush))?;
            // The position of these deletes is the byte before f: no commit begins there, and V2 and V3 hold for them
            // too.
            let csn = Lsn::new(f.get() - 1);
            let deletes = garbage.iter().map(|(cf, key)| Edit { cf: *cf, key, csn, value: None });
            let mut all: Vec<Edit<'_>> = deletes.chain(edits.iter().copied()).collect();
            all.sort_unstable_by_key(|edit| (edit.cf, edit.key));
            if mutant!("FLUSH_DONE_FIRST") {
                self.manifest.lock().append(&Record::Done(tree, flush))?;
            }
            let applied = self.guarded(&known, |backend| backend.apply(tree, f, &mut all.iter().copied()));
            table_bytes = applied.map_err(|error| self.fail(&known, error))?;
        }
        self.manifest.lock().append(&Record::Done(tree, flush))?;
        for written in [&mut job.written, &mut *self.counters.lock()] {
            written.flushes += 1;
            written.flush_bytes += table_bytes;
        }
        let files = self.backend.files(tree);
        let compaction_due = files.new_runs >= usize::from(RUNS_DUE);
        Ok(Flushed { table_bytes, runs: files.runs, new_runs: files.new_runs, compaction_due })
    }

    /// Merges a tree into one run that holds exactly one entry per live key. Its live entries stay the same.
    ///
    /// # Errors
    /// `InvalidCall`, also after a failed flush; `NoSpace`, `TreeFailed`, `TreeDamaged`. None of them loses recorded
    /// data.
    pub fn compact(&self, tree: TreeId) -> Result<Compacted, LevelsError> {
        self.compact_with(tree, Effort::Full)
    }

    /// Merges runs of a tree as far as the shape of its levels requires. A background thread calls this if
    /// [`Flushed::compaction_due`] is set.
    ///
    /// # Errors
    /// As [`Levels::compact`].
    pub fn compact_due(&self, tree: TreeId) -> Result<Compacted, LevelsError> {
        self.compact_with(tree, Effort::Due)
    }

    fn compact_with(&self, tree: TreeId, effort: Effort) -> Result<Compacted, LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        let job = self.job(tree)?;
        let mut job = job.lock();
        let known = self.known(tree)?;
        self.check_failed(tree)?;
        if !known.begun.is_empty() {
            // A merge may remove deletions from the tables by which the next load would recognize the flush (V2).
            return Err(LevelsError::InvalidCall {
                what: "a tree whose last flush failed is merged after the next one",
            });
        }
        let table_bytes = self.run_compaction(&mut job, &known, effort)?;
        Ok(Compacted { table_bytes, runs: self.backend.files(tree).runs })
    }

    /// Drops a family's rows: together with the tree if the family is its only one; otherwise by a mark, and the next
    /// flush of the group deletes its keys. A family without a tree is not an error.
    ///
    /// # Durability
    /// Durable on return. The space of a tree is freed at once; files that cannot be deleted now are deleted at the
    /// next open.
    ///
    /// # Errors
    /// `NoSpace` and `Io` of MANIFEST.
    pub fn drop_cf(&self, cf: CfId) -> Result<(), LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        loop {
            let Some(tree) = self.tree_of(cf) else { return Ok(()) };
            let Ok(job) = self.job(tree) else { continue };
            let _job = job.lock();
            if self.tree_of(cf) != Some(tree) {
                continue; // the tree was rewritten in between
            }
            if self.known(tree)?.tree.cfs != [cf] {
                return self.manifest.lock().append(&Record::FamilyDropped(tree, cf));
            }
            self.manifest.lock().append(&Record::TreeDropped(tree))?;
            self.jobs.lock().remove(&tree);
            self.told.lock().remove(&tree);
            self.failed.lock().remove(&tree);
            self.backend.forget(tree);
            // MANIFEST no longer names it: the next open deletes what remains.
            let _left_for_the_next_open = self.remove_tree_dir(tree);
            return Ok(());
        }
    }

    /// Records that the log below `start` is no longer needed, together with facts from it that its owner must keep:
    /// `carry`, at most 256 KiB, replaces the previous one. If `start` is lower than the recorded one, the latter
    /// stays.
    ///
    /// # Durability
    /// Durable on return: the caller may release log files afterwards.
    ///
    /// # Errors
    /// `InvalidCall` above 256 KiB; `NoSpace`, `Io`.
    pub fn note_log_start(&self, start: Lsn, carry: &[u8]) -> Result<(), LevelsError> {
        self.check_writable()?;
        if carry.len() > CARRY_BYTES_MAX {
            return Err(LevelsError::InvalidCall { what: "too many bytes to carry" });
        }
        let mut manifest = self.manifest.lock();
        let start = start.max(manifest.state().log_start);
        manifest.append(&Record::LogStart(start, carry.to_vec()))
    }

    /// Returns what MANIFEST in `dir` says about the log. Opens no tree and writes nothing.
    ///
    /// # Errors
    /// `ManifestDamaged`, `NewerFormat`, `Io`.
    pub fn noted_in(env: &Env, dir: &Path) -> Result<LevelsNoted, LevelsError> {
        let contents = Manifest::read(&*env.files, dir)?;
        let trees = contents.iter().flat_map(|contents| contents.state.trees.values());
        let flushed = trees.map(KnownTree::ceiling).max().unwrap_or(Lsn::ZERO);
        Ok(LevelsNoted { log_start: contents.map_or(Lsn::FIRST, |contents| contents.state.log_start), flushed })
    }

    /// Returns the position from which on the log is needed; `Lsn::FIRST` before the first note.
    pub fn log_start(&self) -> Lsn {
        self.manifest.lock().state().log_start
    }

    /// Returns the facts that are carried from the log below its start.
    pub fn log_carry(&self) -> Vec<u8> {
        self.manifest.lock().state().carry.clone()
    }

    /// Copies the levels as they are to `dir`, which must be new or empty and on the same file system: tables become
    /// hard links. Jobs wait until it is done.
    ///
    /// # Durability
    /// Durable on return, except for the name of `dir` itself if the caller created it. After an error or a crash the
    /// contents of `dir` are undefined.
    ///
    /// # Errors
    /// `InvalidCall` if `dir` is not empty; `TreeFailed` if a tree's state is unknown; `NoSpace`, `Io`.
    pub fn checkpoint(&self, dir: &Path) -> Result<(), LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.write();
        self.files.create_dir_all(dir).map_err(|error| LevelsError::io("create", dir, error))?;
        let names = self.files.list(dir).map_err(|error| LevelsError::io("list", dir, error))?;
        if !names.is_empty() {
            return Err(LevelsError::InvalidCall { what: "the directory of a checkpoint must be empty" });
        }
        let known: Vec<KnownTree> = self.manifest.lock().state().trees.values().cloned().collect();
        for known in &known {
            let tree = known.tree.id;
            self.check_failed(tree)?;
            let to = tree_dir(dir, tree);
            self.files.create_dir_all(&to).map_err(|error| LevelsError::io("create", &to, error))?;
            let linked = self.guarded(known, |backend| backend.link_to(tree, &to));
            linked.map_err(|error| self.refuse(known, error))?;
        }
        // MANIFEST comes last: an open refuses an incomplete checkpoint, since it has none.
        self.manifest.lock().copy_to(dir)?;
        self.files.sync_dir(dir).map_err(|error| LevelsError::io("sync", dir, error))
    }

    /// Returns the counters and the trees.
    pub fn stat(&self) -> LevelStat {
        let _pause = self.pause.read();
        self.stat_of(|job| Some(job.lock()))
    }

    /// Returns the counters and the trees without waiting for jobs: for a busy tree, the tables, runs, bytes and
    /// counters are those last reported.
    pub fn stat_now(&self) -> LevelStat {
        let pause = self.pause.try_read();
        self.stat_of(|job| pause.as_ref().and_then(|_| job.try_lock()))
    }

    fn stat_of(&self, lock: impl for<'l> Fn(&'l Mutex<Job>) -> Option<MutexGuard<'l, Job>>) -> LevelStat {
        let jobs = self.jobs.lock().clone();
        let (known, (manifest_bytes, manifest_rewrites)) = {
            let manifest = self.manifest.lock();
            (manifest.state().trees.values().cloned().collect::<Vec<_>>(), manifest.stat())
        };
        let mut trees = Vec::new();
        for known in &known {
            let Some(job) = jobs.get(&known.tree.id) else { continue };
            let before = TreeStat {
                state: state_of(known),
                tables: 0,
                runs: 0,
                bytes: 0,
                written: TreeWritten::default(),
                failed: None,
            };
            // The files of a busy tree change.
            let Some(job) = lock(job) else {
                let told = self.told.lock().get(&known.tree.id).cloned().unwrap_or(before.clone());
                trees.push(TreeStat { state: before.state, ..told });
                continue;
            };
            let Ok(state) = self.known(known.tree.id).map(|known| state_of(&known)) else { continue };
            let failed = self.failure(known.tree.id);
            let (files, bytes) = match &failed {
                None => (self.backend.files(known.tree.id), self.backend.bytes(known.tree.id)),
                Some(_) => Default::default(),
            };
            let (tables, runs, written) = (files.tables, files.runs, job.written);
            let stat = TreeStat { state, tables, runs, bytes, written, failed };
            self.told.lock().insert(known.tree.id, stat.clone());
            trees.push(stat);
        }
        let counters = self.counters.lock();
        LevelStat {
            trees,
            flushes: counters.flushes,
            flush_bytes: counters.flush_bytes,
            compactions: counters.compactions,
            compaction_bytes: counters.compaction_bytes,
            manifest_bytes,
            manifest_rewrites,
        }
    }

    fn job(&self, tree: TreeId) -> Result<Arc<Mutex<Job>>, LevelsError> {
        self.jobs.lock().get(&tree).cloned().ok_or(LevelsError::InvalidCall { what: "there is no such tree" })
    }

    fn known(&self, tree: TreeId) -> Result<KnownTree, LevelsError> {
        let manifest = self.manifest.lock();
        let known = manifest.state().trees.get(&tree).cloned();
        known.ok_or(LevelsError::InvalidCall { what: "there is no such tree" })
    }

    fn check_failed(&self, tree: TreeId) -> Result<(), LevelsError> {
        self.failure(tree).map_or(Ok(()), |why| Err(LevelsError::TreeFailed { tree, why }))
    }

    fn run_compaction(&self, job: &mut Job, known: &KnownTree, effort: Effort) -> Result<u64, LevelsError> {
        let span = collie_obs::start::<Compact>();
        let before = span.as_ref().map(|_| (self.backend.bytes(known.tree.id), self.backend.files(known.tree.id)));
        let bytes = self.guarded(known, |backend| backend.compact(known.tree.id, effort));
        let bytes = bytes.map_err(|error| self.fail(known, error))?;
        if let (Some(span), Some((bytes_in, files))) = (span, before) {
            let level = u32::from(effort == Effort::Full);
            let compact = Compact { bytes_in: word(bytes_in), runs: word(files.runs), level };
            span.stop_with(known.tree.flush.lsn, compact, [bytes]);
        }
        for written in [&mut job.written, &mut *self.counters.lock()] {
            written.compactions += 1;
            written.compaction_bytes += bytes;
        }
        Ok(bytes)
    }

    /// Returns the keys of dropped families that the tables still hold, ascending.
    fn keys_of_dropped(&self, known: &KnownTree) -> Result<Vec<(CfId, Vec<u8>)>, LevelsError> {
        let mut keys = Vec::new();
        if known.tree.dropped.is_empty() {
            return Ok(keys);
        }
        let scanned = self.guarded(known, |backend| {
            backend.scan(known.tree.id, &mut |entry| {
                if known.tree.dropped.binary_search(&entry.cf).is_ok() {
                    keys.push((entry.cf, entry.key.to_vec()));
                }
            })
        });
        scanned.map_err(|error| self.fail(known, error))?;
        Ok(keys)
    }

    /// Runs a call of the backend and turns a panic in it into an error.
    fn guarded<R>(
        &self,
        known: &KnownTree,
        call: impl FnOnce(&dyn LevelStore) -> Result<R, BackendError>,
    ) -> Result<R, BackendError> {
        let outcome = catch_unwind(AssertUnwindSafe(|| call(&*self.backend)));
        outcome.unwrap_or_else(|panic| {
            let what = format!("the table library panicked: {}", text_of(&*panic));
            Err(BackendError::Damaged { path: tree_dir(&self.dir, known.tree.id), what })
        })
    }

    /// Converts a backend's failure into the caller's error, and marks the tree if its state is unknown (V6).
    fn fail(&self, known: &KnownTree, error: BackendError) -> LevelsError {
        let harmless = matches!(error, BackendError::NoSpace { .. });
        let error = self.refuse(known, error);
        if harmless {
            return error;
        }
        let why = error.to_string();
        self.failed.lock().entry(known.tree.id).or_insert_with(|| why.clone());
        match error {
            LevelsError::TreeDamaged { .. } => error,
            _ => LevelsError::TreeFailed { tree: known.tree.id, why },
        }
    }

    #[allow(clippy::unused_self, reason = "called beside `fail`, which marks the tree")]
    fn refuse(&self, known: &KnownTree, error: BackendError) -> LevelsError {
        LevelsError::of_tree(known, error)
    }

    fn remove_tree_dir(&self, tree: TreeId) -> Result<(), LevelsError> {
        let path = tree_dir(&self.dir, tree);
        match self.files.remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LevelsError::io("remove", &path, error)),
            _ => Ok(()),
        }
    }
}

/// Returns what MANIFEST says about a tree, as callers see it.
fn state_of(known: &KnownTree) -> TreeState {
    let tree = &known.tree;
    TreeState {
        id: tree.id,
        cfs: tree.cfs.clone(),
        dropped: tree.dropped.clone(),
        flush_lsn: tree.flush.lsn,
        live_keys: tree.flush.live_keys,
    }
}

/// Returns an error if the arguments of [`Levels::flush`] contradict its documentation.
fn check_flush(
    known: &KnownTree,
    job: &Job,
    f: Lsn,
    edits: &[Edit<'_>],
    live_keys_after: u64,
) -> Result<(), LevelsError> {
    let tree = &known.tree;
    let refuse = |what| Err(LevelsError::InvalidCall { what });
    if !job.loaded {
        return refuse("a tree is flushed to before it was loaded");
    }
    if f < known.ceiling() {
        return refuse("a flush below an earlier one");
    }
    if !edits.is_sorted_by(|a, b| (a.cf, a.key) < (b.cf, b.key)) {
        return refuse("edits that do not ascend");
    }
    for edit in edits {
        if edit.csn >= f {
            return refuse("an edit at or above its flush");
        }
        if tree.cfs.binary_search(&edit.cf).is_err() {
            return refuse("an edit of a family that the tree does not have");
        }
        if edit.key.len() > KEY_BYTES_MAX || edit.value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return refuse("a key or value that is too long");
        }
    }
    // The edits of a family dropped since then need not be repeated: the keys themselves are deleted.
    if edits.is_empty() && !known.begun.is_empty() && tree.dropped.is_empty() {
        return refuse("a flush after a failed one that does not bring its edits again");
    }
    if edits.is_empty() && tree.dropped.is_empty() && live_keys_after != tree.flush.live_keys {
        return refuse("a count of live keys that no edit explains");
    }
    Ok(())
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
