//! `Base`: the levels under the rows in memory. Flushes families to them, and says from where on the log is needed.
//!
//! A flush takes, of every row that was written since the last one, the newest state committed below its position `f`, and
//! adds it to the family's tree. Then the log below the lowest position that somebody still needs is given up.
//!
//! # Invariants
//! - F1. A family is flushed or re-logged by one at a time, and so is a tree; those of different trees side by side. One at a time
//!   gives up log: a family whose rows are taken and not recorded yet needs the log that it needed before (`Unflushed` U2).
//! - F2. `f` is `durable` as it was before the lists were taken: the levels never hold what the log could lose, and every
//!   commit below `f` marked its row before that.
//! - F3. A snapshot at `f` is held from before the lists are taken until the tree is written: what is newest below `f` stays. It
//!   has a place of its own (`jobs.rs`), so that a flush never fails because sessions took all of them.
//! - F4. What a failed flush took is listed again; until the next recorded one the tree is `uncertain`. A tree that failed is written
//!   anew by its next flush (`anew.rs`), and so is one of which a file has rotted (`scrub.rs`); a flush that fails keeps none of another tree from being tried.
//! - F5. The log is needed from the lowest of: `durable`, loaded first; what a family's unflushed rows need; what a large
//!   transaction needs; what a dropped family needed whose drop is not durable. A writer that is in no list yet reserves above
//!   that `durable`.
//!   What open transactions need is left out of what flushes can give up (`cut_log`).
//! - F6. MANIFEST says where the log starts before a file of it goes, and carries what replay would have taken from there.
//! - F7. The families of an atomic group are flushed at one position, to one tree, with one record. Which they are is asked after the
//!   position was loaded: a family is a member before anybody writes to it.
//! - F8. How many keys a tree holds is counted family by family: a dropped one goes with its count. So a tree is flushed only once
//!   its dropped members are noted in MANIFEST, which has the flush take their keys out.
//!
//! Checked by `tests/flush.rs`, `tests/groups.rs` (F7, F8) and `tests/model.rs`; F2 by the models of `store` (`flush_loom.rs`).
//!
//! | file | noun |
//! |---|---|
//! | `anew.rs` | a tree that failed, or has rotted, is written anew from memory |
//! | `flush_troubles.rs` | [`FlushTroubles`]: flushes that fail, and why |
//! | `large.rs` | [`LargeTransactions`]: those with chunks in the log |
//! | `carry.rs` | [`Carry`]: what MANIFEST keeps of log that is gone |
//! | `relog.rs` | re-logging instead of flushes of a few rows |
//! | `jobs.rs` | [`Jobs`]: who flushes what |
//! | `flusher.rs` | the thread that flushes when it is time |

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
use crate::carry::Carry;
use crate::families::Families;
use crate::flush_figures::{FlushCause, FlushFigures};
use crate::flush_troubles::FlushTroubles;
use crate::garbage::Garbage;
use crate::jobs::Jobs;
use crate::large::LargeTransactions;
use crate::log::EngineLog;
use crate::planted::is_planted;
use crate::quorum_note::QuorumNotes;
use crate::relog::Relogs;
use crate::shared::XID_BLOCK;
use crate::writes::Fates;

/// A family that was taken out of memory and may come back if its drop is lost.
#[derive(Debug)]
struct Dropped {
    cf: CfId,
    /// Once this is durable the drop is too.
    at: Lsn,
    /// Its rows need the log from here on.
    since: Lsn,
}

/// Counters of flushing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStat {
    /// Flushes of a family, or of an atomic group of families, that were recorded.
    pub flushes: u64,
    /// Row states they brought.
    pub rows: u64,
    /// Times that rows were written to the log once more instead (`relog.rs`), and how many of them.
    pub relogs: u64,
    /// See `relogs`.
    pub relogged_rows: u64,
    /// Flushes that failed; the rows are still in memory and the log.
    pub failures: u64,
    /// Trees that were written anew from memory, since a write or a sync of theirs had failed.
    pub trees_written_anew: u64,
    /// The log is needed from here on, as last written down.
    pub log_start: Lsn,
}

/// The levels of an open database. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Base {
    levels: Levels,
    pub(crate) large: LargeTransactions,
    /// Position of the last recorded flush of each family that has a tree.
    flushed: Mutex<Map<CfId, Lsn>>,
    dropped: Mutex<Vec<Dropped>>,
    /// How many keys the trees hold of each family, as of the last recorded flush (F8).
    keys: Mutex<Map<CfId, u64>>,
    pub(crate) jobs: Jobs,
    /// Trees of flushes that failed (F4).
    uncertain: Mutex<BTreeSet<TreeId>>,
    /// Held by who gives up log (F1), and by whom it must stay for.
    cut: Mutex<()>,
    /// Flushes of one call that run at a time.
    side_by_side: usize,
    pub(crate) relogs: Mutex<Relogs>,
    stat: Mutex<FlushStat>,
    pub(crate) troubles: FlushTroubles,
    pub(crate) figures: Mutex<FlushFigures>,
}

/// What a flush works on.
pub(crate) struct Parts<'a> {
    pub(crate) families: &'a Families,
    pub(crate) garbage: &'a Garbage,
    pub(crate) txns: &'a Txns<EngineLog>,
    pub(crate) quorum: &'a QuorumNotes,
    pub(crate) warnings: &'a Warnings,
}

/// A tree that is to be written anew although no job of it has failed.
struct Rotten<'a> {
    tree: TreeId,
    /// Its files that are not as they were written.
    damaged: &'a [PathBuf],
    why: &'a str,
}

/// A tree that was written anew, and what was wrong with the one before.
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
            "store: tree {old} failed, and was written anew from memory as tree {tree}: {rows} rows, {table_bytes} bytes. What had failed: {why}"
        )
    }
}

/// A family on its way to its tree.
struct Taken {
    family: Arc<Family>,
    rows: Unflushed,
    entries: Vec<FlushEntry>,
}

/// Returns whether these families, which are flushed together, have something that their levels lack, or are in a tree that is to
/// be rewritten.
fn lack(families: &[Arc<Family>], rewrite: &[CfId]) -> bool {
    families.iter().any(|family| family.unflushed().since.is_some() || rewrite.contains(&family.id()))
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

/// Tells of a flush of `cfs` families that was measured.
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
    /// Over levels that were opened, with every tree loaded; `jobs` flushes and re-logs at a time. A family that is not in memory was dropped, durably.
    ///
    /// # Panics
    /// When sessions were opened and no place is left.
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
        // A simulated disk counts its calls: there they come from one thread, in one order.
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

    /// Returns the levels.
    pub(crate) const fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Holds up every flush until what is returned is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_up(&self) -> impl Sized + '_ {
        self.jobs.hold_up()
    }

    /// Holds up the end of every flush, once its tables are written, until what is returned is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_ends(&self) -> impl Sized + '_ {
        self.stat.lock()
    }

    /// Returns the counters.
    pub(crate) fn stat(&self) -> FlushStat {
        *self.stat.lock()
    }

    /// Notes that a family is about to be taken out of memory, by a drop whose commit is in the log or will be lost.
    pub(crate) fn family_goes(&self, cf: CfId, parts: &Parts<'_>) {
        let family = parts.families.get(cf);
        let since = family.and_then(|family| family.unflushed().since).unwrap_or(Lsn::MAX);
        let at = parts.txns.log().boundary();
        self.dropped.lock().push(Dropped { cf, at, since });
    }

    /// Flushes these families, and with each its atomic group: what was committed to them and durable before the call is in the
    /// levels afterwards. Several trees are flushed side by side. One that is not there, or has nothing to flush, costs nothing, but
    /// for a wait while somebody else flushes it.
    ///
    /// # Errors
    /// The first failure; the others are flushed all the same. The rows of what failed stay in memory and in the log.
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
            // Where no thread can be had this one does it alone.
            let others: Vec<_> = (1..threads).map_while(|number| start(number).ok()).collect();
            let own = flush_some();
            let ends = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ends.fold(own, Result::and)
        })
    }

    /// Returns a living family of each tree whose next flush does more than to bring unflushed rows.
    fn to_be_rewritten(&self) -> Vec<CfId> {
        [self.levels.to_be_rewritten(), self.levels.to_be_replaced()].concat()
    }

    /// Makes a call that writes about `bytes` to the levels. If the disk is full, makes it once more with the room of a log file that is given
    /// up for it: what is written lets more of the log go.
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
        // A table is larger than its rows, by its index and its filter.
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

    /// Returns why flushes fail, or log is not given up, if that is so.
    pub(crate) fn trouble(&self, families: &Families) -> Option<String> {
        let rewrite = self.to_be_rewritten();
        self.troubles.why(|cf| lack(&families.together_with(cf), &rewrite))
    }

    /// Flushes a family and those of its group, and tells what is news of it.
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

    /// Writes a tree anew from memory of which files have rotted, which are kept in quarantine: by a flush of its families. `None`: there is
    /// no such tree any more, or a family of it is about to go: nothing was done, and what is left then can be tried again.
    ///
    /// # Durability
    /// The new tree is on disk when it returns. After an error the families have the old one.
    ///
    /// # Errors
    /// The levels', the log's.
    pub(crate) fn write_rotten_anew(
        &self,
        tree: TreeId,
        damaged: &[PathBuf],
        why: &str,
        parts: &Parts<'_>,
    ) -> Result<Option<Replaced>, EngineError> {
        let in_memory = |cf: &CfId| parts.families.get(*cf).is_some();
        // Without any of them the tree goes as soon as their drop is durable.
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

    /// Flushes a family and those of its group. Says so if their tree was written anew, as one that failed or is `rotten` is.
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
            return Ok(None); // somebody else has done it meanwhile
        }
        let held = parts.txns.hold_durable(claim.place()); // F2, F3
        let position = if is_planted("flush at the boundary") { parts.txns.log().boundary() } else { held.snapshot() };
        let families = parts.families.together_with(cf); // F7: after the position
        let Some(tree) = self.lending(parts, 0, || self.tree_for(&families))? else { return Ok(None) };
        self.settle_drops_in(tree, &families, parts)?;
        // All of them may have been dropped meanwhile.
        let Some(state) = self.find_tree(tree) else { return Ok(None) };
        let at = FlushAt { position, flushed: state.flush_lsn, uncertain: self.is_uncertain(tree) };
        let in_tree = |family: &Arc<Family>| state.cfs.binary_search(&family.id()).is_ok();
        let mut taken = Vec::new();
        for family in families.into_iter().filter(in_tree) {
            let rows = family.take_unflushed();
            let entries = family.flush_entries(&rows, at, &Fates(parts.txns));
            taken.push(Taken { family, rows, entries });
        }
        let rotten = rotten.filter(|rotten| rotten.tree == tree);
        let failure = rotten.map(|rotten| rotten.why.to_owned()).or_else(|| self.levels.failure(tree));
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
                parts.garbage.look_again(entry.csn, cf, &entry.row); // its death waited for this
            }
        }
        Ok(anew)
    }

    /// Writes the tree anew from memory.
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

    /// Returns the tree of these families, which are flushed together, and takes into it those that have rows for it; `None`: there
    /// is none, and none is needed.
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

    /// Takes members out of the tree whose drop is not settled: what an interrupted flush may have brought of them would not come
    /// again, and nobody would know how many keys there are (F8).
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

    /// Adds what was taken to the tree, durably.
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
        self.keys.lock().extend(keys);
        // A tree that cannot be merged says so at its next flush.
        if !state.dropped.is_empty() {
            let _later = self.levels.compact(state.id); // what was deleted takes up space until then
        } else if flushed.compaction_due {
            let _later = self.levels.compact_due(state.id);
        }
        Ok(())
    }

    /// Returns the family whose unflushed rows need the oldest part of the log, and from where on; `None`: no family does.
    pub(crate) fn oldest(families: &Families) -> Option<(CfId, Lsn)> {
        let unflushed = families.all().into_iter().filter_map(|family| Some((family.id(), family.unflushed().since?)));
        unflushed.min_by_key(|(_, since)| *since)
    }

    /// Returns the families whose unflushed rows need log from below `below`, the oldest first, with their bytes of unflushed rows.
    pub(crate) fn needing(below: Lsn, families: &Families) -> Vec<(CfId, u64)> {
        let all = families.all();
        let unflushed = all.iter().map(|family| (family.id(), family.unflushed()));
        let old = unflushed.filter_map(|(cf, stat)| Some((stat.since?, cf, stat.bytes)));
        let mut old: Vec<(Lsn, CfId, u64)> = old.filter(|(since, ..)| *since < below).collect();
        old.sort_unstable();
        old.into_iter().map(|(_, cf, bytes)| (cf, bytes)).collect()
    }

    /// Has the log stay as it is, for as long as what is returned lives.
    pub(crate) fn keep_log(&self) -> MutexGuard<'_, ()> {
        self.cut.lock()
    }

    /// Gives up the log that nobody needs, if that is `step_bytes` or more since the last time. Returns from where on
    /// flushes need it; `None` where no log is open.
    ///
    /// # Errors
    /// The levels', the log's: then the log is longer than it must be.
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
        let durable = log.durable(); // F5: first
        self.settle_drops(log.settled())?; // a drop that may be taken back needs its tree
        let families = Self::oldest(parts.families).map_or(Lsn::MAX, |(_, since)| since);
        let dropped = self.dropped.lock().iter().map(|dropped| dropped.since).min().unwrap_or(Lsn::MAX);
        let lowest = durable.min(families).min(dropped);
        let flushed_to = |cf| self.flushed_to(cf, parts.families);
        let needed = self.large.lower(lowest, flushed_to).max(Lsn::FIRST);
        let start = self.levels.log_start().max(Lsn::FIRST);
        self.large.forget_below(start);
        // A file that goes only with the next step counts too.
        let flushes_need = self.large.lower_of_committed(lowest, flushed_to).max(Lsn::FIRST);
        let by_flushes = if flushes_need == needed { start } else { flushes_need.max(start) };
        if needed <= start || needed.bytes_since(start) < step_bytes {
            return Ok(Some(by_flushes));
        }
        // After `durable`: everything that was handed out in the log below is below these, and the last bound in it is too.
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

    /// Returns below which commits to a family are in its levels or a re-log; `Lsn::MAX`: nothing of it is needed.
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

    /// Removes the trees of families whose drop is durable, but for those that are being flushed.
    fn settle_drops(&self, durable: Lsn) -> Result<(), EngineError> {
        loop {
            let dropped = self.dropped.lock().iter().map(|dropped| (dropped.at, dropped.cf)).collect::<Vec<_>>();
            let mut settled = 0;
            for (_, cf) in dropped
                .into_iter()
                .filter(|(at, _)| *at <= durable || is_planted("tree goes before its drop is durable"))
            {
                // The members that are left may be on their way to the tree: then the next one does it, or their flush.
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

    /// Removes a family whose drop is durable from its tree.
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
