//! Models of writers, a flush and the cleaner on one family, run under `--cfg loom`.
//!
//! The log of a model is a word: the position of the next commit record. Everything below it is published; a
//! second word states how far it is on disk. A flush keeps the states that it took in a list. At the end, a second
//! flush at the end of the log shows whether anything was lost.
//!
//! Not modelled here: the index (no thread ever waits for its lock), files, reclamation.

use std::collections::BTreeMap;
use std::sync::Arc;

use collie_base::{CfId, LiveSnapshots, Lsn, Xid};
use collie_sync::atomic::{AtomicU64, Ordering};
use collie_sync::model::{bounds, check};
use collie_sync::{mutant, thread};

use super::Family;
use crate::index::OrderedIndex as _;
use crate::loom_commits::{Commits, START};
use crate::pin;
use crate::row::{FlushAt, Pending, Row};
use crate::{
    row::calls::Basis, row::calls::Change, row::calls::InsertOutcome, row::calls::View, row::calls::WriteOutcome,
    row::calls::WriteRules,
};

const KEY: &[u8] = b"k";

/// The state of the one row in the LSM tree, a value or a deletion, and its commit.
type Levels = BTreeMap<(), (Lsn, Option<u8>)>;

struct World {
    family: Family,
    commits: Commits<2>,
    durable: AtomicU64,
}

impl World {
    /// Creates a world whose row has a value that the LSM tree holds as well.
    fn new() -> collie_sync::Arc<Self> {
        let family = Family::with_levels(CfId::new(1));
        assert!(family.load_from_levels(KEY, &[0], Lsn::FIRST));
        collie_sync::Arc::new(Self { family, commits: Commits::new(), durable: AtomicU64::new(START) })
    }

    /// Changes the row as transaction `xid`; `None` when another transaction holds it.
    fn write(&self, xid: u64, change: Change<'_>) -> Option<Pending> {
        self.write_at(Lsn::MAX, xid, change)
    }

    /// Does the same at a snapshot; `None` also when the row was changed after it.
    fn write_at(&self, snapshot: Lsn, xid: u64, change: Change<'_>) -> Option<Pending> {
        let view = View { snapshot, me: Some(Xid::new(xid)), command: 1 };
        let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
        match self.family.write(KEY, change, Basis::Snapshot, &view, &rules, &self.commits) {
            WriteOutcome::Done(pending) => Some(pending),
            _ => None,
        }
    }

    /// Commits: takes a position, publishes, moves the boundary and makes the record durable.
    fn commit(&self, xid: u64, pending: Pending) -> Lsn {
        let csn = self.commits.publish_and(xid, |end| self.durable.store(end, Ordering::Release));
        if mutant!("MARKED_AT_STAMPING") {
            self.family.mark(pending.row(), 1, csn);
        }
        pending.commit(csn);
        csn
    }

    /// Runs one flush of everything committed below a position into `levels`. Returns the position.
    fn flush(&self, levels: &mut Levels, flushed: Lsn) -> Lsn {
        let early = mutant!("LISTS_BEFORE_POSITION").then(|| self.family.take_unflushed());
        let durable = Lsn::new(self.durable.load(Ordering::Acquire));
        let above = mutant!("FLUSHED_AT_BOUNDARY").then(|| self.commits.now());
        let position = above.unwrap_or(durable);
        let taken = early.unwrap_or_else(|| self.family.take_unflushed());
        let at = FlushAt { position, flushed, uncertain: false };
        let entries = self.family.flush_entries(&taken, at, &self.commits);
        for entry in &entries {
            assert!(entry.csn < durable, "the levels hold what the log could lose");
            levels.insert((), (entry.csn, entry.value.as_ref().map(|value| value[0])));
        }
        self.family.note_flushed(&entries);
        position
    }

    /// Runs one re-log of everything committed below a position that is loaded after the start of the re-log.
    /// Returns the logged states.
    fn relog(&self) -> Vec<(Lsn, Option<u8>)> {
        let begin = || self.commits.mark(|end| self.durable.store(end, Ordering::Release));
        let early = (!mutant!("RELOG_BEGINS_LATE")).then(begin);
        let position = Lsn::new(self.durable.load(Ordering::Acquire));
        let taken = self.family.take_unflushed();
        let at = FlushAt { position, flushed: Lsn::new(START), uncertain: false };
        let entries = self.family.relog_entries(&taken, at, &self.commits);
        let since = early.unwrap_or_else(begin);
        self.family.give_back(taken, Some(since));
        entries.iter().map(|entry| (entry.csn, entry.value.as_ref().map(|value| value[0]))).collect()
    }

    /// Puts a new row where there is none or a deleted one; `None` when another transaction holds it.
    fn insert(&self, xid: u64, value: u8) -> Option<Pending> {
        let view = View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 };
        let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
        match self.family.insert(KEY, &[value], &view, &rules, &self.commits) {
            InsertOutcome::Done(pending) | InsertOutcome::DoneAfter { pending, .. } => Some(pending),
            _ => None,
        }
    }

    fn newest(&self) -> Option<u8> {
        let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
        self.family.read(KEY, &view, &self.commits, &pin()).map(|value| value[0])
    }

    fn live(&self) -> LiveSnapshots {
        LiveSnapshots::new(Lsn::new(self.durable.load(Ordering::Acquire)), Vec::new())
    }
}

const LOST: &str = "a commit below the flush is in no table";

/// Two writers, of which one may be refused, concurrently with a flush.
fn writers_and_flush() {
    let world = World::new();
    let writers = [1, 0].map(|xid| {
        let world = world.clone();
        thread::spawn(move || {
            let value = [u8::try_from(xid).unwrap() + 1];
            let pending = world.write(xid, Change::Put(&value))?;
            Some((world.commit(xid, pending), value[0]))
        })
    });
    let mut levels = Levels::new();
    let position = world.flush(&mut levels, Lsn::ZERO);
    let committed: Vec<(Lsn, u8)> = writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect();
    let newest_below = |end: Lsn| committed.iter().filter(|(csn, _)| *csn < end).max();
    if let Some((csn, value)) = newest_below(position) {
        assert_eq!(levels.get(&()), Some(&(*csn, Some(*value))), "{LOST}");
    }
    // The next flush reaches everything else: no row is missing from every list.
    let end = world.flush(&mut levels, position);
    if let Some((csn, value)) = newest_below(end) {
        assert_eq!(levels.get(&()), Some(&(*csn, Some(*value))), "{LOST}");
    }
}

/// A row that the LSM tree holds is deleted, concurrently with a flush and a cleaner. Then everything is flushed
/// and cleaned once more.
fn deleter_flush_and_cleaner() {
    let world = World::new();
    let row: Arc<Row> = world.family.index.with(KEY, Arc::clone).expect("it is there");
    let deleter = thread::spawn({
        let world = world.clone();
        move || {
            let pending = world.write(1, Change::Delete).expect("nobody else");
            world.commit(1, pending);
        }
    });
    let cleaner = thread::spawn({
        let (world, row) = (world.clone(), Arc::clone(&row));
        move || {
            let _ = world.family.clean(&row, &world.live());
        }
    });
    let mut levels = Levels::from([((), (Lsn::FIRST, Some(0)))]);
    let position = world.flush(&mut levels, Lsn::ZERO);
    deleter.join().unwrap();
    cleaner.join().unwrap();
    let _ = world.family.clean(&row, &world.live());
    world.flush(&mut levels, position);
    let _ = world.family.clean(&row, &world.live());
    assert_eq!(levels.get(&()).map(|(_, value)| *value), Some(None), "a deleted row comes back at the next open");
    assert_eq!((world.newest(), world.family.stat().rows), (None, 0), "the row is gone once that is flushed");
}

/// A row that the LSM tree does not hold is put, then deleted while a flush takes it: a later flush deletes it
/// from the tree again.
fn new_row_deleted_beside_a_flush() {
    let world = World::new();
    let row: Arc<Row> = world.family.index.with(KEY, Arc::clone).expect("it is there");
    row.note_flushed(false); // the LSM tree holds nothing of it
    let pending = world.write(0, Change::Put(&[1])).expect("nobody else");
    world.commit(0, pending);
    let deleter = thread::spawn({
        let (world, row) = (world.clone(), Arc::clone(&row));
        move || {
            let pending = world.write(1, Change::Delete).expect("nobody else");
            world.commit(1, pending);
            let _ = world.family.clean(&row, &world.live());
        }
    });
    let mut levels = Levels::new();
    let position = world.flush(&mut levels, Lsn::ZERO);
    deleter.join().unwrap();
    world.flush(&mut levels, position);
    let value = levels.get(&()).and_then(|(_, value)| *value);
    assert_eq!(value, None, "a deleted row comes back at the next open");
}

const CUT: &str = "a commit is in no log that is kept";

/// Two writers concurrently with a re-log, then a read of the position from which the log is needed: every commit
/// below it is in the re-log or was superseded.
fn writers_and_relog() {
    let world = World::new();
    let writers = [1, 0].map(|xid| {
        let world = world.clone();
        thread::spawn(move || {
            let value = [u8::try_from(xid).unwrap() + 1];
            // The log had reached this position before the write: the row needs the log from here on.
            let snapshot = world.commits.now();
            let pending = world.write_at(snapshot, xid, Change::Put(&value))?;
            Some((world.commit(xid, pending), value[0]))
        })
    });
    let relogged = world.relog();
    let durable = Lsn::new(world.durable.load(Ordering::Acquire)); // loaded before the families are asked
    let kept_from = world.family.unflushed().since.map_or(durable, |since| since.min(durable));
    let committed: Vec<(Lsn, u8)> = writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect();
    for (csn, value) in &relogged {
        assert!(committed.iter().any(|(at, put)| at == csn && Some(*put) == *value), "a re-log of what is no commit");
    }
    if let Some((csn, value)) = committed.iter().max() {
        let is_relogged = relogged.contains(&(*csn, Some(*value)));
        assert!(*csn >= kept_from || is_relogged, "{CUT}: {csn} below {kept_from}");
    }
    // The next flush reaches it too.
    let mut levels = Levels::new();
    world.flush(&mut levels, Lsn::ZERO);
    if let Some((csn, value)) = committed.iter().max() {
        assert_eq!(levels.get(&()), Some(&(*csn, Some(*value))), "{LOST}");
    }
}

/// A deleted row that no LSM tree holds dies and leaves its family, while the key is inserted again and a flush
/// takes the rows that it finds: the new row is present, and it is flushed.
fn dead_row_put_again_beside_a_flush() {
    let world = World::new();
    let row: Arc<Row> = world.family.index.with(KEY, Arc::clone).expect("it is there");
    row.note_flushed(false); // the LSM tree holds nothing of it
    let pending = world.write(0, Change::Delete).expect("nobody else");
    world.commit(0, pending); // listed now
    let cleaner = thread::spawn({
        let (world, row) = (world.clone(), Arc::clone(&row));
        move || {
            let _ = world.family.clean(&row, &world.live());
        }
    });
    let inserter = thread::spawn({
        let world = world.clone();
        move || {
            let pending = world.insert(1, 7).expect("nobody else");
            world.commit(1, pending);
        }
    });
    let mut levels = Levels::new();
    let position = world.flush(&mut levels, Lsn::ZERO);
    cleaner.join().unwrap();
    inserter.join().unwrap();
    assert_eq!(world.newest(), Some(7), "a row that was put is gone");
    world.flush(&mut levels, position);
    assert_eq!(levels.get(&()).map(|(_, value)| *value), Some(Some(7)), "{LOST}");
    assert_eq!(world.family.stat().rows, 1, "a key has one row");
}

/// Goal: L5, R1 and R2 of re-logs: after a re-log no commit below the position from which the log is needed is
/// lost, whatever is written during it. Method: see the model; a start after the position, and marks at stamping
/// or before the exchange, must be caught.
#[test]
fn loom_relog_loses_no_commit_below_the_log_that_is_kept() {
    let (preemptions, floor) = bounds((2, 19_000), (3, 19_000));
    let mistakes = [("RELOG_BEGINS_LATE", 2, CUT), ("MARKED_AT_STAMPING", 2, CUT), ("MARKED_BEFORE_EXCHANGE", 2, CUT)];
    check("re-log, writers", writers_and_relog, preemptions, floor, &mistakes);
}

/// Goal: S8: a row that died while a flush had it listed is removed, and the row that replaces it stays. Method:
/// see the model.
#[test]
fn loom_row_put_in_place_of_a_dead_one_stays_and_is_flushed() {
    const GONE: &str = "a row that was put is gone";
    let (preemptions, floor) = bounds((2, 870), (3, 870));
    let mistakes = [("ROW_DEATH_STORED", 2, GONE), ("REMOVED_BY_KEY", 2, GONE)];
    check("flush, dead row", dead_row_put_again_beside_a_flush, preemptions, floor, &mistakes);
}

/// Goal: L1: every commit below a flush is in the tables or listed for the next flush. Method: see the model; each
/// of the mistakes listed below must be caught.
#[test]
fn loom_flush_misses_no_commit_below_its_position() {
    let (preemptions, floor) = bounds((2, 3000), (3, 3000));
    let mistakes = [
        ("MARKED_AT_STAMPING", 2, LOST),
        ("MARKED_BEFORE_EXCHANGE", 2, LOST),
        ("MARK_CLEARED_LATE", 2, LOST),
        ("LISTS_BEFORE_POSITION", 2, LOST),
        ("ROW_MARK", 2, LOST),
        ("FLUSHED_AT_BOUNDARY", 2, "the levels hold what the log could lose"),
    ];
    check("flush, writers", writers_and_flush, preemptions, floor, &mistakes);
}

/// Goal: L3: a deletion reaches the LSM tree before its row leaves memory, and then the row does leave. Method:
/// see the model.
#[test]
fn loom_deleted_row_stays_until_its_deletion_is_flushed() {
    const BACK: &str = "a deleted row comes back";
    let (preemptions, floor) = bounds((2, 590), (3, 590));
    let mistakes = [("ON_DISK_IGNORED", 2, BACK), ("ON_DISK_IGNORED_BY_FLUSH", 2, BACK)];
    check("flush, cleaner", deleter_flush_and_cleaner, preemptions, floor, &mistakes);
    check("flush, new row", new_row_deleted_beside_a_flush, preemptions, 50, &[("ON_DISK_IGNORED", 2, BACK)]);
}
