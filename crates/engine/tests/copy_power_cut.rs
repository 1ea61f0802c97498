//! Copies and restores that a power cut ends: at each call to a simulated disk, with states in which the disk may then
//! be. The death of a process is tested in `backup.rs`, with the operating system's files.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use collie_base::CfId;
use collie_engine::{CheckpointOptions, CopyProgress, Db, EngineError, Env, Options, restore, verify_backup};
use collie_env::{CrashPoint, Files, SimFiles, SimRandom};
use common::{DIR, all, begin, moments_of, open_tiny, put_one, tiny};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const ABOVE: &str = "/copies";
const COPY: &str = "/copies/one";
const PARTIAL: &str = "/copies/one.collie-partial";
const RESTORED: &str = "/copies/restored";
const CF: CfId = CfId::new(1);

fn go_on(_: &CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn rows(db: &Db) -> Rows {
    let mut session = db.session().unwrap();
    begin(&mut session);
    all(&session, &db.family(CF))
}

/// Opens an existing database and returns its rows.
fn rows_in(disk: &SimFiles, dir: &str, seed: u64) -> Result<Rows, EngineError> {
    let options = Options { create_if_missing: false, ..tiny() };
    let (db, _) = Db::open(dir.as_ref(), options, Env::over(disk.clone(), seed), &mut |_| ())?;
    Ok(rows(&db))
}

/// Returns whether a directory exists and is not empty.
fn is_there(disk: &SimFiles, dir: &str) -> bool {
    disk.list(dir.as_ref()).is_ok_and(|names| !names.is_empty())
}

/// Returns a database with LSM levels and a log behind them, and its rows.
fn sample(disk: &SimFiles) -> (Db, Rows) {
    let (db, _) = open_tiny(Env::over(disk.clone(), 1)).unwrap();
    let f = db.family(CF);
    (0..14_u8).for_each(|n| put_one(&db, &f, &[n], &[n; 3000]));
    db.flush_all().unwrap();
    (10..16_u8).for_each(|n| put_one(&db, &f, &[n], &[n + 100; 2500]));
    disk.create_dir_all(ABOVE.as_ref()).unwrap();
    let expected = rows(&db);
    (db, expected)
}

/// Calls `check` with states in which a power cut may leave the disk at each moment of `act`, and whether `act` had
/// returned.
fn for_each_end(disk: &SimFiles, act: impl FnOnce(), check: impl Fn(&SimFiles, bool, u64)) -> usize {
    let returned = Arc::new(Mutex::new(false));
    let mut moments: Vec<(CrashPoint, bool)> = moments_of(disk, &returned, act);
    moments.push((disk.crash_point(), true));
    let (random, mut states) = (SimRandom::new(3), 0);
    for (point, returned) in &moments {
        let drawn = (0..6).map(|_| point.drawn(&random));
        for picks in [point.none_kept(), point.all_kept()].into_iter().chain(drawn) {
            check(&point.state(&picks), *returned, point.calls() + states);
            states += 1;
        }
    }
    assert!(moments.len() > 15, "only {} moments", moments.len());
    usize::try_from(states).unwrap()
}

/// Goal: K4, K5: whenever the power is cut while a copy is made, the source is whole, the copy is whole or absent, no
/// restore accepts its remains, and the next copy can be made. Method: copies of both kinds; some states at each call
/// to the disk; then everything is opened, and copied again.
#[test]
fn power_cut_at_any_call_of_a_copy_leaves_the_source_whole_and_no_half_of_a_copy() {
    for copy in [false, true] {
        let options = CheckpointOptions { copy };
        let disk = SimFiles::new();
        let (db, expected) = sample(&disk);
        let there = Mutex::new([0; 2]);
        let act = || _ = db.checkpoint(COPY.as_ref(), options, &mut go_on).unwrap();
        let states = for_each_end(&disk, act, |disk, made, seed| {
            let is_copy_there = is_there(disk, COPY);
            assert!(is_copy_there || !made, "the copy that was made is gone");
            there.lock().unwrap()[usize::from(is_copy_there)] += 1;
            if is_copy_there {
                let (_, faults) = verify_backup(COPY.as_ref(), &Env::over(disk.clone(), seed), &mut go_on).unwrap();
                assert_eq!(faults, []);
                assert_eq!(rows_in(disk, COPY, seed).unwrap(), expected);
            }
            if is_there(disk, PARTIAL) {
                let env = Env::over(disk.clone(), seed);
                // Without a list it is no backup; with a complete one it lacks only its name.
                let restored = restore(PARTIAL.as_ref(), RESTORED.as_ref(), None, &env, &mut go_on);
                if restored.is_ok() {
                    assert_eq!(rows_in(disk, RESTORED, seed).unwrap(), expected);
                }
            }
            for open in 0..2 {
                assert_eq!(rows_in(&disk.process_kill(), DIR, seed + open).unwrap(), expected, "the source");
            }
        });
        let [without, with] = there.into_inner().unwrap();
        assert!(states > 100 && without > 50 && with > 5, "{states} states, {with} with the copy, {without} without");
    }
}

/// Goal: the next opening and the next copy remove the remains of a copy that a power cut ended. Method: as above; the
/// next copy goes to the same place.
#[test]
fn copy_after_a_power_cut_takes_the_place_of_what_was_left() {
    for copy in [false, true] {
        let options = CheckpointOptions { copy };
        let disk = SimFiles::new();
        let (db, expected) = sample(&disk);
        let act = || _ = db.checkpoint(COPY.as_ref(), options, &mut go_on).unwrap();
        for_each_end(&disk, act, |disk, _, seed| {
            if is_there(disk, COPY) {
                return; // the copy is whole: see the test above
            }
            let (db, _) = open_tiny(Env::over(disk.clone(), seed)).unwrap();
            let left: Vec<String> = disk.list(DIR.as_ref()).unwrap();
            assert!(left.iter().all(|name| !name.contains("partial")), "{left:?}");
            db.checkpoint(COPY.as_ref(), options, &mut go_on).unwrap();
            assert_eq!(disk.list(ABOVE.as_ref()).unwrap(), ["one"]);
            let after = disk.power_cut(seed);
            assert_eq!(rows_in(&after, COPY, seed).unwrap(), expected, "a copy that was made survives");
        });
    }
}

/// Goal: a restore that a power cut ends has made the database or nothing that opens, and leaves the backup unchanged.
/// Method: some states at each call of a restore.
#[test]
fn power_cut_at_any_call_of_a_restore_leaves_all_or_nothing() {
    let disk = SimFiles::new();
    let (db, expected) = sample(&disk);
    db.checkpoint(COPY.as_ref(), CheckpointOptions { copy: true }, &mut go_on).unwrap();
    db.close().unwrap();
    drop(db);
    let env = Env::over(disk.clone(), 7);
    let act = || _ = restore(COPY.as_ref(), RESTORED.as_ref(), None, &env, &mut go_on).unwrap();
    let states = for_each_end(&disk, act, |disk, made, seed| {
        assert!(is_there(disk, RESTORED) || !made, "what was restored is gone");
        if is_there(disk, RESTORED) {
            for open in 0..2 {
                assert_eq!(rows_in(&disk.process_kill(), RESTORED, seed + open).unwrap(), expected);
            }
        }
        let after = disk.process_kill();
        let (_, faults) = verify_backup(Path::new(COPY), &Env::over(after.clone(), seed), &mut go_on).unwrap();
        assert_eq!(faults, []);
        if !is_there(&after, RESTORED) {
            let env = Env::over(after.clone(), seed);
            restore(COPY.as_ref(), RESTORED.as_ref(), None, &env, &mut go_on).unwrap();
            assert_eq!(rows_in(&after, RESTORED, seed).unwrap(), expected);
        }
    });
    assert!(states > 100, "only {states} states");
}
