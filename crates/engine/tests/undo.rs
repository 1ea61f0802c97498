//! A rollback in parts: what others see of the transaction meanwhile, and what its own session may do.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use collie_engine::{Basis, Blocker, Db, Family, Outcome, Session, Write};
use common::{Fixture, begin, get_one, next_statement, put, put_one, two_rows};

/// Number of rows that the transaction writes: several parts of an undo.
const ROWS: u16 = 1_500;

/// Opens a transaction that has changed all rows and is about to be undone; the returned mark lies after its first
/// change.
fn changed(db: &Db, f: &Family) -> (Session, collie_engine::Mark) {
    for n in 0..ROWS {
        put_one(db, f, &n.to_be_bytes(), b"old");
    }
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, f, b"beside", b"new");
    let mark = session.savepoint();
    next_statement(&mut session);
    for n in 0..ROWS {
        put(&mut session, f, &n.to_be_bytes(), b"new");
    }
    session.end_statement();
    (session, mark)
}

/// Tries to change a row; returns the blocker, if any.
fn blocked(db: &Db, f: &Family, n: u16) -> Option<Blocker> {
    let mut session = db.session().unwrap();
    begin(&mut session);
    match session.write(f, &n.to_be_bytes(), Basis::Snapshot, Write::Put(b"other")).unwrap() {
        Outcome::Wait(blocker) => Some(blocker),
        Outcome::Done => None,
        other => panic!("{other:?}"),
    }
}

/// Goal: between the parts of an undo others read the former state and wait for every row that is not undone, and a
/// commit is refused. Method: a rollback of 1,500 changes in parts, checked between them by another session; the same
/// with a commit in the middle; the same with the session dropped.
#[test]
fn no_part_of_a_rollback_is_seen() {
    for end in ["rollback", "commit", "drop"] {
        let Fixture { db, f, _dir } = two_rows(b"0");
        let (mut session, _) = changed(&db, &f);
        let mut parts = 0;
        while !session.undo_some(None) {
            parts += 1;
            assert_eq!(get_one(&db, &f, &0_u16.to_be_bytes()).as_deref(), Some(&b"old"[..]));
            assert_eq!(get_one(&db, &f, &(ROWS - 1).to_be_bytes()).as_deref(), Some(&b"old"[..]));
            assert!(get_one(&db, &f, b"beside").is_none());
            assert!(blocked(&db, &f, 0).is_some(), "the first change is undone last");
            if end != "rollback" && parts == 2 {
                break;
            }
        }
        assert!(parts >= 2, "{parts} parts");
        match end {
            "rollback" => session.rollback(),
            "commit" => assert!(session.commit(true).is_err(), "half of it is gone"),
            _ => drop(session),
        }
        for n in 0..ROWS {
            assert_eq!(get_one(&db, &f, &n.to_be_bytes()).as_deref(), Some(&b"old"[..]), "{end}: row {n}");
        }
        assert!((0..ROWS).all(|n| blocked(&db, &f, n).is_none()), "{end}");
        assert!(get_one(&db, &f, b"beside").is_none());
    }
}

/// Goal: a rollback to a savepoint in parts keeps the changes before the mark, and the transaction continues. Method:
/// undo in parts, more writes, commit, and open again.
#[test]
fn a_rollback_to_a_savepoint_in_parts_keeps_what_came_before() {
    let Fixture { db, f, _dir } = two_rows(b"0");
    let (mut session, mark) = changed(&db, &f);
    let mut parts = 0;
    while !session.undo_some(Some(mark)) {
        parts += 1;
        assert!(blocked(&db, &f, 0).is_some());
    }
    assert!(parts >= 2, "{parts} parts");
    session.rollback_to(mark);
    next_statement(&mut session);
    put(&mut session, &f, b"later", b"new");
    session.commit(true).unwrap().block().unwrap();
    let check = |db: &Db, f: &Family| {
        assert_eq!(get_one(db, f, &7_u16.to_be_bytes()).as_deref(), Some(&b"old"[..]));
        assert_eq!(get_one(db, f, b"beside").as_deref(), Some(&b"new"[..]));
        assert_eq!(get_one(db, f, b"later").as_deref(), Some(&b"new"[..]));
    };
    check(&db, &f);
    let cf = f.id();
    db.close().unwrap();
    drop((session, db, f));
    let (db, _) =
        Db::open(_dir.path(), collie_engine::Options::small(), collie_engine::Env::real(), &mut |_| ()).unwrap();
    check(&db, &db.family(cf));
}
