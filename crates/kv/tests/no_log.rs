//! A database without a log (`wal.enabled = false`): exactly the flushed writes survive, no number is assigned twice,
//! and a directory can begin and stop to have a log without losing a row.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use collie_base::Lsn;
use collie_engine::{EngineError, Env, ErrorKind, Options};
use collie_env::{CrashPoint, Files as _, SimFiles, SimRandom};
use collie_kv::{Batch, CfOptions, Db, Durability, Error, FlushTo, TxnOptions};
use common::{DIR, moments_of, tiny};

const SOON: Durability = Durability::Async;
const SYNC: Durability = Durability::Local;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open_as(disk: &SimFiles, seed: u64, logged: bool, avoid: bool) -> Result<Db, EngineError> {
    let options = Options { wal_enabled: logged, avoid_flush_at_close: avoid, ..tiny() };
    let env = Env::over(disk.clone(), seed);
    Ok(Db::over(&collie_engine::Db::open(Path::new(DIR), options, env, &mut |_| ())?.0))
}

fn open(disk: &SimFiles, seed: u64, logged: bool) -> Db {
    open_as(disk, seed, logged, false).unwrap()
}

fn rows(db: &Db, name: &str) -> Rows {
    let cf = db.cf(name).unwrap();
    db.snapshot().unwrap().scan(&cf, ..).map(|item| item.unwrap().to_pair()).collect()
}

fn named(db: &Db) -> BTreeSet<String> {
    db.list_cfs().unwrap().into_iter().map(|(name, _)| name).collect()
}

/// The rows of a family.
#[derive(Clone, Default)]
struct Held {
    group: &'static str,
    live: Rows,
    /// The rows that survive the end of the process.
    kept: Rows,
}

/// The model of a database, and the highest numbers it has seen.
#[derive(Default)]
struct Model {
    families: BTreeMap<String, Held>,
    ids: BTreeSet<u32>,
    position: Lsn,
}

impl Model {
    fn flushed(&mut self, name: &str) {
        let group = self.families[name].group;
        for (other, held) in &mut self.families {
            if other == name || (!group.is_empty() && held.group == group) {
                held.kept.clone_from(&held.live);
            }
        }
    }

    fn ended(&mut self, all_flushed: bool) {
        for held in self.families.values_mut() {
            if all_flushed { held.kept.clone_from(&held.live) } else { held.live.clone_from(&held.kept) }
        }
    }

    fn check(&mut self, db: &Db, told: &str) {
        assert_eq!(named(db), self.families.keys().cloned().collect(), "{told}");
        for (name, held) in &self.families {
            assert_eq!(rows(db, name), held.live, "{name}, {told}");
        }
        let boundary = db.engine().boundary();
        assert!(boundary >= self.position, "{told}: {boundary} was handed out, up to {}", self.position);
        self.position = boundary;
    }
}

/// Runs a database for a while: writes, flushes, families created and dropped.
fn live(db: &Db, model: &mut Model, logged: bool, random: &SimRandom) {
    const NAMES: [(&str, &str); 4] = [("a", ""), ("b", ""), ("c", "g"), ("d", "g")];
    for step in 0..random.below(30) {
        let (name, group) = NAMES[usize::try_from(random.below(4)).unwrap()];
        if !model.families.contains_key(name) {
            let cf = db.create_cf(name, CfOptions::new().group(group)).unwrap();
            assert!(model.ids.insert(cf.id().get()), "id {} comes twice", cf.id());
            model.families.insert(name.to_owned(), Held { group, ..Held::default() });
            continue;
        }
        let cf = db.cf(name).unwrap();
        match random.below(12) {
            0 => {
                db.drop_cf(&cf).unwrap();
                model.families.remove(name);
            }
            1 | 2 => {
                db.flush_cf(&[&cf]).unwrap();
                model.flushed(name);
            }
            _ => {
                let mut batch = Batch::new();
                for _ in 0..=random.below(3) {
                    let key = vec![u8::try_from(random.below(20)).unwrap()];
                    let held = &mut model.families.get_mut(name).unwrap().live;
                    if random.below(4) == 0 {
                        batch.delete(&cf, &key);
                        held.remove(&key);
                    } else {
                        let value = format!("{step} {}", random.below(1000)).into_bytes().repeat(9);
                        batch.put(&cf, &key, &value);
                        held.insert(key, value);
                    }
                }
                let receipt = db.write(batch, if logged { SYNC } else { SOON }).unwrap();
                // There is no token if the batch only deleted absent rows.
                if let Some(token) = receipt.token {
                    assert_eq!(receipt.is_durable(), logged);
                    let end = token.lsn;
                    assert!(end > model.position, "position {end} is handed out again, up to {}", model.position);
                    model.position = end;
                }
            }
        }
        if logged {
            model.ended(true);
        }
    }
}

/// Goal: N1 to N4: after an orderly close all rows are there, unless the flush was to be left out; after a kill or a
/// power cut each family is as its last flush left it, and the families are those that were created and not dropped; no
/// position and no id is assigned twice, with or without a log. Method: random runs against a model, ended in each way,
/// each opened with a log or without.
#[test]
fn database_without_a_log_equals_its_last_flushes_through_closes_and_kills() {
    for seed in 0..40 {
        let random = SimRandom::new(seed);
        let (mut disk, mut model) = (SimFiles::new(), Model::default());
        for life in 0..6 {
            let (logged, avoid) = (random.below(3) == 0, random.below(2) == 0);
            let told = format!("seed {seed}, life {life}, with a log: {logged}");
            let db = open_as(&disk, seed * 100 + life, logged, avoid).unwrap();
            model.check(&db, &told);
            live(&db, &mut model, logged, &random);
            match random.below(3) {
                0 => {
                    db.close().unwrap();
                    model.ended(logged || !avoid);
                }
                1 => {
                    disk = disk.process_kill();
                    model.ended(false);
                }
                _ => {
                    disk = disk.power_cut(seed + life);
                    model.ended(false);
                }
            }
            drop(db);
        }
    }
}

/// The progress of the runs below.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Come {
    Nowhere,
    Flushed,
    Dropped,
}

/// Opens some states of the disk at each moment, twice each, alternately with a log and without.
fn in_each_state(moments: &[(CrashPoint, Come)], seed: u64, check: impl Fn(&Db, Come, &str)) {
    let (random, mut states) = (SimRandom::new(seed), 0_u64);
    for (point, come) in moments {
        let drawn = (0..2).map(|_| point.drawn(&random));
        for picks in [point.none_kept(), point.all_kept()].into_iter().chain(drawn) {
            let mut disk = point.state(&picks);
            states += 1;
            for life in 0..2 {
                let db = open(&disk, states * 2 + life, (states + life).is_multiple_of(2));
                check(&db, *come, &format!("state {states}, call {}", point.calls()));
                disk = disk.process_kill();
            }
        }
    }
}

/// Goal: N2: wherever the power is cut, a directory that stops to have a log keeps every row that the log had and every
/// row flushed since; a dropped family is gone whole. Method: a log with rows that no LSM level has, then a run without
/// a log; some states at each call to the disk, each opened twice, alternately with a log and without.
#[test]
fn power_cut_while_a_log_is_left_keeps_what_it_had() {
    let disk = SimFiles::new();
    let db = open(&disk, 1, true);
    let (a, b) = (db.create_cf("a", CfOptions::default()).unwrap(), db.create_cf("b", CfOptions::default()).unwrap());
    (0..9_u8).for_each(|n| _ = db.put(&a, [n], [n; 900], SYNC).unwrap());
    db.put(&b, "b", "b", SYNC).unwrap();
    let before = rows(&db, "a");
    drop((db, a, b));
    let come = Arc::new(Mutex::new(Come::Nowhere));
    let disk = disk.process_kill();
    let moments = moments_of(&disk, &come, || {
        let db = open(&disk, 2, false);
        let a = db.cf("a").unwrap();
        db.put(&a, "x", "flushed", SOON).unwrap();
        db.flush_cf(&[&a]).unwrap();
        *come.lock().unwrap() = Come::Flushed;
        db.put(&a, "y", "lost", SOON).unwrap();
        db.drop_cf(&db.cf("b").unwrap()).unwrap();
        *come.lock().unwrap() = Come::Dropped;
        db.engine().tick();
        db.flush_cf(&[&a]).unwrap_or_default();
    });
    assert!(moments.len() > 40, "only {} moments", moments.len());
    in_each_state(&moments, 5, |db, come, told| {
        let found = rows(db, "a");
        assert!(before.iter().all(|(key, value)| found.get(key) == Some(value)), "{told}: {found:?}");
        assert!(found.contains_key(&b"x"[..]) || come < Come::Flushed, "{told}");
        assert!(!found.contains_key(&b"y"[..]) || come == Come::Dropped, "{told}: it was not flushed");
        match db.cf("b") {
            Ok(_) => assert!(come < Come::Dropped && rows(db, "b").len() == 1, "{told}: half dropped"),
            Err(error) => assert!(come >= Come::Flushed, "{told}: {error}"),
        }
    });
}

/// Goal: N1, N2: wherever the power is cut, a directory that begins to have a log again keeps the rows flushed without
/// one and the writes acknowledged as durable with it. Method: as above, in the other direction.
#[test]
fn power_cut_while_a_log_is_taken_up_again_keeps_what_was_flushed() {
    let disk = SimFiles::new();
    let db = open(&disk, 1, false);
    let a = db.create_cf("a", CfOptions::default()).unwrap();
    db.put(&a, "x", "flushed", SOON).unwrap();
    let last = db.put(&a, "z", "flushed too", SOON).unwrap().token.unwrap().lsn;
    db.close().unwrap();
    drop((db, a));
    let come = Arc::new(Mutex::new(Come::Nowhere));
    let moments = moments_of(&disk, &come, || {
        let db = open(&disk, 2, true);
        let a = db.cf("a").unwrap();
        let token = db.put(&a, "y", "logged", SYNC).unwrap().token.unwrap();
        assert!(token.lsn > last, "{} after {last}", token.lsn);
        *come.lock().unwrap() = Come::Flushed;
        db.put(&a, "w", "logged too", SOON).unwrap();
    });
    assert!(moments.len() > 10, "only {} moments", moments.len());
    in_each_state(&moments, 6, |db, come, told| {
        let found = rows(db, "a");
        assert!(found.contains_key(&b"x"[..]) && found.contains_key(&b"z"[..]), "{told}: {found:?}");
        assert!(found.contains_key(&b"y"[..]) || come < Come::Flushed, "{told}: {found:?}");
    });
}

/// Goal: settings and calls that need a log are refused without one, and the error names both; everything else
/// continues. Method: each setting and each call.
#[test]
fn what_needs_a_log_is_refused_without_one_and_both_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let without = |name: &str, value: &str| {
        let mut options = collie_kv::Options::small();
        options.set("wal.enabled", "false").unwrap();
        options.set(name, value).unwrap();
        options.open(dir.path())
    };
    for (name, value) in [
        ("wal.wal_dir", "/elsewhere"),
        ("wal.ring", "shared"),
        ("wal.manual_wal_flush", "true"),
        ("wal.max_total_wal_size", "1GiB"),
        ("wal.recovery_mode", "point_in_time"),
        ("read_only", "true"),
    ] {
        let error = without(name, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("wal.enabled = false"), "{error}");
    }
    let db = without("store.write_buffer_size", "64MiB").unwrap();
    let a = db.create_cf("a", CfOptions::default()).unwrap();
    let b = db.create_cf("b", CfOptions::default()).unwrap();
    let refused = |outcome: Result<(), Error>, what: &str| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(what) && error.to_string().contains("wal.enabled = false"), "{error}");
    };
    refused(db.put(&a, "k", "v", SYNC).map(drop), "sync");
    refused(db.flush_wal(FlushTo::Kernel), "flush_wal");
    refused(db.sync_wal(), "sync_wal");
    refused(db.checkpoint(dir.path().join("copy")).map(drop), "checkpoint");
    let mut batch = Batch::new();
    batch.put(&a, "k", "v");
    batch.put(&b, "k", "v");
    refused(db.write(batch, SOON).map(drop), "several families");
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&a, "k", "v").unwrap();
    refused(txn.commit(SYNC).map(drop), "sync");
    let mut session = db.engine().session().unwrap();
    common::begin(&mut session);
    common::put(&mut session, &db.engine().family(a.id()), b"k", b"v");
    refused(session.commit(true).map(drop).map_err(Error::from), "sync");
    assert_eq!(db.get(&a, "k").unwrap(), None, "nothing of it was written");
    db.put(&a, "k", "v", SOON).unwrap();
    assert_eq!(db.get(&a, "k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(session);
    db.close().unwrap();
    let mut read_only = collie_kv::Options::small();
    read_only.set("read_only", "true").unwrap();
    refused(read_only.open(dir.path()).map(drop), "read_only");
    let names = std::fs::read_dir(dir.path().join("wal")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".wal")), "no file of a log");
}

/// Goal: if the disk refuses to reserve more numbers, the database does not assign them. Method: a run without a log
/// that cannot write its first reservation; then one that can.
#[test]
fn numbers_that_cannot_be_reserved_are_not_handed_out() {
    let disk = SimFiles::new();
    drop(open(&disk, 1, false));
    let disk = disk.process_kill();
    let before = disk.open(&Path::new(DIR).join("reserved"), collie_env::Access::Read).unwrap().len().unwrap();
    assert_eq!(before, 52);
    disk.set_capacity(Some(disk.used_bytes()));
    assert!(open_as(&disk, 2, false, false).is_err());
    disk.set_capacity(None);
    open(&disk.process_kill(), 3, false).close().unwrap();
}

const CHILD: &str = "COLLIE_NO_LOG_CHILD";

/// Runs the process that is killed: it writes and flushes, and prints what it has flushed.
fn write_until_killed(dir: PathBuf) {
    let mut options = collie_kv::Options::small();
    options.set("wal.enabled", "false").unwrap();
    let db = options.open(dir).unwrap();
    let cf = db.create_cf("a", CfOptions::default()).unwrap();
    for number in 0_u32.. {
        let position = db.put(&cf, number.to_be_bytes(), [7; 100], SOON).unwrap().token.unwrap().lsn;
        if number % 50 == 49 {
            db.flush_cf(&[&cf]).unwrap();
            println!("kept {} {}", number + 1, position.get());
        }
    }
}

/// Goal: a killed process leaves what it had flushed, and no row from the middle is missing; its numbers are not
/// assigned again. Method: this test as a separate process on the real file system, killed while it writes.
#[test]
fn killed_process_leaves_what_it_had_flushed() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return write_until_killed(dir.into());
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed_process_leaves_what_it_had_flushed", "--exact", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let numbers = |line: &str| -> Option<(u32, u64)> {
        let (_, told) = line.split_once("kept ")?;
        let (rows, position) = told.split_once(' ')?;
        Some((rows.parse().ok()?, position.parse().ok()?))
    };
    let (told, position) =
        lines.find_map(|line| numbers(&line.unwrap()).filter(|(rows, _)| *rows >= 200)).expect("it flushes for ever");
    child.kill().unwrap();
    child.wait().unwrap();
    let (told, position) =
        lines.map_while(Result::ok).filter_map(|line| numbers(&line)).last().unwrap_or((told, position));
    let mut options = collie_kv::Options::small();
    options.set("wal.enabled", "false").unwrap();
    let db = options.open(dir.path()).unwrap();
    let found = rows(&db, "a");
    let count = u32::try_from(found.len()).unwrap();
    assert!(count == told || count == told + 50, "{count} rows, {told} were told of");
    assert!((0..count).all(|number| found.contains_key(&number.to_be_bytes()[..])));
    let next = db.put(&db.cf("a").unwrap(), "k", "v", SOON).unwrap().token.unwrap().lsn;
    assert!(next.get() > position, "{next} is handed out again");
}
