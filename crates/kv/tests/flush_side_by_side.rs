//! Flushes of several families in parallel, while these are written to, created, dropped and copied, and log is
//! released.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use collie_engine::{Env, ErrorKind, Options};
use collie_kv::{Batch, Cf, CfOptions, Db, Durability};

const ASYNC: Durability = Durability::Async;
const UNLOGGED: Durability = Durability::Unlogged;
/// `one` and `two` form a group, and `three` and `four` another.
const NAMES: [&str; 6] = ["one", "two", "three", "four", "alone", "alone too"];
const KEYS: u8 = 40;

fn group(name: &str) -> &'static str {
    match name {
        "one" | "two" => "g",
        "three" | "four" => "h",
        _ => "",
    }
}

fn open(dir: &std::path::Path) -> Db {
    let mut options = Options { background: true, max_total_wal_size: 1, write_buffer_size: 20_000, ..common::tiny() };
    options.log.threads = true;
    Db::over(&collie_engine::Db::open(dir, options, Env::real(), &mut |_| ()).unwrap().0)
}

/// Goal: flushes of different families run in parallel with each other, with the flusher and with drops without losing
/// a row: each family has its last writes after a clean close that flushes none of the logged ones, and in an opened
/// copy each group shows one round in all its families. Method: a writer for each group, three threads that flush at
/// random, one that creates and drops a member, the smallest possible log, on the real file system.
#[test]
fn families_are_flushed_beside_each_other_without_losing_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let cfs: BTreeMap<&str, Cf> =
        NAMES.iter().map(|name| (*name, db.create_cf(name, CfOptions::new().group(group(name))).unwrap())).collect();
    let done = AtomicBool::new(false);
    let copies: Vec<std::path::PathBuf> = (0..2).map(|number| dir.path().join(format!("copy-{number}"))).collect();
    std::thread::scope(|scope| {
        let (db, cfs, done) = (&db, &cfs, &done);
        let writers: Vec<_> = [&NAMES[..2], &NAMES[2..4], &NAMES[4..5], &NAMES[5..]]
            .into_iter()
            .map(|names| {
                scope.spawn(move || {
                    for round in 0..=255_u8 {
                        let mut batch = Batch::new();
                        for name in names {
                            batch.put(&cfs[name], [round % KEYS], vec![round; 300]);
                            batch.put(&cfs[name], "round", [round]);
                        }
                        // The first group's writes are not in the log: only flushed ones survive.
                        let unlogged = names[0] == "one";
                        db.write(batch, if unlogged { UNLOGGED } else { ASYNC }).unwrap();
                        if round % 32 == 31 {
                            db.flush_cf(&[&cfs[names[0]]]).unwrap();
                        }
                    }
                })
            })
            .collect();
        for thread in 0..3_usize {
            scope.spawn(move || {
                let mut turn = thread;
                while !done.load(Ordering::Relaxed) {
                    turn = (turn + 5) % 36;
                    let picked = [&cfs[NAMES[turn % 6]], &cfs[NAMES[turn / 6 % 6]]];
                    db.flush_cf(&picked).unwrap();
                }
            });
        }
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let cf = db.create_cf("passing", CfOptions::new().group("g")).unwrap();
                let mut batch = Batch::new();
                batch.put(&cf, "k", vec![1; 2000]);
                db.write(batch, UNLOGGED).unwrap();
                db.flush_cf(&[&cf]).unwrap();
                db.drop_cf(&cf).unwrap();
            }
        });
        let made: Vec<_> = copies.iter().map(|copy| db.checkpoint(copy)).collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed); // before anything panics, so that the other threads end
        made.into_iter().for_each(|copy| _ = copy.unwrap());
        written.into_iter().for_each(|writer| writer.unwrap());
    });
    assert_eq!(db.cf("passing").unwrap_err().kind(), ErrorKind::NotFound);
    let stat = db.engine().flush_stat();
    assert!(stat.flushes >= 32 && stat.failures == 0, "{stat:?}");
    let trees = db.engine().level_stat().trees;
    assert!(trees.len() <= 4 && trees.iter().all(|tree| tree.failed.is_none()), "{trees:?}");
    db.close().unwrap();
    drop((cfs, db));
    let round_of = |db: &Db, name: &str| db.get(&db.cf(name).unwrap(), "round").unwrap().map(|value| value[0]);
    let db = open(&dir.path().join("db"));
    for name in NAMES {
        assert_eq!(round_of(&db, name), Some(255), "{name}");
        for key in 0..KEYS {
            let newest = (0..=255_u8).rev().find(|round| round % KEYS == key).unwrap();
            let value = db.get(&db.cf(name).unwrap(), [key]).unwrap();
            assert_eq!(value.as_deref(), Some(&vec![newest; 300][..]), "{key} of {name}");
        }
    }
    for copy in copies {
        let db = open(&copy);
        for pair in [&NAMES[..2], &NAMES[2..4]] {
            assert_eq!(round_of(&db, pair[0]), round_of(&db, pair[1]), "{pair:?} of {}", copy.display());
        }
    }
}
