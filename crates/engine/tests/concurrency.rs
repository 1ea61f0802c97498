//! Many threads at once: the sum of all accounts never changes, neither in a snapshot nor after a reopen.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use collie_engine::{Basis, Db, EngineError, Env, Family, Isolation, Options, Outcome, Session, StatementKind, Write};
use collie_sync::block_on;
use common::{all, put};

const ACCOUNTS: u64 = 10;
const OPENING: i64 = 100;

fn key(account: u64) -> [u8; 8] {
    account.to_be_bytes()
}

fn amount(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().unwrap())
}

fn sum(session: &Session, f: &Family) -> i64 {
    all(session, f).values().map(|value| amount(value)).sum()
}

/// Adds to one account; waits and reads again as often as needed.
fn add(session: &mut Session, f: &Family, account: u64, change: i64) -> Result<(), EngineError> {
    let mut basis = Basis::Snapshot;
    let mut old = session.get_with(f, &key(account), amount)?.expect("accounts are never closed");
    loop {
        match session.write(f, &key(account), basis, Write::Put(&(old + change).to_le_bytes()))? {
            Outcome::Done => return Ok(()),
            Outcome::Wait(blocker) => session.wait(blocker).block(None)?,
            Outcome::Changed { csn, row } => (basis, old) = (Basis::After(csn), amount(&row)),
            other => panic!("{other:?}"),
        }
    }
}

fn transfer(session: &mut Session, f: &Family, from: u64, to: u64, isolation: Isolation) -> Result<(), EngineError> {
    session.begin(isolation, false)?;
    session.begin_statement(StatementKind::Write)?;
    add(session, f, from, -1)?;
    session.end_statement();
    session.begin_statement(StatementKind::Write)?;
    add(session, f, to, 1)?;
    session.end_statement();
    Ok(())
}

/// Goal: transactions are isolated and whole under real concurrency, group commit and garbage collection. Method: four
/// threads move money at both levels, some roll back, two threads sum up in snapshots of both kinds; then a reopen.
#[test]
fn bank_transfers_keep_the_sum_in_every_snapshot_and_after_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap();
    let (db, _) = open();
    let cf = db.create_family();
    let f = &db.family(cf);
    let mut session = db.session().unwrap();
    common::begin(&mut session);
    (0..ACCOUNTS).for_each(|account| put(&mut session, f, &key(account), &OPENING.to_le_bytes()));
    session.commit(true).unwrap().block().unwrap();
    let (stop, committed, retried) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (db, stop, committed, retried) = (&db, &stop, &committed, &retried);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut dice = thread * 31 + 7;
                while !stop.load(Relaxed) {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (from, to) = ((dice >> 33) % ACCOUNTS, (dice >> 43) % ACCOUNTS);
                    let isolation =
                        if dice >> 60 & 1 == 0 { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
                    match transfer(&mut session, f, from, to, isolation) {
                        Ok(()) if dice >> 50 & 7 == 0 => session.rollback(),
                        Ok(()) => {
                            session.commit(dice >> 55 & 3 == 0).unwrap().block().unwrap();
                            let count = committed.fetch_add(1, Relaxed);
                            // A conflict needs two threads to meet: on one busy core there is no bound for the time
                            // that this takes.
                            if count > 4000 && (retried.load(Relaxed) > 0 || count > 2_000_000) {
                                stop.store(true, Relaxed);
                            }
                        }
                        Err(EngineError::Conflict | EngineError::Deadlock) => {
                            session.rollback();
                            retried.fetch_add(1, Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for kind in [StatementKind::ReadOnly, StatementKind::Write] {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                while !stop.load(Relaxed) {
                    session.begin(Isolation::ReadCommitted, kind == StatementKind::ReadOnly).unwrap();
                    session.begin_statement(kind).unwrap();
                    assert_eq!(sum(&session, f), OPENING * i64::try_from(ACCOUNTS).unwrap());
                    session.commit(false).unwrap().block().unwrap();
                }
            });
        }
    });
    assert!(retried.load(Relaxed) > 0, "the accounts were not contended");
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    let last = all(&session, f);
    drop(session);
    db.close().unwrap();
    drop(db);
    let (db, report) = open();
    assert!(!report.created && report.notices.is_empty(), "{report:?}");
    let mut session = db.session().unwrap();
    common::begin(&mut session);
    assert_eq!(all(&session, &db.family(cf)), last);
    assert_eq!(sum(&session, &db.family(cf)), OPENING * i64::try_from(ACCOUNTS).unwrap());
}

/// Goal: commits and lock waits work as futures, without a blocked thread. Method: six threads add to two rows with
/// futures alone; every acknowledged addition is there after a reopen.
#[test]
fn futures_of_commits_and_locks_resolve_for_all() {
    const THREADS: i64 = 6;
    const ROUNDS: i64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap().0;
    let db = &open();
    let cf = db.create_family();
    let f = &db.family(cf);
    common::put_one(db, f, &key(0), &0_i64.to_le_bytes());
    common::put_one(db, f, &key(1), &0_i64.to_le_bytes());
    let add = async |session: &mut Session, account: u64| {
        let mut basis = Basis::Snapshot;
        let mut old = session.get_with(f, &key(account), amount)?.expect("it is there");
        loop {
            match session.write(f, &key(account), basis, Write::Put(&(old + 1).to_le_bytes()))? {
                Outcome::Done => return Ok(()),
                Outcome::Wait(blocker) => session.wait(blocker).await?,
                Outcome::Changed { csn, row } => (basis, old) = (Basis::After(csn), amount(&row)),
                other => panic!("{other:?}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                for round in 0..ROUNDS {
                    common::begin(&mut session);
                    let account = u64::try_from((thread + round) % 2).unwrap();
                    block_on(async {
                        let added: Result<(), EngineError> = add(&mut session, account).await;
                        added.unwrap();
                        let receipt = session.commit(true).unwrap().await.unwrap();
                        assert!(db.durable() > receipt.csn.unwrap());
                    });
                }
            });
        }
    });
    db.close().unwrap();
    let db = open();
    let left = |account| amount(&common::get_one(&db, &db.family(cf), &key(account)).unwrap());
    assert_eq!(left(0) + left(1), THREADS * ROUNDS);
}

/// Goal: deleted rows leave memory, and versions that a snapshot needs do not. Method: insert and delete rows under an
/// old snapshot, tick; drop the snapshot, tick again.
#[test]
fn deleted_rows_leave_memory_once_no_snapshot_needs_them() {
    let (env, _disk) = Env::simulated(5);
    let (db, _) = common::open_still(env).unwrap();
    let f = &db.family(db.create_family());
    let mut session = db.session().unwrap();
    common::begin(&mut session);
    (0..100).for_each(|account| put(&mut session, f, &key(account), b"v"));
    session.commit(true).unwrap().block().unwrap();
    let mut old = db.session().unwrap();
    common::begin_at(&mut old, Isolation::RepeatableRead);
    common::begin(&mut session);
    for account in 0..100 {
        let outcome = session.write(f, &key(account), Basis::Snapshot, Write::Delete).unwrap();
        assert_eq!(outcome, Outcome::Done);
    }
    session.commit(true).unwrap().block().unwrap();
    common::begin(&mut session);
    put(&mut session, f, &key(7), b"new");
    session.commit(true).unwrap().block().unwrap();
    for _ in 0..3 {
        db.tick();
    }
    assert_eq!((f.stat().rows, all(&old, f).len()), (100, 100));
    drop(old);
    for _ in 0..3 {
        db.tick();
    }
    assert_eq!(f.stat().rows, 1, "{:?}", db.stat());
    assert_eq!(db.stat().garbage_rows, 0);
}

/// Goal: a commit of many rows is answered, visible, waited for and overwritten before any of its versions is stamped,
/// and leaves nothing behind. Method: no background thread; a writer waits for the commit, the family is dropped, then
/// the ticks.
#[test]
fn large_commit_is_whole_before_it_is_stamped() {
    let (env, _disk) = Env::simulated(8);
    let (db, _) = common::open_still(env).unwrap();
    let f = &db.family(db.create_family());
    let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
    let rows = u64::try_from(2 * Options::default().stamped_at_commit_max).unwrap();
    for value in [b"first", b"again"] {
        common::begin(&mut session);
        (0..rows).for_each(|account| put(&mut session, f, &key(account), value));
        session.commit(true).unwrap().block().unwrap();
    }
    assert_eq!(db.stat().unstamped_versions, 2 * rows);
    common::begin(&mut other);
    assert!(all(&other, f).values().all(|value| value == b"again"));
    assert_eq!(other.write(f, &key(3), Basis::Snapshot, Write::Put(b"newer")).unwrap(), Outcome::Done);
    // A rollback over a version that is committed and not stamped, then a committed write over it.
    other.rollback();
    common::begin(&mut other);
    assert_eq!(other.write(f, &key(3), Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
    other.commit(true).unwrap().block().unwrap();
    db.tick();
    assert_eq!(db.stat().unstamped_versions, 0);
    for _ in 0..3 {
        db.tick();
    }
    assert_eq!((f.stat().rows, db.stat().garbage_rows), (rows - 1, 0), "{:?}", db.stat());

    common::begin(&mut session);
    (0..rows).for_each(|account| put(&mut session, f, &key(account), b"last"));
    session.commit(true).unwrap().block().unwrap();
    assert_eq!(db.stat().unstamped_versions, rows);
    db.drop_family(f.id());
    assert_eq!(db.stat().unstamped_versions, 0, "versions of a dropped family are in nobody's hands");
}
