//! Indexes on expressions and partial indexes: their entries, the reads that use them, and the errors they cause.

use std::{sync::Arc, time::Duration};

use collie_engine::Isolation;
use proptest::prelude::*;

use super::{
    fixture::{Fixture, Progress, Table},
    steps::{build, build_index},
};
use crate::{
    analyze::{self, AnalyzeContext},
    catalog::{
        record::{key_column, key_expression},
        relation::{Index, IndexColumn, KeyExpression, KeyPart},
        snapshot::PUBLIC,
    },
    error::SqlState,
    parse::{
        self,
        ast::{IndexKey, Stmt},
    },
    types::{SqlType, TextContext, Value},
};

/// Creates a table `t (id, a, b)` with or without a primary key, and without rows.
fn table(primary: &'static [usize]) -> Fixture {
    let columns = [("id", SqlType::INT4, true), ("a", SqlType::INT4, false), ("b", SqlType::TEXT, false)];
    Fixture::new(&[Table { name: "t", columns: &columns, primary, indexes: &[("t_a", false, &[1])] }])
}

/// Adds the index of a CREATE INDEX on `t` to the catalog and fills it.
fn create(fixture: &mut Fixture, text: &str) {
    let statements = parse::statements(text).unwrap();
    let [Stmt::CreateIndex(create)] = &statements.iter().map(|it| it.stmt.clone()).collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let table = fixture.table("t");
    let cx = AnalyzeContext {
        catalog: &fixture.catalog,
        search_path: &[PUBLIC],
        parameter_types: &[],
        parameters_allowed: false,
        text: &TextContext::default(),
        database: "test",
    };
    let text_of = |expr: &_| Arc::<str>::from(analyze::text_over(expr, &table, 0).unwrap());
    let column = |key: &IndexKey| match key {
        IndexKey::Column(name) => {
            let (place, column) = table.column(name).unwrap();
            IndexColumn { part: KeyPart::Column(place), key: key_column(column, false, false) }
        }
        IndexKey::Expression(expr) => {
            let bound = analyze::index_expression(expr, &table, &cx).unwrap();
            let expression = KeyExpression { name: "expr".into(), text: text_of(&bound), ty: bound.ty() };
            let key = key_expression(bound.ty(), false, false);
            IndexColumn { part: KeyPart::Expression(Arc::new(expression)), key }
        }
    };
    let filter = create.filter.as_ref().map(|filter| analyze::index_predicate(filter, &table, &cx).unwrap());
    let index = Arc::new(Index {
        oid: table.indexes.iter().map(|index| index.oid).max().unwrap() + 1,
        name: create.name.as_deref().unwrap().into(),
        cf: fixture.db.create_family(),
        unique: create.unique,
        primary: false,
        constraint: None,
        columns: create.elements.iter().map(|element| column(&element.key)).collect(),
        predicate: filter.iter().flat_map(analyze::terms).map(text_of).collect(),
        included: Vec::new(),
    });
    build(fixture, |cx| build_index(cx, &table, &index)).unwrap();
    let mut changed = (*table).clone();
    changed.indexes.push(index);
    Arc::make_mut(&mut fixture.catalog).put_relation(Arc::new(changed));
}

fn rows(fixture: &Fixture, text: &str) -> Vec<Vec<Value>> {
    fixture.client().sql(text).unwrap_or_else(|error| panic!("{text}: {error}")).1.rows
}

/// Returns the index that the plan of a query of one table uses.
fn index_of(fixture: &Fixture, text: &str) -> Option<String> {
    let lines = fixture.client().explain(text);
    lines.iter().find_map(|line| line.split_once(" using ")?.1.split(' ').next().map(str::to_owned))
}

/// Queries that an index can answer, each with an equivalent query that no index can answer.
const ASKED_TWICE: [(&str, &str); 6] = [
    ("lower(b) = 'x'", "lower(b) || '' = 'x'"),
    ("lower(b) > 'w' and lower(b) <= 'y'", "lower(b) || '' > 'w' and lower(b) || '' <= 'y'"),
    ("a % 7 = 3 and a > 100", "a % 7 + 0 = 3 and a + 0 > 100"),
    ("a % 7 in (1, 2, 3) and a > 100", "a % 7 + 0 in (1, 2, 3) and a + 0 > 100"),
    ("a = 104 and b is not null", "a + 0 = 104 and b || '' is not null"),
    ("a > 3 and lower(b) <> 'x' and b > 'a'", "a + 0 > 3 and lower(b) || '' <> 'x' and b || '' > 'a'"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Goal: after any writes an index holds what filling it again would give (N1, N2), and reads that use it return
    /// what
    /// other reads do. Method: runs random statements, some of which fail; compares the entries with those of a fresh
    /// build,
    /// and queries with equivalent ones that no index answers.
    #[test]
    fn entries_and_reads_stay_right_under_random_writes(
        keyed: bool,
        writes in proptest::collection::vec((0_usize..9, 0_i32..9, 98_i32..112, "[wxyXY]?"), 1..40),
    ) {
        let mut fixture = table(if keyed { &[0] } else { &[] });
        for index in [
            "create index t_lower on t (lower(b))",
            "create index t_some on t (a) where b is not null",
            "create unique index t_rest on t ((a % 7)) where a > 100",
        ] {
            create(&mut fixture, index);
        }
        for (kind, id, a, b) in writes {
            let b = if b.is_empty() { "null".to_owned() } else { format!("'{b}'") };
            let conflict = "on conflict ((a % 7)) where a > 100";
            let text = match kind {
                0 | 1 => format!("insert into t values ({id}, {a}, {b})"),
                2 => format!("insert into t values ({id}, {a}, {b}) on conflict do nothing"),
                3 => format!("insert into t values ({id}, {a}, {b}) {conflict} do update set b = excluded.b, a = t.a - 1"),
                4 => format!("update t set a = {a} where id = {id}"),
                5 => format!("update t set b = {b} where id = {id}"),
                6 => format!("update t set id = id + 10, b = {b} where a = {a}"),
                7 => format!("update t set a = a + 1, b = upper(b) where lower(b) = lower({b})"),
                _ => format!("delete from t where id = {id}"),
            };
            if let Err(error) = fixture.client().sql(&text) {
                prop_assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION, "{}: {}", text, error);
            }
        }
        fixture.check_indexes();
        for (by_index, without) in ASKED_TWICE {
            let query = |condition: &str| format!("select id, a, b from t where {condition} order by id, a, b");
            prop_assert_eq!(rows(&fixture, &query(by_index)), rows(&fixture, &query(without)), "{}", by_index);
        }
        let (sorted, without) = ("select lower(b) from t order by lower(b)", "select lower(b) from t order by lower(b) || ''");
        prop_assert_eq!(rows(&fixture, sorted), rows(&fixture, without));
    }
}

/// Goal: an index is used where it can answer a query, and a partial one only if its predicate follows from the query.
/// Method: compares the index that EXPLAIN names for each query.
#[test]
fn index_is_read_where_its_predicate_follows() {
    let mut fixture = table(&[0]);
    create(&mut fixture, "create index t_lower on t (lower(b))");
    create(&mut fixture, "create index t_some on t (a) where b is not null and id > 5");
    let both = |text: &str| format!("select * from t where {text}");
    for (condition, expected) in [
        ("lower(b) = 'x'", Some("t_lower")),
        ("'x' = lower(t.b)", Some("t_lower")),
        ("lower(b) in ('x', 'y')", Some("t_lower")),
        ("lower(b) >= 'x'", Some("t_lower")),
        ("upper(b) = 'x'", None),
        ("lower(b || '') = 'x'", None),
        ("lower(b) is null", None),
        ("a = 1", Some("t_a")),
        ("a = 1 and b is not null", Some("t_a")),
        ("a = 1 and b is not null and id > 5", Some("t_some")),
        ("id > 5 and b = 'y' and a = 1", Some("t_some")),
        ("id > 5 and b <> 'y' and a = 1", Some("t_some")),
        ("id > 5 and b in ('x', 'y') and a = 1", Some("t_some")),
        ("id > 5 and upper(b) || 'z' < 'y' and a = 1", Some("t_some")),
        ("id > 5 and not (b = 'y') and a = 1", Some("t_some")),
        ("id > 5 and b = any (array['x']) and a = 1", Some("t_some")),
        ("id > 5 and not (b = any (array[]::text[])) and a = 1", Some("t_a")),
        ("id > 5 and coalesce(b, 'y') = 'y' and a = 1", Some("t_a")),
        ("id > 5 and b is null and a = 1", Some("t_a")),
        ("id > 5 and (b is not null or a = 2) and a = 1", Some("t_a")),
        ("id > 6 and b is not null and a = 1", Some("t_a")),
        ("id > 5 and (b, a) = ('y', 1)", Some("t_some")),
    ] {
        let found = index_of(&fixture, &both(condition));
        assert_eq!(found.as_deref(), expected, "{condition}");
    }
    assert_eq!(index_of(&fixture, "select 1 from t order by lower(b) limit 3").as_deref(), Some("t_lower"));
    let outer = "select 1 from t o where exists (select 1 from t i where lower(o.b) = 'x' and i.id = o.id)";
    assert_ne!(index_of(&fixture, outer).as_deref(), Some("t_lower"), "the column of another level is another one");
}

/// Goal: ON CONFLICT finds its index by expression and by predicate, and none if none fits. Method: tries each form.
#[test]
fn conflicts_are_found_by_expression_and_by_predicate() {
    let mut fixture = table(&[]);
    create(&mut fixture, "create unique index t_lower on t (lower(b)) where a > 0");
    let run = |text: &str| fixture.client().sql(text).map(|(_, answer)| answer.count);
    let update = "do update set id = t.id + excluded.id";
    assert_eq!(
        run(&format!("insert into t values (1, 1, 'X') on conflict (lower(b)) where a > 0 {update}")).unwrap(),
        1
    );
    assert_eq!(
        run(&format!("insert into t values (1, 1, 'x') on conflict (lower(b)) where a > 0 {update}")).unwrap(),
        1
    );
    assert_eq!(run("insert into t values (5, 0, 'x') on conflict (lower(b)) where a > 0 do nothing").unwrap(), 1);
    assert_eq!(run("insert into t values (5, 2, 'x') on conflict do nothing").unwrap(), 0);
    assert_eq!(run("insert into t values (7, 9, null) on conflict (lower(b)) where a > 0 do nothing").unwrap(), 1);
    let found = rows(&fixture, "select id, a, b from t order by id");
    assert_eq!(found.iter().map(|row| row[0].as_i32().unwrap()).collect::<Vec<_>>(), [2, 5, 7]);
    for target in ["(lower(b))", "(upper(b)) where a > 0", "(b) where a > 0", "(lower(b), a) where a > 0"] {
        let text = format!("insert into t values (1, 1, 'x') on conflict {target} do nothing");
        let error = fixture.try_plan(&fixture.client().analyze(&text).unwrap()).unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_COLUMN_REFERENCE, "{target}");
    }
    let error = run("insert into t values (9, 9, 'X')").unwrap_err();
    assert_eq!(error.report().detail.as_deref(), Some("Key (lower(b))=(x) already exists."));
    // A row that leaves the index frees its key; a row that enters it needs the key.
    assert_eq!(run("update t set a = 0 where id = 2").unwrap(), 1);
    assert_eq!(run("update t set a = 3 where id = 5").unwrap(), 1);
    assert_eq!(run("update t set a = 3 where id = 2").unwrap_err().state(), SqlState::UNIQUE_VIOLATION);
    fixture.check_indexes();
}

/// Goal: an expression that fails refuses the row and leaves nothing of it, and is not evaluated for rows that the
/// predicate excludes. Method: divides by a column that is 0.
#[test]
fn expression_that_fails_refuses_the_statement() {
    let mut fixture = table(&[0]);
    fixture.client().sql("insert into t values (1, 5, 'x'), (2, 0, 'y')").unwrap();
    create(&mut fixture, "create index t_safe on t ((100 / a)) where a <> 0");
    fixture.client().sql("insert into t values (3, 0, 'z')").unwrap();
    fixture.client().sql("delete from t where a = 0").unwrap();
    create(&mut fixture, "create index t_div on t ((100 / a))");
    for text in ["insert into t values (4, 7, 'x'), (5, 0, 'x')", "update t set a = a - 5"] {
        assert_eq!(fixture.client().sql(text).unwrap_err().state(), SqlState::DIVISION_BY_ZERO, "{text}");
    }
    // A row that is not inserted needs no key in an index that is not an arbiter.
    fixture.client().sql("insert into t values (1, 0, 'x') on conflict do nothing").unwrap();
    assert_eq!(rows(&fixture, "select id from t").len(), 1);
    fixture.check_indexes();
}

/// Goal: an index cannot depend on anything but the row. Method: tries expressions that may be used and others that may
/// not.
#[test]
fn expressions_that_depend_on_more_than_the_row_are_told_apart() {
    let fixture = table(&[0]);
    let table = fixture.table("t");
    let cx = AnalyzeContext {
        catalog: &fixture.catalog,
        search_path: &[PUBLIC],
        parameter_types: &[],
        parameters_allowed: false,
        text: &TextContext::default(),
        database: "test",
    };
    for (text, mutable) in [
        ("lower(b) || 'x'", false),
        ("a::text", false),
        ("b::int", false),
        ("a + extract(day from date '2020-02-03')", false),
        ("case when a in (1, 2) then coalesce(b, 'x') end", false),
        ("random()", true),
        ("a > extract(year from now())", true),
        ("b::date", true),
        ("('2020-01-01'::date + a)::text", true),
        ("('2020-01-01'::date + a)::timestamp", false),
        ("('2020-01-01'::date + a)::timestamptz", true),
        ("current_user = b", true),
        ("a < 3 and b = current_date::text", true),
    ] {
        let statements = parse::statements(&format!("create index on t (({text}))")).unwrap();
        let Stmt::CreateIndex(create) = &statements[0].stmt else { panic!("{text}") };
        let IndexKey::Expression(expr) = &create.elements[0].key else { panic!("{text}") };
        let bound = analyze::index_expression(expr, &table, &cx).unwrap();
        assert_eq!(analyze::is_mutable(&bound), mutable, "{text}");
    }
}

/// Goal: the key of a row that is leaving a partial index is neither taken nor free until the outcome is known. Method:
/// one session moves the row out and holds it, another inserts its key, or names it in ON CONFLICT; then the first one
/// commits or rolls back.
#[test]
fn key_of_a_row_that_leaves_is_waited_for() {
    for (text, left, stayed) in [
        ("insert into t values (2, 1, 'X')", Ok(1), Err(SqlState::UNIQUE_VIOLATION)),
        ("insert into t values (2, 1, 'X') on conflict do nothing", Ok(1), Ok(0)),
        ("insert into t values (2, 1, 'X') on conflict (lower(b)) where a > 0 do update set a = 7", Ok(1), Ok(1)),
    ] {
        for commit in [true, false] {
            let mut fixture = table(&[0]);
            fixture.client().sql("insert into t values (1, 1, 'x')").unwrap();
            create(&mut fixture, "create unique index t_live on t (lower(b)) where a > 0");
            let (mut first, mut second) = (fixture.client(), fixture.client());
            first.begin(Isolation::ReadCommitted);
            first.sql("update t set a = 0 where id = 1").unwrap();
            let plan = fixture.plan(&second.analyze(text).unwrap());
            let Progress::Waits(running, blocker) = second.start(&plan, &[]).unwrap() else {
                panic!("{text} does not wait")
            };
            if commit {
                first.commit();
            } else {
                first.rollback();
            }
            second.session.wait(blocker).block(Some(Duration::from_secs(60))).unwrap();
            let answer = match second.go_on(*running) {
                Ok(Progress::Done(answer)) => Ok(answer.count),
                Ok(Progress::Waits(..)) => panic!("{text} waits again"),
                Err(error) => Err(error.state()),
            };
            assert_eq!(answer, if commit { left } else { stayed }, "{text}, commit: {commit}");
            drop((first, second));
            fixture.check_indexes();
        }
    }
}
