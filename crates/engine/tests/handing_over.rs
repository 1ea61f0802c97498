//! A switchover at the primary: transactions that begin to write wait, those that have written end, the log takes
//! nothing more; and the primary can continue.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use collie_base::CfId;
use collie_engine::{Db, EngineError, Env, Session};
use common::{begin, get_one, open_tiny, put, put_one};

const CF: CfId = CfId::new(11);

fn open() -> Db {
    let (_, disk) = Env::simulated(70);
    let (db, _) = open_tiny(Env::over(disk, 71)).unwrap();
    put_one(&db, &db.family(CF), b"a", b"1");
    db
}

/// Returns a session whose transaction has written `key`.
fn writer(db: &Db, key: &[u8]) -> Session {
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(CF), key, b"2");
    session
}

/// Goal: while writes are paused a transaction that has not written waits and one that has continues; with the log held
/// even background work appends nothing, everything is on disk, and a late commit is refused and undone; after that all
/// sessions continue. Method: one session of each kind, a commit after the hold, later writes to its key.
#[test]
fn paused_writers_wait_and_a_held_log_takes_nothing() {
    let db = open();
    let f = db.family(CF);
    let (mut ends, mut late) = (writer(&db, b"b"), writer(&db, b"c"));
    let mut waits = db.session().unwrap();
    begin(&mut waits);
    assert!(waits.wait_for_room().unwrap().is_none());
    db.pause_writes();
    assert!(ends.wait_for_room().unwrap().is_none(), "it has written");
    let mut wait = pin!(waits.wait_for_room().unwrap().expect("it has not"));
    let mut begun = pin!(waits.wait_to_begin().unwrap().expect("it has not"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut cx).is_pending() && begun.as_mut().poll(&mut cx).is_pending());
    assert_eq!(db.open_writers().len(), 2);
    ends.commit(false).unwrap().block().unwrap();
    assert_eq!(db.open_writers(), [late.cancel_handle().slot()]);

    let end = db.hold_log().unwrap();
    let log = db.log().unwrap();
    assert_eq!((log.glsn(), db.durable()), (end, end), "the asynchronous commit too");
    assert!(matches!(late.commit(false), Err(EngineError::Replica)));
    assert!(db.open_writers().is_empty());
    for _ in 0..3 {
        db.tick();
    }
    assert_eq!(log.glsn(), end);
    assert!(wait.as_mut().poll(&mut cx).is_pending());

    db.resume_writes();
    assert!(matches!(wait.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    assert!(matches!(begun.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    assert!(waits.wait_for_room().unwrap().is_none());
    assert_eq!(get_one(&db, &f, b"c"), None, "what was refused is undone");
    put(&mut late_again(&db), &f, b"c", b"3");
    put_one(&db, &f, b"c", b"4");
    assert_eq!(get_one(&db, &f, b"b").as_deref(), Some(&b"2"[..]));
    assert_eq!(get_one(&db, &f, b"c").as_deref(), Some(&b"4"[..]));
}

/// Returns a session with an open transaction; the caller's statement drops it, which rolls it back.
fn late_again(db: &Db) -> Session {
    let mut session = db.session().unwrap();
    begin(&mut session);
    session
}

/// Goal: a session that waits to write is refused once another node leads, and when the database is closed; no session
/// sleeps on. Method: one waiting session each.
#[test]
fn who_waits_to_write_is_refused_once_another_node_leads() {
    for closes in [false, true] {
        let db = open();
        let mut waits = db.session().unwrap();
        begin(&mut waits);
        db.pause_writes();
        let mut wait = pin!(waits.wait_for_room().unwrap().expect("writes are paused"));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        if closes {
            db.close().unwrap();
        } else {
            db.hold_log().unwrap();
            db.refuse_commits();
            db.resume_writes();
        }
        match wait.as_mut().poll(&mut cx) {
            Poll::Ready(Err(EngineError::Replica)) if !closes => {}
            Poll::Ready(Err(EngineError::Closed)) if closes => {}
            other => panic!("{other:?}, closed: {closes}"),
        }
    }
}
