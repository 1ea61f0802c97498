//! INSERT, UPDATE, DELETE: constraints, index entries, keys that change, RETURNING.

use super::{
    fixture::{Fixture, Table},
    tree::{col, delete, int, null, op, param, query, range, select, text, update},
};
use crate::{
    analyze::bound::{Bound, Expr},
    error::SqlState,
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

fn accounts() -> Fixture {
    Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, true), ("a", INT, false), ("b", SqlType::TEXT, false)],
        primary: &[0],
        indexes: &[("t_a_key", true, &[1]), ("t_b_idx", false, &[2, 1])],
    }])
}

fn row(id: i32, a: Expr, b: &str) -> Vec<Expr> {
    vec![int(id), a, text(b)]
}

/// Returns all rows by id.
fn all(fixture: &Fixture) -> Vec<(i32, Option<i32>, String)> {
    let t = fixture.table("t");
    let targets = vec![col(0, 0, INT), col(0, 1, INT), col(0, 2, SqlType::TEXT)];
    let statement = query(select(vec![range(&t)], None, targets));
    let mut client = fixture.client();
    let rows = client.run(&statement, &[]).unwrap().rows;
    rows.iter()
        .map(|row| (row[0].as_i32().unwrap(), row[1].as_i32(), row[2].as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn insert(fixture: &Fixture, rows: Vec<Vec<Expr>>) -> crate::error::Result<super::fixture::Answer> {
    fixture.client().run(&super::tree::insert(&fixture.table("t"), rows), &[])
}

/// Goal: duplicates of a primary key and of a unique index are refused with PostgreSQL's texts; NULLs are distinct.
/// Method: inserts equal keys, checks each part of the error; then inserts two NULLs.
#[test]
fn a_key_that_exists_is_23505_and_nulls_never_are() {
    let fixture = accounts();
    assert_eq!(insert(&fixture, vec![row(1, int(10), "x"), row(2, int(20), "y")]).unwrap().count, 2);
    let error = insert(&fixture, vec![row(1, int(30), "z")]).unwrap_err();
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(error.report().message, "duplicate key value violates unique constraint \"t_pkey\"");
    assert_eq!(error.report().detail.as_deref(), Some("Key (id)=(1) already exists."));
    assert_eq!(error.report().schema.as_deref(), Some("public"));
    let error = insert(&fixture, vec![row(7, int(70), "z"), row(7, int(71), "z")]).unwrap_err();
    assert_eq!(error.report().detail.as_deref(), Some("Key (id)=(7) already exists."));
    let error = insert(&fixture, vec![row(3, int(20), "z")]).unwrap_err();
    assert_eq!(error.report().detail.as_deref(), Some("Key (a)=(20) already exists."));
    assert_eq!(insert(&fixture, vec![row(4, null(INT), "n"), row(5, null(INT), "n")]).unwrap().count, 2);
    assert_eq!(all(&fixture).len(), 4);
    fixture.check_indexes();
}

/// Goal: NOT NULL and CHECK are checked before anything is written. Method: NULL in the key; a CHECK that fails, one
/// that
/// is unknown.
#[test]
fn not_null_and_check_refuse_rows_and_unknown_passes() {
    let fixture = accounts();
    let t = fixture.table("t");
    let error = insert(&fixture, vec![vec![null(INT), int(1), text("x")]]).unwrap_err();
    assert_eq!(error.state(), SqlState::NOT_NULL_VIOLATION);
    assert_eq!(error.report().message, "null value in column \"id\" of relation \"t\" violates not-null constraint");
    assert_eq!(error.report().detail.as_deref(), Some("Failing row contains (null, 1, x)."));
    let checked = |a: Expr| {
        let mut statement = super::tree::insert(&t, vec![row(1, a, "x")]);
        if let Bound::Insert(insert) = &mut statement.bound {
            insert.checks = vec![("t_a_check".to_owned(), op(">", col(0, 1, INT), int(0)))];
        }
        fixture.client().run(&statement, &[])
    };
    let error = checked(int(-1)).unwrap_err();
    assert_eq!(error.report().message, "new row for relation \"t\" violates check constraint \"t_a_check\"");
    assert_eq!(error.report().detail.as_deref(), Some("Failing row contains (1, -1, x)."));
    checked(null(INT)).unwrap();
    fixture.check_indexes();
}

/// Goal: an UPDATE moves entries, and the row itself if its key changes; a statement does not see its own writes.
/// Method:
/// shifts every key up by one (each takes the place of the next one), then checks rows and entries.
#[test]
fn shifting_every_primary_key_by_one_works_in_either_direction_of_the_scan() {
    let fixture = accounts();
    let t = fixture.table("t");
    insert(&fixture, (1..=20).map(|id| row(id, int(id * 10), "x")).collect()).unwrap();
    let down = update(&t, vec![(0, op("-", col(0, 0, INT), int(1)))], None);
    assert_eq!(fixture.client().run(&down, &[]).unwrap().count, 20);
    let rows = all(&fixture);
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.1 == Some((row.0 + 1) * 10)));
    fixture.check_indexes();
    let up = update(&t, vec![(0, op("+", col(0, 0, INT), int(1)))], None);
    assert_eq!(fixture.client().run(&up, &[]).unwrap_err().state(), SqlState::UNIQUE_VIOLATION);
    fixture.check_indexes();
}

/// Goal: RETURNING shows new rows (INSERT, UPDATE) and old rows (DELETE). Method: one of each.
#[test]
fn returning_shows_the_new_row_and_for_delete_the_old_one() {
    let fixture = accounts();
    let t = fixture.table("t");
    insert(&fixture, vec![row(1, int(10), "x"), row(2, int(20), "y")]).unwrap();
    let mut change = update(&t, vec![(1, op("+", col(0, 1, INT), int(5)))], Some(op("=", col(0, 0, INT), int(2))));
    if let Bound::Update(update) = &mut change.bound {
        update.returning = vec![col(0, 1, INT)];
    }
    assert_eq!(fixture.client().run(&change, &[]).unwrap().rows, vec![vec![Value::Int4(25)]]);
    let mut remove = delete(&t, Some(op("=", col(0, 1, INT), int(25))));
    if let Bound::Delete(delete) = &mut remove.bound {
        delete.returning = vec![col(0, 2, SqlType::TEXT)];
    }
    assert_eq!(fixture.client().run(&remove, &[]).unwrap().rows, vec![vec![Value::text("y")]]);
    assert_eq!(all(&fixture), vec![(1, Some(10), "x".to_owned())]);
    fixture.check_indexes();
}

/// Goal: INSERT ... SELECT from the same table ends. Method: doubles a table, twice.
#[test]
fn insert_from_the_same_table_reads_only_what_was_there_before() {
    let fixture = Fixture::new(&[Table { name: "t", columns: &[("a", INT, false)], primary: &[], indexes: &[] }]);
    let t = fixture.table("t");
    let mut client = fixture.client();
    client.run(&super::tree::insert(&t, (0..300).map(|i| vec![int(i)]).collect()), &[]).unwrap();
    let mut twice = super::tree::insert(&t, Vec::new());
    if let Bound::Insert(insert) = &mut twice.bound {
        insert.source = match query(select(vec![range(&t)], None, vec![col(0, 0, INT)])).bound {
            Bound::Query(query) => query,
            _ => unreachable!("a query was made"),
        };
    }
    assert_eq!(client.run(&twice, &[]).unwrap().count, 300);
    assert_eq!(client.run(&twice, &[]).unwrap().count, 600);
}

/// Goal: one plan runs with many parameters, and an execution can be reset. Method: point updates and reads by key.
#[test]
fn a_prepared_update_and_select_run_again_with_other_parameters() {
    let fixture = accounts();
    let t = fixture.table("t");
    insert(&fixture, (1..=5).map(|id| row(id, int(id), "x")).collect()).unwrap();
    let by_key = || Some(op("=", col(0, 0, INT), param(1, INT)));
    let add = update(&t, vec![(1, op("+", col(0, 1, INT), param(0, INT)))], by_key());
    let mut client = fixture.client();
    for id in 1..=5 {
        assert_eq!(client.run(&add, &[Value::Int4(100), Value::Int4(id)]).unwrap().count, 1);
    }
    assert_eq!(client.run(&add, &[Value::Int4(100), Value::Null]).unwrap().count, 0);
    let read = query(select(vec![range(&t)], Some(op("=", col(0, 0, INT), param(0, INT))), vec![col(0, 1, INT)]));
    let plan = fixture.plan(&read);
    assert_eq!(crate::plan::explain(&plan), ["Index Scan using t_pkey on t  (rows=1)", "  Index Cond: (id = $1)"]);
    assert_eq!(client.run(&read, &[Value::Int4(3)]).unwrap().rows, vec![vec![Value::Int4(103)]]);
    fixture.check_indexes();
}

/// Goal: UPDATE ... FROM and DELETE ... USING join; a target that the join returns twice is written once; defaults and
/// subqueries work. Method: runs statements as text, and compares the count of each and the rows afterwards.
#[test]
fn joined_updates_and_deletes_write_each_target_once() {
    let fixture = Fixture::new(&[
        Table {
            name: "t",
            columns: &[("id", INT, true), ("a", INT, false), ("b", SqlType::TEXT, false)],
            primary: &[0],
            indexes: &[("t_a_key", true, &[1]), ("t_b_idx", false, &[2, 1])],
        },
        Table {
            name: "s",
            columns: &[("t_id", INT, false), ("d", INT, false)],
            primary: &[],
            indexes: &[("s_idx", false, &[0])],
        },
    ]);
    let mut client = fixture.client();
    for (text, count) in [
        ("insert into t (id, b, a) values (1, 'x', 10), (2, 'y', 20), (3, 'z', 30)", 3),
        ("insert into t (id) values (4)", 1),
        ("insert into s values (1, 100), (2, 200), (2, 300), (9, 900)", 4),
        ("update t set a = t.a + 1, b = 'joined' from s where s.t_id = t.id", 2),
        ("update t set a = (select max(d) from s where s.t_id = t.id) where id = 1", 1),
        ("delete from t using s where s.t_id = t.id and s.d > 150", 1),
        ("update t set (a, b) = (7, 'both') where id = 3", 1),
        ("delete from s where t_id in (select id from t)", 1),
        ("update t set a = id where a is null", 1),
    ] {
        assert_eq!(client.sql(text).unwrap().1.count, count, "{text}");
        fixture.check_indexes();
    }
    let rows = all(&fixture);
    assert_eq!(
        rows.iter().map(|(id, a, b)| (*id, a.unwrap_or(-1), b.as_str())).collect::<Vec<_>>(),
        vec![(1, 100, "joined"), (3, 7, "both"), (4, 4, "")]
    );
}
