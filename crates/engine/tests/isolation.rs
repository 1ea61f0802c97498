//! Interactions of two sessions: waiting, reading again, conflicts, deadlocks, locks.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use collie_engine::{
    Basis, EngineError, Env, Family, Insert, Isolation, LockStrength, Origin, Outcome, Session, StatementKind,
    TableLock, TableLockMode, Write,
};
use common::{Fixture, begin, begin_at, get_one, next_statement, open_still, put, put_one, two_rows};

fn fixture() -> Fixture {
    two_rows(b"0")
}

fn update(session: &mut Session, f: &Family, key: &[u8], value: &[u8]) -> Result<Outcome, EngineError> {
    session.write(f, key, Basis::Snapshot, Write::Put(value))
}

fn done(outcome: Result<Outcome, EngineError>) {
    assert_eq!(outcome.unwrap(), Outcome::Done);
}

fn blocker(outcome: Result<Outcome, EngineError>) -> collie_engine::Blocker {
    match outcome.unwrap() {
        Outcome::Wait(blocker) => blocker,
        other => panic!("{other:?} although another transaction holds the row"),
    }
}

fn commit(session: &mut Session) {
    session.commit(true).unwrap().block().unwrap();
}

/// Goal: READ COMMITTED judges the newest version after a wait and loses no update; a statement's own writes are
/// invisible to it. Method: two sessions add to one row; the second waits, gets the first's value, and writes on top of
/// it.
#[test]
fn read_committed_update_waits_and_then_builds_on_the_newest_value() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(update(&mut one, f, b"a", b"one"));
    assert_eq!(one.get(f, b"a").unwrap().as_deref(), Some(&b"0"[..]), "its own command does not see it");
    assert_eq!(update(&mut one, f, b"a", b"again").unwrap(), Outcome::SelfModified);
    next_statement(&mut one);
    assert_eq!(one.get(f, b"a").unwrap().as_deref(), Some(&b"one"[..]), "its next command does");
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    let wait = two.wait(blocked);
    assert_eq!(db.stat().waiting, 1);
    commit(&mut one);
    wait.block(None).unwrap();
    let Outcome::Changed { csn, row } = update(&mut two, f, b"a", b"two").unwrap() else { panic!("not shown") };
    assert_eq!(&row[..], b"one");
    done(two.write(f, b"a", Basis::After(csn), Write::Put(b"one two")));
    commit(&mut two);
    assert_eq!(get_one(db, f, b"a").as_deref(), Some(&b"one two"[..]));
}

/// Goal: REPEATABLE READ refuses a row that was changed since its snapshot, and continues if the other transaction
/// rolled back. Method: both endings of the other, then a read that does not change.
#[test]
fn repeatable_read_fails_on_a_newer_commit_and_not_on_a_rollback() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    done(update(&mut one, f, b"a", b"one"));
    begin_at(&mut two, Isolation::RepeatableRead);
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    let wait = two.wait(blocked);
    one.rollback();
    wait.block(None).unwrap();
    done(update(&mut two, f, b"a", b"two"));
    begin(&mut one);
    done(update(&mut one, f, b"b", b"one"));
    let blocked = blocker(update(&mut two, f, b"b", b"two"));
    let wait = two.wait(blocked);
    commit(&mut one);
    wait.block(None).unwrap();
    assert!(matches!(update(&mut two, f, b"b", b"two"), Err(EngineError::Conflict)));
    next_statement(&mut two);
    assert_eq!(two.get(f, b"b").unwrap().as_deref(), Some(&b"0"[..]), "one snapshot for the transaction");
    two.rollback();
    begin_at(&mut two, Isolation::RepeatableRead);
    assert_eq!(two.get(f, b"b").unwrap().as_deref(), Some(&b"one"[..]), "the retry sees what it failed on");
}

/// Goal: a session that would close a cycle of waits gets an error. Method: two rows in two orders.
#[test]
fn deadlock_is_found_when_the_second_would_wait() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(update(&mut one, f, b"a", b"one"));
    done(update(&mut two, f, b"b", b"two"));
    let blocked = blocker(update(&mut one, f, b"b", b"one"));
    let wait = one.wait(blocked);
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    assert!(matches!(two.wait(blocked).block(None), Err(EngineError::Deadlock)));
    two.rollback();
    wait.block(None).unwrap();
    done(update(&mut one, f, b"b", b"one"));
    commit(&mut one);
    assert_eq!(get_one(db, f, b"b").as_deref(), Some(&b"one"[..]));
}

/// Goal: a wait ends at its limit and on request. Method: a short limit; a cancel from another thread.
#[test]
fn wait_ends_at_its_limit_or_when_cancelled() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(update(&mut one, f, b"a", b"one"));
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    let outcome = two.wait(blocked.clone()).block(Some(Duration::from_millis(5)));
    assert!(matches!(outcome, Err(EngineError::LockTimeout)));
    let handle = two.cancel_handle();
    let wait = two.wait(blocked);
    std::thread::scope(|scope| {
        scope.spawn(|| handle.cancel());
        assert!(matches!(wait.block(None), Err(EngineError::Cancelled)));
    });
    assert!(handle.is_cancelled());
    assert_eq!(db.stat().waiting, 0);
}

/// Goal: inserts of one key exclude each other, and the loser learns the outcome. Method: roll back, then commit.
#[test]
fn second_insert_of_a_key_waits_for_the_first() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    for commits in [false, true] {
        begin(&mut one);
        begin(&mut two);
        assert_eq!(one.insert(f, b"new", b"1").unwrap(), Insert::Done);
        let Insert::Wait(blocker) = two.insert(f, b"new", b"2").unwrap() else { panic!("it is taken") };
        let wait = two.wait(blocker);
        if commits {
            commit(&mut one);
        } else {
            one.rollback();
        }
        wait.block(None).unwrap();
        match two.insert(f, b"new", b"2").unwrap() {
            Insert::Done => assert!(!commits),
            Insert::Duplicate(met) => assert!(commits && &*met.row == b"1"),
            Insert::Wait(_) => panic!("the first is over"),
        }
        two.rollback();
    }
    assert_eq!(get_one(db, f, b"new").as_deref(), Some(&b"1"[..]));
}

/// Goal: a session that inserted where a row was just deleted does not see that row again. Method: the deletion is
/// committed after the statement began and is not on disk; the insert is rolled back, and the session reads at a
/// snapshot of the durable state.
#[test]
fn session_that_used_a_freed_key_does_not_see_the_row_again() {
    let (env, _disk) = Env::simulated(1);
    let (db, _) = open_still(env).unwrap();
    let f = db.family(db.create_family());
    put_one(&db, &f, b"a", b"0");
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(two.write(&f, b"a", Basis::Snapshot, Write::Delete));
    let _ack = two.commit(true).unwrap();
    assert_eq!(one.get(&f, b"a").unwrap().as_deref(), Some(&b"0"[..]), "its snapshot is older");
    assert_eq!(one.insert(&f, b"a", b"1").unwrap(), Insert::Done);
    one.rollback();
    one.begin(Isolation::ReadCommitted, false).unwrap();
    one.begin_statement(StatementKind::ReadOnly).unwrap();
    assert_eq!(one.get(&f, b"a").unwrap(), None);
}

/// Goal: an insert that meets a row returns its origin and the basis for a write. Method: a row below the snapshot, one
/// above it at both levels, the transaction's own row of an earlier command and of this one; each followed by a write.
#[test]
fn insert_tells_the_row_it_meets_and_what_to_base_a_write_on() {
    let Fixture { db, f, .. } = &fixture();
    let met = |session: &mut Session, key: &[u8]| match session.insert(f, key, b"x").unwrap() {
        Insert::Duplicate(met) => met,
        other => panic!("it should meet a row: {other:?}"),
    };
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
        put_one(db, f, b"old", b"old");
        begin_at(&mut one, isolation);
        begin(&mut two);
        put(&mut two, f, b"newer", b"two");
        commit(&mut two);
        let old = met(&mut one, b"old");
        assert!(matches!(old.origin, Origin::Committed(_)));
        assert_eq!((one.basis_on(&old).unwrap(), &*old.row), (Basis::Snapshot, &b"old"[..]));
        let newer = met(&mut one, b"newer");
        let Origin::Committed(csn) = newer.origin else { panic!("committed by another: {newer:?}") };
        assert_eq!((&*newer.row, one.get(f, b"newer").unwrap()), (&b"two"[..], None), "met, and not in the snapshot");
        match (isolation, one.basis_on(&newer)) {
            (Isolation::ReadCommitted, Ok(basis)) => {
                assert_eq!(basis, Basis::After(csn));
                done(one.write(f, b"newer", basis, Write::Put(b"one")));
                let mine = met(&mut one, b"newer");
                assert_eq!((mine.origin, &*mine.row), (Origin::ThisCommand, &b"one"[..]));
            }
            (Isolation::RepeatableRead, Err(EngineError::Conflict)) => {}
            (_, other) => panic!("{isolation:?}: {other:?}"),
        }
        done(one.write(f, b"old", Basis::Snapshot, Write::Put(b"mine")));
        assert_eq!(met(&mut one, b"old").origin, Origin::ThisCommand);
        next_statement(&mut one);
        let mine = met(&mut one, b"old");
        assert_eq!((mine.origin, &*mine.row), (Origin::EarlierCommand, &b"mine"[..]));
        done(one.write(f, b"old", one.basis_on(&mine).unwrap(), Write::Put(b"again")));
        one.rollback();
        begin(&mut two);
        done(two.write(f, b"newer", Basis::Snapshot, Write::Delete));
        commit(&mut two);
    }
}

/// Goal: a moved row is followed. Method: one moves a to z; two waits for a and is sent to z.
#[test]
fn waiter_of_a_moved_row_is_told_the_new_key() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(one.write(f, b"a", Basis::Snapshot, Write::MoveTo { new_key: b"z" }));
    assert_eq!(one.insert(f, b"z", b"moved").unwrap(), Insert::Done);
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    let wait = two.wait(blocked);
    commit(&mut one);
    wait.block(None).unwrap();
    assert_eq!(update(&mut two, f, b"a", b"two").unwrap(), Outcome::Moved(b"z".to_vec()));
    let Outcome::Changed { csn, row } = update(&mut two, f, b"z", b"two").unwrap() else {
        panic!("above the snapshot")
    };
    assert_eq!(&row[..], b"moved");
    done(two.write(f, b"z", Basis::After(csn), Write::Put(b"two")));
    commit(&mut two);
    assert_eq!((get_one(db, f, b"a"), get_one(db, f, b"z")), (None, Some(b"two".to_vec())));
}

/// Goal: a row lock blocks writers, changes nothing and needs no log. Method: lock, try, commit, write at once.
#[test]
fn row_lock_holds_writers_off_until_the_end() {
    let Fixture { db, f, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut one);
    begin(&mut two);
    done(one.write(f, b"a", Basis::Snapshot, Write::Lock(LockStrength::Update)));
    let blocked = blocker(update(&mut two, f, b"a", b"two"));
    let wait = two.wait(blocked);
    let end = db.log().unwrap().glsn();
    assert_eq!(one.commit(true).unwrap().block().unwrap().csn, None);
    assert_eq!(db.log().unwrap().glsn(), end, "a lock leaves no record");
    wait.block(None).unwrap();
    done(update(&mut two, f, b"a", b"two"));
    let mark = two.savepoint();
    done(two.write(f, b"b", Basis::Snapshot, Write::Lock(LockStrength::Update)));
    begin(&mut one);
    let blocked = blocker(update(&mut one, f, b"b", b"one"));
    let wait = one.wait(blocked);
    two.rollback_to(mark);
    wait.block(None).unwrap();
    done(update(&mut one, f, b"b", b"one"));
}

/// Goal: a table lock is held to the end of the transaction. Method: PostgreSQL's modes of DML and DROP.
#[test]
fn exclusive_table_lock_waits_for_writers() {
    let Fixture { db, .. } = &fixture();
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    one.begin(Isolation::ReadCommitted, false).unwrap();
    two.begin(Isolation::ReadCommitted, false).unwrap();
    assert_eq!(one.lock_table(9, TableLockMode::RowExclusive).unwrap(), TableLock::Granted);
    let TableLock::Wait(blocker) = two.lock_table(9, TableLockMode::AccessExclusive).unwrap() else { panic!("in use") };
    let wait = two.wait(blocker);
    one.rollback();
    wait.block(None).unwrap();
    assert_eq!(two.lock_table(9, TableLockMode::AccessExclusive).unwrap(), TableLock::Granted);
}

/// Goal: calls out of order are refused, not interpreted. Method: each of them.
#[test]
fn calls_out_of_order_are_refused() {
    let Fixture { db, f, .. } = &fixture();
    let mut session = db.session().unwrap();
    assert!(matches!(session.commit(true), Err(EngineError::InvalidArgument { .. })));
    assert!(matches!(session.get(f, b"a"), Err(EngineError::InvalidArgument { .. })));
    session.begin(Isolation::ReadCommitted, false).unwrap();
    assert!(matches!(session.begin(Isolation::ReadCommitted, false), Err(EngineError::InvalidArgument { .. })));
    session.begin_statement(StatementKind::ReadOnly).unwrap();
    assert!(matches!(update(&mut session, f, b"a", b"x"), Err(EngineError::ReadOnly)));
    next_statement(&mut session);
    assert!(matches!(session.insert(f, &[7; 70_000], b""), Err(EngineError::InvalidArgument { .. })));
    session.rollback();
    session.begin(Isolation::ReadCommitted, true).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    assert!(matches!(update(&mut session, f, b"a", b"x"), Err(EngineError::ReadOnly)));
    session.rollback();
    db.close().unwrap();
    db.close().unwrap();
    assert!(matches!(db.session(), Err(EngineError::Closed)));
    begin(&mut session);
    assert_eq!(session.get(f, b"a").unwrap().as_deref(), Some(&b"0"[..]), "reading needs no log");
    done(update(&mut session, f, b"a", b"x"));
    assert!(matches!(session.commit(true), Err(EngineError::Closed)));
    assert!(!session.in_transaction());
    begin(&mut session);
    assert_eq!(session.get(f, b"a").unwrap().as_deref(), Some(&b"0"[..]), "a failed commit is rolled back");
}

/// Goal: an asynchronous commit is readable at once and acknowledged before the disk has it; a read-only statement
/// shows it afterwards. Method: commit, poll once, read at a read-only snapshot.
#[test]
fn asynchronous_commit_is_acknowledged_and_readable_at_once() {
    let Fixture { db, f, .. } = &fixture();
    let mut session = db.session().unwrap();
    begin(&mut session);
    done(update(&mut session, f, b"a", b"async"));
    let mut ack = pin!(session.commit(false).unwrap());
    let polled = ack.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready(), "the boundary passed it with the append");
    session.begin(Isolation::ReadCommitted, true).unwrap();
    session.begin_statement(StatementKind::ReadOnly).unwrap();
    assert_eq!(session.get(f, b"a").unwrap().as_deref(), Some(&b"async"[..]));
}

/// Goal: the counters of commits and rollbacks count each transaction that wrote once, and none that only read or
/// locked and ended well. Method: each way to end, one after the other.
#[test]
fn ends_of_transactions_are_counted_once() {
    let Fixture { db, f, .. } = &fixture();
    let (commits, aborts) = (db.commits(), db.aborts());
    let counted = || (db.commits() - commits, db.aborts() - aborts);
    let mut session = db.session().unwrap();
    begin(&mut session);
    commit(&mut session);
    begin(&mut session);
    session.rollback();
    begin(&mut session);
    done(session.write(f, b"a", Basis::Snapshot, Write::Lock(LockStrength::Update)));
    commit(&mut session);
    assert_eq!(counted(), (0, 0), "nothing was written");
    begin(&mut session);
    done(update(&mut session, f, b"a", b"1"));
    commit(&mut session);
    assert_eq!(counted(), (1, 0));
    begin(&mut session);
    done(update(&mut session, f, b"a", b"2"));
    session.rollback();
    assert_eq!(counted(), (1, 1));
    begin(&mut session);
    done(update(&mut session, f, b"a", b"3"));
    drop(session);
    assert_eq!(counted(), (1, 2), "a session that goes rolls back");
    let mut session = db.session().unwrap();
    begin(&mut session);
    done(update(&mut session, f, b"a", b"4"));
    db.refuse_commits();
    assert!(session.commit(true).is_err());
    assert_eq!(counted(), (1, 3), "another node leads");
}
