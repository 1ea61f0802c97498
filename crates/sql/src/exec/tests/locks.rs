//! Row locks of two sessions: which statements conflict, several clauses, savepoints.

use std::time::Duration;

use collie_engine::{Isolation, LockStrength};

use super::{
    fixture::{Client, Fixture, Progress, Table},
    tree::int,
};
use crate::{
    error::SqlState,
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

fn fixture() -> Fixture {
    let columns = [("id", INT, true), ("a", INT, false), ("u", INT, false)];
    let indexes = [("unique_idx", true, &[2][..]), ("plain_idx", false, &[1][..])];
    let [t, other] = ["t", "other"].map(|name| Table { name, columns: &columns, primary: &[0], indexes: &indexes });
    let fixture = Fixture::new(&[t, other]);
    for name in ["t", "other"] {
        let rows = (1..=2).map(|id| vec![int(id), int(id * 10), int(id)]).collect();
        fixture.client().run(&super::tree::insert(&fixture.table(name), rows), &[]).unwrap();
    }
    fixture
}

/// Runs a statement in the open transaction until it ends or waits; returns whether it ended.
fn goes(client: &mut Client<'_>, fixture: &Fixture, text: &str) -> bool {
    let plan = fixture.plan(&client.analyze(text).unwrap());
    matches!(client.start(&plan, &[]).unwrap(), Progress::Done(_))
}

fn begun<'f>(fixture: &'f Fixture) -> Client<'f> {
    let mut client = fixture.client();
    client.begin(Isolation::ReadCommitted);
    client
}

/// Goal: statements lock rows as strongly as in PostgreSQL. Method: for every pair of locks and writes of one row, the
/// second waits exactly if the matrix says so; a unique column counts if its value changes, not if it is only assigned.
#[test]
fn statement_waits_when_the_matrix_says_so() {
    use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
    let statements = [
        ("select id from t where id = 1 for key share", KeyShare),
        ("select id from t where id = 1 for share", Share),
        ("select id from t where id = 1 for no key update", NoKeyUpdate),
        ("select id from t where id = 1 for update", Update),
        ("update t set a = a + 1 where id = 1", NoKeyUpdate),
        ("update t set u = u, id = id where id = 1", NoKeyUpdate),
        ("update t set u = u + 100 where id = 1", Update),
        ("update t set id = 100 where id = 1", Update),
        ("delete from t where id = 1", Update),
        ("insert into t values (1, 0, 0) on conflict (id) do update set a = t.a + 1", NoKeyUpdate),
        ("insert into t values (1, 0, 0) on conflict (id) do update set a = 0 where t.a < 0", NoKeyUpdate),
        ("insert into t values (9, 0, 1) on conflict (u) do update set a = t.a + 1", NoKeyUpdate),
        ("insert into t values (1, 0, 0) on conflict (id) do update set u = t.u + 100", Update),
    ];
    let fixture = fixture();
    for (held, held_strength) in statements {
        for (asked, asked_strength) in statements {
            let (mut first, mut second) = (begun(&fixture), begun(&fixture));
            assert!(goes(&mut first, &fixture, held));
            let went = goes(&mut second, &fixture, asked);
            assert_eq!(went, !held_strength.conflicts_with(asked_strength), "{held}; {asked}");
            second.rollback();
            first.rollback();
            assert!(goes(&mut begun(&fixture), &fixture, asked), "{held} left something behind");
        }
    }
    fixture.check_indexes();
}

/// Goal: each clause locks its own tables; of two clauses for one table, the stronger and the less patient one applies.
/// Method: runs statements with several clauses, and another statement that shows what is held.
#[test]
fn each_clause_locks_its_own_tables() {
    let fixture = fixture();
    let join = "select t.id from t join other on t.id = other.id where t.id = 1";
    for (clauses, t, other) in [
        ("for share of t for update of other", LockStrength::Share, LockStrength::Update),
        ("for key share", LockStrength::KeyShare, LockStrength::KeyShare),
        ("for key share for no key update of t", LockStrength::NoKeyUpdate, LockStrength::KeyShare),
        ("for update of t for share", LockStrength::Update, LockStrength::Share),
    ] {
        let mut holder = begun(&fixture);
        assert!(goes(&mut holder, &fixture, &format!("{join} {clauses}")));
        for (table, held) in [("t", t), ("other", other)] {
            for (clause, asked) in [
                ("for key share", LockStrength::KeyShare),
                ("for share", LockStrength::Share),
                ("for no key update", LockStrength::NoKeyUpdate),
                ("for update", LockStrength::Update),
            ] {
                let text = format!("select 1 from {table} where id = 1 {clause}");
                let went = goes(&mut begun(&fixture), &fixture, &text);
                assert_eq!(went, !held.conflicts_with(asked), "{clauses}: {text}");
            }
        }
        holder.rollback();
    }
    let mut holder = begun(&fixture);
    assert!(goes(&mut holder, &fixture, "select 1 from other where id = 1 for key share"));
    let both = format!("{join} for share of other nowait for update of other skip locked");
    let error = begun(&fixture).sql(&both).unwrap_err();
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(error.report().message, "could not obtain lock on row in relation \"other\"");
    let skipping = format!("{join} for share of other for update of other skip locked");
    assert!(begun(&fixture).sql(&skipping).unwrap().1.rows.is_empty());
    assert_eq!(begun(&fixture).sql(&format!("{join} for update of t nowait")).unwrap().1.rows.len(), 1);
}

/// Goal: FOR SHARE waits for a writer and returns its result; FOR KEY SHARE does not wait and returns the old row.
/// Method: one writer, both lockers; the one that waits gets the newest value.
#[test]
fn share_waits_for_a_writer_and_key_share_does_not() {
    let fixture = fixture();
    let (mut writer, mut locker) = (begun(&fixture), begun(&fixture));
    assert!(goes(&mut writer, &fixture, "update t set a = 11 where id = 1"));
    let key_share = locker.sql("select a from t where id = 1 for key share").unwrap().1;
    assert_eq!(key_share.rows, vec![vec![Value::Int4(10)]]);
    let plan = fixture.plan(&locker.analyze("select a from t where id = 1 for share").unwrap());
    let Progress::Waits(running, blocker) = locker.start(&plan, &[]).unwrap() else { panic!("it should wait") };
    let wait = locker.session.wait(blocker);
    writer.commit();
    wait.block(Some(Duration::from_secs(60))).unwrap();
    let Progress::Done(answer) = locker.go_on(*running).unwrap() else { panic!("nobody else writes") };
    assert_eq!(answer.rows, vec![vec![Value::Int4(11)]]);
    assert!(!goes(&mut begun(&fixture), &fixture, "update t set a = 12 where id = 1"), "it is locked now");
}

/// Goal: ROLLBACK TO releases later locks, and undoing a deletion under an earlier lock keeps that lock (PostgreSQL's
/// delete-abort-savept). Method: lock, savepoint, delete, roll back; the lock alone holds off a waiter for FOR UPDATE.
#[test]
fn rollback_to_a_savepoint_leaves_the_locks_taken_before() {
    let fixture = fixture();
    let text = "select a from t where id = 1 for update";
    for (before, frees) in [("for update", false), ("for key share", false), ("", true)] {
        let mut holder = begun(&fixture);
        assert!(goes(&mut holder, &fixture, &format!("select a from t where id = 1 {before}")));
        let mark = holder.session.savepoint();
        assert!(goes(&mut holder, &fixture, "delete from t where id = 1"));
        assert!(!goes(&mut begun(&fixture), &fixture, text));
        holder.session.rollback_to(mark);
        assert_eq!(goes(&mut begun(&fixture), &fixture, text), frees, "{before}");
        holder.commit();
        assert!(goes(&mut begun(&fixture), &fixture, text));
    }
}
