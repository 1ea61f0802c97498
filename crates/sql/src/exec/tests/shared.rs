//! Queries that are computed once and kept, with row locks and writes in them: waits in the middle, and how far they
//! are
//! computed.

use std::{fmt::Write as _, time::Duration};

use collie_engine::Isolation;

use super::{
    fixture::{Client, Fixture, Progress, Table},
    tree::int,
};
use crate::types::{SqlType, Value};

const INT: SqlType = SqlType::INT4;

/// A table of rows (1, 10) to (4, 40).
fn fixture() -> Fixture {
    let columns = [("id", INT, true), ("a", INT, false)];
    let fixture =
        Fixture::new(&[Table { name: "t", columns: &columns, primary: &[0], indexes: &[("t_a", false, &[1][..])] }]);
    let rows = (1..=4).map(|id| vec![int(id), int(id * 10)]).collect();
    fixture.client().run(&super::tree::insert(&fixture.table("t"), rows), &[]).unwrap();
    fixture
}

fn begun<'f>(fixture: &'f Fixture) -> Client<'f> {
    let mut client = fixture.client();
    client.begin(Isolation::ReadCommitted);
    client
}

/// Returns the first column of all rows.
fn numbers(rows: &[Vec<Value>]) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_i64().unwrap()).collect()
}

/// Goal: W3, and that a query continues where a wait stopped it, wherever it is in the statement. Method: another
/// session
/// changes and holds row 2; each statement meets it in another place, waits, and then returns what follows from the
/// newest
/// row.
#[test]
fn query_inside_waits_and_goes_on_with_the_newest_row() {
    for (text, expected) in [
        ("select a from (select * from t for update) s order by a", &[10, 21, 30, 40][..]),
        ("with q as (select * from t for update) select a from q order by a", &[10, 21, 30, 40]),
        (
            "with q as (select * from t for share) select x.a + y.a from q x join q y on x.id = y.id where x.id < 3 order by 1",
            &[20, 42],
        ),
        ("select id from t where a - 1 in (select a - 1 from t where id < 3 for update) order by id", &[1]),
        ("select id from t where a + 1 in (select a from t where id < 3 for update)", &[2]),
        ("select (select a from t where id = 2 for share)", &[21]),
        ("select id from t where exists (select 1 from t where id = 2 and a = 20 for update)", &[]),
        ("with q as (select * from t for update) select (select max(a) from q), id from t where id = 1", &[40]),
        (
            "with q as (select * from t for update) select id from t where exists (select 1 from q where q.a = t.a + 1)",
            &[2],
        ),
        ("update t set a = (select a from t where id = 2 for update) where id = 3 returning a", &[21]),
        ("insert into t select id + 10, a from (select * from t where id < 3 for update) s returning a", &[10, 21]),
        ("delete from t where id in (select id from t where id = 2 for update) returning a", &[21]),
    ] {
        let fixture = fixture();
        let (mut holder, mut client) = (begun(&fixture), begun(&fixture));
        let change = fixture.plan(&holder.analyze("update t set a = 21 where id = 2").unwrap());
        assert!(matches!(holder.start(&change, &[]).unwrap(), Progress::Done(_)));
        let plan = fixture.plan(&client.analyze(text).unwrap());
        let Progress::Waits(running, blocker) = client.start(&plan, &[]).unwrap() else { panic!("{text} should wait") };
        let wait = client.session.wait(blocker);
        holder.commit();
        wait.block(Some(Duration::from_secs(60))).unwrap();
        let Progress::Done(answer) = client.go_on(*running).unwrap() else { panic!("nobody else writes") };
        assert_eq!(numbers(&answer.rows), expected, "{text}");
    }
}

/// Goal: W2: a row that is not read is not locked. Method: runs statements that stop reading early, and tries what
/// another
/// session can lock afterwards.
#[test]
fn rows_that_nobody_reads_are_not_locked() {
    let fixture = fixture();
    for (text, free) in [
        ("with q as (select * from t order by id for update) select id from q limit 2", &[3, 4][..]),
        (
            "with q as (select * from t order by id for update) select (select id from q limit 1), (select id from q limit 1 offset 1)",
            &[3, 4],
        ),
        ("select 1 from t where id = 1 and exists (select 1 from t where id > 2 for update)", &[1, 2, 4]),
        ("with q as (select * from t for update) select 1 from t", &[1, 2, 3, 4]),
        ("select id from (select * from t for update) s where id = 4", &[1, 2, 3]),
    ] {
        let mut holder = begun(&fixture);
        holder.sql(text).unwrap();
        let (_, answer) = begun(&fixture).sql("select id from t order by id for update skip locked").unwrap();
        assert_eq!(numbers(&answer.rows), free, "{text}");
        holder.rollback();
    }
}

/// Goal: W4: data-modifying expressions run to their end once, regardless of waits and of how much of them is read, and
/// the
/// indexes follow. Method: another session holds row 2; statements that reach it in a part that is read, in one that is
/// not read, and in the statement itself wait for it; then the table is checked.
#[test]
fn data_modifying_expressions_run_to_their_end_through_waits() {
    for (text, expected, left) in [
        ("with u as (update t set a = a + 1 where id < 4) select id from t where id = 4", &[4][..], [11, 22, 31, 40]),
        ("with u as (update t set a = a + 1 returning a) select a from u limit 1", &[11], [11, 22, 31, 41]),
        (
            "with u as (update t set a = a + 1 where id > 1 returning a) select sum(a)::int4 from u",
            &[94],
            [10, 22, 31, 41],
        ),
        (
            "with u as (update t set a = 0 where id = 1) update t set a = a + 1 returning a",
            &[11, 22, 31, 41],
            [11, 22, 31, 41],
        ),
        (
            "with u as (update t set a = a + 1 where id = 2 returning a) update t set a = u.a from u where t.id = 3 returning t.a",
            &[22],
            [10, 22, 22, 40],
        ),
        (
            "with u as (update t set a = a + 1 where id = 2 returning a), v as (update t set a = 5 where id = 1) select a from t where a in (select a - 12 from u)",
            &[10],
            [5, 22, 30, 40],
        ),
        (
            "with i as (insert into t values (2, 0) on conflict (id) do update set a = t.a + 1 returning a) select a from i",
            &[22],
            [10, 22, 30, 40],
        ),
    ] {
        let fixture = fixture();
        let (mut holder, mut client) = (begun(&fixture), begun(&fixture));
        let change = fixture.plan(&holder.analyze("update t set a = 21 where id = 2").unwrap());
        assert!(matches!(holder.start(&change, &[]).unwrap(), Progress::Done(_)));
        let plan = fixture.plan(&client.analyze(text).unwrap());
        let Progress::Waits(running, blocker) = client.start(&plan, &[]).unwrap() else { panic!("{text} should wait") };
        let wait = client.session.wait(blocker);
        holder.commit();
        wait.block(Some(Duration::from_secs(60))).unwrap();
        let Progress::Done(answer) = client.go_on(*running).unwrap() else { panic!("nobody else writes") };
        assert_eq!(numbers(&answer.rows), expected, "{text}");
        client.commit();
        let (_, table) = fixture.client().sql("select a from t order by id").unwrap();
        assert_eq!(numbers(&table.rows), left, "{text}");
        fixture.check_indexes();
    }
}

/// Goal: W1: a subquery that takes rows from a queue takes them once, although its condition is planned for an index
/// and
/// again for changed rows. Method: the plan has one query to compute ahead, and a concurrent change makes no
/// difference.
#[test]
fn subquery_that_locks_is_computed_once() {
    let fixture = fixture();
    for condition in ["id = ", "id in ", "a / 10 = any "] {
        let text = format!(
            "update t set a = 0 where {condition} (select id from t where a > 0 order by id for update skip locked limit 1) \
             returning id"
        );
        let mut client = begun(&fixture);
        let plan = fixture.plan(&client.analyze(&text).unwrap());
        assert_eq!((plan.ctes.len(), plan.ahead.len()), (1, 1), "{text}");
        let (mut second, mut third) = (begun(&fixture), begun(&fixture));
        for (client, taken) in [(&mut client, 1), (&mut second, 2), (&mut third, 3)] {
            let Progress::Done(answer) = client.start(&plan, &[]).unwrap() else { panic!("nobody waits in a queue") };
            assert_eq!(numbers(&answer.rows), [taken], "{text}");
        }
        [client, second, third].iter_mut().for_each(Client::rollback);
    }
}

/// Goal: a query that cannot wait is refused, not run without its locks. Method: a locking subquery that refers to the
/// outer row.
#[test]
fn correlated_subquery_that_locks_is_refused() {
    let fixture = fixture();
    let client = begun(&fixture);
    let analyzed = client.analyze("select (select a from t u where u.id = t.id for update) from t").unwrap();
    let error = fixture.try_plan(&analyzed).unwrap_err();
    assert_eq!(error.state(), crate::error::SqlState::FEATURE_NOT_SUPPORTED);
}

/// Goal: T45: a query of WITH is visited once, however often it is named. Method: sixty of them, each naming the
/// previous
/// one twice; visiting every reference would take 2^60 steps.
#[test]
fn with_queries_named_twice_are_planned_once() {
    let fixture = fixture();
    let mut text = String::from("with q0 as (select id from t where id = 1 for update)");
    for (n, before) in (1..=60).zip(0..) {
        let _ = write!(text, ", q{n} as (select x.id from q{before} x join q{before} y on x.id = y.id)");
    }
    let (_, answer) =
        begun(&fixture).sql(&format!("{text} select (select id from q60), id from t where id = 1")).unwrap();
    assert_eq!(numbers(&answer.rows), [1]);
}

/// Goal: T45: queries of WITH that name each other in a chain fail with 54001 before the stack overflows. Method:
/// chains
/// within the limit run; longer ones, and shorter ones of deeper queries, are refused, on a stack as small as a test's.
#[test]
fn with_queries_in_a_long_chain_are_refused() {
    let fixture = fixture();
    let chain = |length: usize, body: &dyn Fn(usize) -> String| {
        let mut text = String::from("with q0 as (select 1 as a)");
        for n in 1..=length {
            let _ = write!(text, ", q{n} as ({})", body(n - 1));
        }
        format!("{text} select a from q{length}")
    };
    let plain = |before: usize| format!("select a from q{before}");
    let nested = |before: usize| format!("select (select max(a) from (select a from q{before}) s) as a");
    let (_, answer) = begun(&fixture).sql(&chain(80, &plain)).unwrap();
    assert_eq!(numbers(&answer.rows), [1]);
    for text in [chain(1500, &plain), chain(6000, &plain), chain(200, &nested)] {
        let error = begun(&fixture).sql(&text).unwrap_err();
        assert_eq!(error.state(), crate::error::SqlState::STATEMENT_TOO_COMPLEX);
    }
}

/// Goal: T45: the values of one row are assigned to all columns. Method: the rows come from a queue, which returns
/// another
/// row each time.
#[test]
fn row_assigned_to_several_columns_is_one_row() {
    let fixture = fixture();
    let plan = fixture.plan(&begun(&fixture).analyze(
        "update t set (id, a) = (select u.id + 10, u.a from t u order by u.id for update skip locked limit 1) where id = 4",
    ).unwrap());
    assert_eq!(plan.ctes.iter().filter(|cte| cte.width() == 2).count(), 1, "one query for both columns");
    let mut client = begun(&fixture);
    let Progress::Done(_) = client.start(&plan, &[]).unwrap() else { panic!("nobody waits in a queue") };
    let (_, answer) = client.sql("select id, a from t where id > 10").unwrap();
    assert_eq!(answer.rows, vec![vec![Value::Int4(11), Value::Int4(10)]]);
}
