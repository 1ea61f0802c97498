//! The state that the next opening finds: after power cuts, in foreign directories, with large transactions in the log.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::path::Path;

use collie_base::CfId;
use collie_engine::{Basis, Db, EngineError, Env, Isolation, Options, Outcome, StatementKind, Write};
use collie_env::Fault;
use common::{DIR, all, begin, get_one, next_statement, open_still, put, put_one};

/// Goal: every commit acknowledged as durable is back, and every other transaction is there wholly or not at all.
/// Method: one durable commit, an unfinished transaction, an asynchronous commit of two rows, a power cut with many
/// seeds, two reopens.
#[test]
fn reopen_after_power_cut_keeps_every_acknowledged_commit() {
    for seed in 0..40 {
        let (env, disk) = Env::simulated(seed);
        let (db, report) = open_still(env).unwrap();
        assert!(report.created);
        let cf = db.create_family();
        let f = db.family(cf);
        put_one(&db, &f, b"durable", b"1");
        let (mut open, mut late) = (db.session().unwrap(), db.session().unwrap());
        begin(&mut open);
        put(&mut open, &f, b"unfinished", b"x");
        begin(&mut late);
        put(&mut late, &f, b"late 1", b"x");
        put(&mut late, &f, b"late 2", b"x");
        late.commit(false).unwrap().block().unwrap();
        let mut disk = disk.power_cut(seed);
        let mut found = Vec::new();
        for open in 0..2 {
            let (db, report) = open_still(Env::over(disk.clone(), seed + 100 + open)).unwrap();
            assert!(!report.created);
            let f = db.family(cf);
            assert_eq!(get_one(&db, &f, b"durable").as_deref(), Some(&b"1"[..]));
            assert_eq!(get_one(&db, &f, b"unfinished"), None);
            let lates = (get_one(&db, &f, b"late 1"), get_one(&db, &f, b"late 2"));
            assert_eq!(lates.0, lates.1, "a commit is whole or absent");
            found.push(lates);
            disk = disk.power_cut(seed + 7);
        }
        assert_eq!(found[0], found[1], "what was found once stays");
    }
}

/// Goal: with `wal.sync_every` = 3, a power cut takes at most the last two asynchronous commits. Method: count up, cut
/// after each count, several outcomes.
#[test]
fn every_nth_asynchronous_commit_reaches_the_disk() {
    for (commits, seed) in (0..9_u8).flat_map(|commits| (0..4).map(move |seed| (commits, seed))) {
        let (env, disk) = Env::simulated(seed);
        let mut options = Options { background: false, ..Options::small() };
        (options.log.threads, options.log.sync_every) = (false, 3);
        let (db, _) = Db::open(Path::new(DIR), options, env, &mut |_| ()).unwrap();
        let cf = db.create_family();
        let f = db.family(cf);
        let mut session = db.session().unwrap();
        for n in 0..commits {
            begin(&mut session);
            put(&mut session, &f, &[n], b"");
            session.commit(false).unwrap().block().unwrap();
        }
        let (db, _) = open_still(Env::over(disk.power_cut(seed), seed + 1)).unwrap();
        let mut session = db.session().unwrap();
        begin(&mut session);
        let back = all(&session, &db.family(cf)).len();
        assert!(back >= usize::from(commits / 3 * 3), "{back} of {commits} are back");
    }
}

/// Goal: a transaction larger than a piece of the log is whole after a reopen, without the writes that it rolled back.
/// Method: rows of 10 kB around savepoints, some voided after they were logged; then a transaction that never commits.
#[test]
fn large_transaction_comes_back_whole_without_what_it_rolled_back() {
    let (env, disk) = Env::simulated(11);
    let (db, _) = open_still(env).unwrap();
    let cf = db.create_family();
    let f = &db.family(cf);
    let mut session = db.session().unwrap();
    let value = |n: u8| vec![n; 10_000];
    begin(&mut session);
    (0..10).for_each(|n| put(&mut session, f, &[n], &value(n)));
    let mark = session.savepoint();
    (10..20).for_each(|n| put(&mut session, f, &[n], &value(n)));
    session.rollback_to(mark);
    next_statement(&mut session);
    (20..30).for_each(|n| put(&mut session, f, &[n], &value(n)));
    assert_eq!(session.write(f, &[3], Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
    let rows = {
        next_statement(&mut session);
        all(&session, f)
    };
    session.commit(true).unwrap().block().unwrap();
    assert_eq!(rows.len(), 19);
    begin(&mut session);
    (30..40).for_each(|n| put(&mut session, f, &[n], &value(n)));
    put_one(&db, f, b"last", b"");
    let unfinished = db.create_family();
    let disk = disk.power_cut(3);
    let (db, report) = open_still(Env::over(disk, 12)).unwrap();
    let f = &db.family(cf);
    let mut session = db.session().unwrap();
    begin(&mut session);
    let mut found = all(&session, f);
    assert_eq!(found.remove(&b"last"[..]), Some(Vec::new()));
    assert_eq!(found, rows);
    assert_eq!(report.rows, 22, "19 rows, one of them first put and then deleted, and the last");
    assert!(db.create_family() <= unfinished, "an id that the log never named may come again");
    assert!(db.create_family() > cf);
}

/// Goal: a value far larger than the log's ring goes through and comes back. Method: 3 MiB over a ring of 256 KiB.
#[test]
fn value_larger_than_the_ring_comes_back() {
    let (env, disk) = Env::simulated(41);
    let (db, _) = open_still(env).unwrap();
    let cf = db.create_family();
    let value: Vec<u8> = (0..3_u32 << 20).map(|i| i.to_le_bytes()[1]).collect();
    put_one(&db, &db.family(cf), b"large", &value);
    let (db, _) = open_still(Env::over(disk.power_cut(1), 42)).unwrap();
    assert!(get_one(&db, &db.family(cf), b"large") == Some(value));
}

/// Goal: ids of transactions and families are never assigned twice. Method: compare ids before and after a crash.
#[test]
fn ids_grow_over_a_crash() {
    let (env, disk) = Env::simulated(21);
    let (db, _) = open_still(env).unwrap();
    let cf = db.create_family();
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(cf), b"k", b"v");
    let xid = session.xid().unwrap();
    let first = session.commit(true).unwrap().block().unwrap().csn.unwrap();
    let (db, report) = open_still(Env::over(disk.power_cut(1), 22)).unwrap();
    assert_eq!(report.incarnation, 2);
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(cf), b"k", b"w");
    assert!(session.xid().unwrap() > xid);
    assert!(session.commit(true).unwrap().block().unwrap().csn.unwrap() > first);
    assert!(db.create_family() > cf);
}

/// Goal: a directory that is no database, is in use or is absent is refused with its name. Method: each of them.
#[test]
fn wrong_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |options: Options| Db::open(dir.path(), options, Env::real(), &mut |_| ()).map(|(db, _)| db);
    let existing = Options { create_if_missing: false, ..Options::small() };
    assert!(matches!(open(existing.clone()), Err(EngineError::NotFound { .. })));
    std::fs::write(dir.path().join("letter.txt"), b"mine").unwrap();
    match open(Options::small()) {
        Err(EngineError::ForeignDirectory { found, .. }) => assert_eq!(found, "letter.txt"),
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(dir.path().join("letter.txt")).unwrap();
    let db = open(Options::small()).unwrap();
    let id = db.cluster_id();
    assert!(matches!(open(Options::small()), Err(EngineError::Log(_))), "it is open");
    db.close().unwrap();
    drop(db);
    let control = dir.path().join("control");
    let db = open(existing.clone()).unwrap();
    assert_eq!(db.cluster_id(), id);
    drop(db);
    let good = std::fs::read(&control).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    std::fs::write(&control, bad).unwrap();
    assert!(matches!(open(existing.clone()), Err(EngineError::BadControlFile { .. })));
    // The log must be whole: a database whose log is gone is not an empty one.
    std::fs::write(&control, good).unwrap();
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    let missing = open(existing).unwrap_err();
    assert!(matches!(missing, EngineError::MissingLog { start: None, .. }), "{missing}");
}

/// Goal: a database whose oldest log files are gone is refused before anything is written. Method: a log of several
/// files, the oldest one removed; every name and byte is the same afterwards.
#[test]
fn database_without_its_oldest_log_file_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).map(|(db, _)| db);
    let db = open().unwrap();
    let family = db.family(db.create_family());
    let mut session = db.session().unwrap();
    for n in 0..40_u8 {
        begin(&mut session);
        put(&mut session, &family, &[n], &[n; 60_000]);
        session.commit(true).unwrap().block().unwrap();
    }
    drop(session);
    db.close().unwrap();
    drop(db);
    let wal = dir.path().join("wal");
    std::fs::remove_file(wal.join("00000000000000000001.wal")).unwrap();
    let files = || -> std::collections::BTreeMap<_, _> {
        let entries = std::fs::read_dir(&wal).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
    };
    let before = files();
    assert!(before.len() > 2, "{:?}", before.keys());
    let error = open().unwrap_err().to_string();
    let missing = "but the checkpoint needs 0/1000: segment 00000000000000000001.wal is missing";
    assert!(error.starts_with("wal: starts at 0/") && error.ends_with(missing), "{error}");
    assert!(files() == before);
}

/// Goal: a database whose very first opening was cut short by the disk is not refused for lack of the file which that
/// opening began (track record T28). Method: each write and sync of the first opening fails in turn; open again,
/// commit, cut the power.
#[test]
fn database_whose_first_opening_was_cut_short_opens_after_a_power_cut() {
    let mut cut_short = 0;
    for call in 1.. {
        let (env, disk) = Env::simulated(call);
        disk.fail_write_or_sync(call, Fault::Eio);
        if open_still(env).is_ok() {
            break;
        }
        cut_short += 1;
        disk.clear_faults();
        let (db, _) = open_still(Env::over(disk.clone(), call)).unwrap();
        let cf = db.create_family();
        put_one(&db, &db.family(cf), b"durable", b"1");
        for seed in 0..10 {
            let opened = open_still(Env::over(disk.power_cut(seed), call));
            let (db, _) = opened.unwrap_or_else(|error| panic!("call {call} seed {seed}: {error}"));
            assert_eq!(get_one(&db, &db.family(cf), b"durable").as_deref(), Some(&b"1"[..]), "call {call} seed {seed}");
            drop(db);
            let mut options = Options { background: false, ..Options::small() };
            options.log.recovery_mode = collie_wal::RecoveryMode::SkipAnyCorruptedRecords;
            let env = Env::over(disk.power_cut(seed), call);
            let (_, report) = Db::open(Path::new(DIR), options, env, &mut |_| ()).unwrap();
            assert!(report.notices[0].contains(" lost: 0, bytes in them: 0, "), "{:?}", report.notices);
        }
    }
    assert!(cut_short > 3, "{cut_short}");
}

/// Goal: a database that was opened without its damaged beginning, and so is empty, keeps later commits. Method: flip a
/// byte of the first frame, open under point_in_time, commit, cut the power, open as usual.
#[test]
fn database_opened_without_its_damaged_beginning_opens_again() {
    let (env, disk) = Env::simulated(71);
    let (db, _) = open_still(env).unwrap();
    let cf = db.create_family();
    put_one(&db, &db.family(cf), b"old", b"1");
    put_one(&db, &db.family(cf), b"older", b"1");
    let disk = disk.power_cut(1);
    disk.flip(&Path::new(DIR).join("wal/00000000000000000001.wal"), 4_096 + 40, 1).unwrap();
    let refused = open_still(Env::over(disk.clone(), 72)).unwrap_err();
    assert!(refused.to_string().starts_with("wal: damaged at "), "{refused}");
    let mut options = Options { background: false, ..Options::small() };
    (options.log.threads, options.log.recovery_mode) = (false, collie_wal::RecoveryMode::PointInTime);
    let (db, _) = Db::open(Path::new(DIR), options, Env::over(disk.clone(), 73), &mut |_| ()).unwrap();
    let cf = db.create_family();
    put_one(&db, &db.family(cf), b"new", b"2");
    let (db, _) = open_still(Env::over(disk.power_cut(2), 74)).unwrap();
    let f = db.family(cf);
    assert_eq!(get_one(&db, &f, b"new").as_deref(), Some(&b"2"[..]));
    assert_eq!(get_one(&db, &f, b"old"), None);
}

/// Goal: one transaction over several families has one place in the order. Method: a snapshot between two commits that
/// each write two families; the catalog is family 0.
#[test]
fn commit_over_two_families_is_seen_whole() {
    let (env, _disk) = Env::simulated(31);
    let (db, _) = open_still(env).unwrap();
    let (f, g) = (db.family(CfId::CATALOG), db.family(db.create_family()));
    let (mut writer, mut reader) = (db.session().unwrap(), db.session().unwrap());
    for round in 0..5_u8 {
        begin(&mut writer);
        put(&mut writer, &f, b"k", &[round]);
        reader.begin(Isolation::RepeatableRead, false).unwrap();
        reader.begin_statement(StatementKind::Write).unwrap();
        put(&mut writer, &g, b"k", &[round]);
        writer.commit(true).unwrap().block().unwrap();
        assert_eq!(reader.get(&f, b"k").unwrap(), reader.get(&g, b"k").unwrap());
        reader.rollback();
        assert_eq!(get_one(&db, &g, b"k"), Some(vec![round]));
    }
    assert!(Path::new(DIR).is_absolute());
}

/// Goal: a database whose log was cut opens with the commits below the cut, assigns no number twice and continues.
/// Method: twenty commits of one row, closed or cut off by the power; the log cut at one of them; two more openings.
#[test]
fn cut_log_opens_with_the_commits_below_the_cut() {
    for (seed, at, closed) in [(41, 7, true), (42, 0, false), (43, 19, false), (44, 12, true)] {
        let (env, disk) = Env::simulated(seed);
        let (db, _) = open_still(env).unwrap();
        let cf = db.create_family();
        let f = db.family(cf);
        let mut session = db.session().unwrap();
        let mut commits = Vec::new();
        for n in 0..20_u8 {
            begin(&mut session);
            put(&mut session, &f, &[n], b"v");
            commits.push(session.commit(true).unwrap().block().unwrap().csn.unwrap());
        }
        drop(session);
        if closed {
            db.close().unwrap();
        }
        let mut disk = if closed { disk.process_kill() } else { disk.power_cut(seed) };
        let (env, options) = (Env::over(disk.clone(), seed + 1), collie_wal::TruncateOptions::default());
        let done = collie_wal::truncate_at(&env, Path::new(DIR).join("wal").as_ref(), commits[at], options).unwrap();
        assert!(done.removed.records >= 20 - at as u64, "{done:?}");
        let mut highest = commits[19];
        for open in 0..2_u8 {
            let (db, report) = open_still(Env::over(disk.clone(), seed + 2)).unwrap();
            assert!(!report.created);
            let f = db.family(cf);
            let mut session = db.session().unwrap();
            begin(&mut session);
            let rows = all(&session, &f);
            let expected = (0..u8::try_from(at).unwrap()).chain(100..100 + open).map(|n| vec![n]).collect::<Vec<_>>();
            assert_eq!(rows.keys().cloned().collect::<Vec<_>>(), expected, "seed {seed}");
            put(&mut session, &f, &[100 + open], b"v");
            let csn = session.commit(true).unwrap().block().unwrap().csn.unwrap();
            assert!(csn > highest, "{csn} is used again");
            highest = csn;
            drop(session);
            disk = disk.power_cut(seed);
        }
    }
}

/// Returns the control file in `env` and its number of histories.
fn control_file(env: &Env) -> (Vec<u8>, usize) {
    let path = Path::new(DIR).join("control");
    let bytes = collie_env::read_all(&*env.files, &path, 64 << 20).unwrap();
    let count = u32::from_le_bytes(bytes[56..60].try_into().unwrap());
    (bytes, count as usize)
}

/// Goal: a directory opens however often it started after a crash, even if an older program had let its control file
/// grow until it could not read it any more; the file does not grow with each start, and the newest history is the one
/// that began last. Method: a database whose control file gets 40,000 histories from before its log, as that program
/// wrote them (1.2 MiB); then 20 starts after a crash, each with a commit, on the simulated disk.
#[test]
fn crash_loop_never_bricks_the_control_file() {
    let (env, mut disk) = Env::simulated(19);
    let (db, _) = open_still(env.clone()).unwrap();
    let cf = db.create_family();
    put_one(&db, &db.family(cf), b"start", b"0");
    let (mut bytes, count) = control_file(&env);
    assert_eq!((count, bytes.len()), (1, 60 + 32));
    let older: Vec<u8> = (0..40_000_u64)
        .flat_map(|number| [0, number + 1, number / 10, number / 10].map(u64::to_le_bytes).concat())
        .collect();
    bytes.splice(56..60, 40_001_u32.to_le_bytes());
    bytes.splice(60..60, older);
    let checksum = collie_base::checksum::crc32c(&bytes[12..]);
    bytes.splice(8..12, checksum.to_le_bytes());
    let file = env.files.open(&Path::new(DIR).join("control"), collie_env::Access::ReadWrite).unwrap();
    file.write_at(0, &bytes).unwrap();
    file.sync_data().unwrap();
    let mut histories = Vec::new();
    disk = disk.power_cut(20);
    for start in 0..20_u64 {
        let env = Env::over(disk.clone(), 100 + start);
        let (db, _) = open_still(env.clone()).unwrap();
        assert_eq!(get_one(&db, &db.family(cf), b"start").as_deref(), Some(start.to_string().as_bytes()));
        put_one(&db, &db.family(cf), b"start", (start + 1).to_string().as_bytes());
        let newest = db.histories().1.last().unwrap().history;
        assert!(!histories.contains(&newest), "a start after a crash begins a history");
        histories.push(newest);
        assert_eq!(control_file(&env).1, 501, "the newest 500 from before, and this start's");
        disk = disk.power_cut(start); // before the drop of the database, which would end its log in order
    }
}
