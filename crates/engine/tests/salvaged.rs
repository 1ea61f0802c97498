//! Opening read-only from a damaged log.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use collie_base::CfId;
use collie_engine::{Db, EngineError, Env, Insert, Isolation, Options, StatementKind};
use collie_env::{Files, SimFiles, read_all};
use collie_wal::RecoveryMode;
use common::{all, begin, put, tiny};

const DIR: &str = "/db";

fn options(recovery_mode: RecoveryMode) -> Options {
    let log = collie_wal::Options { threads: false, recovery_mode, ..collie_wal::Options::small() };
    Options { log, background: false, ..Options::small() }
}

fn open(env: &Env, recovery_mode: RecoveryMode) -> Result<(Db, collie_engine::OpenReport), EngineError> {
    Db::open(DIR.as_ref(), options(recovery_mode), env.clone(), &mut |_| ())
}

fn files(disk: &SimFiles) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new(DIR).join("wal");
    let names = disk.list(&dir).unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), read_all(disk, &dir.join(name), 4 << 20).unwrap())).collect()
}

/// Goal: a transaction is there whole or not at all, whatever part of the log is lost, the rest is there, a write is
/// refused, and nothing in the directory changes. Method: transactions over two families, one in several chunks around
/// others and with a part rolled back; one frame after another is damaged; open read-only, compare, write; then
/// undamaged.
#[test]
fn salvaged_database_has_every_whole_transaction_and_changes_nothing() {
    let (env, disk) = Env::simulated(61);
    let (db, _) = open(&env, RecoveryMode::default()).unwrap();
    let (f, g) = (db.create_family(), db.create_family());
    let write = |session: &mut collie_engine::Session, n: u8| {
        begin(session);
        put(session, &db.family(f), &[n], &[n; 900]);
        put(session, &db.family(g), &[n], &[n]);
        session.commit(true).unwrap().block().unwrap();
    };
    let (mut small, mut large) = (db.session().unwrap(), db.session().unwrap());
    for n in 0..4 {
        write(&mut small, n);
    }
    begin(&mut large);
    put(&mut large, &db.family(f), &[100], &[1; 10_000]);
    for n in 4..8 {
        let mark = large.savepoint();
        put(&mut large, &db.family(f), &[200 + n], &[9; 40_000]);
        large.rollback_to(mark);
        put(&mut large, &db.family(f), &[100 + n], &[n; 40_000]);
        // So that its chunks have separate frames.
        db.log().unwrap().flush_wal(true).unwrap();
        write(&mut small, n);
    }
    put(&mut large, &db.family(g), &[100], b"large");
    large.commit(true).unwrap().block().unwrap();
    for n in 8..12 {
        write(&mut small, n);
    }
    let rows = |db: &Db| {
        let mut session = db.session().unwrap();
        begin(&mut session);
        let of = |cf: CfId| all(&session, &db.family(cf)).keys().cloned().collect::<Vec<_>>();
        let both = (of(f), of(g));
        session.rollback();
        both
    };
    let whole = rows(&db);
    assert_eq!((whole.0.len(), whole.1.len()), (17, 13));
    drop((small, large));
    db.close().unwrap();
    drop(db);
    let made = files(&disk);
    let (mut damaged, mut without_large, mut with_later) = (0, 0, 0);
    for (name, bytes) in &made {
        for offset in (4096..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"CLF1")) {
            let disk = disk.process_kill();
            let path = Path::new(DIR).join("wal").join(name);
            disk.flip(&path, offset as u64 + 70, 2).unwrap();
            let before = files(&disk);
            let env = Env::over(disk.clone(), 62);
            let (db, report) = open(&env, RecoveryMode::SkipAnyCorruptedRecords).unwrap();
            let context = format!("{name} offset {offset}: {:?}", report.notices);
            assert!(report.read_only && db.is_read_only() && db.log().is_none(), "{context}");
            assert!(report.notices.last().unwrap().starts_with("opened read-only as "), "{context}");
            let (left_f, left_g) = rows(&db);
            for n in (0..12).chain([100]) {
                assert_eq!(left_f.contains(&vec![n]), left_g.contains(&vec![n]), "{context}: half of {n}");
            }
            let large = left_f.iter().filter(|key| key[0] >= 100).count();
            assert!(large == 0 || large == 5, "{context}: {large} rows of the large one");
            let small = left_f.len() - large;
            assert!(small >= 8, "{context}: {small} small ones are left");
            without_large += usize::from(large == 0 && small == 12);
            with_later += usize::from(small < 12 && left_f.contains(&vec![11]));
            damaged += 1;

            let mut session = db.session().unwrap();
            begin(&mut session);
            let refused = session.insert(&db.family(f), b"new", b"row").unwrap_err();
            assert!(matches!(refused, EngineError::Salvaged), "{refused}");
            session.commit(true).unwrap().block().unwrap();
            session.begin(Isolation::RepeatableRead, true).unwrap();
            session.begin_statement(StatementKind::ReadOnly).unwrap();
            assert_eq!(all(&session, &db.family(g)).len(), left_g.len(), "{context}");
            drop(session);
            db.tick();
            db.close().unwrap();
            drop(db);
            assert!(files(&disk) == before, "{context}: something was written");
        }
    }
    assert!(damaged > 15 && without_large > 3 && with_later > 5, "{damaged}, {without_large}, {with_later}");

    let disk = disk.process_kill();
    let (db, report) = open(&Env::over(disk, 63), RecoveryMode::SkipAnyCorruptedRecords).unwrap();
    assert_eq!(rows(&db), whole);
    assert!(report.notices[0].contains(" that are lost: 0, bytes in them: 0, "), "{:?}", report.notices);
}

/// Goal: commits that only the shared ring of a killed process has are not shown, and a line reports them; the ring
/// stays for the opening that recovers them. Method: one commit on disk, one in the ring, a kill; read-only, then as
/// usual.
#[test]
fn ring_of_a_killed_process_is_named_and_left_for_the_next_open() {
    let (env, disk) = Env::simulated(65);
    let with_ring = |env: &Env, recovery_mode| {
        let mut options = options(recovery_mode);
        options.log.ring = collie_wal::RingKind::Shared;
        Db::open(DIR.as_ref(), options, env.clone(), &mut |_| ()).unwrap()
    };
    let (db, _) = with_ring(&env, RecoveryMode::default());
    let f = db.create_family();
    let write = |key: &[u8], synchronous| {
        let mut session = db.session().unwrap();
        begin(&mut session);
        put(&mut session, &db.family(f), key, b"row");
        session.commit(synchronous).unwrap().block().unwrap();
    };
    write(b"on disk", true);
    write(b"in the ring", false);
    let disk = disk.process_kill();
    let env = Env::over(disk, 66);
    let rows = |db: &Db| {
        let mut session = db.session().unwrap();
        begin(&mut session);
        let rows = all(&session, &db.family(f));
        session.rollback();
        rows.into_keys().collect::<Vec<_>>()
    };
    let names = |notices: &[String]| notices.iter().filter(|line| line.starts_with("wal: the shared ring ")).count();
    for _ in 0..2 {
        let (db, report) = with_ring(&env, RecoveryMode::SkipAnyCorruptedRecords);
        assert_eq!(rows(&db), [b"on disk"]);
        assert_eq!(names(&report.notices), 1, "{:?}", report.notices);
    }
    let (db, report) = with_ring(&env, RecoveryMode::default());
    assert_eq!(rows(&db), [&b"in the ring"[..], b"on disk"], "{:?}", report.notices);
    db.close().unwrap();
    drop(db);
    let (_, report) = with_ring(&env, RecoveryMode::SkipAnyCorruptedRecords);
    assert_eq!(names(&report.notices), 0, "{:?}", report.notices);
}

/// Goal: opening read-only creates nothing and waits for no other process. Method: no directory; a database that is
/// open.
#[test]
fn nothing_is_made_or_shared_by_opening_read_only() {
    let (env, disk) = Env::simulated(64);
    let missing = open(&env, RecoveryMode::SkipAnyCorruptedRecords).unwrap_err();
    assert!(matches!(missing, EngineError::NotFound { .. }), "{missing}");
    assert!(disk.list(DIR.as_ref()).is_err());
    let (db, _) = open(&env, RecoveryMode::default()).unwrap();
    let locked = open(&env, RecoveryMode::SkipAnyCorruptedRecords).unwrap_err().to_string();
    assert!(locked.starts_with("wal: the log is open in process "), "{locked}");
    db.close().unwrap();
    drop(db);
    let (first, _) = open(&env, RecoveryMode::SkipAnyCorruptedRecords).unwrap();
    assert!(open(&env, RecoveryMode::default()).is_err(), "it is read");
    drop(first);
    let (db, _) = open(&env, RecoveryMode::default()).unwrap();
    let family = db.family(db.create_family());
    let mut session = db.session().unwrap();
    begin(&mut session);
    assert!(matches!(session.insert(&family, b"k", b"v").unwrap(), Insert::Done));
    session.commit(true).unwrap().block().unwrap();
}

/// Goal: R4: once log was released, every family of a whole tree has its rows, those of a damaged tree are named and
/// have the rows in the remaining log, whichever file of the LSM levels is damaged; an ordinary opening refuses the
/// file by name; nothing is changed. Method: two families and a group, flushed until log is released, rows behind that;
/// a bit of each file of the levels, and MANIFEST gone.
#[test]
fn damaged_levels_leave_every_whole_family_and_name_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let open = |recovery_mode| {
        let mut options = tiny();
        options.log.recovery_mode = recovery_mode;
        Db::open(dir.path(), options, Env::real(), &mut |_| ())
    };
    let (db, _) = open(RecoveryMode::default()).unwrap();
    let cfs = [db.create_family(), db.create_family()];
    for n in 0..60_u8 {
        cfs.iter().for_each(|cf| common::put_one(&db, &db.family(*cf), &[n], &[n; 2000]));
        if n % 10 == 9 {
            db.flush_all().unwrap();
        }
    }
    assert!(db.flush_stat().log_start > collie_base::Lsn::FIRST, "log is given up");
    cfs.iter().for_each(|cf| common::put_one(&db, &db.family(*cf), &[200], b"in the log"));
    db.close().unwrap();
    drop(db);
    let rows = |db: &Db, cf: CfId| {
        let mut session = db.session().unwrap();
        begin(&mut session);
        all(&session, &db.family(cf)).keys().map(|key| key[0]).collect::<Vec<_>>()
    };
    let whole: Vec<u8> = (0..60).chain([200]).collect();
    let everything = |below: &str| {
        let (mut found, mut todo) = (BTreeMap::new(), vec![dir.path().join(below)]);
        while let Some(at) = todo.pop() {
            for entry in std::fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else if !path.ends_with("LOCK") {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    };
    let salvaging = RecoveryMode::SkipAnyCorruptedRecords;
    {
        let (db, report) = open(salvaging).unwrap();
        assert_eq!((rows(&db, cfs[0]), rows(&db, cfs[1])), (whole.clone(), whole.clone()));
        assert!(report.damaged.is_empty() && report.level_rows > 100, "{report:?}");
    }
    let mut damaged = [0; 2];
    for (path, bytes) in everything("levels") {
        let is_manifest = path.ends_with("MANIFEST");
        // It is unknown which of `current` and the list that it names has rotted.
        let named = if path.ends_with("current") { path.parent().unwrap() } else { path.as_path() };
        let mut bad = bytes.clone();
        bad[if is_manifest { 40 } else { bytes.len() / 2 }] ^= 32;
        std::fs::write(&path, &bad).unwrap();
        let before = everything("");
        if is_manifest {
            assert!(open(RecoveryMode::default()).is_err());
        }
        let (db, report) = open(salvaging).unwrap();
        let context = format!("{}: {:?}", path.display(), report.notices);
        assert!(db.is_read_only() && report.read_only, "{context}");
        if is_manifest {
            assert!(report.notices[0].contains("MANIFEST"), "{context}");
        }
        for (number, cf) in cfs.iter().enumerate() {
            let found = rows(&db, *cf);
            if report.damaged.contains(cf) {
                assert!(report.notices[0].contains(&*named.to_string_lossy()), "{context}");
                assert!(found.contains(&200) && found.len() < whole.len(), "{context}: {found:?}");
                damaged[number] += 1;
            } else if !is_manifest {
                assert_eq!(found, whole, "{context}");
            }
        }
        drop(db);
        assert!(everything("") == before, "{context}: something was written");
        if !is_manifest && !report.damaged.is_empty() {
            let refused = open(RecoveryMode::default()).unwrap_err();
            assert!(refused.to_string().contains(&*named.to_string_lossy()), "{refused}");
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(damaged.iter().all(|count| *count >= 3), "{damaged:?}");
    let (db, _) = open(RecoveryMode::default()).unwrap();
    assert_eq!((rows(&db, cfs[0]), rows(&db, cfs[1])), (whole.clone(), whole));
}
