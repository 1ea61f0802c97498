//! Rewrite of a tree: every row of it, from the caller's memory, goes to new files in a new directory. For a tree that
//! failed, whose files are never written to or synced again (F9 of the design), and for a tree with a file that differs
//! from what was written.
//!
//! # Invariants
//! - W1. MANIFEST names the old tree until the new one is complete and durable, and changes from one to the other by
//!   the rename of a whole file: at every moment it names exactly one tree of these families that has every row.
//! - W2. The id of the new tree was never a tree's, and is not drawn again before the next open, even if the rewrite
//!   fails. If it is unknown which of the two trees MANIFEST names, both directories stay until the next open, which
//!   deletes the one that is not named (V7).
//! - W3. The new tree has what was committed below `f` and no deletion, so its flush at `f` is recorded together with
//!   its name.
//! - W4. A damaged file is moved to `quarantine` before its tree's directory is removed, and nothing here deletes it
//!   there.
//!
//! Checked by `crash_tests.rs`, with power cuts and failing calls at any point of a rewrite, and on lsm-tree's files by
//! `rules_tests.rs` and `sums_tests.rs` (W4).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collie_base::{CfId, Lsn};

use super::{
    Edit, Job, KEY_BYTES_MAX, Levels, LevelsError, RUNS_DUE, TreeId, VALUE_BYTES_MAX, backend::Effort,
    backend::tree_dir,
};
use crate::{levels::manifest::Flush, levels::manifest::KnownTree, levels::manifest::Tree};

/// Directory for damaged files, in the levels' directory.
const QUARANTINE: &str = "quarantine";

/// Takes the next rows of a tree that is being rewritten: they ascend by (family, key), from batch to batch too, and
/// each has a value.
pub type AddRows<'a> = dyn FnMut(&[Edit<'_>]) -> Result<(), LevelsError> + 'a;

/// Result of the rewrite of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The new tree.
    pub tree: TreeId,
    /// Its number of keys of each family.
    pub keys: BTreeMap<CfId, u64>,
    /// Bytes of its tables.
    pub table_bytes: u64,
    /// Where the damaged files are now.
    pub quarantined: Vec<PathBuf>,
}

impl Levels {
    /// Rewrites a tree from what `fill` passes in batches: every row of the tree's families as commits below `f` left
    /// it, and nothing of dropped ones. `f` must be durable in the log. The tree may have failed; its files are not
    /// read, and are removed, except that those listed in `damaged` are kept in `quarantine` (W4).
    ///
    /// # Durability
    /// Durable on return. After an error or a crash the old tree is there, or the new one as a whole.
    ///
    /// # Progress
    /// Waits for the tree's other jobs and for a checkpoint. Jobs of other trees continue.
    ///
    /// # Errors
    /// `InvalidCall` from the checks of the call: nothing was done. `NoSpace`, and `TreeFailed` for any other refusal
    /// of the disk: the caller may try again, with the old tree's id. Errors that `fill` returns.
    pub fn replace_tree(
        &self,
        tree: TreeId,
        f: Lsn,
        damaged: &[PathBuf],
        fill: &mut dyn FnMut(&mut AddRows<'_>) -> Result<(), LevelsError>,
    ) -> Result<Replaced, LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        let job = self.job(tree)?;
        let job = job.lock();
        let known = self.known(tree)?;
        let refuse = |what| Err(LevelsError::InvalidCall { what });
        if !job.loaded {
            return refuse("a tree is rewritten before it was loaded");
        }
        if f < known.ceiling() {
            return refuse("a flush below an earlier one");
        }
        let id = self.draw_id(&self.manifest.lock()); // W2
        let flush = Flush { lsn: f, live_keys: 0 };
        let mut new = KnownTree::new(Tree { id, flush, ceiling: f, cfs: known.tree.cfs, dropped: Vec::new() });
        let (keys, table_bytes) = self.write_tree(&new, fill).map_err(|error| {
            self.backend.forget(id);
            let _left_for_the_next_open = self.remove_tree_dir(id); // MANIFEST never named it
            match error {
                LevelsError::TreeDamaged { .. } | LevelsError::Io { .. } => {
                    LevelsError::TreeFailed { tree, why: error.to_string() }
                }
                error => error,
            }
        })?;
        new.tree.flush.live_keys = keys.values().sum();
        let mut written = job.written;
        written.flushes += 1;
        written.flush_bytes += table_bytes;
        // The job precedes the name in MANIFEST, by which other threads find the tree.
        self.jobs.lock().insert(id, std::sync::Arc::new(parking_lot::Mutex::new(Job { loaded: true, written })));
        let replaced = self.manifest.lock().replace(tree, new.tree); // W1
        if let Err(error) = replaced {
            self.jobs.lock().remove(&id);
            self.backend.forget(id);
            return Err(error); // W2
        }
        self.jobs.lock().remove(&tree);
        self.told.lock().remove(&tree);
        self.failed.lock().remove(&tree);
        {
            let mut counters = self.counters.lock();
            counters.flushes += 1;
            counters.flush_bytes += table_bytes;
        }
        self.backend.forget(tree);
        let quarantined = self.quarantine(tree, damaged);
        let _left_for_the_next_open = self.remove_tree_dir(tree);
        Ok(Replaced { tree: id, keys, table_bytes, quarantined })
    }

    /// Creates the tree, durably, and fills it. Returns its keys by family and the bytes of its tables.
    fn write_tree(
        &self,
        new: &KnownTree,
        fill: &mut dyn FnMut(&mut AddRows<'_>) -> Result<(), LevelsError>,
    ) -> Result<(BTreeMap<CfId, u64>, u64), LevelsError> {
        let (id, f) = (new.tree.id, new.tree.flush.lsn);
        let refuse = |error| self.refuse(new, error);
        self.guarded(new, |backend| backend.create(id)).map_err(refuse)?;
        self.files.sync_dir(&self.dir).map_err(|error| LevelsError::io("sync", &self.dir, error))?;
        let mut keys: BTreeMap<CfId, u64> = new.tree.cfs.iter().map(|cf| (*cf, 0)).collect();
        let mut last: Option<(CfId, Vec<u8>)> = None;
        let mut add = |rows: &[Edit<'_>]| {
            let invalid = |what| LevelsError::InvalidCall { what };
            let (Some(first), Some(end)) = (rows.first(), rows.last()) else { return Ok(()) };
            let follows = last.as_ref().is_none_or(|(cf, key)| (*cf, &key[..]) < (first.cf, first.key));
            if !follows || !rows.is_sorted_by(|a, b| (a.cf, a.key) < (b.cf, b.key)) {
                return Err(invalid("rows that do not ascend"));
            }
            for row in rows {
                let fits =
                    row.key.len() <= KEY_BYTES_MAX && row.value.is_some_and(|value| value.len() <= VALUE_BYTES_MAX);
                let count = keys.get_mut(&row.cf).filter(|_| fits && row.csn < f);
                *count.ok_or(invalid("a row that the tree cannot have"))? += 1;
            }
            last = Some((end.cf, end.key.to_vec()));
            if self.backend.files(id).new_runs >= usize::from(RUNS_DUE) {
                self.guarded(new, |backend| backend.compact(id, Effort::Due)).map_err(refuse)?;
            }
            self.guarded(new, |backend| backend.apply(id, f, &mut rows.iter().copied())).map_err(refuse)?;
            Ok(())
        };
        fill(&mut add)?;
        Ok((keys, self.backend.bytes(id)))
    }

    /// Returns an id that no tree has had, and does not return it again before the next open.
    pub(super) fn draw_id(&self, manifest: &crate::levels::manifest::Manifest) -> TreeId {
        let mut next = self.next.lock();
        let id = manifest.state().next.max(*next);
        *next = TreeId::new(id.get().saturating_add(1));
        id
    }

    /// Moves damaged files of a tree to quarantine and skips those that cannot be moved; returns the new paths (W4).
    fn quarantine(&self, tree: TreeId, damaged: &[PathBuf]) -> Vec<PathBuf> {
        // The table library may name the files by their full paths.
        let resolve = |path: &Path| self.files.resolve(path).unwrap_or_else(|_| path.to_owned());
        let (dir, tree) = (self.dir.join(QUARANTINE), resolve(&tree_dir(&self.dir, tree)));
        let mut moved = Vec::new();
        for path in damaged {
            let full = resolve(path);
            let Ok(name) = full.strip_prefix(&tree) else { continue };
            let parts = tree.file_name().into_iter().chain(name.iter());
            let name: Vec<_> = parts.map(|part| part.to_string_lossy()).collect();
            let to = dir.join(name.join("."));
            if self.files.create_dir_all(&dir).and_then(|()| self.files.replace(path, &to)).is_ok() {
                moved.push(to);
            }
        }
        moved
    }

    /// Compares MANIFEST on disk with the state in memory, and rewrites it if they differ. Returns what was wrong, if
    /// anything.
    ///
    /// # Durability
    /// A rewritten MANIFEST is durable on return.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn mend_manifest(&self) -> Result<Option<LevelsError>, LevelsError> {
        self.check_writable()?;
        let _pause = self.pause.read();
        self.manifest.lock().mend()
    }

    /// Returns the path of the levels' directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns why a tree takes no more flushes until it is rewritten or opened again; `None` if it takes them.
    pub fn failure(&self, tree: TreeId) -> Option<String> {
        self.failed.lock().get(&tree).cloned()
    }
}
