//! Rot in the LSM levels of an open database: found, repaired from memory, and carried into no copy.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use collie_base::CfId;
use collie_engine::{Basis, Db, EngineError, Env, ErrorKind, Options, Outcome, Seed, Write, restore, verify_backup};
use collie_env::SimRandom;
use collie_wal::Warnings;
use common::copies::{COPY, LINK, Rows, go_on, open, rows};
use common::{begin, put_one, tiny};

fn delete_one(db: &Db, cf: CfId, key: &[u8]) {
    let mut session = db.session().unwrap();
    begin(&mut session);
    let deleted = session.write(&db.family(cf), key, Basis::Snapshot, Write::Delete).unwrap();
    assert_eq!(deleted, Outcome::Done);
    session.commit(true).unwrap().block().unwrap();
}

/// Returns a database with two families in the LSM levels, of which the first has deleted and newer rows behind its
/// last flush.
fn sample(dir: &Path) -> (Db, CfId) {
    let db = open(dir);
    let (cf, other) = (db.create_family(), db.create_family());
    for n in 0..40_u8 {
        put_one(&db, &db.family(cf), &[n], &[n; 300]);
    }
    put_one(&db, &db.family(other), b"k", b"v");
    db.flush_cf(&[cf, other]).unwrap();
    put_one(&db, &db.family(cf), &[0], b"newer");
    delete_one(&db, cf, &[1]);
    db.flush_cf(&[cf]).unwrap();
    put_one(&db, &db.family(cf), &[2], b"in the log only");
    delete_one(&db, cf, &[3]);
    (db, cf)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort_unstable();
    found
}

/// Returns the tables of all trees.
fn tables(data: &Path) -> Vec<PathBuf> {
    let all = files(&data.join("levels")).into_iter();
    all.filter(|path| path.parent().is_some_and(|above| above.ends_with("tables"))).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Goal: K7: a copy of a database with a rotten table is whole: the tree is rewritten from memory first, the damaged
/// file stays in quarantine, and the database itself opens afterwards. Method: a bit of each table in turn, a copy that
/// links and one that shares nothing, and a copy of the LSM levels alone; each is verified, restored and opened.
#[test]
fn copy_of_a_database_with_a_rotten_table_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let (db, cf) = sample(&data);
    let expected = rows(&db, cf);
    let mut number = 0;
    for at in 0..3 {
        for options in [LINK, COPY] {
            let mut found = tables(&data);
            let path = found.swap_remove(at % found.len());
            flip(&path, 100 + number * 7);
            let rotten = fs::read(&path).unwrap();
            number += 1;
            let to = dir.path().join(format!("copy-{number}"));
            db.checkpoint(&to, options, &mut go_on).unwrap();
            let rot = db.rot().pop().unwrap();
            assert!(rot.is_mended && rot.path == path, "{rot:?}");
            assert_eq!(fs::read(rot.quarantined.unwrap()).unwrap(), rotten);
            assert_eq!(verify_backup(&to, &Env::real(), &mut go_on).unwrap().1, []);
            let restored = dir.path().join(format!("restored-{number}"));
            restore(&to, &restored, None, &Env::real(), &mut go_on).unwrap();
            let copy = open(&restored);
            assert_eq!(rows(&copy, cf), expected);
            copy.close().unwrap();
        }
    }
    flip(&tables(&data)[0], 40);
    let levels = dir.path().join("levels-alone");
    db.copy_levels(&levels, LINK, &mut go_on).unwrap();
    let stat = db.scrub_stat();
    assert_eq!((stat.rotten, stat.mended), (number as u64 + 1, number as u64 + 1), "{stat:?}");
    assert_eq!(db.scrub().unwrap(), []);
    db.close().unwrap();
    drop(db);
    let db = open(&data);
    assert_eq!(rows(&db, cf), expected);
    db.close().unwrap();
}

/// Goal: if the tree cannot be rewritten no copy is made, one line names the table and its family, and nothing is left
/// of the copy; the next attempt, once there is room, is whole. Method: a file in the place of the directory of the
/// next tree.
#[test]
fn copy_fails_by_name_where_rot_cannot_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let (db, cf) = sample(&data);
    let expected = rows(&db, cf);
    let table = tables(&data).remove(0);
    flip(&table, 200);
    let in_the_way: Vec<PathBuf> =
        (3..20).map(|tree| data.join(format!("levels/tree-{tree:010}"))).filter(|path| !path.exists()).collect();
    in_the_way.iter().for_each(|path| fs::write(path, b"").unwrap());
    let to = dir.path().join("copy");
    for _ in 0..2 {
        let error = db.checkpoint(&to, COPY, &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let text = error.to_string();
        assert!(text.contains(&*table.to_string_lossy()) && text.contains("famil"), "{text}");
        assert!(!text.contains('\n') && !to.exists(), "{text}");
    }
    let [rot] = &db.rot()[..] else { panic!("{:?}", db.rot()) };
    assert!(!rot.is_mended && rot.path == table, "{rot:?}");
    in_the_way.iter().for_each(|path| fs::remove_file(path).unwrap());
    db.checkpoint(&to, COPY, &mut go_on).unwrap();
    assert_eq!(verify_backup(&to, &Env::real(), &mut go_on).unwrap().1, []);
    assert_eq!((rows(&db, cf), db.rot().len(), db.rot()[0].is_mended), (expected, 1, true));
    db.close().unwrap();
}

/// Goal: S1, S2: the scrub finds a flipped bit in any file of the LSM levels of an open database, reports it in lines,
/// and repairs it, so that the next scrub finds nothing and the next opening has every row. Method: a bit of each file
/// of the levels in turn, a scrub, a write and a flush, an opening.
#[test]
fn scrub_finds_rot_in_each_file_of_the_levels_and_makes_up_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let (db, cf) = sample(&data);
    db.close().unwrap();
    drop(db);
    let (lines, mut met) = (Arc::new(Mutex::new(Vec::<String>::new())), 0);
    let options = || {
        let (mut options, lines) = (tiny(), lines.clone());
        options.log.warnings = Warnings::to(move |line| lines.lock().unwrap().push(line.to_owned()));
        options
    };
    for round in 0.. {
        let (db, _) = Db::open(&data, options(), Env::real(), &mut |_| ()).unwrap();
        let before = rows(&db, cf);
        assert_eq!(db.scrub().unwrap(), []);
        let named: Vec<PathBuf> = files(&data.join("levels"));
        let named: Vec<&PathBuf> = named.iter().filter(|path| !path.to_string_lossy().contains("quarantine")).collect();
        let Some(path) = named.get(round) else {
            db.close().unwrap();
            break;
        };
        let is_needed = !path.file_name().unwrap().to_string_lossy().starts_with(".tmp");
        flip(path, 5 + round);
        lines.lock().unwrap().clear();
        let found = db.scrub().unwrap();
        if is_needed {
            let [rot] = &found[..] else { panic!("{}: {found:?}", path.display()) };
            // It is unknown which of `current` and the list that it names has rotted.
            let is_named = rot.path == **path || path.ends_with("current") && rot.path.parent() == path.parent();
            assert!(rot.is_mended && is_named, "{}: {rot:?}", path.display());
            let said = lines.lock().unwrap().clone();
            let names = |line: &String| line.contains(&*rot.path.to_string_lossy());
            assert!(!said.is_empty() && said.iter().all(names), "{said:?}");
            met += 1;
        }
        assert_eq!(db.scrub().unwrap(), []);
        put_one(&db, &db.family(cf), &[200], &[u8::try_from(round).unwrap()]);
        db.flush_cf(&[cf]).unwrap();
        db.close().unwrap();
        drop(db);
        let db = open(&data);
        let mut after = before;
        after.insert(vec![200], vec![u8::try_from(round).unwrap()]);
        assert_eq!(rows(&db, cf), after);
        db.close().unwrap();
    }
    assert!(met >= 7, "{met}");
}

/// Goal: A1: whatever is written, deleted, flushed and read meanwhile, a rewritten tree has every row and no other, in
/// this incarnation and the next. Method: seeded operations on one family, with bits of its tables flipped and scrubbed
/// between them and snapshots held over some; compared with a map after each opening.
#[test]
fn tree_written_anew_among_other_work_equals_a_map() {
    let mut mended = 0;
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let random = SimRandom::new(seed);
        let mut db = open(dir.path());
        let cf = db.create_family();
        let mut model = Rows::new();
        let mut held = None;
        for step in 0..120_u32 {
            match random.below(20) {
                0..10 => {
                    let (key, value) = (vec![u8::try_from(random.below(40)).unwrap()], step.to_be_bytes().to_vec());
                    put_one(&db, &db.family(cf), &key, &value);
                    model.insert(key, value);
                }
                10..14 => {
                    let Some(key) = model.keys().nth(usize::try_from(random.below(40)).unwrap()).cloned() else {
                        continue;
                    };
                    delete_one(&db, cf, &key);
                    model.remove(&key);
                }
                14 => db.flush_cf(&[cf]).unwrap(),
                15 => {
                    held = (held.is_none()).then(|| {
                        let mut session = db.session().unwrap();
                        begin(&mut session);
                        session
                    });
                }
                16 => drop(db.tick()),
                17 => {
                    held = None;
                    db.close().unwrap();
                    drop(db);
                    db = open(dir.path());
                    assert_eq!(rows(&db, cf), model, "seed {seed}, step {step}");
                }
                _ => {
                    let tables = tables(dir.path());
                    let Some(table) = tables.get(usize::try_from(random.below(2)).unwrap()).or(tables.first()) else {
                        continue;
                    };
                    flip(table, usize::try_from(random.below(10_000)).unwrap());
                    let found = db.scrub().unwrap();
                    assert!(found.iter().all(|rot| rot.is_mended), "seed {seed}, step {step}: {found:?}");
                    mended += found.len();
                    assert_eq!(rows(&db, cf), model, "seed {seed}, step {step}");
                }
            }
        }
        drop(held);
        db.close().unwrap();
        drop(db);
        let db = open(dir.path());
        assert_eq!(rows(&db, cf), model, "seed {seed}");
        db.close().unwrap();
    }
    assert!(mended > 8, "{mended}");
}

/// Goal: writers, flushes and merges continue while trees are rewritten. Method: two writers of rows whose value
/// follows from the key, a thread that flips bits and scrubs; then an opening has every acknowledged row.
#[test]
fn writers_and_flushes_go_on_while_trees_are_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { background: true, write_buffer_size: 30_000, ..Options::small() };
    let (db, _) = Db::open(dir.path(), options(), Env::real(), &mut |_| ()).unwrap();
    let cf = db.create_family();
    let (done, data) = (AtomicBool::new(false), dir.path());
    let written: Vec<u32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u32)
            .map(|writer| {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut keys = Vec::new();
                    for number in 0.. {
                        let key = number * 2 + writer;
                        put_one(db, &db.family(cf), &key.to_be_bytes(), &[u8::try_from(writer).unwrap(); 200]);
                        keys.push(key);
                        if done.load(Ordering::Relaxed) && number >= 300 {
                            return keys;
                        }
                    }
                    keys
                })
            })
            .collect();
        while db.scrub_stat().mended < 6 {
            db.flush_cf(&[cf]).unwrap();
            tables(data).first().into_iter().for_each(|table| {
                // A merge may have removed it by now.
                if let Ok(mut bytes) = fs::read(table) {
                    bytes[50] ^= 1;
                    let _gone = fs::OpenOptions::new().write(true).open(table).and_then(|file| {
                        use std::os::unix::fs::FileExt as _;
                        file.write_all_at(&bytes[50..51], 50)
                    });
                }
            });
            assert!(db.scrub().unwrap().iter().all(|rot| rot.is_mended));
        }
        done.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    db.close().unwrap();
    drop(db);
    let (db, _) = Db::open(dir.path(), options(), Env::real(), &mut |_| ()).unwrap();
    let found = rows(&db, cf);
    assert_eq!(found.len(), written.len());
    assert!(written.iter().all(|key| found.contains_key(&key.to_be_bytes()[..])));
    db.close().unwrap();
}

/// Goal: K7 at the other end: a directory whose LSM levels rotted on their way gets no control file, so that it cannot
/// be opened, and the file is named; one with whole levels does get it. Method: a copy of the levels, a bit of a table
/// flipped and put back.
#[test]
fn seed_is_not_planted_over_rotten_levels() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = sample(&dir.path().join("db"));
    let replica = dir.path().join("replica");
    db.copy_levels(&replica, COPY, &mut go_on).unwrap();
    let (term, histories) = db.histories();
    let seed = Seed { cluster_id: db.cluster_id(), node_id: 7, term, histories, consistent_at: db.durable() };
    let table = tables(&replica).remove(0);
    flip(&table, 30);
    let refused = seed.plant(&Env::real(), &replica).unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Corruption && refused.to_string().contains(&*table.to_string_lossy()),
        "{refused}"
    );
    assert!(!replica.join("control").exists());
    flip(&table, 30);
    seed.plant(&Env::real(), &replica).unwrap();
    db.close().unwrap();
}

/// Goal: a database opened read-only, or closed, is not scrubbed, and the call returns an error. Method: both.
#[test]
fn scrub_of_what_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = sample(dir.path());
    db.close().unwrap();
    assert!(matches!(db.scrub(), Err(EngineError::Closed)));
    drop(db);
    let options = Options { read_only: true, ..tiny() };
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    assert!(matches!(db.scrub(), Err(EngineError::OpenedReadOnly)));
}
