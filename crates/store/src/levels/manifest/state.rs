//! `State`: the result of all records of MANIFEST.
//!
//! # Invariants
//! - A1. A family belongs to at most one tree, existing and dropped families included. Ids of trees grow and are never
//!   reused.
//! - A2. A tree's content is that of its last recorded flush or of one of its `begun` ones; if `begun` is empty, it is
//!   known.
//! - A3. `flush` of a tree and `log_start` never move back.
//! - A4. [`State::snapshot`] folds back to the same state.
//! - A5. `dropped` of a tree includes every family that is no longer in it and whose keys its tables may have,
//!   whichever of `begun` happened.
//! - A6. A tree that replaces another one has its families, no keys of dropped ones, and everything that a flush may
//!   have added to the other: its position is no lower.
//!
//! A record that would break one of them is damage: nothing of it is applied. Checked by the tests below.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;

use collie_base::{CfId, Lsn};

use crate::{
    levels::TreeId, levels::manifest::record::Flush, levels::manifest::record::Record, levels::manifest::record::Tree,
};

/// A tree, and the flushes that may have happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownTree {
    pub(crate) tree: Tree,
    /// Flushes begun since the last recorded one, oldest first: after a failure or a crash each may be in the tables or
    /// not.
    pub(crate) begun: Vec<Flush>,
    /// Families dropped since the first of `begun`, ascending: that flush has not removed their keys.
    dropped_since: Vec<CfId>,
}

impl KnownTree {
    /// Returns a tree without flushes in doubt.
    pub(crate) const fn new(tree: Tree) -> Self {
        Self { tree, begun: Vec::new(), dropped_since: Vec::new() }
    }

    /// Returns the position below which all entries of the tables lie.
    pub(crate) fn ceiling(&self) -> Lsn {
        self.begun.iter().map(|flush| flush.lsn).fold(self.tree.ceiling, Ord::max)
    }

    /// Returns the begun flush that the tables contain, if their highest entry, deletes included, lies at `highest`;
    /// `None` if they are as the last recorded flush left them. If several match, returns the oldest: then the later
    /// ones had no further edits.
    pub(crate) fn applied(&self, highest: Option<Lsn>) -> Option<Flush> {
        // Below the ceiling, entries may be older if an older program settled the tree.
        let highest = highest.filter(|highest| *highest >= self.tree.ceiling.max(self.tree.flush.lsn))?;
        self.begun.iter().find(|flush| highest < flush.lsn).copied()
    }

    /// Returns the counts of live keys that the tables may have (A2), without duplicates.
    pub(crate) fn possible_live_keys(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.begun.iter().map(|flush| flush.live_keys).collect();
        counts.push(self.tree.flush.live_keys);
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// The whole state that MANIFEST records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) trees: BTreeMap<TreeId, KnownTree>,
    pub(crate) next: TreeId,
    pub(crate) log_start: Lsn,
    pub(crate) carry: Vec<u8>,
}

impl Default for State {
    fn default() -> Self {
        Self { trees: BTreeMap::new(), next: TreeId::new(1), log_start: Lsn::FIRST, carry: Vec::new() }
    }
}

impl State {
    /// Returns the tree of an existing family.
    pub(crate) fn tree_of(&self, cf: CfId) -> Option<TreeId> {
        self.trees.values().find(|known| known.tree.cfs.contains(&cf)).map(|known| known.tree.id)
    }

    /// Applies one record, or returns why it cannot.
    ///
    /// # Errors
    /// If it contradicts the state, which is then unchanged.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), &'static str> {
        match record {
            Record::Next(next) if *next >= self.next => self.next = *next,
            Record::Next(_) => return Err("tree ids go back"),
            Record::Tree(tree) => self.add(tree)?,
            Record::Begin(id, flush) => {
                let known = self.known(*id)?;
                if flush.lsn < known.ceiling() {
                    return Err("a flush goes back");
                }
                known.begun.push(*flush);
            }
            Record::Done(id, flush) => {
                let known = self.known(*id)?;
                if flush.lsn < known.ceiling() && !known.begun.contains(flush) {
                    return Err("a flush goes back");
                }
                known.tree.ceiling = known.ceiling().max(flush.lsn);
                known.tree.flush = *flush;
                // It is unknown which of the begun flushes it was. A family listed needlessly costs the next flush a
                // scan.
                let kept = std::mem::take(&mut known.dropped_since);
                known.tree.dropped = if known.begun.contains(flush) { kept } else { Vec::new() };
                known.begun.clear();
            }
            Record::Settled(id, live_keys) => {
                let known = self.known(*id)?;
                if !known.possible_live_keys().contains(live_keys) {
                    return Err("a count that no flush left");
                }
                known.tree.flush.live_keys = *live_keys;
                known.tree.ceiling = known.ceiling();
                (known.begun, known.dropped_since) = (Vec::new(), Vec::new());
            }
            Record::TreeDropped(id) => {
                self.trees.remove(id).ok_or("a tree that is not there is dropped")?;
            }
            Record::FamilyDropped(id, cf) => {
                let known = self.known(*id)?;
                let tree = &mut known.tree;
                let at = tree.cfs.binary_search(cf).map_err(|_| "a family that is not there is dropped")?;
                if tree.cfs.len() == 1 {
                    return Err("a tree is left without families");
                }
                tree.cfs.remove(at);
                insert(&mut tree.dropped, *cf);
                if !known.begun.is_empty() {
                    insert(&mut known.dropped_since, *cf);
                }
            }
            Record::FamilyAdded(id, cf) => {
                if self.trees.values().any(|known| known.tree.has_or_had(*cf)) {
                    return Err("a family in two trees");
                }
                insert(&mut self.known(*id)?.tree.cfs, *cf);
            }
            Record::LogStart(lsn, _) if *lsn < self.log_start => return Err("the log's start goes back"),
            Record::LogStart(lsn, carry) => {
                self.log_start = *lsn;
                self.carry.clone_from(carry);
            }
        }
        Ok(())
    }

    /// Replaces the tree `old` by `new`, or returns why it cannot.
    ///
    /// # Errors
    /// If it contradicts the state, which is then unchanged.
    pub(crate) fn replace(&mut self, old: TreeId, new: Tree) -> Result<(), &'static str> {
        let known = self.trees.get(&old).ok_or("a tree that is not there is replaced")?;
        if self.trees.contains_key(&new.id) || new.cfs != known.tree.cfs || !new.dropped.is_empty() {
            return Err("a tree is replaced by another one's, or by one of other families");
        }
        if new.flush.lsn < known.ceiling() || new.ceiling < new.flush.lsn {
            return Err("a flush goes back");
        }
        // Another tree may have been created since the id was drawn.
        self.next = self.next.max(TreeId::new(new.id.get().checked_add(1).ok_or("no tree id is left")?));
        self.trees.remove(&old);
        self.trees.insert(new.id, KnownTree::new(new));
        Ok(())
    }

    /// Returns records that build this state from an empty one.
    pub(crate) fn snapshot(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for known in self.trees.values() {
            let mut tree = known.tree.clone();
            for cf in &known.dropped_since {
                tree.dropped.retain(|dropped| dropped != cf);
                insert(&mut tree.cfs, *cf);
            }
            records.push(Record::Tree(tree));
            records.extend(known.begun.iter().map(|flush| Record::Begin(known.tree.id, *flush)));
            records.extend(known.dropped_since.iter().map(|cf| Record::FamilyDropped(known.tree.id, *cf)));
        }
        records.push(Record::Next(self.next));
        records.push(Record::LogStart(self.log_start, self.carry.clone()));
        records
    }

    fn known(&mut self, id: TreeId) -> Result<&mut KnownTree, &'static str> {
        self.trees.get_mut(&id).ok_or("a tree that is not there")
    }

    fn add(&mut self, tree: &Tree) -> Result<(), &'static str> {
        if tree.id < self.next || tree.cfs.is_empty() || tree.ceiling < tree.flush.lsn {
            return Err("a tree that was there before, or cannot be");
        }
        let taken = |cf: &CfId| self.trees.values().any(|known| known.tree.has_or_had(*cf));
        if tree.cfs.iter().chain(&tree.dropped).any(taken) || tree.cfs.iter().any(|cf| tree.dropped.contains(cf)) {
            return Err("a family in two trees");
        }
        self.next = TreeId::new(tree.id.get().checked_add(1).ok_or("no tree id is left")?);
        self.trees.insert(tree.id, KnownTree::new(tree.clone()));
        Ok(())
    }
}

/// Inserts a family into an ascending list that lacks it.
fn insert(cfs: &mut Vec<CfId>, cf: CfId) {
    cfs.insert(cfs.partition_point(|member| *member < cf), cf);
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the numbers are the test's own")]
mod tests {
    use super::*;
    use crate::levels::manifest::record::samples;
    use proptest::prelude::*;

    fn tree(id: u32, cfs: &[u32]) -> Record {
        let cfs = cfs.iter().copied().map(CfId::new).collect();
        Record::Tree(Tree::empty(TreeId::new(id), cfs))
    }

    fn flush(lsn: u64, live_keys: u64) -> Flush {
        Flush { lsn: Lsn::new(lsn), live_keys }
    }

    /// Goal: a begun flush stays possible until a later one is done or a count settles it (A2). Method: two begun
    /// flushes, then each ending.
    #[test]
    fn begun_flush_stays_possible_until_done_or_settled() {
        let id = TreeId::new(1);
        let mut state = State::default();
        for record in [tree(1, &[16]), Record::Begin(id, flush(10, 3)), Record::Begin(id, flush(20, 5))] {
            state.apply(&record).unwrap();
        }
        assert_eq!(state.trees[&id].possible_live_keys(), [0, 3, 5]);
        assert_eq!(state.trees[&id].ceiling(), Lsn::new(20));
        let mut settled = state.clone();
        assert!(settled.apply(&Record::Settled(id, 4)).is_err());
        settled.apply(&Record::Settled(id, 3)).unwrap();
        assert_eq!((settled.trees[&id].tree.flush, settled.trees[&id].begun.len()), (flush(0, 3), 0));
        assert_eq!(settled.trees[&id].ceiling(), Lsn::new(20), "entries of the flush at 20 may be there");
        state.apply(&Record::Done(id, flush(20, 5))).unwrap();
        assert_eq!(state.trees[&id].possible_live_keys(), [5]);
    }

    /// Goal: the highest entry tells which begun flush a tree has, and recording that flush does not move back (A2,
    /// A3). Method: two begun flushes over a recorded one, entries on each side of every position; a tree with a
    /// ceiling left by an older program.
    #[test]
    fn highest_entry_tells_the_flush_that_was_applied() {
        let id = TreeId::new(1);
        let mut state = State::default();
        let begun = [Record::Begin(id, flush(20, 3)), Record::Begin(id, flush(30, 5))];
        for record in [tree(1, &[16]), Record::Done(id, flush(10, 2))].iter().chain(&begun) {
            state.apply(record).unwrap();
        }
        let known = &state.trees[&id];
        let applied = [None, Some(9), Some(10), Some(19), Some(20), Some(29)]
            .map(|highest| known.applied(highest.map(Lsn::new)).map(|flush| flush.lsn.get()));
        assert_eq!(applied, [None, None, Some(20), Some(20), Some(30), Some(30)]);
        let mut done = state.clone();
        done.apply(&Record::Done(id, flush(20, 3))).unwrap();
        let known = &done.trees[&id];
        assert_eq!((known.tree.flush, known.begun.len(), known.ceiling()), (flush(20, 3), 0, Lsn::new(30)));
        assert!(done.apply(&Record::Begin(id, flush(29, 3))).is_err());
        state.apply(&Record::Settled(id, 2)).unwrap();
        state.apply(&Record::Begin(id, flush(40, 4))).unwrap();
        let known = &state.trees[&id];
        assert_eq!(known.applied(Some(Lsn::new(29))), None, "of a flush before the ceiling");
        assert_eq!(known.applied(Some(Lsn::new(30))), Some(flush(40, 4)));
    }

    /// Goal: A5: a flush in doubt removed from the tables only families that were dropped before it began; a family
    /// dropped later stays dropped if the flush turns out to have happened, also over a rewrite of the file. Method: a
    /// drop on each side of a Begin, then each ending.
    #[test]
    fn family_dropped_after_a_flush_began_outlives_it() {
        let id = TreeId::new(1);
        let mut state = State::default();
        let (before, after) = (CfId::new(17), CfId::new(18));
        let records = [
            tree(1, &[16, 18]),
            Record::FamilyAdded(id, before),
            Record::FamilyDropped(id, before),
            Record::Begin(id, flush(10, 3)),
            Record::FamilyDropped(id, after),
        ];
        records.iter().for_each(|record| state.apply(record).unwrap());
        assert_eq!(state.trees[&id].tree.dropped, [before, after]);
        let mut again = State::default();
        state.snapshot().iter().for_each(|record| again.apply(record).unwrap());
        assert_eq!(again, state);
        for (ending, dropped) in [
            (Record::Done(id, flush(10, 3)), vec![after]),
            (Record::Settled(id, 0), vec![before, after]),
            (Record::Done(id, flush(20, 1)), vec![]),
        ] {
            let mut ended = again.clone();
            ended.apply(&ending).unwrap();
            assert_eq!(ended.trees[&id].tree.dropped, dropped, "{ending:?}");
            assert_eq!(ended.trees[&id].tree.cfs, [CfId::new(16)]);
        }
    }

    /// Goal: A1, A3: a contradicting record is refused and changes nothing. Method: one record for each rule.
    #[test]
    fn record_that_contradicts_is_refused_and_changes_nothing() {
        let id = TreeId::new(1);
        let mut state = State::default();
        for record in [tree(1, &[16, 17]), Record::Done(id, flush(10, 3)), Record::LogStart(Lsn::new(8192), Vec::new())]
        {
            state.apply(&record).unwrap();
        }
        let wrong = [
            tree(1, &[18]),
            tree(2, &[17]),
            tree(2, &[]),
            Record::Next(id),
            Record::Begin(id, flush(9, 3)),
            Record::Done(id, flush(9, 3)),
            Record::Begin(TreeId::new(2), flush(10, 3)),
            Record::TreeDropped(TreeId::new(2)),
            Record::FamilyDropped(id, CfId::new(18)),
            Record::FamilyAdded(id, CfId::new(17)),
            Record::FamilyAdded(TreeId::new(2), CfId::new(18)),
            Record::LogStart(Lsn::new(8191), Vec::new()),
        ];
        for record in wrong {
            let before = state.clone();
            assert!(state.apply(&record).is_err(), "{record:?}");
            assert_eq!(state, before, "{record:?}");
        }
    }

    /// Goal: A6: a tree replaces another in one step, the snapshot records that, and an unsuitable replacement is
    /// refused. Method: a group with a dropped member and a flush in doubt, replaced; one tree for each rule.
    #[test]
    fn tree_takes_the_place_of_another_in_one_step() {
        let (old, new) = (TreeId::new(1), TreeId::new(2));
        let mut state = State::default();
        for record in [
            tree(1, &[16, 17]),
            Record::Done(old, flush(10, 3)),
            Record::FamilyDropped(old, CfId::new(17)),
            Record::Begin(old, flush(20, 4)),
            Record::Next(TreeId::new(3)),
        ] {
            state.apply(&record).unwrap();
        }
        let with = |id, cfs: &[u32], lsn, ceiling| Tree {
            id: TreeId::new(id),
            flush: flush(lsn, 5),
            ceiling: Lsn::new(ceiling),
            cfs: cfs.iter().copied().map(CfId::new).collect(),
            dropped: Vec::new(),
        };
        for wrong in
            [with(1, &[16], 30, 30), with(2, &[16, 17], 30, 30), with(2, &[16], 19, 19), with(2, &[16], 30, 29)]
        {
            let before = state.clone();
            assert!(state.replace(old, wrong.clone()).is_err(), "{wrong:?}");
            assert_eq!(state, before, "{wrong:?}");
        }
        state.replace(old, with(2, &[16], 30, 30)).unwrap();
        let known = &state.trees[&new];
        assert_eq!((state.trees.len(), known.possible_live_keys(), known.ceiling()), (1, vec![5], Lsn::new(30)));
        state.apply(&tree(3, &[17])).unwrap();
        let mut again = State::default();
        state.snapshot().iter().for_each(|record| again.apply(record).unwrap());
        assert_eq!(again, state);
    }

    proptest! {
        /// Goal: A4. Method: random records, refused ones left out; the snapshot of the result builds the same state.
        #[test]
        fn snapshot_makes_the_same_state(picks in prop::collection::vec((0_usize..9, 1_u32..4, 0_u64..50), 0..40)) {
            let mut state = State::default();
            for (kind, id, number) in picks {
                let (id, flush) = (TreeId::new(id), flush(number, number / 2));
                let record = match &samples()[kind] {
                    Record::Next(_) => Record::Next(id),
                    Record::Tree(_) => tree(id.get(), &[id.get() * 2, id.get() * 2 + 1]),
                    Record::Begin(..) => Record::Begin(id, flush),
                    Record::Done(..) => Record::Done(id, flush),
                    Record::Settled(..) => Record::Settled(id, number / 2),
                    Record::TreeDropped(_) => Record::TreeDropped(id),
                    Record::FamilyDropped(..) => Record::FamilyDropped(id, CfId::new(id.get() * 2)),
                    Record::FamilyAdded(..) => Record::FamilyAdded(id, CfId::new(20 + u32::try_from(number).unwrap())),
                    Record::LogStart(_, carry) => Record::LogStart(Lsn::FIRST.plus(number), carry.clone()),
                };
                let _refused = state.apply(&record);
            }
            let mut again = State::default();
            for record in state.snapshot() {
                prop_assert_eq!(again.apply(&record), Ok(()), "{:?}", record);
            }
            prop_assert_eq!(again, state);
        }
    }
}
