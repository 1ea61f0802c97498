//! Flushing families to LSM levels: the state that the next opening finds in levels and log, crashes between any two
//! calls to the disk, failing disks, and the length of the log.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use collie_base::{CfId, Lsn};
use collie_engine::{Basis, Db, EngineError, Env, Family, Isolation, OpenReport, Options, Outcome, Session, Write};
use collie_env::{Fault, SimFiles, SimRandom};
use common::{DIR, all, begin, begin_at, get_one, next_statement, open_tiny, plant, put, put_one, tiny};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open_real(dir: &Path, options: Options) -> (Db, OpenReport) {
    Db::open(dir, options, Env::real(), &mut |_| ()).unwrap()
}

fn rows(db: &Db, f: &Family) -> Rows {
    let mut session = db.session().unwrap();
    begin(&mut session);
    all(&session, f)
}

/// Returns the disk as it may be after a power cut now; the original continues.
fn copy_after_power_cut(disk: &SimFiles, seed: u64) -> SimFiles {
    let point = disk.crash_point();
    point.state(&point.drawn(&SimRandom::new(seed)))
}

fn delete_one(db: &Db, f: &Family, key: &[u8]) {
    let mut session = db.session().unwrap();
    begin(&mut session);
    assert_eq!(session.write(f, key, Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
    session.commit(true).unwrap().block().unwrap();
}

/// Goal: after a flush an opening takes rows from the LSM levels and replays only later commits, with the operating
/// system's files. Method: rows put, changed, deleted before and after a flush, a deleted row put again; two openings,
/// and a second flush.
#[test]
fn reopen_takes_flushed_rows_from_levels_and_replays_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open_real(dir.path(), Options::small());
    let cf = db.create_family();
    let f = db.family(cf);
    (0..200_u8).for_each(|n| put_one(&db, &f, &[n], b"old"));
    put_one(&db, &f, b"", b"an empty key");
    (0..20).for_each(|n| delete_one(&db, &f, &[n]));
    db.flush_cf(&[cf]).unwrap();
    assert_eq!(db.unflushed(cf).since, None, "everything is flushed");
    assert_eq!(db.level_stat().trees[0].state.live_keys, 181);
    put_one(&db, &f, &[50], b"new");
    put_one(&db, &f, &[3], b"again");
    delete_one(&db, &f, &[60]);
    let expected = rows(&db, &f);
    db.close().unwrap();
    drop((db, f));
    for open in 0..2 {
        let (db, report) = open_real(dir.path(), Options::small());
        assert_eq!((report.level_rows, report.rows), (181, 3), "open {open}");
        assert_eq!(rows(&db, &db.family(cf)), expected);
        db.close().unwrap();
    }
    let (db, _) = open_real(dir.path(), Options::small());
    db.flush_all().unwrap();
    assert_eq!(db.level_stat().trees[0].state.live_keys, 181, "one less, one more");
    db.close().unwrap();
    drop(db);
    let (db, report) = open_real(dir.path(), Options::small());
    assert_eq!((report.level_rows, report.rows), (181, 0));
    assert_eq!(rows(&db, &db.family(cf)), expected);
}

/// Goal: the log is cut behind flushes, and the facts that replay would have taken from it survive: ids of transactions
/// and families, the histories. Method: rows for many files, a family that was dropped in log that is gone, clean and
/// unclean ends.
#[test]
fn log_is_cut_behind_flushes_and_nothing_needed_goes_with_it() {
    let (env, disk) = Env::simulated(5);
    let (db, _) = open_tiny(env).unwrap();
    let cf = db.create_family();
    let gone = db.create_family();
    let f = db.family(cf);
    put_one(&db, &db.family(gone), b"k", b"v");
    db.drop_family(gone);
    for n in 0..60_u8 {
        put_one(&db, &f, &[n], &[n; 3000]);
    }
    let before = db.log().unwrap().stat().segments;
    assert!(before > 4, "{before} files: the test needs some to go");
    db.flush_all().unwrap();
    assert!(db.log().unwrap().stat().segments <= 3, "{} files are left", db.log().unwrap().stat().segments);
    assert!(db.flush_stat().log_start > Lsn::FIRST);
    let mut session = db.session().unwrap();
    begin(&mut session);
    let xid = session.assign_xid().unwrap();
    drop(session);
    let expected = rows(&db, &f);
    db.close().unwrap();
    drop((db, f));
    let mut disk = disk;
    for open in 0..4 {
        let (db, report) = open_tiny(Env::over(disk.clone(), 6 + open)).unwrap();
        assert_eq!((report.level_rows, report.rows), (60, 0));
        assert_eq!(rows(&db, &db.family(cf)), expected);
        let mut session = db.session().unwrap();
        begin(&mut session);
        assert!(session.assign_xid().unwrap() > xid);
        drop(session);
        assert!(db.create_family() > gone, "an id in log that is gone came again");
        assert!(db.families().contains(&cf) && !db.families().contains(&gone));
        if open % 2 == 0 {
            db.close().unwrap();
        } else {
            disk = disk.power_cut(open);
        }
    }
}

/// Goal: a transaction over a flush, with chunks below it, is there after the log was cut, and the writes that it
/// rolled back are not. Method: chunks before the flush, more after it; then the flush that takes it, and a cut with
/// others' rows in between.
#[test]
fn large_transaction_over_a_flush_is_whole_before_and_after_it_is_flushed() {
    for rolled_back in [false, true] {
        let (env, disk) = Env::simulated(7);
        let (db, _) = open_tiny(env).unwrap();
        let cf = db.create_family();
        let (other, void) = (db.create_family(), db.create_family());
        let f = db.family(cf);
        let mut large = db.session().unwrap();
        begin(&mut large);
        (0..4_u8).for_each(|n| put(&mut large, &f, &[n], &[n; 20_000]));
        let mark = large.savepoint();
        (10..14_u8).for_each(|n| put(&mut large, &f, &[n], &[n; 20_000]));
        if rolled_back {
            // A family without remaining writes of the transaction must not hold the log for ever.
            (0..2_u8).for_each(|n| put(&mut large, &db.family(void), &[n], &[n; 20_000]));
        }
        (0..30_u8).for_each(|n| put_one(&db, &db.family(other), &[n], &[n; 3000]));
        db.flush_all().unwrap();
        if rolled_back {
            large.rollback_to(mark);
            next_statement(&mut large);
        }
        put(&mut large, &f, b"last", b"");
        large.commit(true).unwrap().block().unwrap();
        let expected = rows(&db, &f);
        assert_eq!(expected.len(), if rolled_back { 5 } else { 9 });
        let reopen = |seed| {
            let (db, report) = open_tiny(Env::over(copy_after_power_cut(&disk, seed), seed)).unwrap();
            assert_eq!(rows(&db, &db.family(cf)), expected);
            assert_eq!(rows(&db, &db.family(other)).len(), 30);
            report
        };
        assert!(reopen(8).rows > 0, "it comes from the log");
        // The log is held until the transaction is flushed, and cut after that.
        let start = db.flush_stat().log_start;
        (0..30_u8).for_each(|n| put_one(&db, &db.family(other), &[n], &[n; 3000]));
        db.flush_cf(&[other]).unwrap();
        assert_eq!(db.flush_stat().log_start, start, "its chunks are needed");
        assert!(reopen(9).rows > 0);
        db.flush_cf(&[cf, void]).unwrap();
        assert!(db.flush_stat().log_start > start);
        assert_eq!(reopen(10).rows, 0);
    }
}

/// Goal: a deleted row that the LSM levels hold stays in memory until its deletion is flushed, also over an opening,
/// and is then removed. Method: count rows and old bytes at each step.
#[test]
fn deleted_row_leaves_memory_once_its_deletion_is_flushed() {
    let (env, disk) = Env::simulated(9);
    let (db, _) = open_tiny(env).unwrap();
    let cf = db.create_family();
    let f = db.family(cf);
    put_one(&db, &f, b"a", b"1");
    put_one(&db, &f, b"never flushed", b"1");
    delete_one(&db, &f, b"never flushed");
    db.tick();
    assert_eq!(db.rows_in(cf), 1, "the levels never had it");
    db.flush_all().unwrap();
    delete_one(&db, &f, b"a");
    let settle = |db: &Db| {
        put_one(db, &db.family(cf), b"b", b"");
        db.tick();
        db.tick();
    };
    settle(&db);
    assert_eq!((db.rows_in(cf), db.stat().garbage_rows), (2, 0), "nobody looks at it again before the flush");
    assert!(db.old_version_bytes() > 0);
    drop((db, f));
    let (db, _) = open_tiny(Env::over(disk.power_cut(1), 10)).unwrap();
    assert_eq!(rows(&db, &db.family(cf)).len(), 1);
    assert_eq!(db.rows_in(cf), 2);
    assert!(db.old_version_bytes() > 0);
    db.flush_all().unwrap();
    settle(&db);
    assert_eq!((db.rows_in(cf), db.old_version_bytes()), (1, 0));
    let (db, report) = open_tiny(Env::over(disk.power_cut(2), 11)).unwrap();
    assert_eq!(rows(&db, &db.family(cf)).len(), 1, "{report:?}");
}

/// Goal: a dropped family's tree is removed with it, and not before the drop is durable. Method: a row of another
/// family stands for the drop's commit; power cuts before and after it is durable.
#[test]
fn dropped_family_keeps_its_levels_until_the_drop_is_durable() {
    let (env, disk) = Env::simulated(13);
    let (db, _) = open_tiny(env).unwrap();
    let (cf, catalog) = (db.create_family(), CfId::CATALOG);
    put_one(&db, &db.family(cf), b"k", b"v");
    db.flush_all().unwrap();
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(catalog), b"dropped", b"");
    session.commit(false).unwrap().block().unwrap();
    db.drop_family(cf);
    db.flush_due().unwrap(); // checks which drops are durable
    let point = disk.crash_point();
    let lost = point.state(&point.none_kept());
    let (again, _) = open_tiny(Env::over(lost, 14)).unwrap();
    assert_eq!(get_one(&again, &again.family(catalog), b"dropped"), None, "the drop was lost");
    assert_eq!(get_one(&again, &again.family(cf), b"k").as_deref(), Some(&b"v"[..]), "so the row is there");
    assert_eq!(again.level_stat().trees.len(), 1, "and its tree");
    db.flush_cf(&[catalog]).unwrap();
    let (again, _) = open_tiny(Env::over(copy_after_power_cut(&disk, 3), 15)).unwrap();
    assert!(get_one(&again, &again.family(catalog), b"dropped").is_some());
    for db in [&db, &again] {
        let trees: Vec<_> = db.level_stat().trees.into_iter().map(|tree| tree.state.cfs).collect();
        assert_eq!(trees, [[catalog]]);
    }
}

/// The states that a workload has committed, and how many of them are durable.
#[derive(Clone, Default)]
struct Progress {
    states: Vec<Rows>,
    durable: usize,
}

/// Commits and flushes repeatedly, so that families and deletions are flushed and log is cut; returns the error that
/// stopped it.
fn work(disk: &SimFiles, seed: u64, progress: &Mutex<Progress>) -> Result<(), EngineError> {
    let random = SimRandom::new(seed);
    let (db, _) = open_tiny(Env::over(disk.clone(), seed))?;
    let f = db.family(CfId::new(1));
    let commit = |session: &mut Session, rows: Rows, sync: bool| -> Result<(), EngineError> {
        // The transaction may survive from the moment its record is appended.
        progress.lock().unwrap().states.push(rows);
        session.commit(sync)?.block()?;
        if sync {
            let mut progress = progress.lock().unwrap();
            progress.durable = progress.states.len() - 1;
        }
        Ok(())
    };
    for round in 0..24_u8 {
        let mut session = db.session()?;
        begin(&mut session);
        let mut rows = progress.lock().unwrap().states.last().unwrap().clone();
        let key = vec![u8::try_from(random.below(6)).unwrap()];
        if rows.contains_key(&key) && random.below(3) == 0 {
            assert_eq!(session.write(&f, &key, Basis::Snapshot, Write::Delete)?, Outcome::Done);
            rows.remove(&key);
        } else {
            let value = vec![round; [10, 3000, 9000][usize::try_from(random.below(3)).unwrap()]];
            put(&mut session, &f, &key, &value);
            rows.insert(key, value);
        }
        commit(&mut session, rows, random.below(2) == 0)?;
        if random.below(4) == 0 {
            db.flush_all()?;
            let mut progress = progress.lock().unwrap();
            progress.durable = progress.states.len() - 1;
        }
        db.tick();
    }
    db.close()
}

/// Checks that the disk has one of the states from the last durable one on, twice, and that the database continues from
/// there.
fn check(disk: &SimFiles, progress: &Progress, seed: u64) {
    let cf = CfId::new(1);
    let (db, _) = open_tiny(Env::over(disk.clone(), seed)).unwrap();
    let found = rows(&db, &db.family(cf));
    let at = progress.states.iter().rposition(|state| *state == found);
    let at = at.unwrap_or_else(|| panic!("no state between commits: {:?}", found.keys()));
    assert!(at >= progress.durable, "state {at} found, {} was durable", progress.durable);
    db.flush_all().unwrap();
    drop(db);
    let (db, _) = open_tiny(Env::over(disk.power_cut(seed), seed + 1)).unwrap();
    assert_eq!(rows(&db, &db.family(cf)), found, "what was found once stays");
}

/// Goal: the power may be cut between any two calls to the disk, in flushes, in MANIFEST, in cutting the log and in
/// opening: the next opening finds an allowed state. Method: random work; at each call some of the states that a power
/// cut could leave.
#[test]
fn power_cut_between_any_two_calls_leaves_what_was_promised() {
    let mut checked = 0;
    for seed in 0..6_u64 {
        let (_, disk) = Env::simulated(seed);
        let progress = Arc::new(Mutex::new(Progress { states: vec![Rows::new()], durable: 0 }));
        let live = || work(&disk, 100 + seed, &progress).unwrap();
        checked += common::at_each_moment(&disk, &progress, seed, live, check);
    }
    assert!(checked > 300, "only {checked} moments");
}

/// Goal: a disk that refuses any one call costs no row, neither while the process runs nor at the next opening. Method:
/// as above, each call refused once, as by a full disk and as by a broken one.
#[test]
fn any_call_may_fail_and_no_row_is_lost() {
    for (nth, fault) in (0..160_u64).step_by(3).map(|nth| (nth, if nth % 2 == 0 { Fault::Enospc } else { Fault::Eio }))
    {
        let (_, disk) = Env::simulated(nth);
        let progress = Mutex::new(Progress { states: vec![Rows::new()], durable: 0 });
        let (db, _) = open_tiny(Env::over(disk.clone(), nth)).unwrap();
        db.close().unwrap();
        drop(db);
        disk.fail_call(disk.calls() + nth, fault);
        let _stopped_or_not = work(&disk, 200 + nth, &progress);
        disk.clear_faults();
        let progress = progress.into_inner().unwrap();
        check(&disk.process_kill(), &progress, nth);
        check(&disk.power_cut(nth), &progress, nth);
    }
}

/// Goal: rows that a flush could not write are written by the next one in the same process, whatever failed, including
/// deletions of rows that the LSM levels got in between: a tree whose files failed is rewritten from memory (F4).
/// Method: each call of a flush fails once, the disk being full or broken; a row is deleted before the flush is
/// repeated; then the power is cut.
#[test]
fn flush_that_failed_is_made_good_by_the_next() {
    let (mut failed, mut anew) = (0, 0);
    for (nth, fault) in (0..40).flat_map(|nth| [(nth, Fault::Enospc), (nth, Fault::Eio)]) {
        let (_, disk) = Env::simulated(nth);
        let (db, _) = open_tiny(Env::over(disk.clone(), nth)).unwrap();
        let cf = CfId::new(1);
        let f = db.family(cf);
        put_one(&db, &f, b"old", b"1");
        if nth % 2 == 0 {
            db.flush_all().unwrap(); // the tree exists, with a row that is not listed
        }
        put_one(&db, &f, b"stays", b"1");
        put_one(&db, &f, b"goes", b"1");
        disk.fail_call(disk.calls() + nth / 2, fault);
        let outcome = db.flush_all();
        disk.clear_faults();
        failed += usize::from(outcome.is_err());
        delete_one(&db, &f, b"goes");
        db.tick();
        db.flush_all().unwrap_or_else(|again| panic!("call {nth}, {fault:?}: {outcome:?}, then {again}"));
        assert_eq!(db.level_stat().trees[0].state.live_keys, 2);
        assert_eq!(db.level_stat().trees[0].failed, None);
        anew += db.flush_stat().trees_written_anew;
        let (db, _) = open_tiny(Env::over(disk.power_cut(nth), nth + 1)).unwrap();
        let f = db.family(cf);
        assert_eq!(rows(&db, &f).into_keys().collect::<Vec<_>>(), [&b"old"[..], b"stays"]);
        delete_one(&db, &f, b"old");
        db.flush_all().unwrap();
        let (db, _) = open_tiny(Env::over(disk.power_cut(nth), nth + 2)).unwrap();
        drop(db);
    }
    assert!(failed > 10 && anew > 5, "{failed} flushes failed, {anew} trees were written anew");
}

/// Goal: a due flush takes the durable rows and no more. Method: a row that is not durable next to one that is; a power
/// cut takes the former.
#[test]
fn flush_takes_what_is_durable_and_no_more() {
    let (env, disk) = Env::simulated(52);
    plant();
    let options = Options { write_buffer_size: 20 << 10, ..tiny() };
    let (db, _) = Db::open(DIR.as_ref(), options, env, &mut |_| ()).unwrap();
    let cf = db.create_family();
    put_one(&db, &db.family(cf), b"durable", &[1; 30_000]);
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(cf), b"late", b"2");
    session.commit(false).unwrap().block().unwrap();
    assert!(db.flush_due().unwrap(), "the row makes the flush due");
    assert_eq!(db.level_stat().trees[0].state.live_keys, 1, "the levels hold what the log lost");
    let point = disk.crash_point();
    let (db, _) = open_tiny(Env::over(point.state(&point.none_kept()), 53)).unwrap();
    assert_eq!(rows(&db, &db.family(cf)).into_keys().collect::<Vec<_>>(), [b"durable"]);
}

/// Goal: a flusher whose rows cannot become durable rests between its rounds instead of recording the same flush again
/// and again. Method: old versions above their limit make every family due in each round, and the only unflushed row
/// waits for the log; once it is durable, the next round flushes it.
#[test]
fn rows_that_are_not_durable_yet_keep_no_flusher_busy() {
    plant();
    let (env, _disk) = Env::simulated(53);
    let options = Options { old_version_memory: 0, ..tiny() };
    let (db, _) = Db::open(DIR.as_ref(), options, env, &mut |_| ()).unwrap();
    let f = db.family(db.create_family());
    put_one(&db, &f, b"k", &[1; 300]);
    let mut reader = db.session().unwrap();
    begin_at(&mut reader, Isolation::RepeatableRead);
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &f, b"k", &[2; 300]);
    session.commit(false).unwrap().block().unwrap();
    while db.flush_due().unwrap() {
        assert!(db.flush_stat().flushes < 10, "the same flush is recorded again and again");
    }
    let before = db.flush_stat().flushes;
    assert!(!db.flush_due().unwrap());
    assert_eq!(db.flush_stat().flushes, before);
    put_one(&db, &f, b"durable", b"");
    assert!(db.flush_due().unwrap(), "the rows are durable");
    assert_eq!(db.level_stat().trees[0].state.live_keys, 2);
    drop(reader);
}

/// Goal: the log is kept for the rows of a failed flush, even if a newer change lists a row again in between. Method:
/// the first call of a flush fails while a transaction is open; another family's rows let the log be cut as far as
/// possible; then the power is cut.
#[test]
fn log_is_kept_for_the_rows_of_a_failed_flush() {
    let (env, disk) = Env::simulated(51);
    let (db, _) = open_tiny(env).unwrap();
    let (cf, other) = (db.create_family(), db.create_family());
    put_one(&db, &db.family(cf), b"k", b"old");
    db.flush_cf(&[cf]).unwrap();
    put_one(&db, &db.family(cf), b"k", b"new");
    for n in 0..60_u8 {
        put_one(&db, &db.family(other), &[n], &[n; 3000]);
    }
    let mut session = db.session().unwrap();
    begin(&mut session);
    assert_eq!(session.write(&db.family(cf), b"k", Basis::Snapshot, Write::Put(b"never")).unwrap(), Outcome::Done);
    disk.fail_call(disk.calls() + 1, Fault::Enospc);
    db.flush_cf(&[cf]).unwrap_err();
    disk.clear_faults();
    session.rollback();
    db.flush_cf(&[other]).unwrap();
    let (db, _) = open_tiny(Env::over(disk.power_cut(1), 52)).unwrap();
    assert_eq!(get_one(&db, &db.family(cf), b"k").as_deref(), Some(&b"new"[..]), "the log of it is gone");
    assert_eq!(rows(&db, &db.family(other)).len(), 60);
}

/// Goal: with the limit of the log at its minimum and writers at work, flushes keep the log short and lose nothing.
/// Method: threads that transfer between rows and delete and put others, in real files; the length of the log on the
/// way; then an opening.
#[test]
fn log_stays_within_its_limit_while_writers_and_flushes_run() {
    const THREADS: u8 = 2;
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { max_total_wal_size: 1, write_buffer_size: 64 << 10, ..tiny() };
    (options.background, options.log.threads) = (true, true);
    let (db, _) = open_real(dir.path(), options.clone());
    let families: Vec<CfId> = (0..3).map(|_| db.create_family()).collect();
    let limit = db.log_bytes_max();
    assert_eq!(limit, 2 * options.log.segment_bytes);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, families) = (&db, &families);
            scope.spawn(move || {
                for count in 0_u32.. {
                    // A fast machine writes 150 rounds between two looks of the flusher.
                    if count >= 150 && db.flush_stat().flushes > 3 {
                        break;
                    }
                    let round = u8::try_from(count % 150).unwrap();
                    let mut session = db.session().unwrap();
                    begin(&mut session);
                    // Either all three families have this round or none.
                    for cf in families {
                        let f = db.family(*cf);
                        put(&mut session, &f, &[thread, round % 16], &[round; 1500]);
                        let old = [thread, (round + 5) % 16];
                        if round % 3 == 0 && session.get(&f, &old).unwrap().is_some() {
                            assert_eq!(session.write(&f, &old, Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
                        }
                    }
                    session.commit(round % 4 == 0).unwrap().block().unwrap();
                }
            });
        }
    });
    let written = db.durable().bytes_since(Lsn::FIRST);
    assert!(written > 8 * limit, "{written} bytes of log: the test needs more");
    // The flusher thread gets there by itself.
    let clock = Env::real().clock;
    let deadline_ns = clock.now_ns() + 60_000_000_000;
    let kept = || db.durable().bytes_since(db.flush_stat().log_start);
    while kept() > limit + options.log.segment_bytes {
        assert!(clock.now_ns() < deadline_ns, "{} bytes are kept", kept());
        std::thread::yield_now();
    }
    let expected: Vec<Rows> = families.iter().map(|cf| rows(&db, &db.family(*cf))).collect();
    assert!(expected.windows(2).all(|pair| pair[0] == pair[1]));
    db.close().unwrap();
    drop(db);
    let (db, report) = open_real(dir.path(), options);
    assert!(report.level_rows > 0);
    let found: Vec<Rows> = families.iter().map(|cf| rows(&db, &db.family(*cf))).collect();
    assert_eq!(found, expected);
}

/// Goal: flushes have a snapshot slot that no session can take, and error messages do not count it. Method: take every
/// session, flush.
#[test]
fn flush_goes_on_when_every_session_is_taken() {
    let (env, _disk) = Env::simulated(21);
    let (db, _) = open_tiny(env).unwrap();
    let cf = db.create_family();
    put_one(&db, &db.family(cf), b"k", b"v");
    let sessions: Vec<Session> = (0..tiny().sessions_max).map(|_| db.session().unwrap()).collect();
    assert!(matches!(db.session(), Err(EngineError::TooManySessions { limit }) if limit == sessions.len()));
    db.flush_all().unwrap();
    assert_eq!((db.unflushed(cf).since, db.flush_stat().rows), (None, 1));
}

/// Goal: a log that ends below the contents of the LSM levels, one that starts above the needed position, and a salvage
/// of a database whose beginning is in the LSM levels alone are refused. Method: an older copy of the log under newer
/// levels; a cut log.
#[test]
fn log_that_does_not_fit_the_levels_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open_real(dir.path(), tiny());
    let cf = db.create_family();
    let f = db.family(cf);
    put_one(&db, &f, b"a", b"1");
    db.close().unwrap();
    drop((db, f));
    let (wal, old) = (dir.path().join("wal"), dir.path().join("old"));
    let copy = |from: &Path, to: &Path| {
        let _absent = std::fs::remove_dir_all(to);
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    copy(&wal, &old);
    let (db, _) = open_real(dir.path(), tiny());
    (0..60_u8).for_each(|n| put_one(&db, &db.family(cf), &[n], &[n; 30]));
    db.flush_all().unwrap();
    db.close().unwrap();
    drop(db);
    let new = dir.path().join("new");
    copy(&wal, &new);
    copy(&old, &wal);
    let open = |options: Options| Db::open(dir.path(), options, Env::real(), &mut |_| ()).map(|_| ());
    let refused = open(tiny()).unwrap_err();
    assert!(matches!(refused, EngineError::Log(_)), "{refused}");
    let mut point_in_time = tiny();
    point_in_time.log.recovery_mode = collie_wal::RecoveryMode::PointInTime;
    let refused = open(point_in_time).unwrap_err();
    assert!(matches!(refused, EngineError::LogBehindLevels { .. }), "{refused}");
    copy(&new, &wal);
    let (db, _) = open_real(dir.path(), tiny());
    (0..60_u8).for_each(|n| put_one(&db, &db.family(cf), &[n], &[n; 3000]));
    db.flush_all().unwrap();
    assert!(db.flush_stat().log_start > Lsn::FIRST);
    db.close().unwrap();
    drop(db);
    let mut salvage = tiny();
    salvage.log.recovery_mode = collie_wal::RecoveryMode::SkipAnyCorruptedRecords;
    // The salvage reads every whole tree of the LSM levels.
    open(salvage).unwrap();
    std::fs::remove_dir_all(dir.path().join("levels")).unwrap();
    let refused = open(tiny()).unwrap_err();
    assert!(matches!(refused, EngineError::MissingLog { .. } | EngineError::Log(_)), "{refused}");
}
