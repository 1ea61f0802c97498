//! Two sessions that meet on a row: waiting, checking again, following moved rows, serialization failures.

use std::time::Duration;

use collie_engine::Isolation;

use super::{
    fixture::{Client, Fixture, Progress, Running, Table},
    tree::{col, delete, int, op, query, range, select, update},
};
use crate::{
    analyze::bound::{Analyzed, Bound, Locking, Query},
    error::SqlState,
    parse::ast::{LockStrength, LockWait},
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

fn fixture() -> Fixture {
    fixture_of(3)
}

/// Rows (1, 10), (2, 20) and so on, with a primary key on the first column and an index on the second.
pub(super) fn fixture_of(rows: i32) -> Fixture {
    let fixture = Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, true), ("a", INT, false)],
        primary: &[0],
        indexes: &[("t_a_idx", false, &[1])],
    }]);
    let rows = (1..=rows).map(|id| vec![int(id), int(id * 10)]).collect();
    fixture.client().run(&super::tree::insert(&fixture.table("t"), rows), &[]).unwrap();
    fixture
}

/// Starts a statement that has to wait.
pub(super) fn start_waiting(
    client: &mut Client<'_>,
    fixture: &Fixture,
    statement: &Analyzed,
) -> (Box<Running>, collie_engine::WaitFuture) {
    let plan = fixture.plan(statement);
    match client.start(&plan, &[]).unwrap() {
        Progress::Waits(running, blocker) => {
            let wait = client.session.wait(blocker);
            (running, wait)
        }
        Progress::Done(_) => panic!("the statement should have to wait"),
    }
}

/// Continues a statement after what it waits for has ended.
pub(super) fn finish(
    client: &mut Client<'_>,
    waiting: (Box<Running>, collie_engine::WaitFuture),
) -> crate::error::Result<u64> {
    let (mut running, mut wait) = waiting;
    loop {
        wait.block(Some(Duration::from_secs(60))).unwrap();
        match client.go_on(*running)? {
            Progress::Done(answer) => return Ok(answer.count),
            Progress::Waits(again, blocker) => {
                running = again;
                wait = client.session.wait(blocker);
            }
        }
    }
}

fn add(fixture: &Fixture, amount: i32, id: i32) -> Analyzed {
    let t = fixture.table("t");
    update(&t, vec![(1, op("+", col(0, 1, INT), int(amount)))], Some(op("=", col(0, 0, INT), int(id))))
}

fn value(fixture: &Fixture, id: i32) -> Option<i32> {
    let t = fixture.table("t");
    let read = query(select(vec![range(&t)], Some(op("=", col(0, 0, INT), int(id))), vec![col(0, 1, INT)]));
    let answer = fixture.client().run(&read, &[]).unwrap();
    answer.rows.first().and_then(|row| row[0].as_i32())
}

/// Goal: no update is lost. Method: both add to the same row; the second waits, then adds to the first one's result.
#[test]
fn a_waiting_update_computes_on_the_newest_version() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 1), &[]).unwrap();
    let waiting = start_waiting(&mut second, &fixture, &add(&fixture, 100, 1));
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 1);
    assert_eq!(value(&fixture, 1), Some(111));
    fixture.check_indexes();
}

/// Goal: after a rollback the waiter continues with the version it saw. Method: as above, with ROLLBACK.
#[test]
fn a_waiting_update_goes_on_when_the_holder_rolls_back() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 1), &[]).unwrap();
    let waiting = start_waiting(&mut second, &fixture, &add(&fixture, 100, 1));
    first.rollback();
    assert_eq!(finish(&mut second, waiting).unwrap(), 1);
    assert_eq!(value(&fixture, 1), Some(110));
    fixture.check_indexes();
}

/// Goal: the whole WHERE is evaluated again. Method: the first changes `a` so that the second's WHERE no longer
/// matches.
#[test]
fn a_row_that_no_longer_matches_is_left_alone() {
    let fixture = fixture();
    let t = fixture.table("t");
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 2), &[]).unwrap();
    let set = update(&t, vec![(1, int(0))], Some(op("=", col(0, 1, INT), int(20))));
    let waiting = start_waiting(&mut second, &fixture, &set);
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 0);
    assert_eq!(value(&fixture, 2), Some(21));
    fixture.check_indexes();
}

/// Goal: deleted rows are skipped, moved rows are followed. Method: the first deletes one row and changes the key of
/// another while the second updates all.
#[test]
fn deleted_rows_are_skipped_and_moved_rows_are_followed() {
    let fixture = fixture();
    let t = fixture.table("t");
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&delete(&t, Some(op("=", col(0, 0, INT), int(1)))), &[]).unwrap();
    let rename = update(&t, vec![(0, int(30))], Some(op("=", col(0, 0, INT), int(3))));
    first.run(&rename, &[]).unwrap();
    let all = update(&t, vec![(1, op("+", col(0, 1, INT), int(7)))], None);
    let waiting = start_waiting(&mut second, &fixture, &all);
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 2);
    assert_eq!((value(&fixture, 1), value(&fixture, 2), value(&fixture, 30)), (None, Some(27), Some(37)));
    fixture.check_indexes();
}

/// Goal: a DELETE checks again as well. Method: the first changes the column in the second's condition.
#[test]
fn a_waiting_delete_judges_the_newest_version() {
    let fixture = fixture();
    let t = fixture.table("t");
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 1), &[]).unwrap();
    let waiting = start_waiting(&mut second, &fixture, &delete(&t, Some(op("<", col(0, 1, INT), int(12)))));
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap(), 1);
    assert_eq!(value(&fixture, 1), None);
    fixture.check_indexes();
}

/// Goal: REPEATABLE READ fails instead of checking again. Method: the waiter is at REPEATABLE READ.
#[test]
fn repeatable_read_fails_with_40001_when_the_row_changed() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    second.begin(Isolation::RepeatableRead);
    assert_eq!(second.run(&add(&fixture, 0, 2), &[]).unwrap().count, 1);
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 1), &[]).unwrap();
    let waiting = start_waiting(&mut second, &fixture, &add(&fixture, 100, 1));
    first.commit();
    assert_eq!(finish(&mut second, waiting).unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(value(&fixture, 1), Some(11));
}

/// Goal: inserting a key that an unfinished transaction holds waits for its end. Method: after a commit the insert
/// fails
/// with 23505, after a rollback it succeeds.
#[test]
fn inserting_a_held_key_waits_and_the_end_of_the_holder_decides() {
    let fixture = fixture();
    let t = fixture.table("t");
    let new_row = super::tree::insert(&t, vec![vec![int(9), int(90)]]);
    for commits in [false, true] {
        let (mut first, mut second) = (fixture.client(), fixture.client());
        first.begin(Isolation::ReadCommitted);
        first.run(&new_row, &[]).unwrap();
        let waiting = start_waiting(&mut second, &fixture, &new_row);
        if commits {
            fixture.client().run(&delete(&t, Some(op("=", col(0, 0, INT), int(1)))), &[]).unwrap();
            first.commit();
            assert_eq!(finish(&mut second, waiting).unwrap_err().state(), SqlState::UNIQUE_VIOLATION);
        } else {
            first.rollback();
            assert_eq!(finish(&mut second, waiting).unwrap(), 1);
            fixture.client().run(&delete(&t, Some(op("=", col(0, 0, INT), int(9)))), &[]).unwrap();
        }
    }
    fixture.check_indexes();
}

fn for_update(fixture: &Fixture, wait: LockWait) -> Analyzed {
    let t = fixture.table("t");
    let mut statement =
        select(vec![range(&t)], Some(op("<", col(0, 1, INT), int(25))), vec![col(0, 0, INT), col(0, 1, INT)]);
    statement.locking = vec![Locking { range: 0, strength: LockStrength::Update, wait }];
    statement.order_by = vec![crate::analyze::bound::SortKey { target: 1, descending: true, nulls_first: true }];
    let mut statement = query(statement);
    statement.writes = true;
    assert!(matches!(&statement.bound, Bound::Query(Query::Select(_))));
    statement
}

/// Goal: FOR UPDATE waits, shows the newest version, and keeps the order. Method: ORDER BY a DESC over rows 20 and 10
/// while the row with 10 becomes 24.
#[test]
fn for_update_shows_the_newest_version_in_the_old_order() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 14, 1), &[]).unwrap();
    let plan = fixture.plan(&for_update(&fixture, LockWait::Block));
    let Progress::Waits(running, blocker) = second.start(&plan, &[]).unwrap() else { panic!("it should wait") };
    let wait = second.session.wait(blocker);
    first.commit();
    wait.block(Some(Duration::from_secs(60))).unwrap();
    let Progress::Done(answer) = second.go_on(*running).unwrap() else { panic!("it should end") };
    let rows = vec![vec![Value::Int4(2), Value::Int4(20)], vec![Value::Int4(1), Value::Int4(24)]];
    assert_eq!(answer.rows, rows);
}

/// Goal: SKIP LOCKED omits held rows, NOWAIT fails with 55P03. Method: one of two rows is held.
#[test]
fn skip_locked_leaves_rows_out_and_nowait_fails() {
    let fixture = fixture();
    let (mut first, mut second) = (fixture.client(), fixture.client());
    first.begin(Isolation::ReadCommitted);
    first.run(&add(&fixture, 1, 1), &[]).unwrap();
    let answer = second.run(&for_update(&fixture, LockWait::Skip), &[]).unwrap();
    assert_eq!(answer.rows, vec![vec![Value::Int4(2), Value::Int4(20)]]);
    let error = second.run(&for_update(&fixture, LockWait::Error), &[]).unwrap_err();
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(error.report().message, "could not obtain lock on row in relation \"t\"");
    first.rollback();
}

/// Goal: no money is created or lost by waits and re-checks. Method: four threads move amounts between eight rows, in
/// one
/// statement each, with a WHERE that refuses overdrafts; deadlocks and conflicts are tried again.
#[test]
fn transfers_of_four_threads_keep_the_sum() {
    let fixture = Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, true), ("a", INT, false)],
        primary: &[0],
        indexes: &[("t_a_idx", false, &[1])],
    }]);
    let rows = (0..8).map(|id| vec![int(id), int(100)]).collect();
    fixture.client().run(&super::tree::insert(&fixture.table("t"), rows), &[]).unwrap();
    let text = "update t set a = a + case when id = $1 then -$3 else $3 end \
                where id in ($1, $2) and (id <> $1 or a >= $3)";
    std::thread::scope(|scope| {
        for thread in 0..4i32 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                let plan = fixture.plan(&client.analyze(text).unwrap());
                for i in 0..150 {
                    let (from, to) = ((i * 3 + thread) % 8, (i * 5 + thread * 2 + 1) % 8);
                    if from == to {
                        continue;
                    }
                    let params = [Value::Int4(from), Value::Int4(to), Value::Int4(i % 9)];
                    client.begin(Isolation::ReadCommitted);
                    let mut progress = client.start(&plan, &params);
                    let moved = loop {
                        match progress {
                            Ok(Progress::Done(answer)) => break answer.count,
                            Ok(Progress::Waits(running, blocker)) => {
                                if client.session.wait(blocker).block(Some(Duration::from_secs(60))).is_err() {
                                    break 0;
                                }
                                progress = client.go_on(*running);
                            }
                            Err(error) => panic!("{error:?}"),
                        }
                    };
                    // A change of only one of the rows would create or destroy money.
                    if moved == 2 { client.commit() } else { client.rollback() }
                }
            });
        }
    });
    let sum = fixture.client().sql("select sum(a), min(a) >= 0 from t").unwrap().1;
    assert_eq!(sum.rows, vec![vec![Value::Int8(800), Value::Bool(true)]]);
    fixture.check_indexes();
}
