//! Statements that check constraints: what they see, lock and may write, at each level.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use collie_engine::{Basis, EngineError, Insert, Isolation, LockStrength, Outcome, Sees, Write};
use common::{all, begin_at, next_statement, put_one, two_rows};

fn is_refused(outcome: Result<Outcome, EngineError>) -> bool {
    match outcome {
        Ok(Outcome::Done) => false,
        Err(EngineError::Conflict) => true,
        other => panic!("{other:?}"),
    }
}

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// Goal: a check sees every existing commit if it requests the newest state, and otherwise its transaction's view; the
/// next statement has the transaction's earlier view. Method: at each level, another session commits a row after the
/// transaction's first statement.
#[test]
fn check_sees_the_newest_state_or_the_transactions() {
    for level in LEVELS {
        let fixture = two_rows(b"1");
        let (db, f) = (&fixture.db, &fixture.f);
        let mut session = db.session().unwrap();
        begin_at(&mut session, level);
        assert_eq!(all(&session, f).len(), 2);
        put_one(db, f, b"c", b"2");
        session.end_statement();
        let moves_on = level == Isolation::ReadCommitted;
        session.begin_check(Sees::Snapshot).unwrap();
        assert_eq!(all(&session, f).len(), if moves_on { 3 } else { 2 }, "{level:?}");
        session.end_statement();
        session.begin_check(Sees::Newest).unwrap();
        assert_eq!(all(&session, f).len(), 3, "{level:?}");
        next_statement(&mut session);
        assert_eq!(all(&session, f).len(), if moves_on { 3 } else { 2 }, "{level:?}");
        session.rollback();
    }
}

/// Goal: a check that sees the newest state also sees its own transaction's writes, and not those of unfinished
/// transactions. Method: an own row, and a row of an open transaction.
#[test]
fn check_sees_own_writes_and_no_unfinished_ones() {
    for level in LEVELS {
        let fixture = two_rows(b"1");
        let (db, f) = (&fixture.db, &fixture.f);
        let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
        begin_at(&mut session, level);
        begin_at(&mut other, level);
        assert_eq!(session.insert(f, b"mine", b"2").unwrap(), Insert::Done);
        assert_eq!(other.insert(f, b"theirs", b"2").unwrap(), Insert::Done);
        session.end_statement();
        session.begin_check(Sees::Newest).unwrap();
        assert!(session.get(f, b"mine").unwrap().is_some());
        assert!(session.get(f, b"theirs").unwrap().is_none());
    }
}

/// Goal: a lock in a check is based on the newest version at every level, and the caller learns of that version; an
/// ordinary lock at REPEATABLE READ is refused. Method: a row changed, and one removed, by commits after the snapshot.
#[test]
fn check_locks_the_newest_version_at_every_level() {
    for level in LEVELS {
        let fixture = two_rows(b"1");
        let (db, f) = (&fixture.db, &fixture.f);
        let mut session = db.session().unwrap();
        begin_at(&mut session, level);
        session.get(f, b"x").unwrap();
        let mut other = db.session().unwrap();
        begin_at(&mut other, Isolation::ReadCommitted);
        assert_eq!(other.write(f, b"a", Basis::Snapshot, Write::Put(b"9")).unwrap(), Outcome::Done);
        assert_eq!(other.write(f, b"b", Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
        other.commit(true).unwrap().block().unwrap();
        let lock = Write::Lock(LockStrength::Share);
        if level != Isolation::ReadCommitted {
            assert!(is_refused(session.write(f, b"a", Basis::Snapshot, lock)), "{level:?}");
        }
        session.end_statement();
        session.begin_check(Sees::Snapshot).unwrap();
        if level != Isolation::ReadCommitted {
            let Outcome::Changed { csn, row } = session.write(f, b"a", Basis::Snapshot, lock).unwrap() else {
                panic!("{level:?}: the change is told");
            };
            assert_eq!(&*row, b"9");
            assert_eq!(session.write(f, b"a", Basis::After(csn), lock).unwrap(), Outcome::Done, "{level:?}");
        }
        assert_eq!(session.write(f, b"b", Basis::Snapshot, lock).unwrap(), Outcome::Gone, "{level:?}");
    }
}

/// Goal: writes of a check are based on the transaction's snapshot: REPEATABLE READ changes no row that the snapshot
/// does not show, although the check reads it. Method: a row inserted and one changed by commits after the snapshot,
/// put and deleted in a check that sees both.
#[test]
fn check_writes_only_what_the_snapshot_shows() {
    for level in LEVELS {
        let fixture = two_rows(b"1");
        let (db, f) = (&fixture.db, &fixture.f);
        let mut session = db.session().unwrap();
        begin_at(&mut session, level);
        session.get(f, b"x").unwrap();
        put_one(db, f, b"a", b"8");
        put_one(db, f, b"c", b"9");
        session.end_statement();
        session.begin_check(Sees::Newest).unwrap();
        assert_eq!(session.get(f, b"c").unwrap().as_deref(), Some(&b"9"[..]));
        let refuses = level != Isolation::ReadCommitted;
        assert_eq!(is_refused(session.write(f, b"a", Basis::Snapshot, Write::Put(b"7"))), refuses, "{level:?}");
        assert_eq!(is_refused(session.write(f, b"c", Basis::Snapshot, Write::Delete)), refuses, "{level:?}");
        // Rows that the snapshot shows may be written.
        assert_eq!(session.write(f, b"b", Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done, "{level:?}");
    }
}

/// Goal: a SERIALIZABLE transaction does not commit if a check read a commit beyond its snapshot. Method: a check that
/// sees a later commit, then a commit with and without an own write; the same without the later commit.
#[test]
fn serializable_answers_for_what_a_check_read() {
    for (later, writes) in [(true, true), (true, false), (false, true)] {
        let fixture = two_rows(b"1");
        let (db, f) = (&fixture.db, &fixture.f);
        let mut session = db.session().unwrap();
        begin_at(&mut session, Isolation::Serializable);
        session.get(f, b"x").unwrap();
        if later {
            put_one(db, f, b"c", b"9");
        }
        session.end_statement();
        session.begin_check(Sees::Newest).unwrap();
        assert_eq!(session.get(f, b"c").unwrap().is_some(), later);
        next_statement(&mut session);
        if writes {
            assert_eq!(session.write(f, b"b", Basis::Snapshot, Write::Put(b"2")).unwrap(), Outcome::Done);
        }
        let refused = matches!(session.commit(true), Err(EngineError::ReadChanged));
        assert_eq!(refused, later, "later {later}, writes {writes}");
    }
}
