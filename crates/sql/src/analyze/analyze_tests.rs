//! Compares analysis with PostgreSQL 15's answers, and checks the shapes of bound trees.
//!
//! Each line of `cases.tsv` holds a statement and the answer of PostgreSQL 15 when it is prepared: the parameter types
//! and then the output columns as name, type and modifier; or SQLSTATE, position in characters, message and hint. A
//! third field holds the answer of this analyzer where it differs on purpose, mostly 0A000.

use std::sync::Arc;

use super::*;
use crate::{
    catalog::{
        relation::{Check, Column, Index, IndexColumn, KeyPart, Relation, Storage, TableKey},
        snapshot::{Catalog, PG_CATALOG, PUBLIC, Schema},
    },
    codec::{key::KeyColumn, row::RowLayout},
    parse,
    types::{SqlType, TextContext, Value, oid},
};

/// Describes a table for tests: its name, its columns as name and type, and the indexes of its primary key's columns.
fn table(oid: u32, name: &str, columns: &[(&str, SqlType)], key: &[usize]) -> Relation {
    let types: Vec<SqlType> = columns.iter().map(|(_, ty)| *ty).collect();
    let columns: Vec<Column> = columns
        .iter()
        .enumerate()
        .map(|(at, (name, ty))| Column {
            attnum: i16::try_from(at + 1).unwrap(),
            name: (*name).into(),
            ty: *ty,
            not_null: key.contains(&at),
            default: None,
            missing: Value::Null,
            dropped: false,
        })
        .collect();
    let index = Index {
        oid: oid + 1,
        name: format!("{name}_pkey").into(),
        cf: collie_base::CfId::new(oid),
        unique: true,
        primary: true,
        constraint: Some(oid + 2),
        columns: key
            .iter()
            .map(|&column| IndexColumn {
                part: KeyPart::Column(column),
                key: KeyColumn { oid: types[column].oid, desc: false, nulls_first: false, nullable: false },
            })
            .collect(),
        predicate: Vec::new(),
        included: Vec::new(),
    };
    Relation {
        oid,
        schema: PUBLIC,
        name: name.into(),
        version: 1,
        storage: Storage::Family(collie_base::CfId::new(oid)),
        columns,
        key: if key.is_empty() { TableKey::RowId } else { TableKey::Primary },
        indexes: if key.is_empty() { Vec::new() } else { vec![Arc::new(index)] },
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        options: Vec::new(),
        layout: Arc::new(RowLayout::new(&types.iter().map(|ty| ty.oid).collect::<Vec<_>>())),
    }
}

fn varchar(n: i32) -> SqlType {
    SqlType::with_typmod(oid::VARCHAR, n + 4)
}

fn numeric(precision: i32, scale: i32) -> SqlType {
    SqlType::with_typmod(oid::NUMERIC, (precision << 16 | scale) + 4)
}

fn catalog() -> Catalog {
    use SqlType as T;
    let mut catalog = Catalog::default();
    for (oid, name) in [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public")] {
        catalog.schemas.insert(oid, Arc::new(Schema { oid, name: name.into() }));
    }
    let mut d = table(20_300, "d", &[("i", T::INT4), ("s", varchar(10)), ("ts", T::TIMESTAMPTZ), ("n", T::INT2)], &[]);
    d.columns[0].default = Some("5".into());
    d.columns[1].default = Some("'x'::character varying".into());
    d.columns[2].default = Some("now()".into());
    d.checks.push(Check { oid: 20_310, name: "positive".into(), condition: "(i > 0)".into() });
    let tables = [
        table(
            20_100,
            "t",
            &[
                ("a", T::INT4),
                ("b", T::TEXT),
                ("c", varchar(10)),
                ("d", numeric(10, 2)),
                ("e", T::TIMESTAMPTZ),
                ("f", T::BOOL),
                ("g", T::INT4_ARRAY),
                ("h", T::INT8),
            ],
            &[0],
        ),
        table(20_200, "u", &[("a", T::INT4), ("x", T::TEXT), ("k", T::INT8)], &[0]),
        d,
        table(
            20_400,
            "pgbench_accounts",
            &[
                ("aid", T::INT4),
                ("bid", T::INT4),
                ("abalance", T::INT4),
                ("filler", SqlType::with_typmod(oid::BPCHAR, 88)),
            ],
            &[0],
        ),
        table(
            20_500,
            "district",
            &[
                ("d_w_id", T::INT4),
                ("d_id", T::INT4),
                ("d_name", varchar(10)),
                ("d_tax", numeric(4, 4)),
                ("d_ytd", numeric(12, 2)),
                ("d_next_o_id", T::INT4),
            ],
            &[0, 1],
        ),
        table(
            20_600,
            "order_line",
            &[
                ("ol_w_id", T::INT4),
                ("ol_d_id", T::INT4),
                ("ol_o_id", T::INT4),
                ("ol_number", T::INT4),
                ("ol_i_id", T::INT4),
                ("ol_delivery_d", T::TIMESTAMP),
                ("ol_quantity", T::INT4),
                ("ol_amount", numeric(6, 2)),
                ("ol_dist_info", SqlType::with_typmod(oid::BPCHAR, 28)),
            ],
            &[0, 1, 2, 3],
        ),
        table(
            20_700,
            "stock",
            &[("s_w_id", T::INT4), ("s_i_id", T::INT4), ("s_quantity", T::INT4), ("s_data", varchar(50))],
            &[0, 1],
        ),
    ];
    for table in tables {
        catalog.put_relation(Arc::new(table));
    }
    catalog
}

/// Analyzes the one statement of `sql` over the test catalog.
fn run(sql: &str) -> Result<Analyzed> {
    let catalog = catalog();
    let text = TextContext::default();
    let cx = AnalyzeContext {
        catalog: &catalog,
        search_path: &[PUBLIC],
        parameter_types: &[],
        parameters_allowed: true,
        text: &text,
        database: "postgres",
    };
    let mut statements = parse::statements(sql)?;
    assert_eq!(statements.len(), 1, "{sql}");
    analyze(&statements.remove(0).stmt, &cx)
}

/// Returns the answer of analysis in the form of `cases.tsv`.
fn answer(sql: &str) -> String {
    match run(sql) {
        Ok(analyzed) => {
            let parameters: Vec<String> = analyzed.parameters.iter().map(u32::to_string).collect();
            let columns: Vec<String> = analyzed
                .columns
                .iter()
                .map(|column| format!("{}:{}:{}", column.name, column.ty.oid, column.ty.typmod))
                .collect();
            format!("({}) {}", parameters.join(","), columns.join(" "))
        }
        Err(error) => {
            let report = error.report();
            let place = report.position.map_or("-".to_owned(), |at| (at + 1).to_string());
            let hint = report.hint.as_ref().map_or(String::new(), |hint| format!(" HINT {hint}"));
            format!("ERROR {} @{place} {}{hint}", report.state.as_str(), report.message)
        }
    }
}

/// Goal: types, names, parameters and errors are PostgreSQL's. Method: all lines of `cases.tsv`; all differences are
/// reported at once.
#[test]
fn statements_mean_what_postgresql_says_they_mean() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for line in include_str!("cases.tsv").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let sql = fields.next().unwrap();
        let theirs = fields.next().unwrap();
        let expected = fields.next().unwrap_or(theirs);
        let got = answer(sql);
        checked += 1;
        if got != expected {
            wrong.push(format!("{sql}\n  expected {expected}\n  got      {got}"));
        }
    }
    assert!(checked > 200, "only {checked} cases were read");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Prints the first target of a query's select.
fn target(sql: &str) -> String {
    let analyzed = run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let Bound::Query(Query::Select(select)) = analyzed.bound else { panic!("{sql} is no select") };
    let names = |range: usize, column: usize| select.ranges[range].columns[column].0.clone();
    deparse::expression(&select.targets[0], &names)
}

/// Goal: the stored text of a DEFAULT or CHECK is the text that PostgreSQL shows, and reads back the same. Method:
/// print expressions over `t`, compare them with `pg_get_expr` of PostgreSQL 15, read them back and print them again.
#[test]
fn printed_expressions_read_back_as_themselves() {
    for (sql, printed) in [
        ("0", "0"),
        ("-1", "'-1'::integer"),
        ("1.50", "1.50"),
        ("5000000000", "'5000000000'::bigint"),
        ("'x'", "'x'::text"),
        ("'it''s'::varchar(5)", "'it''s'::character varying(5)"),
        ("a > 0", "(a > 0)"),
        ("a > 0 and b is not null or not f", "(((a > 0) AND (b IS NOT NULL)) OR (NOT f))"),
        ("now()", "now()"),
        ("a + 1 * 2", "(a + (1 * 2))"),
        ("-a", "(- a)"),
        ("b || 'x'", "(b || 'x'::text)"),
        ("c = 'x'", "((c)::text = 'x'::text)"),
        ("a in (1, 2)", "(a = ANY (ARRAY[1, 2]))"),
        ("a not in (1, 2)", "(a <> ALL (ARRAY[1, 2]))"),
        ("coalesce(a, 1)", "COALESCE(a, 1)"),
        ("case when f then 1 else 2 end", "CASE WHEN f THEN 1 ELSE 2 END"),
        ("case a when 1 then 'x' end", "CASE a WHEN 1 THEN 'x'::text ELSE NULL::text END"),
        ("a between 1 and 5", "((a >= 1) AND (a <= 5))"),
        ("b like 'a%'", "(b ~~ 'a%'::text)"),
        ("upper(b)", "upper(b)"),
        ("a::text", "(a)::text"),
        ("null::int4", "NULL::integer"),
        ("d::numeric(5,1)", "(d)::numeric(5,1)"),
        ("a is distinct from 1", "(a IS DISTINCT FROM 1)"),
        ("f is true", "(f IS TRUE)"),
        ("greatest(a, 1)", "GREATEST(a, 1)"),
        ("nullif(a, 1)", "NULLIF(a, 1)"),
        ("array[1, 2]", "ARRAY[1, 2]"),
        ("g[1]", "(g)[1]"),
        ("'2020-01-01'::date", "'2020-01-01'::date"),
        ("true", "true"),
        ("E'a\\\\b'", "E'a\\\\b'::text"),
    ] {
        let first = target(&format!("select {sql} from t"));
        assert_eq!(first, printed, "{sql}");
        assert_eq!(target(&format!("select {first} from t")), first, "{sql} read again");
    }
}

/// Goal: deep statements are refused with 54001 or analyzed, and never overflow a stack. Method: chains and nests of
/// growing depth, on a thread with the stack of a server worker.
#[test]
fn deep_statements_are_refused_and_never_overflow() {
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for depth in [10, 50, 70, 200, 450, 900] {
            let chain = format!("select 1{}", " + 1".repeat(depth));
            let nest = format!("select {}1{}", "abs(".repeat(depth), ")".repeat(depth));
            let queries = format!("select {}1{}", "(select ".repeat(depth), ")".repeat(depth));
            let unions = format!("select 1{}", " union all select 1".repeat(depth));
            let froms = format!("select 1{}", " from (select 1".repeat(depth) + &") x".repeat(depth));
            let nots = format!("select {} true", "not ".repeat(depth));
            for sql in [chain, nest, queries, unions, froms, nots] {
                match run(&sql) {
                    Ok(_) => assert!(depth < 500),
                    Err(error) => {
                        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{error} at depth {depth}");
                        assert!(depth >= 200, "refused at depth {depth}: {sql}");
                    }
                }
            }
        }
    });
    worker.unwrap().join().unwrap();
}

/// Goal: bound trees have the shapes that execution expects. Method: one check of each shape that other modules rely
/// on.
#[test]
fn bound_shapes_are_those_agreed() {
    let select = |sql: &str| match run(sql).unwrap().bound {
        Bound::Query(Query::Select(select)) => *select,
        other => panic!("{other:?}"),
    };
    let one = select("select b, sum(a), sum(a) + 1 from t group by b having sum(a) > 1 order by sum(a), b");
    assert_eq!((one.aggregates.len(), one.group_by.len(), one.visible), (1, 1, 3));
    assert!(matches!(one.targets[0], Expr::GroupKey { up: 0, index: 0, .. }));
    assert!(matches!(one.targets[1], Expr::Aggregate { up: 0, index: 0, .. }));
    assert_eq!(one.order_by.iter().map(|key| key.target).collect::<Vec<_>>(), [1, 0]);

    let key = select("select a, b, h from t group by a");
    assert_eq!(key.group_by.len(), 3, "columns that the key determines are keys");

    let right = select("select * from t right join u using (a)");
    let Some(FromItem::Join { kind: JoinKind::Left, left, .. }) = right.from else { panic!("no left join") };
    assert!(matches!(*left, FromItem::Range(1)));
    assert!(matches!(right.targets[0], Expr::Column { range: 1, column: 0, .. }));

    let list = select("select 1 from t where a in (1, 2, h)");
    let Some(Expr::Or(terms)) = list.filter else { panic!("no OR") };
    assert!(matches!((&terms[0], &terms[1]), (Expr::InList { .. }, Expr::Call { .. })));

    let outer = select("select (select sum(t.a) + sum(u.k) from u) from t");
    assert_eq!(outer.aggregates.len(), 1, "the first sum belongs to the outer level");
    assert!(matches!(outer.aggregates[0].args[0], Expr::Column { up: 0, range: 0, column: 0, .. }));

    let correlated = select("select (select x from u where u.a = t.a), (select count(*) from u) from t");
    let flags: Vec<bool> =
        correlated.targets.iter().map(|target| matches!(target, Expr::Subquery { correlated: true, .. })).collect();
    assert_eq!(flags, [true, false]);

    let Bound::Insert(insert) = run("insert into d (n, s) values (7, default)").unwrap().bound else { panic!() };
    assert_eq!(insert.columns, [3, 1]);
    assert_eq!(insert.defaults.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!(insert.checks[0].0, "positive");

    let update = run("update t set a = u.a from u where u.k = t.h returning u.x").unwrap();
    assert!(update.writes);
    assert_eq!(update.relations, [(20_100, Access::Write), (20_200, Access::Read)]);
    assert_eq!(run("select 1 from t for update").unwrap().relations, [(20_100, Access::Lock)]);
    assert_eq!(run("select a as z from t").unwrap().columns[0].origin, Some((20_100, 1)));
}

/// Goal: text that is no type name is refused as a mistake of the client, not as damage (T307). Method: names, and
/// texts that would continue an expression or a statement.
#[test]
fn text_that_is_no_type_name_is_a_syntax_error() {
    for (text, state) in [
        ("int4", None),
        ("double precision", None),
        ("integer[]", None),
        ("nosuch", Some(SqlState::UNDEFINED_OBJECT)),
        ("int4; select 1", Some(SqlState::SYNTAX_ERROR)),
        ("int4 + 1", Some(SqlState::SYNTAX_ERROR)),
        ("int4(", Some(SqlState::SYNTAX_ERROR)),
        ("no such type", Some(SqlState::SYNTAX_ERROR)),
    ] {
        assert_eq!(run(&format!("select '{text}'::regtype")).err().map(|error| error.state()), state, "{text}");
    }
}

/// Goal: declared parameter types are kept, and the types of undeclared parameters are inferred. Method: one of each.
#[test]
fn declared_parameter_types_stand() {
    let catalog = catalog();
    let text = TextContext::default();
    let cx = AnalyzeContext {
        catalog: &catalog,
        search_path: &[PUBLIC],
        parameter_types: &[oid::INT8, 0],
        parameters_allowed: true,
        text: &text,
        database: "postgres",
    };
    let stmt = &parse::statements("select a from t where a = $1 and b = $2").unwrap()[0].stmt;
    assert_eq!(analyze(stmt, &cx).unwrap().parameters, [oid::INT8, oid::TEXT]);
}

/// Goal: DEFAULT and CHECK refuse the same constructs as PostgreSQL, in its words. Method: one of each.
#[test]
fn defaults_and_checks_refuse_what_cannot_stand_in_them() {
    let catalog = catalog();
    let text = TextContext::default();
    let cx = AnalyzeContext {
        catalog: &catalog,
        search_path: &[PUBLIC],
        parameter_types: &[],
        parameters_allowed: true,
        text: &text,
        database: "postgres",
    };
    let relation = catalog.relation(20_100).unwrap();
    let check = |sql: &str| {
        let expr = names::parse_expression(sql).unwrap();
        expression(&expr, Some(relation), Some(SqlType::BOOL), &cx).unwrap_err().to_string()
    };
    let default_of = |sql: &str| {
        let expr = names::parse_expression(sql).unwrap();
        default(&expr, "a", SqlType::INT4, &cx).unwrap_err().to_string()
    };
    assert_eq!(check("(select true)"), "cannot use subquery in check constraint");
    assert_eq!(check("sum(a) > 1"), "aggregate functions are not allowed in check constraints");
    assert_eq!(check("a"), "argument of CHECK must be type boolean, not type integer");
    assert_eq!(check("nosuch > 1"), "column \"nosuch\" does not exist");
    assert_eq!(default_of("(select 1)"), "cannot use subquery in DEFAULT expression");
    assert_eq!(default_of("b"), "cannot use column reference in DEFAULT expression");
    assert_eq!(default_of("sum(1)"), "aggregate functions are not allowed in DEFAULT expressions");
    assert_eq!(default_of("true"), "column \"a\" is of type integer but default expression is of type boolean");
    assert_eq!(default_of("'x'"), "invalid input syntax for type integer: \"x\"");
}

/// Returns random expressions over the test catalog, of all types and with most constructs.
fn any_expr() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let leaf = prop::sample::select(vec![
        "a",
        "t.a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "h",
        "x",
        "u.a",
        "k",
        "1",
        "1.5",
        "'x'",
        "'1'",
        "null",
        "true",
        "$1",
        "$2",
        "3000000000",
        "count(*)",
        "now()",
        "current_date",
        "nosuch",
        "default",
        "*",
        "t",
        "(select a from t)",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let shapes = prop::sample::select(vec![
            "(# + #)",
            "(# = #)",
            "(# < #)",
            "(# || #)",
            "(# and #)",
            "not #",
            "-#",
            "# is null",
            "# is true",
            "# is distinct from #",
            "# between # and #",
            "# in (#, #, 1)",
            "(#, #) in ((#, 1), (2, #))",
            "(#, #) < (#, #)",
            "(#, #) = (#, #)",
            "# = any(#)",
            "# in (select # from u)",
            "exists (select # from u where # = #)",
            "(select # from u where u.a = t.a)",
            "case when # then # else # end",
            "case # when # then # end",
            "coalesce(#, #)",
            "nullif(#, #)",
            "greatest(#, #)",
            "sum(#)",
            "max(#)",
            "count(distinct #)",
            "upper(#)",
            "length(#)",
            "array[#, #]",
            "#[1]",
            "#::text",
            "#::int4",
            "#::numeric(5,2)",
            "#::date",
            "# like #",
            "row(#, #)",
            "string_agg(#, ',' order by #)",
            "array(select # from t)",
            "generate_series(#, #)",
            "unnest(#)",
            "(#).a",
            "count(#) filter (where #)",
            "# collate \"C\"",
            "concat(#, #)",
            "#::int4[]",
            "extract(day from #)",
        ]);
        (shapes, prop::collection::vec(inner, 5)).prop_map(|(shape, parts)| {
            let mut parts = parts.into_iter();
            let mut out = String::new();
            for (at, piece) in shape.split('#').enumerate() {
                if at > 0 {
                    out.push_str(&parts.next().unwrap_or_default());
                }
                out.push_str(piece);
            }
            out
        })
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// Goal: no statement panics, and every accepted one obeys B1 as far as its types show. Method: random statements
    /// around random expressions.
    #[test]
    fn random_statements_are_analyzed_or_refused_but_never_panic(
        shape in 0_usize..16,
        exprs in proptest::collection::vec(any_expr(), 4),
    ) {
        let [p, q, r, s] = &exprs[..] else { unreachable!() };
        let sql = match shape {
            0 => format!("select {p}, {q} from t where {r} order by {s}"),
            1 => format!("select {p}, {q} from t, u where {r}"),
            2 => format!("select {p} from t group by {q} having {r} order by {s}"),
            3 => format!("select {p} from t left join u using (a) where {q} limit {r}"),
            4 => format!("select distinct on ({p}) {q} from t order by {p}, {r}"),
            5 => format!("select {p} from t union select {q} from u order by 1"),
            6 => format!("insert into t (a, b, d) values ({p}, {q}, {r}) returning {s}"),
            7 => format!("insert into t (a, b) select {p}, {q} from u"),
            8 => format!("update t set a = {p}, (b, d) = ({q}, {r}) where {s} returning *"),
            9 => format!("delete from t using u where {p} returning {q}"),
            10 => format!("values ({p}, {q}), ({r}, {s})"),
            11 => format!("with w as (select {p} as z, {q} from t) select w.z, {r} from w, t where {s}"),
            12 => format!("select (with w as (select {p} as z from u) select z from w) from t"),
            13 => format!("select {p} from t, lateral (select {q} as z from u where {r}) l where {s}"),
            14 => format!("select {p} from t full join u using (a) group by a, {q}"),
            _ => format!("select * from t, generate_series({p}, {q}) n where {r}"),
        };
        if let Ok(statements) = parse::statements(&sql) {
            assert_eq!(statements.len(), 1);
            if let Ok(analyzed) = run(&sql) {
                assert!(analyzed.parameters.iter().all(|&ty| ty != 0 && ty != oid::UNKNOWN), "{sql}");
                assert!(analyzed.columns.iter().all(|column| column.ty.oid != oid::UNKNOWN), "{sql}");
            }
        }
    }
}
