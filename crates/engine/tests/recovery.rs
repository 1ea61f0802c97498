//! Opening after a crash: killed in any phase and between any two calls to the disk, by any number of threads, over
//! several families with LSM levels and transactions larger than the memory limit of waiting chunks.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use collie_base::CfId;
use collie_engine::OpenPhase::{Done, Levels, Replay, ScanChunks, Verify};
use collie_engine::{Basis, Db, Env, Options, Outcome, Session, Write};
use collie_env::{CrashPoint, SimFiles, SimRandom};
use common::{all, begin, next_statement, put, tiny};

/// The rows of every family.
type Rows = BTreeMap<CfId, BTreeMap<Vec<u8>, Vec<u8>>>;

fn rows(db: &Db) -> Rows {
    let mut session = db.session().unwrap();
    begin(&mut session);
    db.families()
        .into_iter()
        .map(|cf| (cf, all(&session, &db.family(cf))))
        .filter(|(_, rows)| !rows.is_empty())
        .collect()
}

fn delete(session: &mut Session, db: &Db, cf: CfId, key: &[u8]) {
    next_statement(session);
    assert_eq!(session.write(&db.family(cf), key, Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
}

/// Fills families, flushes some, and continues with small transactions, some over several families, deletions, and a
/// large transaction that rolls back a part; leaves another one open and returns it. The first four values of the large
/// one and the three that it rolls back have `value_bytes` bytes each.
#[must_use]
fn fill(db: &Db, value_bytes: usize) -> Session {
    let families: Vec<CfId> = (0..5).map(|_| db.create_family()).collect();
    let mut session = db.session().unwrap();
    for (round, flushed) in [(0_u8, &families[..3]), (1, &families[1..2]), (2, &[])] {
        for n in 0..12_u8 {
            begin(&mut session);
            for cf in &families[..usize::from(1 + n % 5)] {
                put(&mut session, &db.family(*cf), &[n], &[round; 30]);
            }
            if round > 0 && n > 0 && n % 3 == 0 {
                delete(&mut session, db, families[0], &[n - 1]);
            }
            session.commit(n % 2 == 0).unwrap().block().unwrap();
        }
        db.flush_cf(flushed).unwrap();
    }
    let mut large = db.session().unwrap();
    begin(&mut large);
    let (value, less) = (vec![7; value_bytes], vec![8; value_bytes / 8]);
    (20..24).for_each(|n| put(&mut large, &db.family(families[0]), &[n], &value));
    delete(&mut large, db, families[1], &[6]);
    next_statement(&mut large);
    let mark = large.savepoint();
    (24..27).for_each(|n| put(&mut large, &db.family(families[3]), &[n], &value));
    large.rollback_to(mark);
    next_statement(&mut large);
    begin(&mut session);
    put(&mut session, &db.family(families[2]), b"meanwhile", b"");
    session.commit(true).unwrap().block().unwrap();
    (30..33).for_each(|n| put(&mut large, &db.family(families[4]), &[n], &less));
    large.commit(true).unwrap().block().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(families[4]), &[30], b"later");
    delete(&mut session, db, families[0], &[21]);
    session.commit(true).unwrap().block().unwrap();
    begin(&mut large);
    (40..43).for_each(|n| put(&mut large, &db.family(families[2]), &[n], &less));
    begin(&mut session);
    put(&mut session, &db.family(families[3]), b"last", b"");
    session.commit(true).unwrap().block().unwrap();
    large
}

/// Goal: an opening that is cut short anywhere, by a kill or a power cut, changes nothing of the state that the next
/// opening finds, nor the one after that. Method: a crashed database with LSM levels and chunks; both kinds of ends at
/// every sync of its opening; each is opened twice, with different numbers of threads.
#[test]
fn opening_cut_short_between_any_two_calls_is_repeated() {
    let open = |disk: &SimFiles, seed: u64, recovery_threads| {
        let options = Options { recovery_threads, ..tiny() };
        Db::open(Path::new(common::DIR), options, Env::over(disk.clone(), seed), &mut |_| ()).unwrap().0
    };
    let (_, disk) = Env::simulated(3);
    let db = open(&disk, 4, 1);
    let unfinished = fill(&db, 40_000);
    let expected = rows(&db);
    assert_eq!(expected.len(), 5);
    let crashed = disk.process_kill();
    drop((unfinished, db));
    let points: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
    crashed.watch({
        let points = Arc::clone(&points);
        move |point| points.lock().unwrap().push(point)
    });
    let db = open(&crashed, 5, 2);
    assert_eq!(rows(&db), expected);
    let mut points = std::mem::take(&mut *points.lock().unwrap());
    assert!(points.len() > 5, "only {} syncs in an opening", points.len());
    points.push(crashed.crash_point());
    let random = SimRandom::new(6);
    for (number, point) in (0..).zip(&points) {
        for picks in [point.all_kept(), point.none_kept(), point.drawn(&random)] {
            let again = point.state(&picks);
            let db = open(&again, 10 + number, 1 + usize::try_from(number % 4).unwrap());
            assert_eq!(rows(&db), expected, "cut short at sync {number}");
            let once_more = again.power_cut(number);
            drop(db);
            assert_eq!(rows(&open(&once_more, 90 + number, 3)), expected, "and opened twice, at sync {number}");
        }
    }
}

fn copy_dir(from: &Path, to: &Path) {
    // Only its owner may read a data directory.
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Goal: a kill in each phase of an opening is harmless: loading of LSM levels, replay, and the scan for transactions
/// larger than the memory limit of waiting chunks. Method: with the operating system's files, a directory copied in
/// each phase, in which no thread writes to it; each copy is opened twice.
#[test]
fn kill_in_each_phase_of_an_opening_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut options = Options { background: false, ..Options::small() };
    // No thread writes while a copy is made.
    options.log.threads = false;
    options.log.segment_bytes = 16 << 20;
    let (db, _) = Db::open(&at("first"), options.clone(), Env::real(), &mut |_| ()).unwrap();
    // 6 MiB more than the chunks that may wait for a COMMIT.
    let unfinished = fill(&db, 12 << 20);
    let expected = rows(&db);
    copy_dir(&at("first"), &at("crashed"));
    drop((unfinished, db));
    std::fs::remove_dir_all(at("first")).unwrap();
    let mut phases = Vec::new();
    let (db, report) = Db::open(&at("crashed"), options.clone(), Env::real(), &mut |progress| {
        if phases.last() != Some(&progress.phase) {
            phases.push(progress.phase);
            copy_dir(&at("crashed"), &at(&format!("{}", phases.len())));
        }
    })
    .unwrap();
    assert_eq!(phases, [Verify, Levels, Replay, ScanChunks, Replay, Done]);
    assert!(report.level_rows > 0 && report.rows > 0, "{report:?}");
    assert_eq!(rows(&db), expected);
    drop(db);
    for number in 1..=phases.len() {
        for recovery_threads in [1, 4] {
            let options = Options { recovery_threads, ..options.clone() };
            let (db, again) = Db::open(&at(&format!("{number}")), options, Env::real(), &mut |_| ()).unwrap();
            assert_eq!(rows(&db), expected, "phase {number}");
            assert_eq!((again.level_rows, again.rows), (report.level_rows, report.rows));
        }
        std::fs::remove_dir_all(at(&format!("{number}"))).unwrap();
    }
}

/// Goal: many trees are loaded in parallel, each family whole, and the reported figure is the sum. Method: thirty
/// families with LSM levels of different sizes, one of them empty again; opened by one thread and by several.
#[test]
fn trees_are_loaded_whole_by_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background: false, ..Options::small() };
    let (db, _) = Db::open(dir.path(), options.clone(), Env::real(), &mut |_| ()).unwrap();
    let mut session = db.session().unwrap();
    let families: Vec<CfId> = (0..30).map(|_| db.create_family()).collect();
    for (cf, count) in families.iter().zip(1..) {
        begin(&mut session);
        (0..count * 20_u32).for_each(|n| put(&mut session, &db.family(*cf), &n.to_be_bytes(), &cf.get().to_be_bytes()));
        session.commit(false).unwrap().block().unwrap();
    }
    db.flush_all().unwrap();
    begin(&mut session);
    (0..20_u32).for_each(|n| delete(&mut session, &db, families[0], &n.to_be_bytes()));
    session.commit(true).unwrap().block().unwrap();
    db.flush_all().unwrap();
    let expected = rows(&db);
    assert_eq!(expected.len(), 29);
    drop(session);
    drop(db);
    for recovery_threads in [1, 2, 7] {
        let options = Options { recovery_threads, ..options.clone() };
        let mut seen = BTreeSet::new();
        let (db, report) = Db::open(dir.path(), options, Env::real(), &mut |progress| {
            if progress.phase == Levels {
                seen.insert(progress.rows);
                assert!(progress.bytes_done <= progress.bytes_total && progress.bytes_total > 0, "{progress:?}");
            }
        })
        .unwrap();
        let count: usize = expected.values().map(BTreeMap::len).sum();
        assert_eq!((report.level_rows, report.rows), (count as u64, 0), "{recovery_threads} threads");
        assert_eq!(seen.last(), Some(&report.level_rows), "the last thing said is all of it");
        assert_eq!(rows(&db), expected);
        assert!(db.families().contains(&families[0]), "a family without rows is there");
    }
}
