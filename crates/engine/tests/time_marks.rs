//! Time marks in the log, and restoring to a time.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use collie_base::CfId;
use collie_engine::{CheckpointOptions, CopyPhase, Db, EngineError, Env, Family, RestoreTo, describe_record, restore};
use collie_env::Clock;
use collie_wal::{Lsn, inspect};
use common::{DIR, all, begin, open_still, put_one};

/// A clock that the test sets.
#[derive(Debug, Default)]
struct SetClock {
    now_ns: AtomicU64,
    wall_us: AtomicI64,
}

impl SetClock {
    /// Advances the clock.
    fn pass_ms(&self, ms: u64) {
        self.now_ns.fetch_add(ms * 1_000_000, Relaxed);
        self.wall_us.fetch_add(i64::try_from(ms).unwrap() * 1_000, Relaxed);
    }
}

impl Clock for SetClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Relaxed)
    }

    fn wall_us(&self) -> i64 {
        self.wall_us.load(Relaxed)
    }
}

const SECOND_US: i64 = 1_000_000;

fn clocked(seed: u64) -> (Env, collie_env::SimFiles, Arc<SetClock>) {
    let (env, disk) = Env::simulated(seed);
    let clock = Arc::new(SetClock::default());
    clock.wall_us.store(1_000_000 * SECOND_US, Relaxed);
    (Env { clock: clock.clone(), ..env }, disk, clock)
}

/// Returns the descriptions of the marks in the log, with their positions.
fn marks(env: &Env) -> Vec<(Lsn, String)> {
    let found = inspect(env, &Path::new(DIR).join("wal")).unwrap();
    let records = found.records(Lsn::ZERO).map(|record| record.unwrap());
    let described = records.map(|record| (record.lsn, describe_record(record.tag, &record.body)));
    described.filter(|(_, line)| line.starts_with("TIME ")).collect()
}

/// Goal: T2, T3: a mark comes a second after the last one if anything was written since, none otherwise, and its time
/// never falls, also over an opening. Method: commits, ticks and pauses, with the clock set back; the log is read after
/// each.
#[test]
fn marks_come_once_a_second_while_something_is_written() {
    let (env, _disk, clock) = clocked(1);
    let (db, _) = open_still(env.clone()).unwrap();
    let f = db.family(db.create_family());
    let tick = |db: &Db| {
        db.tick();
        db.log().unwrap().flush_wal(true).unwrap();
        marks(&env).len()
    };
    put_one(&db, &f, b"a", b"1");
    assert_eq!(tick(&db), 0, "no second has gone by");
    clock.pass_ms(1_000);
    assert_eq!([tick(&db), tick(&db)], [1, 1]);
    for _ in 0..50 {
        clock.pass_ms(700);
        assert_eq!(tick(&db), 1, "nothing was written");
    }
    let writes = db.log().unwrap().durable();
    for n in 0..10_u8 {
        put_one(&db, &f, &[n], b"2");
        clock.pass_ms(100);
        tick(&db);
    }
    assert_eq!(marks(&env).len(), 2, "ten commits in a second, and the pause before them");
    assert!(db.log().unwrap().durable() > writes);
    clock.wall_us.store(500 * SECOND_US, Relaxed);
    for round in 0..3_u8 {
        put_one(&db, &f, &[round], b"3");
        clock.pass_ms(1_500);
        tick(&db);
    }
    let times = |marks: Vec<(Lsn, String)>| -> Vec<String> {
        marks.into_iter().map(|(_, line)| line[..31].to_owned()).collect()
    };
    let before = times(marks(&env));
    assert!(before.len() == 5 && before.is_sorted(), "{before:?}");
    assert_eq!(vec![before[1].clone(); 3], before[2..], "the clock was set back: the time stands still");
    db.close().unwrap();
    drop(db);
    let (db, _) = open_still(env.clone()).unwrap();
    put_one(&db, &db.family(f.id()), b"later", b"4");
    clock.pass_ms(1_500);
    tick(&db);
    let after = times(marks(&env));
    assert!(after.len() == 6 && after[5] == after[4], "{after:?}");
}

fn open_in(dir: &Path, env: &Env) -> Db {
    let mut options = collie_engine::Options { background: false, ..collie_engine::Options::small() };
    options.log.threads = false;
    Db::open(dir, options, env.clone(), &mut |_| ()).unwrap().0
}

fn count_in(dir: &Path, env: &Env, cf: CfId) -> usize {
    let db = open_in(dir, env);
    let mut session = db.session().unwrap();
    begin(&mut session);
    let rows = all(&session, &db.family(cf));
    let numbers: Vec<u32> = rows.keys().map(|key| u32::from_be_bytes(key[..4].try_into().unwrap())).collect();
    assert_eq!(
        numbers,
        (0..u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>(),
        "a commit is missing in the middle"
    );
    drop(session);
    db.close().unwrap();
    numbers.len()
}

/// Goal: a copy restored to a time has nothing later, and everything up to a second before; a time that its log does
/// not cover is refused with the times that it can be restored to. Method: a copy, commits every 100 ms while it is
/// made; restored to times before, in and after that.
#[test]
fn copy_is_restored_to_a_time_without_anything_later() {
    let dir = tempfile::tempdir().unwrap();
    let (_, _, clock) = clocked(2);
    let env = Env { clock: clock.clone(), ..Env::real() };
    let db = open_in(&dir.path().join("db"), &env);
    let cf = db.create_family();
    let f: Arc<Family> = db.family(cf);
    let mut written = Vec::new();
    let commit = |written: &mut Vec<i64>| {
        clock.pass_ms(100);
        let key = u32::try_from(written.len()).unwrap().to_be_bytes();
        put_one(&db, &f, &key, &[7; 3_000]);
        written.push(clock.wall_us());
        db.tick();
    };
    (0..40).for_each(|_| commit(&mut written));
    db.flush_all().unwrap();
    let begun_us = clock.wall_us();
    (0..20).for_each(|_| commit(&mut written));
    let backup = &dir.path().join("backup");
    db.checkpoint(backup, CheckpointOptions { copy: true }, &mut |progress| {
        if progress.phase == CopyPhase::Levels && written.len() < 100 {
            (0..10).for_each(|_| commit(&mut written));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let made_us = clock.wall_us();
    assert!(written.len() > 90, "{} commits, few of them while the copy was made", written.len());
    let mut go_on = |_: &_| ControlFlow::Continue(());
    let mut restore_to = |wall_us: i64| {
        let to = dir.path().join("restored");
        let restored = restore(backup, &to, RestoreTo::Time(wall_us), &env, &mut go_on);
        let counted = restored.map(|_| count_in(&to, &env, cf));
        assert_eq!(counted.is_ok(), to.exists(), "what is refused makes nothing");
        if to.exists() {
            std::fs::remove_dir_all(to).unwrap();
        }
        counted
    };
    let all_of_it = restore_to(made_us).unwrap();
    let (mut refused, mut distinct) = (0, std::collections::BTreeSet::new());
    for wall_us in (begun_us - 500_000..made_us).step_by(410_000) {
        match restore_to(wall_us) {
            Ok(count) => {
                let up_to = |time: i64| written.iter().filter(|at| **at <= time).count();
                assert!(count <= up_to(wall_us), "something later is there");
                assert!(count >= up_to(wall_us - SECOND_US - 100_000).min(all_of_it), "more than a second is missing");
                distinct.insert(count);
            }
            Err(error @ EngineError::TimeNotInBackup { from_us: Some(from_us), end_us, .. }) => {
                assert!(wall_us < from_us && end_us == made_us, "{error}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 3 && distinct.len() > 2, "{refused} refused, {distinct:?}");
}
