//! A log outside of the data directory: which one is accepted, which one is refused, and the locks of both directories.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};

use collie_engine::{EngineError, Env, ErrorKind, data_dir_of, log_dir_of, restore};
use collie_env::{Fault, Files as _, SimFiles};
use collie_kv::{CfOptions, Db, Durability, Options};
use collie_wal::WalError;

const SYNC: Durability = Durability::Local;

/// Moves a directory, as an operator does.
fn rename(from: &Path, to: &Path) {
    Env::real().files.replace(from, to).unwrap();
}

fn with_log(wal_dir: Option<&Path>) -> Options {
    let mut options = Options::small();
    options.wal.wal_dir = wal_dir.map(Path::to_owned);
    options
}

fn open(data: &Path, wal_dir: Option<&Path>) -> Result<Db, EngineError> {
    with_log(wal_dir).open(data).map_err(|error| error.engine().clone())
}

/// Opens, adds a row, and closes; returns the number of rows, including that one.
fn add(data: &Path, wal_dir: Option<&Path>) -> usize {
    let db = open(data, wal_dir).unwrap();
    let cf = db.cf("rows").or_else(|_| db.create_cf("rows", CfOptions::default())).unwrap();
    let count = db.snapshot().unwrap().scan(&cf, ..).count();
    db.put(&cf, count.to_be_bytes(), "x", SYNC).unwrap();
    db.close().unwrap();
    count + 1
}

/// Returns the refusal, which must name all of `paths` and have a remedy for the caller.
fn refused(data: &Path, wal_dir: Option<&Path>, paths: &[&Path]) -> EngineError {
    let error = open(data, wal_dir).unwrap_err();
    for path in paths {
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error} does not name {}", path.display());
    }
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error
}

/// Goal: G1, G2: a database continues with its own log wherever that was moved as a whole, and with no other: both
/// directories are named, nothing is created, and nothing is lost. Method: one database, its log moved from place to
/// place; opened with the wrong place each time, with another database's log, and with one that does not name its
/// owner.
#[test]
fn database_stays_with_its_log_wherever_that_is_moved() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name);
    let (data, one, two, other) = (path("data"), path("one"), path("two"), path("other"));
    let inner = data.join("wal");
    assert_eq!(add(&data, Some(&one)), 1);
    assert!(!inner.exists() && one.join("LOCK").exists());
    assert_eq!(
        (log_dir_of(&data, &Env::real()).unwrap(), data_dir_of(&one, &Env::real()).unwrap()),
        (one.clone(), Some(data.clone()))
    );
    assert_eq!(add(&data, Some(&one)), 2);

    assert!(matches!(refused(&data, None, &[&inner, &one]), EngineError::WrongLogDir { .. }));
    assert!(matches!(refused(&data, Some(&two), &[&two, &one]), EngineError::WrongLogDir { .. }));
    assert!(!inner.exists() && !two.exists(), "nothing is made");
    assert!(matches!(refused(&data, Some(&data.join("in")), &[]), EngineError::InvalidArgument { .. }));

    // Another database's log, unchanged and in the place of this one's.
    assert_eq!(add(&other, None), 1);
    let theirs = other.join("wal");
    assert!(matches!(
        refused(&data, Some(&theirs), &[&theirs, &data, &other]),
        EngineError::ForeignLogDir { of: Some(_), .. }
    ));
    assert!(matches!(refused(&path("third"), Some(&one), &[&one, &data]), EngineError::ForeignLogDir { .. }));
    rename(&theirs, &inner);
    assert!(matches!(refused(&data, None, &[&inner, &other]), EngineError::ForeignLogDir { .. }));
    std::fs::remove_file(inner.join("owner")).unwrap();
    rename(&inner, &two);
    assert!(matches!(refused(&data, Some(&two), &[&two, &data]), EngineError::ForeignLogDir { of: None, .. }));
    std::fs::remove_dir_all(&two).unwrap();

    // Moved as a whole: out again, in, and with the data directory under another name.
    rename(&one, &two);
    assert_eq!(add(&data, Some(&two)), 3);
    assert!(matches!(refused(&data, Some(&one), &[&one, &two]), EngineError::WrongLogDir { .. }));
    rename(&two, &inner);
    assert_eq!(add(&data, None), 4);
    assert!(!data.join("log-dir").exists());
    rename(&inner, &one);
    assert_eq!(add(&data, Some(&one)), 5);
    let renamed = path("renamed");
    rename(&data, &renamed);
    assert_eq!(add(&renamed, Some(&one)), 6);
    assert_eq!(data_dir_of(&one, &Env::real()).unwrap(), Some(renamed.clone()));

    // A copy of the data directory alone does not get the log of the original.
    for name in ["control", "log-dir"] {
        // Only its owner may read a data directory.
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(&data)
            .unwrap();
        std::fs::copy(renamed.join(name), data.join(name)).unwrap();
    }
    assert!(matches!(refused(&data, Some(&one), &[&one, &renamed, &data]), EngineError::ForeignLogDir { .. }));
    assert_eq!(add(&renamed, Some(&one)), 7);
    let read_only = with_log(Some(&one)).read_only(true);
    let db = read_only.open(&renamed).unwrap();
    assert_eq!(db.snapshot().unwrap().scan(&db.cf("rows").unwrap(), ..).count(), 7);
    assert!(with_log(None).read_only(true).open(&renamed).is_err());
}

/// Goal: G3: an open database keeps other processes out of both directories. Method: an open database; its log opened
/// for another, its data directory's lock taken by hand.
#[test]
fn open_database_locks_its_log_and_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let db = open(&data, Some(&log)).unwrap();
    let is_locked =
        |error: &EngineError| matches!(error, EngineError::Log(error) if matches!(**error, WalError::Locked { .. }));
    assert!(is_locked(&open(&data, Some(&log)).unwrap_err()));
    for held in [&data, &log] {
        assert!(Env::real().files.lock(&held.join("LOCK")).is_err(), "{}", held.display());
    }
    db.close().unwrap();
    drop(db);
    let by_hand = Env::real().files.lock(&data.join("LOCK")).unwrap();
    let error = open(&data, Some(&log)).unwrap_err();
    assert!(is_locked(&error), "{error}");
    drop(by_hand);
    open(&data, Some(&log)).unwrap().close().unwrap();
}

/// Goal: a copy of such a database opens by itself with its log inside, cannot be made in either directory, and its log
/// can be moved out once it is restored. Method: a checkpoint and a restore of one.
#[test]
fn copy_of_a_database_with_its_log_elsewhere_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (data, log, copy, restored) = (path("data"), path("log"), path("copy"), path("restored"));
    assert_eq!(add(&data, Some(&log)), 1);
    let db = open(&data, Some(&log)).unwrap();
    db.checkpoint(&copy).unwrap();
    for inside in [data.join("copy"), log.join("copy")] {
        assert!(
            matches!(db.checkpoint(&inside), Err(error) if matches!(error.engine(), EngineError::BadTarget { .. })),
            "{}",
            inside.display()
        );
    }
    db.close().unwrap();
    restore(&copy, &restored, None, &Env::real(), &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(add(&copy, None), 2);
    let kept: PathBuf = path("kept");
    rename(&restored.join("wal"), &kept);
    assert_eq!(add(&restored, Some(&kept)), 2);
    assert_eq!(add(&data, Some(&log)), 2);
}

/// Goal: creating such a database, and moving its log, can be cut short anywhere and repeated. Method: power cuts at
/// each call to the disk until the opening succeeds, of the first opening and of a later one; then opened again, with
/// everything acknowledged.
#[test]
fn power_cut_at_any_call_of_an_opening_leaves_a_database_with_its_log() {
    let options = |wal_dir: &str| {
        let mut options = common::tiny();
        options.wal_dir = Some(wal_dir.into());
        options
    };
    let open = |disk: &SimFiles, seed| {
        let opened =
            collie_engine::Db::open("/db".as_ref(), options("/log"), Env::over(disk.clone(), seed), &mut |_| ());
        opened.map(|(engine, _)| Db::over(&engine))
    };
    for start_with_rows in [false, true] {
        let mut call = 1;
        loop {
            let mut disk = SimFiles::new();
            if start_with_rows {
                let db = open(&disk, 1).unwrap();
                let cf = db.create_cf("rows", CfOptions::default()).unwrap();
                db.put(&cf, "k", "v", SYNC).unwrap();
                disk = disk.process_kill();
            }
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            let lived = open(&disk, 2).is_ok();
            let disk = disk.power_cut(call);
            let db = open(&disk, 3).unwrap_or_else(|error| panic!("call {call}: {error}"));
            if start_with_rows {
                assert!(db.get(&db.cf("rows").unwrap(), "k").unwrap().is_some(), "call {call}");
            }
            assert_eq!(data_dir_of("/log".as_ref(), &Env::over(disk.clone(), 4)).unwrap(), Some("/db".into()));
            assert!(disk.list("/db/wal".as_ref()).is_err());
            if lived {
                break;
            }
            call += 1;
        }
        assert!(call > 10, "{call} calls");
    }
}

/// Goal: an `owner` or `log-dir` that cannot be read is refused, the file is named, and nothing is changed; without its
/// `owner` a log in `wal` is accepted and signed again, one elsewhere only by moving it to `wal` first. Method: each
/// byte of both files damaged, a newer version, an empty file; then the documented remedy.
#[test]
fn damaged_note_of_a_log_is_refused_by_name_and_can_be_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let [data, outside] = ["data", "log"].map(|name| root.join(name));
    let inner = data.join("wal");
    let files = Env::real().files;
    let replace = |path: &Path, bytes: &[u8]| {
        files.remove(path).unwrap();
        files.create(path).unwrap().write_at(0, bytes).unwrap();
    };
    let read = |path: &Path| collie_env::read_all(&*files, path, 1 << 16).unwrap();
    let check = |path: &Path, wal_dir: Option<&Path>| {
        let good = read(path);
        let damaged = (0..good.len()).map(|at| {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            bad
        });
        let mut newer = good.clone();
        newer[12] = 9;
        let cut = [Vec::new(), good[..good.len() - 1].to_vec()];
        for bad in damaged.chain([newer]).chain(cut) {
            replace(path, &bad);
            let error = open(&data, wal_dir).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error} does not name {}", path.display());
            assert_eq!(read(path), bad, "it is left as it was");
        }
        replace(path, &good);
    };
    assert_eq!(add(&data, None), 1);
    check(&inner.join("owner"), None);
    assert_eq!(add(&data, None), 2);
    replace(&inner.join("owner"), b"nothing of it");
    files.remove(&inner.join("owner")).unwrap();
    assert_eq!(add(&data, None), 3);
    assert_eq!(data_dir_of(&inner, &Env::real()).unwrap(), Some(data.clone()), "signed anew");

    rename(&inner, &outside);
    assert_eq!(add(&data, Some(&outside)), 4);
    check(&outside.join("owner"), Some(&outside));
    check(&data.join("log-dir"), Some(&outside));
    files.remove(&outside.join("owner")).unwrap();
    assert!(matches!(refused(&data, Some(&outside), &[&outside]), EngineError::ForeignLogDir { of: None, .. }));
    rename(&outside, &inner);
    assert_eq!(add(&data, None), 5);
    rename(&inner, &outside);
    assert_eq!(add(&data, Some(&outside)), 6);
}
