//! Opening read-only: the rows of an ordinary opening, and nothing is written anywhere.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use collie_base::Remedy;
use collie_engine::{CheckpointOptions, EngineError, Env, ErrorKind};
use collie_env::{Files, Random, SimFiles, SimRandom, read_all};
use collie_kv::{Batch, CfOptions, Db, Durability, Error, FlushTo, Options, TxnOptions};
use collie_wal::{RecoveryMode, RingKind, WalError};
use common::DIR;

const SYNC: Durability = Durability::Local;
type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn engine_options(ring: RingKind, read_only: bool) -> collie_engine::Options {
    let mut options = common::tiny();
    (options.log.ring, options.read_only) = (ring, read_only);
    options
}

/// Returns every row of every named family.
fn rows(db: &Db) -> Rows {
    let snapshot = db.snapshot().unwrap();
    let mut rows = Rows::new();
    for (name, _) in db.list_cfs().unwrap() {
        let cf = db.cf(&name).unwrap();
        for row in snapshot.scan(&cf, ..) {
            let row = row.unwrap();
            rows.insert((name.clone(), row.key().to_vec()), row.value().to_vec());
        }
        rows.insert((name, Vec::new()), Vec::new()); // so that an empty family shows
    }
    rows
}

fn over(env: Env, ring: RingKind, read_only: bool) -> Result<Db, EngineError> {
    let (engine, report) = collie_engine::Db::open(DIR.as_ref(), engine_options(ring, read_only), env, &mut |_| ())?;
    assert_eq!((report.read_only, engine.is_read_only()), (read_only, read_only));
    Ok(Db::over(&engine))
}

/// Runs a database on a simulated disk: puts, deletes, large transactions, drops and flushes, and a sudden end.
fn live(disk: SimFiles, ring: RingKind, random: &SimRandom) -> SimFiles {
    let below = |bound: u64| usize::try_from(random.below(bound)).unwrap();
    let db = over(Env::over(disk.clone(), random.u64()), ring, false).unwrap();
    for _ in 0..below(60) {
        let name = ["a", "b", "c"][below(3)];
        let cf = match db.cf(name) {
            Ok(cf) => cf,
            Err(_) => db.create_cf(name, CfOptions::default()).unwrap(),
        };
        let options = if below(2) == 0 { SYNC } else { Durability::Async };
        let key = [u8::try_from(below(20)).unwrap()];
        match below(12) {
            0 => {
                db.delete(&cf, key, options).unwrap();
            }
            1 => db.flush_cf(&[&cf]).unwrap(),
            2 if below(3) == 0 => db.drop_cf(&cf).unwrap(),
            3 => {
                let mut batch = Batch::new();
                for n in 0..20_u8 {
                    batch.put(&cf, [n], [n; 1_500]);
                }
                db.write(batch, options).unwrap();
            }
            _ => {
                db.put(&cf, key, vec![key[0]; below(900)], options).unwrap();
            }
        }
    }
    if below(3) == 0 {
        db.close().unwrap();
    }
    if below(2) == 0 { disk.process_kill() } else { disk.power_cut(random.u64()) }
}

/// Goal: D1, D2: a database opened read-only has the rows of an ordinary opening, wherever its last run ended, with
/// rows in LSM levels, in the log and in a shared ring, and nothing on the disk or in named memory is changed. Method:
/// runs of random steps; before each the directory is opened both ways and compared.
#[test]
fn read_only_opening_finds_what_an_opening_finds() {
    let mut seen = 0;
    for seed in 0..30 {
        let (random, mut disk) = (SimRandom::new(seed), SimFiles::new());
        let ring = if seed % 2 == 0 { RingKind::Shared } else { RingKind::Private };
        for life in 0..3 {
            disk = live(disk, ring, &random);
            let before = (disk.writes_and_syncs(), disk.regions());
            let db = over(Env::over(disk.clone(), 7), ring, true).unwrap();
            let found = rows(&db);
            db.close().unwrap();
            assert_eq!((disk.writes_and_syncs(), disk.regions()), before, "seed {seed}, life {life}");
            let db = over(Env::over(disk.clone(), 8), ring, false).unwrap();
            assert!(found == rows(&db), "seed {seed}, life {life}");
            seen += found.len();
            disk = disk.process_kill();
        }
    }
    assert!(seen > 500, "{seen} rows were compared");
}

fn kind<T>(result: Result<T, impl Into<Error>>) -> (ErrorKind, Remedy) {
    let Err(error) = result else { panic!("it was allowed") };
    let error: Error = error.into();
    (error.kind(), error.remedy())
}

/// Returns every file below `dir`, with its bytes and the time of its last change.
fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let changed = path.metadata().unwrap().modified().unwrap();
        let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.insert(path, (bytes, changed));
    }
    found
}

/// Removes the write permission from everything below `dir`, or restores it.
fn allow_writing(dir: &Path, allowed: bool) {
    use std::os::unix::fs::PermissionsExt;
    let mut paths: Vec<PathBuf> = files(dir).into_keys().collect();
    paths.push(dir.to_owned());
    for path in paths {
        let mode = if path.is_dir() { 0o500 } else { 0o400 } | if allowed { 0o200 } else { 0 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Goal: D1, D3: on the operating system's disk, where nothing may be written, every read works, and every write fails
/// with `ReadOnly` and a remedy; the remains of a crash in the levels stay. Method: a database with LSM levels, a log
/// and parts of an interrupted compaction, without write permission; every call of the interface; all files compared.
#[test]
fn database_opened_read_only_refuses_every_write_and_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    {
        let db = Options::small().open(&data).unwrap();
        let cf = db.create_cf("kept", CfOptions::default()).unwrap();
        let dropped = db.create_cf("dropped", CfOptions::default()).unwrap();
        for n in 0..100_u8 {
            db.put(&cf, [n], [n; 100], Durability::Async).unwrap();
        }
        db.put(&dropped, "x", "y", SYNC).unwrap();
        db.flush_cf(&[&cf, &dropped]).unwrap();
        db.drop_cf(&dropped).unwrap();
        db.delete(&cf, [3], SYNC).unwrap();
        db.put(&cf, [4], "in the log", SYNC).unwrap();
        db.close().unwrap();
    }
    let tree = std::fs::read_dir(data.join("levels")).unwrap().map(|entry| entry.unwrap().path());
    let tree = tree.filter(|path| path.is_dir()).max().unwrap();
    std::fs::write(tree.join("tables/99"), b"a part of a table").unwrap();
    allow_writing(&data, false);
    let before = files(&data);

    let options = Options::small().read_only(true).create_if_missing(true);
    let db = options.clone().open(&data).unwrap();
    let again = options.clone().open(&data).unwrap();
    for db in [&db, &again] {
        assert_eq!(db.list_cfs().unwrap().len(), 1);
        let cf = db.cf("kept").unwrap();
        assert_eq!(db.get(&cf, [4]).unwrap().as_deref(), Some(&b"in the log"[..]));
        assert_eq!(db.get(&cf, [3]).unwrap(), None);
        assert_eq!(db.snapshot().unwrap().scan(&cf, ..).count(), 99);
        let refused = (ErrorKind::ReadOnly, Remedy::FixCall);
        let mut batch = Batch::new();
        batch.put(&cf, "k", "v");
        assert_eq!(kind(db.put(&cf, "k", "v", SYNC)), refused);
        assert_eq!(kind(db.put(&cf, "k", "v", Durability::Unlogged)), refused);
        assert_eq!(kind(db.delete(&cf, [4], SYNC)), refused);
        assert_eq!(kind(db.write(batch, SYNC)), refused);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        assert!(txn.get(&cf, [4]).unwrap().is_some());
        assert_eq!(kind(txn.put(&cf, "k", "v")), refused);
        assert_eq!(kind(txn.get_for_update(&cf, [4])), refused);
        txn.commit(SYNC).unwrap();
        assert_eq!(kind(db.create_cf("new", CfOptions::default())), refused);
        assert_eq!(kind(db.drop_cf(&cf)), refused);
        assert_eq!(kind(db.flush_cf(&[&cf])), refused);
        assert_eq!(kind(db.compact(&cf)), refused);
        assert_eq!(kind(db.checkpoint(dir.path().join("copy"))), refused);
        let (engine, copy) = (db.engine(), CheckpointOptions { copy: true });
        assert_eq!(
            kind(engine.checkpoint(&dir.path().join("copy"), copy, &mut |_| ControlFlow::Continue(()))),
            refused
        );
        assert!(!engine.flush_due().unwrap());
        engine.tick();
        db.flush_wal(FlushTo::Disk).unwrap();
        db.sync_wal().unwrap();
        assert_eq!(db.list_cfs().unwrap().len(), 1);
        assert!(kind(db.put(&cf, "k", "v", SYNC)) == refused && db.get(&cf, "k").unwrap().is_none());
    }
    db.close().unwrap();
    assert!(files(&data) == before, "a file was changed");
    allow_writing(&data, true);

    // Everything was read, so a later opening by another handle does not affect the one that is still open.
    let writer = Options::small().open(&data).unwrap();
    let cf = writer.cf("kept").unwrap();
    writer.put(&cf, [4], "later", SYNC).unwrap();
    writer.flush_cf(&[&cf]).unwrap();
    assert_eq!(again.get(&again.cf("kept").unwrap(), [4]).unwrap().as_deref(), Some(&b"in the log"[..]));
    let locked = options.open(&data).unwrap_err();
    assert!(
        matches!(locked.engine(), EngineError::Log(error) if matches!(**error, WalError::Locked { pid: Some(_) })),
        "{locked}"
    );
}

/// Goal: a directory without a whole database is neither opened nor created, and damage is refused as by an ordinary
/// opening. Method: no directory, an empty one, a foreign one; a log that is gone, and one with a flipped bit, in each
/// recovery mode.
#[test]
fn read_only_opening_makes_nothing_and_refuses_damage() {
    let (env, disk) = Env::simulated(3);
    let open = |disk: &SimFiles, mode| {
        let mut options = engine_options(RingKind::Private, true);
        options.log.recovery_mode = mode;
        collie_engine::Db::open(DIR.as_ref(), options, Env::over(disk.clone(), 1), &mut |_| ())
            .map(|(db, _)| Db::over(&db))
    };
    let strict = RecoveryMode::TolerateCorruptedTailRecords;
    assert!(matches!(open(&disk, strict), Err(EngineError::NotFound { .. })));
    disk.create_dir_all(DIR.as_ref()).unwrap();
    assert!(matches!(open(&disk, strict), Err(EngineError::NotFound { .. })));
    assert!(disk.list(DIR.as_ref()).unwrap().is_empty());

    let db = over(env, RingKind::Private, false).unwrap();
    let cf = db.create_cf("a", CfOptions::default()).unwrap();
    for n in 0..200_u8 {
        db.put(&cf, [n], [n; 300], SYNC).unwrap();
    }
    db.close().unwrap();
    let wal = Path::new(DIR).join("wal");
    let first = disk.list(&wal).unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
    let first = wal.join(first);
    let middle = (read_all(&disk, &first, 1 << 20).unwrap().len() / 2) as u64;
    let disk = disk.process_kill();
    assert_eq!(rows(&open(&disk, strict).unwrap()).len(), 201);
    disk.flip(&first, middle, 1).unwrap();
    for mode in [strict, RecoveryMode::AbsoluteConsistency] {
        let refused = open(&disk, mode).unwrap_err();
        assert!(
            matches!(&refused, EngineError::Log(error) if matches!(**error, WalError::Damaged { .. })),
            "{refused}"
        );
    }
    let left = rows(&open(&disk, RecoveryMode::PointInTime).unwrap()).len();
    assert!((1..201).contains(&left), "{left} rows lie before the damage");
    for name in disk.list(&wal).unwrap().iter().filter(|name| name.ends_with(".wal")) {
        disk.remove(&wal.join(name)).unwrap();
    }
    assert!(matches!(open(&disk, strict), Err(EngineError::MissingLog { .. })));
}
