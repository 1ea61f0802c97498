//! `Base`: the LSM levels under the rows in memory. It flushes families to them and determines from where on the
//! log is needed.
//!
//! A flush takes, of every row that was written since the last one, the newest state committed below its position
//! `f`, and adds it to the family's tree. Then the log below the lowest position that is still needed is released.
//!
//! # Invariants
//! - F1. A family has one flush or re-log at a time, and so has a tree; those of different trees run in parallel.
//!   One thread at a time releases log: a family whose rows are taken and not recorded yet needs the log that it
//!   needed before (`Unflushed` U2).
//! - F2. `f` is the quorum-durable position, loaded before the lists are taken. It is at most `durable`, so the
//!   LSM levels hold no commit that the log could lose, and every commit below `f` marked its row before the load.
//! - F3. A snapshot at `f` is held from before the lists are taken until the tree is written, so that the newest
//!   versions below `f` stay. It has a slot of its own (`jobs.rs`), so a flush never fails because sessions took
//!   all of them.
//! - F4. The rows of a failed flush are listed again; until the next recorded flush the tree is `uncertain`. A tree
//!   that failed is rewritten by its next flush (`tree_rewrite.rs`), and so is one with a rotten file (`scrub.rs`). A
//!   flush that fails does not keep other trees from being flushed.
//! - F5. The log is needed from the lowest of: `durable`, loaded first; the positions that the unflushed rows of
//!   families need; those that large transactions need; those of dropped families until MANIFEST records their
//!   drop. A writer that is in no list yet reserves above that `durable`. The position that `cut_log` returns
//!   leaves out the needs of open transactions, which no flush can end.
//! - F6. MANIFEST records where the log starts before a file of it is released, and carries the facts that replay
//!   would have read there.
//! - F7. The families of an atomic group are flushed at one position, to one tree, with one record. Their list is
//!   read after the position was loaded: a family is a member before any session can write to it.
//! - F8. The keys of a tree are counted family by family, so a dropped family takes its count with it. A tree is
//!   flushed only once its dropped members are noted in MANIFEST; then the flush takes their keys out.
//! - F9. A flush that would change neither the tables nor their position is not recorded and not counted: the rows
//!   wait until they are durable. Otherwise a full disk, where nothing becomes durable, would keep the flusher
//!   busy with records of MANIFEST.
//!
//! Checked by `tests/flush.rs`, `crates/kv/tests/groups.rs` (F7, F8) and `tests/model.rs`; F2 by the models of `store`
//! (`family/loom_models.rs`).
//!
//! | file | holds |
//! |---|---|
//! | `flusher` | the rounds of the thread that flushes |
//! | `jobs` | which families are being flushed or re-logged |
//! | `relog` | unflushed rows, written to the log a second time so that old log can go |
//! | `tree_rewrite` | a tree that failed, or has rotted, rewritten from memory |
//! | `scrub` | the search for rot |
//! | `figures`, `troubles` | figures by family; flushes that fail, and why |

pub(crate) mod figures;
pub(crate) mod jobs;
pub(crate) mod relog;
pub(crate) mod scrub;
pub(crate) mod tree_rewrite;
pub(crate) mod troubles;

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use collie_base::{CfId, Lsn, Map, Xid};
use collie_obs::{Ended, FlushLevels, word};
use collie_store::{Edit, Family, FlushAt, FlushEntry, Flushed, Levels, Replaced, TreeId, TreeState, Unflushed};
use collie_txn::{CommitLog as _, Txns};
use collie_wal::Warnings;
use parking_lot::{Mutex, MutexGuard};

use crate::EngineError;
use crate::families::Families;
use crate::flush::figures::{FlushCause, FlushFigures};
use crate::flush::jobs::Jobs;
use crate::flush::relog::Relogs;
use crate::flush::troubles::FlushTroubles;
use crate::gc::garbage::Garbage;
use crate::log::EngineLog;
use crate::log::carry::Carry;
use crate::log::large::LargeTransactions;
use crate::log::quorum_notes::QuorumNotes;
use crate::log::txn_statuses::TxnStatuses;
use crate::planted::is_planted;
use crate::redo::XID_BLOCK;

/// A family that was taken out of memory and may come back if its drop is lost.
#[derive(Debug)]
struct Dropped {
    cf: CfId,
    /// Once this position is durable, the drop is too.
    at: Lsn,
    /// Its rows need the log from here on.
    since: Lsn,
}

/// Counters of flushing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStat {
    /// Recorded flushes of a family or of an atomic group of families.
    pub flushes: u64,
    /// Row states that these flushes wrote.
    pub rows: u64,
    /// Times that rows were logged again instead of flushed (`relog.rs`).
    pub relogs: u64,
    /// The number of rows logged again.
    pub relogged_rows: u64,
    /// Failed flushes; their rows are still in memory and in the log.
    pub failures: u64,
    /// Trees that were rewritten from memory, after a write or a sync of theirs had failed or a file had rotted.
    pub trees_written_anew: u64,
    /// The start of the needed log, as recorded last.
    pub log_start: Lsn,
}

/// The LSM levels of an open database. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Base {
    levels: Levels,
    pub(crate) large: LargeTransactions,
    /// The position of the last recorded flush of each family that has a tree.
    flushed: Mutex<Map<CfId, Lsn>>,
    dropped: Mutex<Vec<Dropped>>,
    /// The number of keys that the trees hold of each family after the last recorded flush (F8).
    keys: Mutex<Map<CfId, u64>>,
    pub(crate) jobs: Jobs,
    /// Trees of flushes that failed (F4).
    uncertain: Mutex<BTreeSet<TreeId>>,
    /// Held by a thread that releases log (F1), and by one that needs it to stay.
    cut: Mutex<()>,
    /// The number of flushes of one call that run in parallel.
    side_by_side: usize,
    pub(crate) relogs: Mutex<Relogs>,
    stat: Mutex<FlushStat>,
    pub(crate) troubles: FlushTroubles,
    pub(crate) figures: Mutex<FlushFigures>,
}

/// The parts of the database that a flush uses.
pub(crate) struct Parts<'a> {
    pub(crate) families: &'a Families,
    pub(crate) garbage: &'a Garbage,
    pub(crate) txns: &'a Txns<EngineLog>,
    pub(crate) quorum: &'a QuorumNotes,
    pub(crate) warnings: &'a Warnings,
}

/// A tree that is to be rewritten although no job of it has failed.
struct Rotten<'a> {
    tree: TreeId,
    /// Its files that have changed since they were written.
    damaged: &'a [PathBuf],
    why: &'a str,
}

/// A tree that was rewritten, and the reason.
struct Anew {
    old: TreeId,
    why: String,
    replaced: Replaced,
}

impl Anew {
    fn line(&self) -> String {
        let Self { old, why, replaced: Replaced { tree, keys, table_bytes, .. } } = self;
        let rows = keys.values().sum::<u64>();
        format!(
            "store: tree {old} failed, and was rewritten from memory as tree {tree}: {rows} rows, {table_bytes} bytes. What had failed: {why}"
        )
    }
}

/// A family whose rows were taken for its tree.
struct Taken {
    family: Arc<Family>,
    rows: Unflushed,
    entries: Vec<FlushEntry>,
}

/// Returns whether these families, which are flushed together, have rows that their LSM levels lack, or are in a
/// tree that is to be rewritten.
fn lack(families: &[Arc<Family>], rewrite: &[CfId]) -> bool {
    families.iter().any(|family| family.unflushed().since.is_some() || rewrite.contains(&family.id()))
}

/// Returns whether a flush of the taken rows would change neither the tree's tables nor its position (F9).
fn gains_nothing(state: &TreeState, at: FlushAt, taken: &[Taken]) -> bool {
    let is_settled = !at.uncertain && state.dropped.is_empty();
    is_settled && at.position <= at.flushed && taken.iter().all(|taken| taken.entries.is_empty())
}

impl Taken {
    fn edits(&self) -> impl Iterator<Item = Edit<'_>> {
        self.entries.iter().map(|entry| Edit {
            cf: self.family.id(),
            key: entry.row.key(),
            csn: entry.csn,
            value: entry.value.as_deref(),
        })
    }
}

fn edit_bytes(edit: &Edit<'_>) -> usize {
    edit.key.len() + edit.value.map_or(0, <[u8]>::len)
}

/// Records a measured flush of `cfs` families.
#[cold]
fn tell_flush(ended: Ended<FlushLevels>, position: Lsn, edits: &[Edit<'_>], cfs: usize, flushed: Flushed) {
    let bytes: usize = edits.iter().map(edit_bytes).sum();
    let flush = FlushLevels {
        rows: word(edits.len()),
        bytes: word(bytes),
        cfs: word(cfs),
        level0_runs: word(flushed.new_runs),
    };
    ended.tell(position, flush, [flushed.table_bytes]);
}

impl Base {
    /// Creates it over open LSM levels with every tree loaded, for `jobs` flushes and re-logs at a time. A family
    /// of a tree that is not in memory was dropped durably.
    ///
    /// # Panics
    /// If sessions were opened before and no snapshot slot is free.
    pub(crate) fn new(
        levels: Levels,
        large: LargeTransactions,
        families: &Families,
        txns: &Txns<EngineLog>,
        jobs: usize,
    ) -> Self {
        let trees = levels.trees();
        let flushed = trees.iter().flat_map(|tree| tree.cfs.iter().map(|cf| (*cf, tree.flush_lsn)));
        let flushed: Map<CfId, Lsn> = flushed.collect();
        let gone = flushed.keys().copied().filter(|cf| families.get(*cf).is_none());
        let dropped = gone.map(|cf| Dropped { cf, at: Lsn::ZERO, since: Lsn::MAX }).collect();
        let keys = flushed.keys().map(|cf| (*cf, levels.keys_loaded(*cf))).collect();
        let stat = FlushStat { log_start: levels.log_start(), ..FlushStat::default() };
        let jobs = Jobs::new(jobs, || txns.keep_place()).expect("places are there for them before the first session");
        // A simulated disk counts its calls, so there they must come from one thread in a fixed order.
        let side_by_side = if levels.is_real() { jobs.count() } else { 1 };
        Self {
            levels,
            large,
            flushed: Mutex::new(flushed),
            dropped: Mutex::new(dropped),
            keys: Mutex::new(keys),
            jobs,
            uncertain: Mutex::default(),
            cut: Mutex::default(),
            side_by_side,
            relogs: Mutex::default(),
            stat: Mutex::new(stat),
            troubles: FlushTroubles::default(),
            figures: Mutex::default(),
        }
    }

    /// Returns whether a flush of the tree failed since the last one that was recorded (F4).
    pub(crate) fn is_uncertain(&self, tree: TreeId) -> bool {
        self.uncertain.lock().contains(&tree)
    }

    pub(crate) fn note_relog(&self, rows: usize) {
        let mut stat = self.stat.lock();
        stat.relogs += 1;
        stat.relogged_rows += u64::try_from(rows).unwrap_or(0);
    }

    /// Returns the LSM levels.
    pub(crate) const fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Holds up every flush until the returned value is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_up(&self) -> impl Sized + '_ {
        self.jobs.hold_up()
    }

    /// Holds up the end of every flush, after its tables are written, until the returned value is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_ends(&self) -> impl Sized + '_ {
        self.stat.lock()
    }

    /// Returns the counters.
    pub(crate) fn stat(&self) -> FlushStat {
        *self.stat.lock()
    }

    /// Notes that a family is about to be removed from memory, by a drop whose commit is in the log or will be
    /// lost.
    pub(crate) fn family_goes(&self, cf: CfId, parts: &Parts<'_>) {
        let family = parts.families.get(cf);
        let since = family.and_then(|family| family.unflushed().since).unwrap_or(Lsn::MAX);
        let at = parts.txns.log().boundary();
        self.dropped.lock().push(Dropped { cf, at, since });
    }

    /// Flushes these families, each together with its atomic group. Afterwards the LSM levels hold every commit to
    /// them that was quorum-durable at the call. Several trees are flushed in parallel. A family that does not
    /// exist, or has no rows to flush, costs only a wait for a flush of it that is in progress.
    ///
    /// # Errors
    /// The first failure; the other families are flushed all the same. The rows of a failed flush stay in memory
    /// and in the log.
    pub(crate) fn flush(&self, cfs: &[CfId], cause: FlushCause, parts: &Parts<'_>) -> Result<(), EngineError> {
        let (mut seen, mut due) = (BTreeSet::new(), Vec::new());
        let rewrite = self.to_be_rewritten();
        for cf in cfs {
            if !seen.contains(cf) && lack(&parts.families.together_with(*cf), &rewrite) {
                due.push(*cf);
                seen.extend(parts.families.members_with(*cf));
            }
        }
        let threads = self.side_by_side.min(due.len());
        if threads < 2 {
            return due.into_iter().map(|cf| self.flush_telling(cf, cause, parts)).fold(Ok(()), Result::and);
        }
        let next = AtomicUsize::new(0);
        let flush_some = || {
            let mut flushed = Ok(());
            while let Some(cf) = due.get(next.fetch_add(1, Relaxed)) {
                flushed = flushed.and(self.flush_telling(*cf, cause, parts));
            }
            flushed
        };
        std::thread::scope(|scope| {
            let start =
                |_| std::thread::Builder::new().name("collie-flushes".to_owned()).spawn_scoped(scope, flush_some);
            // If no thread can be started, this one does all the work.
            let others: Vec<_> = (1..threads).map_while(|number| start(number).ok()).collect();
            let own = flush_some();
            let ends = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ends.fold(own, Result::and)
        })
    }

    /// Returns a family of each tree whose next flush does more than add unflushed rows.
    fn to_be_rewritten(&self) -> Vec<CfId> {
        [self.levels.to_be_rewritten(), self.levels.to_be_replaced()].concat()
    }

    /// Makes a call that writes about `bytes` to the LSM levels. If the disk is full, makes it again with the room
    /// of a spare log file, since its success lets log be released.
    pub(crate) fn lending<R>(
        &self,
        parts: &Parts<'_>,
        bytes: u64,
        mut call: impl FnMut() -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let outcome = call();
        if !outcome.as_ref().is_err_and(EngineError::is_full_disk) {
            return outcome;
        }
        // A table is larger than its rows by its index and its filter.
        let room = bytes + bytes / 4;
        let Some(lent) = parts.txns.log().wal().and_then(|wal| wal.lend_spare(room)) else { return outcome };
        let again = call();
        drop(lent);
        if again.is_ok() {
            parts.warnings.warn(
                "store: the disk is full: a log file that was prepared ahead was given up, for a write that lets log go",
            );
        }
        again
    }

    /// Returns why flushes fail or log cannot be released, if that is so.
    pub(crate) fn trouble(&self, families: &Families) -> Option<String> {
        let rewrite = self.to_be_rewritten();
        self.troubles.why(|cf| lack(&families.together_with(cf), &rewrite))
    }

    /// Flushes a family and the others of its group, and logs a warning if the outcome is news.
    fn flush_telling(&self, cf: CfId, cause: FlushCause, parts: &Parts<'_>) -> Result<(), EngineError> {
        let flushed = self.flush_together(cf, cause, None, parts);
        let trouble = self.troubles.flushed(cf, flushed.as_ref().map(|_| ()));
        if flushed.is_ok() {
            parts.families.members_with(cf).into_iter().for_each(|member| self.troubles.forget(member));
        }
        let written_anew = flushed.as_ref().ok().and_then(Option::as_ref).map(Anew::line);
        written_anew.into_iter().chain(trouble).for_each(|line| parts.warnings.warn(line));
        flushed.map(|_| ())
    }

    /// Rewrites a tree with rotten files from memory, by a flush of its families, and keeps those files in
    /// quarantine. Returns `None` if the tree no longer exists or one of its families is being dropped: nothing
    /// was done, and the caller can try again.
    ///
    /// # Durability
    /// The new tree is on disk on return. After an error the families have the old one.
    ///
    /// # Errors
    /// Those of the LSM levels and of the log.
    pub(crate) fn write_rotten_anew(
        &self,
        tree: TreeId,
        damaged: &[PathBuf],
        why: &str,
        parts: &Parts<'_>,
    ) -> Result<Option<Replaced>, EngineError> {
        let in_memory = |cf: &CfId| parts.families.get(*cf).is_some();
        // Without any of them the tree is removed as soon as their drop is durable.
        let Some(cf) = self.find_tree(tree).and_then(|tree| tree.cfs.into_iter().find(in_memory)) else {
            return Ok(None);
        };
        let rotten = Rotten { tree, damaged, why };
        match self.flush_together(cf, FlushCause::Failure, Some(&rotten), parts) {
            Ok(anew) => {
                if anew.is_some() {
                    parts.families.members_with(cf).into_iter().for_each(|member| self.troubles.forget(member));
                }
                Ok(anew.map(|anew| anew.replaced))
            }
            Err(EngineError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Flushes a family and the others of its group. Returns the new tree if theirs had failed or was `rotten`,
    /// and so was rewritten.
    fn flush_together(
        &self,
        cf: CfId,
        cause: FlushCause,
        rotten: Option<&Rotten<'_>>,
        parts: &Parts<'_>,
    ) -> Result<Option<Anew>, EngineError> {
        let mut claim = self.jobs.claim(|| parts.families.members_with(cf)); // F1
        let is_needed = match rotten {
            Some(rotten) => self.levels.tree_of(cf) == Some(rotten.tree),
            None => lack(&parts.families.together_with(cf), &self.to_be_rewritten()),
        };
        if !is_needed {
            return Ok(None); // another job has done it since
        }
        // The position and its snapshot precede the lists: every unflushed commit below is in a list, and its state
        // stays readable.
        let held = parts.txns.hold_durable(claim.place()); // F2, F3
        let position = if is_planted("flush at the boundary") { parts.txns.log().boundary() } else { held.snapshot() };
        let families = parts.families.together_with(cf); // F7: read after the position
        // Before any row is taken, the tree exists and its dropped members are out of it (F8).
        let Some(tree) = self.lending(parts, 0, || self.tree_for(&families))? else { return Ok(None) };
        self.settle_drops_in(tree, &families, parts)?;
        // All of them may have been dropped in between.
        let Some(state) = self.find_tree(tree) else { return Ok(None) };
        let at = FlushAt { position, flushed: state.flush_lsn, uncertain: self.is_uncertain(tree) };
        // From here until the flush is recorded, an error lists the taken rows again (F4).
        let in_tree = |family: &Arc<Family>| state.cfs.binary_search(&family.id()).is_ok();
        let mut taken = Vec::new();
        for family in families.into_iter().filter(in_tree) {
            let rows = family.take_unflushed();
            let entries = family.flush_entries(&rows, at, &TxnStatuses(parts.txns));
            taken.push(Taken { family, rows, entries });
        }
        let rotten = rotten.filter(|rotten| rotten.tree == tree);
        let failure = rotten.map(|rotten| rotten.why.to_owned()).or_else(|| self.levels.failure(tree));
        if failure.is_none() && gains_nothing(&state, at, &taken) {
            taken.iter().for_each(|taken| taken.family.note_flushed(&[])); // F9: they are listed again
            return Ok(None);
        }
        let damaged = rotten.map_or(&[][..], |rotten| rotten.damaged);
        let done = match failure {
            None => {
                let bytes: usize = taken.iter().flat_map(Taken::edits).map(|edit| edit_bytes(&edit)).sum();
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX / 2);
                self.lending(parts, bytes, || self.write(&state, position, &mut taken)).map(|()| None)
            }
            Some(why) => self.write_in_place_of(&state, position, &taken, damaged, parts).map(|replaced| {
                let old = state.id;
                Some(Anew { old, why, replaced })
            }),
        };
        let mut stat = self.stat.lock();
        let anew = match done {
            Ok(anew) => anew,
            Err(error) => {
                stat.failures += 1;
                if !is_planted("failed flush forgotten") {
                    self.uncertain.lock().insert(tree); // F4
                }
                taken.into_iter().for_each(|Taken { family, rows, .. }| family.put_back(rows));
                return Err(error);
            }
        };
        stat.flushes += 1;
        stat.trees_written_anew += u64::from(anew.is_some());
        self.uncertain.lock().remove(&tree);
        for Taken { family, entries, .. } in &taken {
            let cf = family.id();
            let rows = u64::try_from(entries.len()).unwrap_or(0);
            stat.rows += rows;
            self.figures.lock().flushed(cf, cause, rows);
            family.note_flushed(entries);
            self.flushed.lock().insert(cf, position);
            self.relogs.lock().flushed(cf);
            for entry in entries.iter().filter(|entry| entry.value.is_none()) {
                parts.garbage.look_again(entry.csn, cf, &entry.row); // its removal waited for this
            }
        }
        Ok(anew)
    }

    /// Rewrites the tree from memory.
    fn write_in_place_of(
        &self,
        state: &TreeState,
        position: Lsn,
        taken: &[Taken],
        damaged: &[PathBuf],
        parts: &Parts<'_>,
    ) -> Result<Replaced, EngineError> {
        let families: Vec<Arc<Family>> = taken.iter().map(|taken| Arc::clone(&taken.family)).collect();
        let replaced = self.write_anew(state, position, damaged, &families, parts)?;
        self.keys.lock().extend(replaced.keys.iter().map(|(cf, keys)| (*cf, *keys))); // F8
        Ok(replaced)
    }

    /// Returns the tree of these families, which are flushed together, and adds to it those families that have
    /// rows for it; `None` if there is none and none is needed.
    fn tree_for(&self, families: &[Arc<Family>]) -> Result<Option<TreeId>, EngineError> {
        let listed = families.iter().filter(|family| family.unflushed().since.is_some());
        let listed: Vec<CfId> = listed.map(|family| family.id()).collect();
        let found = families.iter().find_map(|family| self.levels.tree_of(family.id()));
        let Some(tree) = found else {
            let made = (!listed.is_empty()).then(|| self.levels.create_tree(&listed));
            return made.transpose().map_err(EngineError::levels);
        };
        for cf in listed.into_iter().filter(|cf| self.levels.tree_of(*cf).is_none()) {
            self.levels.add_family(tree, cf).map_err(EngineError::levels)?;
        }
        Ok(Some(tree))
    }

    /// Takes dropped members out of the tree once their drop is durable. Otherwise entries of theirs that an
    /// interrupted flush may have added would not be written again, and the number of keys in the tree would be
    /// unknown (F8).
    fn settle_drops_in(&self, tree: TreeId, families: &[Arc<Family>], parts: &Parts<'_>) -> Result<(), EngineError> {
        let state = self.tree(tree);
        let gone = state.cfs.iter().copied().filter(|cf| families.iter().all(|family| family.id() != *cf));
        for cf in gone {
            let noted = self.dropped.lock().iter().find(|dropped| dropped.cf == cf).map(|dropped| dropped.at);
            parts.txns.log().wait_durable(noted.unwrap_or(Lsn::ZERO))?;
            self.settle_drop(cf)?;
        }
        Ok(())
    }

    pub(crate) fn tree(&self, id: TreeId) -> TreeState {
        self.find_tree(id).expect("a tree goes while its families are claimed only (F1)")
    }

    fn find_tree(&self, id: TreeId) -> Option<TreeState> {
        self.levels.trees().into_iter().find(|tree| tree.id == id)
    }

    /// Adds the taken rows to the tree, durably.
    fn write(&self, state: &TreeState, position: Lsn, taken: &mut [Taken]) -> Result<(), EngineError> {
        let mut keys: Map<CfId, u64> = {
            let all = self.keys.lock();
            state.cfs.iter().map(|cf| (*cf, all.get(cf).copied().unwrap_or(0))).collect()
        };
        for Taken { family, entries, .. } in taken.iter_mut() {
            entries.sort_unstable_by(|a, b| a.row.key().cmp(b.row.key()));
            let keys = keys.entry(family.id()).or_default();
            for entry in entries {
                match (&entry.value, entry.was_on_disk) {
                    (Some(_), false) => *keys += 1,
                    (None, true) => *keys -= 1,
                    _ => {}
                }
            }
        }
        let live_keys = state.cfs.iter().filter_map(|cf| keys.get(cf)).sum();
        let edits: Vec<Edit<'_>> = taken.iter().flat_map(Taken::edits).collect();
        let span = collie_obs::start::<FlushLevels>();
        let flushed = self.levels.flush(state.id, position, &edits, live_keys).map_err(EngineError::levels)?;
        if let Some(span) = span {
            tell_flush(span.end(), position, &edits, taken.len(), flushed);
        }
        // The counts change only with a recorded flush.
        self.keys.lock().extend(keys);
        // If the tree cannot be merged, its next flush returns the error.
        if !state.dropped.is_empty() {
            let _later = self.levels.compact(state.id); // deleted keys occupy space until then
        } else if flushed.compaction_due {
            let _later = self.levels.compact_due(state.id);
        }
        Ok(())
    }

    /// Returns the family whose unflushed rows need the oldest part of the log, and the position of their need;
    /// `None` if no family does.
    pub(crate) fn oldest(families: &Families) -> Option<(CfId, Lsn)> {
        let unflushed = families.all().into_iter().filter_map(|family| Some((family.id(), family.unflushed().since?)));
        unflushed.min_by_key(|(_, since)| *since)
    }

    /// Returns the families whose unflushed rows need log below `below`, oldest need first, with their bytes of
    /// unflushed rows.
    pub(crate) fn needing(below: Lsn, families: &Families) -> Vec<(CfId, u64)> {
        let all = families.all();
        let unflushed = all.iter().map(|family| (family.id(), family.unflushed()));
        let old = unflushed.filter_map(|(cf, stat)| Some((stat.since?, cf, stat.bytes)));
        let mut old: Vec<(Lsn, CfId, u64)> = old.filter(|(since, ..)| *since < below).collect();
        old.sort_unstable();
        old.into_iter().map(|(_, cf, bytes)| (cf, bytes)).collect()
    }

    /// Keeps the log as it is for the lifetime of the returned guard.
    pub(crate) fn keep_log(&self) -> MutexGuard<'_, ()> {
        self.cut.lock()
    }

    /// Releases the log that is no longer needed, if that is `step_bytes` or more since the last time. Returns the
    /// position from which on flushes need the log; `None` if no log is open.
    ///
    /// # Errors
    /// Those of the LSM levels and of the log; then the log is longer than necessary.
    pub(crate) fn cut_log(&self, step_bytes: u64, parts: &Parts<'_>) -> Result<Option<Lsn>, EngineError> {
        let cut = self.lending(parts, 0, || self.cut_log_quietly(step_bytes, parts));
        let trouble = self.troubles.cut(cut.as_ref().map(|_| ()));
        trouble.into_iter().for_each(|line| parts.warnings.warn(line));
        cut
    }

    fn cut_log_quietly(&self, step_bytes: u64, parts: &Parts<'_>) -> Result<Option<Lsn>, EngineError> {
        let _alone = self.cut.lock();
        let log = parts.txns.log();
        if log.is_ended() {
            return Ok(None);
        }
        let durable = log.durable(); // F5: loaded first
        self.settle_drops(log.settled())?; // a drop that may be taken back needs its tree
        let families = Self::oldest(parts.families).map_or(Lsn::MAX, |(_, since)| since);
        let dropped = self.dropped.lock().iter().map(|dropped| dropped.since).min().unwrap_or(Lsn::MAX);
        let lowest = durable.min(families).min(dropped);
        let flushed_to = |cf| self.flushed_to(cf, parts.families);
        let needed = self.large.lower(lowest, flushed_to).max(Lsn::FIRST);
        let start = self.levels.log_start().max(Lsn::FIRST);
        self.large.forget_below(start);
        // A file that only the next step releases is part of the log that is kept.
        let flushes_need = self.large.lower_of_committed(lowest, flushed_to).max(Lsn::FIRST);
        let by_flushes = if flushes_need == needed { start } else { flushes_need.max(start) };
        if needed <= start || needed.bytes_since(start) < step_bytes {
            return Ok(Some(by_flushes));
        }
        // Loaded after `durable`: these bounds are above every id in the log below it, and not below the last
        // bound in it.
        let next_xid = parts.txns.next_xid().max(log.followed_xid_limit());
        let xid_limit = Xid::new(next_xid.get().saturating_add(XID_BLOCK));
        let quorum = parts.quorum.carried(needed);
        let carry = Carry { xid_limit, next_family: parts.families.next_id(), quorum };
        if is_planted("log goes before MANIFEST says so") {
            log.truncate_before(needed)?;
        }
        self.levels.note_log_start(needed, &carry.encode()).map_err(EngineError::levels)?; // F6
        self.stat.lock().log_start = needed;
        log.truncate_before(needed)?;
        Ok(Some(flushes_need.max(needed)))
    }

    /// Returns the position below which commits to a family are in its LSM levels or in a re-log; `Lsn::MAX` if
    /// nothing of it needs the log.
    fn flushed_to(&self, cf: CfId, families: &Families) -> Lsn {
        if families.get(cf).is_none() && !self.dropped.lock().iter().any(|dropped| dropped.cf == cf) {
            return Lsn::MAX;
        }
        if families.get(cf).is_some_and(|family| family.unflushed().since.is_none()) {
            return Lsn::MAX;
        }
        let relogged = self.relogs.lock().position(cf);
        self.flushed.lock().get(&cf).copied().unwrap_or(Lsn::ZERO).max(relogged)
    }

    /// Takes families whose drop lies below `durable` out of their trees, except those that are being flushed.
    fn settle_drops(&self, durable: Lsn) -> Result<(), EngineError> {
        loop {
            let dropped = self.dropped.lock().iter().map(|dropped| (dropped.at, dropped.cf)).collect::<Vec<_>>();
            let mut settled = 0;
            for (_, cf) in dropped
                .into_iter()
                .filter(|(at, _)| *at <= durable || is_planted("tree goes before its drop is durable"))
            {
                // If the remaining members are being flushed, their flush or the next call does it.
                let tree = self.levels.tree_of(cf).and_then(|tree| self.find_tree(tree));
                let cfs = tree.map_or_else(|| vec![cf], |tree| tree.cfs);
                let Some(_claim) = self.jobs.try_claim(&cfs) else { continue };
                self.settle_drop(cf)?;
                settled += 1;
            }
            if settled == 0 {
                return Ok(());
            }
        }
    }

    /// Takes a family whose drop is durable out of its tree.
    fn settle_drop(&self, cf: CfId) -> Result<(), EngineError> {
        self.levels.drop_cf(cf).map_err(EngineError::levels)?;
        self.flushed.lock().remove(&cf);
        self.keys.lock().remove(&cf);
        self.figures.lock().forget(cf);
        self.troubles.forget(cf);
        self.dropped.lock().retain(|dropped| dropped.cf != cf);
        Ok(())
    }
}
