//! INSERT ... ON CONFLICT among several sessions: which session waits for which, what follows the wait, and that
//! nothing is
//! lost.
//!
//! The results within one session are compared with PostgreSQL in `tests/sql/on_conflict.sql`. The outcomes here are
//! PostgreSQL's too, except for the waits marked in the table of owners.

use std::time::Duration;

use collie_engine::Isolation;

use super::{
    conflict::{finish, start_waiting},
    fixture::{Client, Fixture, Progress, Table},
};
use crate::{
    error::{Result, SqlState},
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

/// `t (id primary key, a unique, n)` with the row (1, 10, 0).
fn fixture() -> Fixture {
    let fixture = Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, true), ("a", INT, false), ("n", INT, false)],
        primary: &[0],
        indexes: &[("t_a_key", true, &[1]), ("t_n_idx", false, &[2])],
    }]);
    start_again(&fixture);
    fixture
}

/// Resets the table to the one row.
fn start_again(fixture: &Fixture) {
    fixture.client().sql("delete from t").unwrap();
    fixture.client().sql("insert into t values (1, 10, 0)").unwrap();
}

/// Returns all rows as text, by id: `id/a/n`.
fn rows(client: &mut Client<'_>) -> String {
    let answer = client.sql("select id, a, n from t order by id").unwrap().1;
    let number = |value: &Value| value.as_i32().map_or_else(|| "-".to_owned(), |n| n.to_string());
    let row = |row: &Vec<Value>| row.iter().map(number).collect::<Vec<_>>().join("/");
    answer.rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

/// Runs a statement, waiting as long as necessary.
fn run_waiting(client: &mut Client<'_>, fixture: &Fixture, text: &str) -> Result<u64> {
    let plan = fixture.plan(&client.analyze(text).unwrap());
    let mut progress = client.start(&plan, &[])?;
    loop {
        match progress {
            Progress::Done(answer) => return Ok(answer.count),
            Progress::Waits(running, blocker) => {
                client.session.wait(blocker).block(Some(Duration::from_secs(60))).map_err(crate::exec::from_engine)?;
                progress = client.go_on(*running)?;
            }
        }
    }
}

// The statements of the second session, for the row that the first one owns.
const BY_KEY: &str = "insert into t values (1, 99, 5) on conflict (id) do update set n = t.n + excluded.n";
const BY_UNIQUE: &str = "insert into t values (77, 10, 5) on conflict (a) do update set n = t.n + excluded.n";
const KEEP_KEY: &str = "insert into t values (1, 99, 5) on conflict (id) do nothing";
const KEEP_UNIQUE: &str = "insert into t values (77, 10, 5) on conflict (a) do nothing";
const KEEP_ANY: &str = "insert into t values (1, 10, 5) on conflict do nothing";

/// Goal: the end of the key's owner decides, whatever the owner did with the key. Method: combines each action of an
/// owner
/// with each form of ON CONFLICT and with commit and rollback of the owner; compares the rows afterwards, and whether
/// there
/// was a wait.
#[test]
fn the_end_of_the_owner_of_a_key_decides_what_an_upsert_does() {
    // The owner's action; then per form: whether it waits, rows after a commit, rows after a rollback.
    let inserted = "insert into t values (1, 10, 3)";
    let touched = "update t set n = 3 where id = 1";
    let deleted = "delete from t where id = 1";
    let moved = "update t set id = 5 where id = 1";
    let renamed = "update t set a = 11 where id = 1";
    let locked = "select * from t where id = 1 for update";
    let fixture = fixture();
    for (owner, form, waits, committed, rolled_back) in [
        (inserted, BY_KEY, true, "1/10/8", "1/99/5"),
        (inserted, BY_UNIQUE, true, "1/10/8", "77/10/5"),
        (inserted, KEEP_KEY, true, "1/10/3", "1/99/5"),
        (inserted, KEEP_UNIQUE, true, "1/10/3", "77/10/5"),
        (inserted, KEEP_ANY, true, "1/10/3", "1/10/5"),
        (touched, BY_KEY, true, "1/10/8", "1/10/5"),
        (touched, BY_UNIQUE, true, "1/10/8", "1/10/5"),
        (touched, KEEP_KEY, true, "1/10/3", "1/10/0"),
        // PostgreSQL waits here; the key stays taken however the owner ends.
        (touched, KEEP_UNIQUE, false, "1/10/3", "1/10/0"),
        (touched, KEEP_ANY, true, "1/10/3", "1/10/0"),
        (deleted, BY_KEY, true, "1/99/5", "1/10/5"),
        (deleted, BY_UNIQUE, true, "77/10/5", "1/10/5"),
        (deleted, KEEP_KEY, true, "1/99/5", "1/10/0"),
        (deleted, KEEP_UNIQUE, true, "77/10/5", "1/10/0"),
        (deleted, KEEP_ANY, true, "1/10/5", "1/10/0"),
        (moved, BY_KEY, true, "1/99/5 5/10/0", "1/10/5"),
        (moved, BY_UNIQUE, true, "5/10/5", "1/10/5"),
        (moved, KEEP_KEY, true, "1/99/5 5/10/0", "1/10/0"),
        (moved, KEEP_UNIQUE, true, "5/10/0", "1/10/0"),
        (moved, KEEP_ANY, true, "5/10/0", "1/10/0"),
        (renamed, BY_KEY, true, "1/11/5", "1/10/5"),
        (renamed, BY_UNIQUE, true, "1/11/0 77/10/5", "1/10/5"),
        (renamed, KEEP_KEY, true, "1/11/0", "1/10/0"),
        (renamed, KEEP_UNIQUE, true, "1/11/0 77/10/5", "1/10/0"),
        (renamed, KEEP_ANY, true, "1/11/0", "1/10/0"),
        (locked, BY_KEY, true, "1/10/5", "1/10/5"),
        (locked, BY_UNIQUE, true, "1/10/5", "1/10/5"),
        (locked, KEEP_KEY, false, "1/10/0", "1/10/0"),
        (locked, KEEP_UNIQUE, false, "1/10/0", "1/10/0"),
        (locked, KEEP_ANY, false, "1/10/0", "1/10/0"),
    ] {
        for commits in [true, false] {
            let what = format!("{owner}; {form}; {}", if commits { "commit" } else { "rollback" });
            start_again(&fixture);
            if owner == inserted {
                fixture.client().sql("delete from t").unwrap();
            }
            let (mut first, mut second) = (fixture.client(), fixture.client());
            first.begin(Isolation::ReadCommitted);
            first.sql(owner).unwrap();
            let statement = second.analyze(form).unwrap();
            let end = |first: &mut Client<'_>| if commits { first.commit() } else { first.rollback() };
            if waits {
                let waiting = start_waiting(&mut second, &fixture, &statement);
                end(&mut first);
                finish(&mut second, waiting).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            } else {
                second.run(&statement, &[]).unwrap_or_else(|error| panic!("{what}: {error:?}"));
                end(&mut first);
            }
            assert_eq!(rows(&mut fixture.client()), if commits { committed } else { rolled_back }, "{what}");
            fixture.check_indexes();
        }
    }
}

/// Goal: a row that lost the key between the conflict and its lock does not conflict: the statement inserts. Method:
/// the
/// owner holds the row locked, so that the upsert has met it and waits for it; then the owner changes the row's key.
#[test]
fn an_upsert_starts_over_when_the_row_it_waited_for_lost_the_key() {
    let fixture = fixture();
    for (change, form, expected) in [
        ("update t set a = 11 where id = 1", BY_UNIQUE, "1/11/0 77/10/5"),
        ("update t set id = 5 where id = 1", BY_UNIQUE, "5/10/5"),
        ("delete from t where id = 1", BY_UNIQUE, "77/10/5"),
        ("update t set n = 4 where id = 1", BY_UNIQUE, "1/10/9"),
        ("update t set id = 5, a = 12 where id = 1", BY_KEY, "1/99/5 5/12/0"),
        ("delete from t where id = 1", BY_KEY, "1/99/5"),
        ("update t set n = 4 where id = 1", BY_KEY, "1/10/9"),
    ] {
        start_again(&fixture);
        let (mut first, mut second) = (fixture.client(), fixture.client());
        first.begin(Isolation::ReadCommitted);
        first.sql("select * from t where id = 1 for update").unwrap();
        let statement = second.analyze(form).unwrap();
        let waiting = start_waiting(&mut second, &fixture, &statement);
        first.sql(change).unwrap();
        first.commit();
        assert_eq!(finish(&mut second, waiting).unwrap(), 1, "{change}; {form}");
        assert_eq!(rows(&mut fixture.client()), expected, "{change}; {form}");
        fixture.check_indexes();
    }
}

/// Goal: if WHERE is not true, the row stays unchanged but locked. Method: an upsert that does nothing, then a writer
/// in
/// another session.
#[test]
fn a_row_that_do_update_does_not_want_stays_locked() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    assert_eq!(first.sql(&format!("{BY_KEY} where t.n > 100")).unwrap().1.count, 0);
    let write = second.analyze("update t set n = 1 where id = 1").unwrap();
    let waiting = start_waiting(&mut second, &fixture, &write);
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 1);
    assert_eq!(rows(&mut second), "1/10/1");
}

/// Goal: SET is computed from the locked version and from no older one. Method: a value that would divide by zero is
/// replaced while the upsert waits.
#[test]
fn do_update_computes_nothing_on_a_version_it_does_not_replace() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.sql("select * from t for update").unwrap();
    let text = "insert into t values (1, 1, 1) on conflict (id) do update set n = 8 / t.n";
    let statement = second.analyze(text).unwrap();
    let waiting = start_waiting(&mut second, &fixture, &statement);
    first.sql("update t set n = 2").unwrap();
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 1);
    assert_eq!(rows(&mut second), "1/10/4");
}

/// Goal: under REPEATABLE READ, a conflicting row that the snapshot does not show fails both forms; one that it shows
/// does
/// not. Method: rows committed before the snapshot, after it, and changed after it.
#[test]
fn repeatable_read_fails_on_a_conflict_that_it_does_not_see() {
    let conflict = SqlState::SERIALIZATION_FAILURE;
    let fixture = fixture();
    for (meanwhile, form, expected) in [
        ("update t set n = 3 where id = 9", BY_KEY, None),
        ("update t set n = 3 where id = 9", BY_UNIQUE, None),
        ("update t set n = 3 where id = 9", KEEP_KEY, None),
        ("update t set n = 3 where id = 9", KEEP_ANY, None),
        ("update t set n = 3 where id = 1", BY_KEY, Some(conflict)),
        ("update t set n = 3 where id = 1", BY_UNIQUE, Some(conflict)),
        ("update t set n = 3 where id = 1", KEEP_KEY, Some(conflict)),
        ("update t set id = 2 where id = 1", BY_UNIQUE, Some(conflict)),
        ("delete from t where id = 1", BY_KEY, Some(conflict)),
        ("delete from t where id = 1", KEEP_UNIQUE, Some(conflict)),
        ("insert into t values (2, 20, 0)", "insert into t values (2, 5, 5) on conflict do nothing", Some(conflict)),
        (
            "insert into t values (2, 20, 0)",
            "insert into t values (3, 20, 5) on conflict (a) do update set n = 1",
            Some(conflict),
        ),
    ] {
        start_again(&fixture);
        let mut client = fixture.client();
        client.begin(Isolation::RepeatableRead);
        assert_eq!(rows(&mut client), "1/10/0");
        fixture.client().sql(meanwhile).unwrap();
        let answer = client.sql(form).map(|_| ()).map_err(|error| error.state());
        assert_eq!(answer, expected.map_or(Ok(()), Err), "{meanwhile}; {form}");
        if expected.is_none() {
            client.commit();
        }
        fixture.check_indexes();
    }
}

/// Goal: one command never writes a row twice. Method: a key twice in VALUES, new and existing, by either index; DO
/// NOTHING keeps the first.
#[test]
fn one_command_does_not_update_a_row_twice() {
    let fixture = fixture();
    for (text, message) in [
        ("insert into t values (2, 1, 1), (2, 2, 2) on conflict (id) do update set n = 1", "second time"),
        ("insert into t values (1, 1, 1), (1, 2, 2) on conflict (id) do update set n = 1", "second time"),
        ("insert into t values (2, 10, 1), (3, 10, 2) on conflict (a) do update set n = 1", "second time"),
        ("insert into t values (1, 5, 1), (3, 10, 2) on conflict (a) do update set n = 1", "t_pkey"),
        ("insert into t values (2, 10, 1), (1, 5, 2) on conflict (id) do update set n = 1", "t_a_key"),
    ] {
        let error = fixture.client().sql(text).unwrap_err();
        let report = error.report();
        assert!(report.message.contains(message), "{text}: {}", report.message);
        let second = "ON CONFLICT DO UPDATE command cannot affect row a second time";
        assert_eq!(error.state() == SqlState::CARDINALITY_VIOLATION, report.message == second, "{text}");
        assert_eq!(rows(&mut fixture.client()), "1/10/0", "{text}");
        fixture.check_indexes();
    }
    let keep = "insert into t values (2, 20, 1), (2, 30, 2), (3, 20, 3), (3, 30, 4) on conflict do nothing";
    assert_eq!(fixture.client().sql(keep).unwrap().1.count, 2);
    assert_eq!(rows(&mut fixture.client()), "1/10/0 2/20/1 3/30/4");
}

/// Goal: a row that waits for one key holds no other, so that two statements that want two keys in different order make
/// progress. Method: the second waits for `a`, after `id` was free; the first then takes that `id`.
#[test]
fn a_row_that_waits_for_one_key_holds_no_other() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.sql("insert into t values (5, 50, 0)").unwrap();
    let statement = second.analyze("insert into t values (6, 50, 1) on conflict do nothing").unwrap();
    let waiting = start_waiting(&mut second, &fixture, &statement);
    first.sql("insert into t values (6, 60, 0)").unwrap();
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 0);
    assert_eq!(rows(&mut second), "1/10/0 5/50/0 6/60/0");
    fixture.check_indexes();
}

/// Goal: claims that a conflict rolled back do not return after a restart. Method: one transaction of thousands of
/// rows, so
/// that redo is logged before its end; every other row claims its key and then meets a taken `a`.
#[test]
fn claims_that_were_taken_back_are_not_in_the_log() {
    let mut fixture = fixture();
    let mut client = fixture.client();
    client.begin(Isolation::ReadCommitted);
    let text = "insert into t select g, case when g % 2 = 0 then 10 else g + 100 end, g \
                from generate_series(2, 2001) g on conflict do nothing";
    assert_eq!(client.sql(text).unwrap().1.count, 1000);
    let text = "insert into t select g, g + 100, 0 from generate_series(2, 2001) g \
                on conflict (a) do update set n = -t.n where t.id % 3 = 0";
    assert_eq!(client.sql(text).unwrap().1.count, 1334);
    client.commit();
    drop(client);
    let before = rows(&mut fixture.client());
    fixture.check_indexes();
    fixture.reopen();
    assert_eq!(rows(&mut fixture.client()), before);
    fixture.check_indexes();
}

/// Goal: no increment is lost or made twice, with the key found either way and rows deleted under the upserts. Method:
/// eight threads add to four counters, by key or by unique column; two remove counters and add up their values.
#[test]
fn counters_of_many_threads_keep_every_increment() {
    const ROUNDS: i32 = 150;
    let fixture = fixture();
    fixture.client().sql("delete from t").unwrap();
    let taken = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..8i32)
            .map(|thread| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let mut client = fixture.client();
                    for i in 0..ROUNDS {
                        let counter = (i + thread) % 4;
                        // A counter that is found by its unique column is proposed under a new id each time.
                        let (id, target) = if counter < 2 { (counter, "id") } else { (100 + i * 8 + thread, "a") };
                        let set = "do update set n = t.n + excluded.n";
                        let text = format!("insert into t values ({id}, {counter}, 1) on conflict ({target}) {set}");
                        assert_eq!(run_waiting(&mut client, fixture, &text).unwrap(), 1);
                    }
                })
            })
            .collect();
        let takers: Vec<_> = (0..2i32)
            .map(|thread| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let mut client = fixture.client();
                    let mut sum = 0;
                    for i in 0..ROUNDS {
                        let text = format!("delete from t where a = {} returning n", (i * 3 + thread) % 4);
                        let plan = fixture.plan(&client.analyze(&text).unwrap());
                        let mut progress = client.start(&plan, &[]).unwrap();
                        sum += loop {
                            match progress {
                                Progress::Done(answer) => {
                                    break answer.rows.iter().filter_map(|row| row[0].as_i32()).sum::<i32>();
                                }
                                Progress::Waits(running, blocker) => {
                                    client.session.wait(blocker).block(Some(Duration::from_secs(60))).unwrap();
                                    progress = client.go_on(*running).unwrap();
                                }
                            }
                        };
                    }
                    sum
                })
            })
            .collect();
        adders.into_iter().for_each(|thread| thread.join().unwrap());
        takers.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
    });
    let left = fixture.client().sql("select coalesce(sum(n), 0)::int4 from t").unwrap().1.rows[0][0].as_i32();
    assert_eq!(left.map(|left| left + taken), Some(8 * ROUNDS));
    fixture.check_indexes();
}

/// Goal: EXPLAIN shows the arbiters and the action. Method: explains each form.
#[test]
fn explain_shows_the_arbiters_and_the_action() {
    let fixture = fixture();
    let client = fixture.client();
    let result = "  ->  Result  (rows=1)";
    let head = "Insert on t  (rows=1)";
    for (text, notes) in [
        ("insert into t values (1) on conflict do nothing", vec!["  Conflict Resolution: NOTHING"]),
        (
            "insert into t values (1) on conflict (a) do nothing",
            vec!["  Conflict Resolution: NOTHING", "  Conflict Arbiter Indexes: t_a_key"],
        ),
        (
            "insert into t values (1) on conflict (id) do update set n = 1 where t.n > 0 and t.a > excluded.a",
            vec![
                "  Conflict Resolution: UPDATE",
                "  Conflict Arbiter Indexes: t_pkey",
                "  Conflict Filter: 2 condition(s)",
            ],
        ),
    ] {
        assert_eq!(client.explain(text), [vec![head], notes, vec![result]].concat(), "{text}");
    }
}
