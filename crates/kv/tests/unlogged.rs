//! Unlogged writes (`disable_wal`): their state after a crash, a flush and a close.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use collie_engine::{Env, ErrorKind};
use collie_env::{SimFiles, SimRandom};
use collie_kv::{Batch, Cf, CfOptions, Db, Durability, FlushTo, TxnOptions};
use collie_wal::{RecordKind, TailOptions};
use common::{DIR, open_tiny, tiny};

const SYNC: Durability = Durability::Local;
const ASYNC: Durability = Durability::Async;
const UNLOGGED: Durability = Durability::Unlogged;
const NAMES: [&str; 2] = ["a", "b"];

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &SimFiles, seed: u64) -> Db {
    Db::over(&open_tiny(Env::over(disk.clone(), seed)).unwrap().0)
}

fn rows(db: &Db, name: &str) -> Rows {
    let cf = db.cf(name).unwrap();
    db.snapshot().unwrap().scan(&cf, ..).map(|item| item.unwrap().to_pair()).collect()
}

fn put(db: &Db, cf: &Cf, key: u8, value: &str, durability: Durability) {
    db.put(cf, [key], value, durability).unwrap();
}

/// One write of a run.
#[derive(Clone)]
struct Op {
    cf: usize,
    key: u8,
    value: Option<Vec<u8>>,
    unlogged: bool,
}

/// The writes of a run so far, and how many of them must survive.
#[derive(Clone, Default)]
struct Progress {
    /// The last write may be in progress.
    ops: Vec<Op>,
    /// Number of writes that are durable in the log.
    durable: usize,
    /// Number of writes that the last flush of each family holds.
    flushed: [usize; 2],
    /// The family that is being flushed.
    flushing: Option<usize>,
}

impl Progress {
    /// Returns the rows of a family whose last flush came after `flushed` writes, with a log that has the first
    /// `logged`.
    fn expected(&self, cf: usize, flushed: usize, logged: usize) -> Rows {
        let mut rows = Rows::new();
        for (at, op) in self.ops.iter().enumerate().take(logged).filter(|(_, op)| op.cf == cf) {
            if at >= flushed && op.unlogged {
                continue;
            }
            match &op.value {
                Some(value) => _ = rows.insert(vec![op.key], value.clone()),
                None => _ = rows.remove(&[op.key][..]),
            }
        }
        rows
    }

    /// Returns whether these rows are allowed: for one length of the log, and for the last flush or the one in
    /// progress.
    fn allows(&self, found: &[Rows; 2]) -> bool {
        (self.durable..=self.ops.len()).any(|logged| {
            (0..2).all(|cf| {
                let under_way = (self.flushing == Some(cf)).then_some(self.ops.len());
                let flushes = [Some(self.flushed[cf]), under_way];
                flushes
                    .into_iter()
                    .flatten()
                    .filter(|at| *at <= logged)
                    .any(|at| self.expected(cf, at, logged) == found[cf])
            })
        })
    }
}

/// Makes writes of each kind to two families, with flushes between them.
fn live(disk: &SimFiles, seed: u64, progress: &Mutex<Progress>) {
    let random = SimRandom::new(seed);
    let db = open(disk, seed);
    let cfs = NAMES.map(|name| db.cf(name).unwrap());
    for round in 0..28_u8 {
        let below = |limit| usize::try_from(random.below(limit)).unwrap();
        let (cf, key, unlogged, sync) = (below(2), u8::try_from(below(4)).unwrap(), below(2) == 0, below(3) == 0);
        let value = (below(3) > 0).then(|| vec![round; [5, 2000][below(2)]]);
        progress.lock().unwrap().ops.push(Op { cf, key, value: value.clone(), unlogged });
        let durability = if unlogged {
            UNLOGGED
        } else if sync {
            SYNC
        } else {
            ASYNC
        };
        let receipt = match value {
            Some(value) => db.put(&cfs[cf], [key], value, durability).unwrap(),
            None => db.delete(&cfs[cf], [key], durability).unwrap(),
        };
        if durability == SYNC && receipt.token.is_some() {
            let mut progress = progress.lock().unwrap();
            progress.durable = progress.ops.len();
        }
        if below(4) == 0 {
            let cf = below(2);
            progress.lock().unwrap().flushing = Some(cf);
            db.flush_cf(&[&cfs[cf]]).unwrap();
            let mut progress = progress.lock().unwrap();
            let all = progress.ops.len();
            (progress.flushing, progress.flushed[cf], progress.durable) = (None, all, all);
        }
        db.engine().tick();
    }
}

/// Opens the state after a crash, checks it, and continues: later writes are there after the next crash.
fn check(disk: &SimFiles, progress: &Progress, seed: u64) {
    let db = open(disk, seed);
    let found = NAMES.map(|name| rows(&db, name));
    assert!(progress.allows(&found), "{found:02x?} after {} writes", progress.ops.len());
    let keys = |rows: &Rows| rows.keys().map(|key| key[0]).collect::<Vec<_>>();
    drop(db);
    let cut = disk.power_cut(seed);
    let db = open(&cut, seed + 1);
    assert_eq!(NAMES.map(|name| rows(&db, name)), found, "opening changes nothing: {:?}", found.each_ref().map(keys));
    for name in NAMES {
        let cf = db.cf(name).unwrap();
        put(&db, &cf, 0, "again", SYNC);
        db.delete(&cf, [1], ASYNC).unwrap();
        put(&db, &cf, 2, "unlogged", UNLOGGED);
        db.flush_cf(&[&cf]).unwrap();
    }
    let then = NAMES.map(|name| rows(&db, name));
    let cut = cut.power_cut(seed);
    drop(db);
    let db = open(&cut, seed + 2);
    assert_eq!(NAMES.map(|name| rows(&db, name)), then, "what was flushed stays");
}

/// Goal: whenever the power is cut, also in the middle of a flush, each family has exactly the unlogged writes below
/// its last flush and all logged ones, and continues from there. Method: random runs; at each call to the disk a state
/// that a power cut could leave; opened twice, written to, flushed, cut off again.
#[test]
fn power_cut_anywhere_leaves_unlogged_writes_back_to_the_last_flush() {
    let mut checked = 0;
    for seed in 0..20_u64 {
        let (env, disk) = Env::simulated(seed);
        let db = Db::over(&open_tiny(env).unwrap().0);
        NAMES.iter().for_each(|name| _ = db.create_cf(name, CfOptions::default()).unwrap());
        db.close().unwrap();
        drop(db);
        let progress = Arc::new(Mutex::new(Progress::default()));
        checked += common::at_each_moment(&disk, &progress, seed, || live(&disk, 100 + seed, &progress), check);
    }
    assert!(checked > 600, "only {checked} moments");
}

/// Goal: a flush whose tables are written but whose record is missing counts: replay does not bring back a row that an
/// unlogged deletion removed. Method: a logged put, its unlogged deletion and another unlogged put; the power is cut at
/// each call of their flush; opened twice.
#[test]
fn flush_whose_record_is_lost_counts_when_its_tables_are_there() {
    let (env, disk) = Env::simulated(61);
    let db = Db::over(&open_tiny(env).unwrap().0);
    let cf = db.create_cf("a", CfOptions::default()).unwrap();
    put(&db, &cf, 0, "flushed before", SYNC);
    db.flush_cf(&[&cf]).unwrap();
    put(&db, &cf, 1, "logged", SYNC);
    db.delete(&cf, [1], UNLOGGED).unwrap();
    put(&db, &cf, 2, "unlogged", UNLOGGED);
    let returned = Arc::new(Mutex::new(false));
    let moments = common::moments_of(&disk, &returned, || db.flush_cf(&[&cf]).unwrap());
    let (random, mut counts) = (SimRandom::new(4), [0; 2]);
    for (point, _) in &moments {
        let drawn = (0..4).map(|_| point.drawn(&random));
        for picks in [point.none_kept(), point.all_kept()].into_iter().chain(drawn) {
            let mut left = point.state(&picks);
            for open_again in 0..2 {
                let found = rows(&open(&left, 62 + open_again), "a");
                let found: Vec<u8> = found.into_keys().flatten().collect();
                left = left.process_kill();
                let is_flushed = found == [0, 2];
                assert!(is_flushed || found == [0, 1], "a half of what was flushed: {found:?}");
                counts[usize::from(is_flushed)] += 1;
            }
        }
    }
    assert!(counts[0] > 5 && counts[1] > 5, "{counts:?} before and after, all before the call returned");
}

/// Goal: a close keeps unlogged writes, unless it is set not to flush for them; logged ones stay in either case, and a
/// kill loses unlogged ones. Method: one row of each kind, each kind of end.
#[test]
fn close_flushes_unlogged_rows_unless_told_not_to() {
    for (avoid, close) in [(false, true), (true, true), (false, false)] {
        let (env, disk) = Env::simulated(1);
        let mut options = tiny();
        options.avoid_flush_at_close = avoid;
        let engine = collie_engine::Db::open(Path::new(DIR), options, env, &mut |_| ()).unwrap().0;
        let db = Db::over(&engine);
        let cf = db.create_cf("a", CfOptions::default()).unwrap();
        put(&db, &cf, 1, "logged", SYNC);
        let receipt = db.put(&cf, [2], "unlogged", UNLOGGED).unwrap();
        assert!(!receipt.is_durable() && receipt.token.is_some(), "it has its place in the order of commits");
        let flushes = db.engine().flush_stat().flushes;
        db.flush_wal(FlushTo::Disk).unwrap();
        if close {
            db.close().unwrap();
        }
        assert_eq!(db.engine().flush_stat().flushes - flushes, u64::from(close && !avoid));
        drop((db, engine, cf));
        let db = open(&disk.process_kill(), 2);
        let kept: Vec<u8> = rows(&db, "a").into_keys().map(|key| key[0]).collect();
        assert_eq!(kept, if close && !avoid { vec![1, 2] } else { vec![1] }, "avoid {avoid}, close {close}");
    }
}

/// Goal: unlogged writes that could survive in part are refused, and nothing of them is there. Method: batches and
/// transactions over two families; a follower of the log, which sees a hole once the option allows it; the same batch
/// over one family.
#[test]
fn unlogged_writes_that_somebody_would_miss_are_refused() {
    let (env, _disk) = Env::simulated(1);
    let db = Db::over(&open_tiny(env).unwrap().0);
    let [a, b] = NAMES.map(|name| db.create_cf(name, CfOptions::default()).unwrap());
    let refused = |outcome: Result<_, collie_kv::Error>| {
        let error = outcome.map(|_: collie_kv::Receipt| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("unlogged"), "{error}");
        error.to_string()
    };
    let batch = |cfs: [&Cf; 2]| {
        let mut batch = Batch::new();
        batch.put(cfs[0], "k", "1");
        batch.put(cfs[1], "l", "2");
        batch
    };
    assert!(refused(db.write(batch([&a, &b]), UNLOGGED)).contains("several families"));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&a, "k", "1").unwrap();
    txn.put(&b, "k", "1").unwrap();
    assert!(refused(txn.commit(UNLOGGED)).contains("several families"));
    assert_eq!((rows(&db, "a").len(), rows(&db, "b").len()), (0, 0));

    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&a, "m", "1").unwrap();
    let savepoint = txn.savepoint();
    txn.put(&b, "m", "1").unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.commit(UNLOGGED).unwrap();
    db.write(batch([&a, &a]), UNLOGGED).unwrap();
    assert_eq!((rows(&db, "a").len(), rows(&db, "b").len()), (3, 0));
    db.flush_wal(FlushTo::Disk).unwrap();

    let log = db.engine().log().unwrap();
    let mut tail = log.tail("follower", TailOptions::resume()).unwrap();
    let mut holes = 0;
    while let Some(record) = tail.try_next().unwrap() {
        holes += u32::from(record.kind == RecordKind::Unlogged);
    }
    assert_eq!(holes, 2);
    assert!(refused(db.put(&a, "n", "1", UNLOGGED)).contains("store.allow_replication_holes"));
    drop(tail);
    assert!(refused(db.put(&a, "n", "1", UNLOGGED)).contains("follows the log"), "he may come back");
    assert!(log.remove_consumer("follower").unwrap());
    db.put(&a, "n", "1", UNLOGGED).unwrap();
}

/// Goal: a transaction that is too large for one record and is then committed unlogged leaves nothing in the log that
/// counts; once flushed, all of it is there. Method: values of several pieces; a kill before and after a flush.
#[test]
fn large_transaction_can_be_committed_unlogged() {
    for flush in [false, true] {
        let (env, disk) = Env::simulated(1);
        let db = Db::over(&open_tiny(env).unwrap().0);
        let cf = db.create_cf("a", CfOptions::default()).unwrap();
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        (0..20_u8).for_each(|key| txn.put(&cf, [key], vec![key; 3000]).unwrap());
        txn.commit(UNLOGGED).unwrap();
        assert_eq!(rows(&db, "a").len(), 20);
        if flush {
            db.flush_cf(&[&cf]).unwrap();
        }
        put(&db, &cf, 30, "logged", SYNC);
        drop((db, cf));
        let db = open(&disk.process_kill(), 2);
        assert_eq!(rows(&db, "a").len(), if flush { 21 } else { 1 });
    }
}
