//! Queries as text, with the answers of PostgreSQL 15 in `query.cases` and `random.cases`; each runs with all indexes
//! and
//! without any.
//!
//! A case is a line of SQL followed by its rows, indented, as psql prints them unaligned. The rows of a case that does
//! not
//! end with ORDER BY may come in any order.

use proptest::{prelude::*, test_runner::TestRunner};

use super::fixture::{Client, DESC, Fixture, Table};
use crate::{
    error::SqlState,
    types::{SqlType, TextContext, Value, io},
};

const INT: SqlType = SqlType::INT4;
/// Handwritten cases, and generated cases of joins, conditions and groups.
const CASES: [&str; 2] = [include_str!("query.cases"), include_str!("random.cases")];

fn tables(indexed: bool) -> Fixture {
    let some = |indexes: &'static [(&'static str, bool, &'static [usize])]| if indexed { indexes } else { &[] };
    let key = |places: &'static [usize]| if indexed { places } else { &[] };
    let fixture = Fixture::new(&[
        Table {
            name: "t",
            columns: &[
                ("id", INT, true),
                ("a", INT, false),
                ("b", SqlType::TEXT, false),
                ("n", SqlType::with_typmod(crate::types::oid::NUMERIC, (10 << 16 | 2) + 4), false),
            ],
            primary: key(&[0]),
            indexes: some(&[("t_a_idx", false, &[1])]),
        },
        Table {
            name: "u",
            columns: &[
                ("id", SqlType::INT8, true),
                ("t_id", INT, false),
                ("name", SqlType::with_typmod(crate::types::oid::VARCHAR, 24), false),
            ],
            primary: key(&[0]),
            indexes: some(&[("u_t_idx", false, &[1])]),
        },
        Table {
            name: "k",
            columns: &[("x", INT, true), ("y", INT, true), ("z", INT, false)],
            primary: key(&[0, 1]),
            indexes: some(&[("k_z_idx", false, &[2 + DESC, 0])]),
        },
        Table { name: "e", columns: &[("v", SqlType::TEXT, false)], primary: &[], indexes: &[] },
    ]);
    let mut client = fixture.client();
    for text in [
        "insert into t values (1, 10, 'one', 1.50), (2, 20, 'two', 2.25), (3, null, 'three', null), \
         (4, 40, null, 4.00), (5, 20, 'five', -5.00), (6, 10, 'six', 6.10)",
        "insert into u values (101, 1, 'x'), (102, 1, 'y'), (103, 2, 'z'), (104, null, 'w'), (105, 9, 'v'), (106, 5, 'x')",
        "insert into k values (1, 1, 5), (1, 2, 4), (1, 3, 3), (2, 1, 2), (2, 2, null), (3, 1, 5)",
        "insert into k select 10 + i / 10, i % 10, i from generate_series(0, 299) as g(i)",
    ] {
        client.sql(text).unwrap();
    }
    drop(client);
    fixture.check_indexes();
    fixture
}

/// Runs a query and prints its rows as psql does.
fn rows(client: &mut Client<'_>, text: &str) -> crate::error::Result<Vec<String>> {
    let (analyzed, answer) = client.sql(text)?;
    let context = TextContext::default();
    let print = |row: &Vec<Value>| {
        let fields: Vec<String> = row
            .iter()
            .zip(&analyzed.columns)
            .map(|(value, column)| {
                let mut out = Vec::new();
                match value {
                    Value::Null => out.extend_from_slice(b"NULL"),
                    value => io::text_out(value, column.ty.oid, &context, &mut out),
                }
                String::from_utf8(out).unwrap()
            })
            .collect();
        fields.join("|")
    };
    Ok(answer.rows.iter().map(print).collect())
}

fn check_all(indexed: bool) {
    let fixture = tables(indexed);
    let mut client = fixture.client();
    let mut wrong = Vec::new();
    for case in CASES.iter().flat_map(|cases| cases.split("\n\n")) {
        let mut lines = case.lines();
        let Some(text) = lines.next() else { continue };
        let mut expected: Vec<String> = lines.map(|line| line.trim_start().to_owned()).collect();
        match rows(&mut client, text) {
            Ok(mut found) => {
                if !text.contains("order by") {
                    expected.sort();
                    found.sort();
                }
                if found != expected {
                    wrong.push(format!("{text}\n  expected {expected:?}\n  found    {found:?}"));
                }
            }
            Err(error) => wrong.push(format!("{text}\n  {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Goal: answers with index paths are PostgreSQL's. Method: runs every case over tables with all indexes.
#[test]
fn queries_answer_as_postgresql_does_with_indexes() {
    check_all(true);
}

/// Goal: a plan never changes a result. Method: runs the same cases over tables without any key or index.
#[test]
fn queries_answer_the_same_without_any_index() {
    check_all(false);
}

/// One comparison as text, over columns x and y (keys) and z (NULLs, indexed descending).
fn comparison() -> impl Strategy<Value = String> {
    let column = prop_oneof![Just("x"), Just("y"), Just("z")];
    let sign = prop_oneof![Just("="), Just("<"), Just("<="), Just(">"), Just(">="), Just("<>")];
    prop_oneof![
        6 => (column.clone(), sign, -1..45i64).prop_map(|(column, sign, value)| format!("{column} {sign} {value}")),
        1 => (column.clone(), 0..40i32, 0..9i32).prop_map(|(column, low, more)| {
            format!("{column} between {low} and {}", low + more)
        }),
        1 => (column.clone(), 0..40i32, 0..40i32).prop_map(|(column, a, b)| format!("{column} in ({a}, {b}, null)")),
        1 => column.clone().prop_map(|column| format!("{column} is null")),
        1 => (column, 0..40i32, 0..40i32).prop_map(|(column, a, b)| format!("{column} = any(array[{a}, {b}, {a}])")),
        1 => (0..40i32, 0..10i32).prop_map(|(x, y)| format!("(x, y) in (({x}, {y}), ({y}, {x}), (1, 2))")),
        1 => (0..40i32).prop_map(|x| format!("x = {x}::int8 + 0")),
    ]
}

fn statement() -> impl Strategy<Value = String> {
    let terms = proptest::collection::vec(comparison(), 0..4);
    let order = prop_oneof![
        Just("x, y"),
        Just("x desc, y desc"),
        Just("z desc, x, y"),
        Just("z, x desc, y"),
        Just("z desc nulls last, x, y"),
        Just("y, x"),
    ];
    (terms, order, proptest::option::of((0..20u32, 0..5u32)), any::<bool>()).prop_map(|(terms, order, limit, or)| {
        let mut text = "select x, y, z from k".to_owned();
        if !terms.is_empty() {
            text += &format!(" where {}", terms.join(if or { " or " } else { " and " }));
        }
        text += &format!(" order by {order}");
        if let Some((limit, offset)) = limit {
            text += &format!(" limit {limit} offset {offset}");
        }
        text
    })
}

/// Goal: key ranges, directions and orders of every index path are right. Method: compares random conditions, orders
/// and
/// limits over the same rows with and without indexes.
#[test]
fn random_conditions_give_the_same_rows_with_and_without_indexes() {
    let (with, without) = (tables(true), tables(false));
    let mut runner = TestRunner::new(ProptestConfig { cases: 400, ..ProptestConfig::default() });
    let outcome = runner.run(&statement(), |text| {
        let expected = rows(&mut without.client(), &text).unwrap();
        prop_assert_eq!(rows(&mut with.client(), &text).unwrap(), expected, "{}", text);
        Ok(())
    });
    outcome.unwrap();
}

/// Goal: a statement that analysis accepts does not overflow the stack. Method: runs each kind of nesting near its
/// limit
/// on a thread with a stack of 2 MiB, as server threads have.
#[test]
fn the_deepest_statements_run_on_a_small_stack() {
    let nest = |depth: usize, inner: &str, around: fn(&str) -> String| {
        (0..depth).fold(inner.to_owned(), |text, _| around(&text))
    };
    let statements = [
        format!("select id{} from t where id = 1", " + 1".repeat(490)),
        nest(490, "id", |inner| format!("abs({inner})")),
        nest(490, "id", |inner| format!("case when id = 1 then {inner} else 0 end")),
        nest(240, "select id from t where id = 1", |inner| format!("select ({inner})")),
        nest(240, "select id from t where id = 1", |inner| format!("select * from ({inner}) x")),
        nest(240, "select id from t where id = 1", |inner| {
            format!("select id from t where id = 1 and exists ({inner})")
        }),
        format!("select 1{}", " union select 1".repeat(490)),
    ];
    let body = move || {
        let fixture = tables(true);
        let mut client = fixture.client();
        for text in statements {
            let text = if text.starts_with("select") { text } else { format!("select {text} from t where id = 1") };
            match rows(&mut client, &text) {
                Ok(rows) => assert_eq!(rows.len(), 1),
                Err(error) => assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX),
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(body).unwrap().join().unwrap();
}

/// Goal: system tables are read, looked up and joined. Method: compares queries as text with PostgreSQL's rows.
#[test]
fn system_tables_are_scanned_looked_up_and_joined() {
    let mut fixture = tables(true);
    fixture.add_virtual();
    let mut client = fixture.client();
    for (text, expected) in [
        ("select name from v where n = 3", vec!["name 3"]),
        ("select name from v where n = null", vec![]),
        ("select v.n, t.b from v join t on t.id = v.n where v.n > 1 order by 1", vec!["2|two", "3|three", "4|NULL"]),
        (
            "select t.id, v.name from t left join v on v.n = t.id where t.id > 3 order by 1",
            vec!["4|name 4", "5|NULL", "6|NULL"],
        ),
        ("select (select name from v where v.n = t.id) from t where id = 2", vec!["name 2"]),
    ] {
        assert_eq!(rows(&mut client, text).unwrap(), expected, "{text}");
    }
}

/// Goal: run-time errors carry PostgreSQL's code. Method: runs a table of statements.
#[test]
fn failing_queries_fail_with_postgresqls_code() {
    let fixture = tables(true);
    let mut client = fixture.client();
    for (text, state) in [
        ("select 1 / (id - 1) from t", SqlState::DIVISION_BY_ZERO),
        ("select (select id from t)", SqlState::CARDINALITY_VIOLATION),
        ("select id from t limit -1", SqlState::INVALID_ROW_COUNT_IN_LIMIT),
        ("select id from t offset -1", SqlState::INVALID_ROW_COUNT_IN_OFFSET),
        ("select 2147483647 + id from t", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ] {
        assert_eq!(rows(&mut client, text).unwrap_err().state(), state, "{text}");
    }
}

/// Goal: access paths are the expected ones. Method: compares EXPLAIN's lines for typical statements.
#[test]
fn explain_shows_the_access_paths_that_were_chosen() {
    let fixture = tables(true);
    for (text, expected) in [
        ("select b from t where id = 1", vec!["Index Scan using t_pkey on t"]),
        ("select b from t where id + 0 = 1", vec!["Seq Scan on t"]),
        ("select x from k where x = 1 order by y desc limit 1", vec!["Limit", "Index Scan Backward using k_pkey on k"]),
        ("select id from t where a = 20", vec!["Index Scan using t_a_idx on t"]),
        (
            "select t.id from u join t on t.id = u.t_id where u.id = 101",
            vec!["Nested Loop", "Index Scan using u_pkey on u", "Index Scan using t_pkey on t"],
        ),
        (
            "select count(*) from t, u where t.id = u.t_id",
            vec!["Aggregate", "Hash Join", "Seq Scan on t", "Hash", "Seq Scan on u"],
        ),
        ("select id from t order by b limit 1", vec!["Limit", "Sort", "Seq Scan on t"]),
        (
            "select b from t where id in (select t_id from u where id > 104)",
            vec!["Index Scan using t_pkey on t", "Index Scan using u_pkey on u"],
        ),
        ("update t set b = 'x' where id = 1", vec!["Update on t", "Index Scan using t_pkey on t"]),
    ] {
        let lines: Vec<String> = fixture
            .client()
            .explain(text)
            .iter()
            .map(|line| line.trim_start().trim_start_matches("->").trim_start().to_owned())
            .filter(|line| line.contains("(rows="))
            .map(|line| line.split("  (rows=").next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(lines, expected, "{text}");
    }
}
