//! The content of the tree: the forms that analysis distinguishes.

use super::one;
use crate::parse::ast::*;

/// Returns the query of a SELECT.
fn select(text: &str) -> Select {
    match one(text) {
        Stmt::Select(select) => *select,
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the one block of a SELECT.
fn core(text: &str) -> SelectCore {
    match select(text).body {
        SelectBody::Core(core) => *core,
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the expression of `SELECT text`.
fn expr(text: &str) -> Expr {
    core(&format!("select {text}")).targets.remove(0).expr
}

fn literal(expr: &Expr) -> Literal {
    match &expr.kind {
        ExprKind::Literal(literal) => literal.clone(),
        other => panic!("{other:?}"),
    }
}

/// Goal: constants keep their width and text. Method: one of each kind.
#[test]
fn constants_keep_kind_and_text() {
    assert_eq!(literal(&expr("42")), Literal::Integer(42));
    assert_eq!(literal(&expr("-936")), Literal::Integer(-936));
    assert_eq!(literal(&expr("3000000000")), Literal::Number("3000000000".into()));
    assert_eq!(literal(&expr("1.50")), Literal::Number("1.50".into()));
    assert_eq!(literal(&expr("'it''s'")), Literal::String("it's".into()));
    assert_eq!(literal(&expr("E'a\\nb'")), Literal::String("a\nb".into()));
    assert_eq!(literal(&expr("$q$x$q$")), Literal::String("x".into()));
    assert_eq!(literal(&expr("true")), Literal::Bool(true));
    assert!(literal(&expr("null")).is_null());
    assert_eq!(expr("$3").kind, ExprKind::Param(3));
    assert_eq!(expr("0").kind, ExprKind::Literal(Literal::Integer(0)));
}

/// Goal: each form of expression arrives as its own node. Method: a predicate per text.
#[test]
fn expression_forms_are_told_apart() {
    type Check = fn(&ExprKind) -> bool;
    use ExprKind as K;
    let cases: [(&str, Check); 44] = [
        ("a.b.c", |k| matches!(k, K::Column { path, star: false } if path.len() == 3)),
        ("*", |k| matches!(k, K::Column { path, star: true } if path.is_empty())),
        ("t.*", |k| matches!(k, K::Column { path, star: true } if path == &["t"])),
        ("A", |k| matches!(k, K::Column { path, .. } if path == &["a"])),
        ("a + 1", |k| matches!(k, K::Operator { op, left: Some(_), .. } if op.last() == "+" && op.schema().is_none())),
        ("- a", |k| matches!(k, K::Operator { op, left: None, .. } if op.last() == "-")),
        ("a OPERATOR(pg_catalog.~) b", |k| matches!(k, K::Operator { op, .. } if op.schema() == Some("pg_catalog"))),
        ("a and b and c", |k| matches!(k, K::And(terms) if terms.len() == 3)),
        ("a or b or c", |k| matches!(k, K::Or(terms) if terms.len() == 3)),
        ("not a", |k| matches!(k, K::Not(_))),
        ("a is null", |k| matches!(k, K::IsNull { negated: false, .. })),
        ("a is not null", |k| matches!(k, K::IsNull { negated: true, .. })),
        ("a is not true", |k| matches!(k, K::IsBool { value: Some(true), negated: true, .. })),
        ("a is unknown", |k| matches!(k, K::IsBool { value: None, negated: false, .. })),
        ("a is distinct from b", |k| matches!(k, K::IsDistinct { negated: false, .. })),
        ("a is not distinct from b", |k| matches!(k, K::IsDistinct { negated: true, .. })),
        ("a between 1 and 2", |k| matches!(k, K::Between { symmetric: false, negated: false, .. })),
        ("a not between symmetric 1 and 2", |k| matches!(k, K::Between { symmetric: true, negated: true, .. })),
        ("a in (1, 2)", |k| matches!(k, K::InList { negated: false, list, .. } if list.len() == 2)),
        ("a not in (1)", |k| matches!(k, K::InList { negated: true, .. })),
        ("a in (select 1)", |k| matches!(k, K::InSubquery { negated: false, .. })),
        ("a not in (select 1)", |k| matches!(k, K::InSubquery { negated: true, .. })),
        ("not (a in (select 1))", |k| matches!(k, K::Not(_))),
        ("a = any ($1)", |k| matches!(k, K::QuantifiedArray { all: false, .. })),
        ("a <> all (select 1)", |k| matches!(k, K::QuantifiedSubquery { all: true, op, .. } if op.last() == "<>")),
        ("a like 'x'", |k| matches!(k, K::Like { kind: LikeKind::Like, negated: false, .. })),
        ("a not ilike 'x'", |k| matches!(k, K::Like { kind: LikeKind::ILike, negated: true, .. })),
        ("a similar to 'x'", |k| matches!(k, K::Like { kind: LikeKind::Similar, negated: false, .. })),
        ("nullif(a, b)", |k| matches!(k, K::NullIf { .. })),
        (
            "case a when 1 then 2 else 3 end",
            |k| matches!(k, K::Case { operand: Some(_), arms, default: Some(_) } if arms.len() == 1),
        ),
        ("coalesce(a, b)", |k| matches!(k, K::Coalesce(args) if args.len() == 2)),
        ("greatest(a, b)", |k| matches!(k, K::Greatest(_))),
        ("count(*)", |k| matches!(k, K::Call(call) if call.star && call.args.is_empty())),
        ("count(distinct a)", |k| matches!(k, K::Call(call) if call.distinct && !call.star)),
        (
            "string_agg(a, ',' order by b) filter (where c)",
            |k| matches!(k, K::Call(call) if call.order_by.len() == 1 && call.filter.is_some()),
        ),
        ("f(variadic a)", |k| matches!(k, K::Call(call) if call.variadic)),
        ("extract(year from a)", |k| matches!(k, K::Call(call) if call.special_form && call.name.last() == "extract")),
        ("a at time zone 'UTC'", |k| matches!(k, K::Call(call) if call.name.last() == "timezone")),
        ("current_timestamp(3)", |k| matches!(k, K::SqlValue(SqlValue::CurrentTimestamp(Some(3))))),
        ("array[1, 2]", |k| matches!(k, K::Array(items) if items.len() == 2)),
        ("array(select 1)", |k| matches!(k, K::ArraySubquery(_))),
        ("(a, b)", |k| matches!(k, K::Row { explicit: false, fields } if fields.len() == 2)),
        ("(a).b[1][2:3]", |k| {
            matches!(k, K::Indirection { steps, .. }
                if matches!(&steps[..], [Step::Field(_), Step::Index(_), Step::Slice(Some(_), Some(_))]))
        }),
        ("exists (select 1)", |k| matches!(k, K::Exists(_))),
    ];
    for (text, check) in cases {
        let found = expr(text);
        assert!(check(&found.kind), "{text}: {found:?}");
    }
}

/// Goal: an expression's own position and its start are PostgreSQL's. Method: operators, casts and chains.
#[test]
fn positions_of_operators_and_of_their_start_differ() {
    let check = |text: &str, own: u32, start: u32| {
        let found = expr(text);
        assert_eq!((found.pos, found.start()), (Pos::new(own + 7), Pos::new(start + 7)), "{text}");
    };
    check("a + b", 2, 0);
    check("a + b * c", 2, 0);
    check("a + b - c", 6, 0);
    check("ab::int", 2, 0);
    check("cast(a as int)", 0, 0);
    check("a and b", 2, 0);
    check("f(a)", 0, 0);
    check("a in (1)", 2, 0);
    check("a is null", 2, 0);
}

/// Goal: type names keep modifiers and array bounds. Method: the grammar's own type keywords and plain names.
#[test]
fn type_names_keep_modifiers_and_bounds() {
    let ty = |text: &str| match expr(&format!("null::{text}")).kind {
        ExprKind::Cast { ty, .. } => ty,
        other => panic!("{other:?}"),
    };
    assert_eq!(ty("int").name.parts, ["pg_catalog", "int4"]);
    assert_eq!(ty("text").name.parts, ["text"]);
    assert_eq!(ty("numeric(10, 2)").modifiers.len(), 2);
    assert_eq!(ty("char(3)").name.parts, ["pg_catalog", "bpchar"]);
    assert_eq!(literal(&ty("char").modifiers[0]), Literal::Integer(1));
    assert_eq!(ty("s.t[][3]").array_bounds, [None, Some(3)]);
}

/// Goal: the clauses of a query are where analysis expects them. Method: one query with most of them.
#[test]
fn select_keeps_its_clauses() {
    let query = select(
        "with recursive r(a) as materialized (select 1) \
         select distinct on (a) a x, b from r join only s.t as q (c, d) using (c) as m, lateral f(1) with ordinality g \
         where a > 0 group by a having count(*) > 1 order by a desc nulls last, b using < limit 3 offset 4 \
         for no key update of q skip locked",
    );
    let with = query.with.as_ref().expect("it has WITH");
    assert!(with.recursive && with.ctes[0].materialized == Some(true) && with.ctes[0].columns == ["a"]);
    assert_eq!(
        (query.order_by[0].direction.clone(), query.order_by[0].nulls_first),
        (SortDirection::Desc, Some(false))
    );
    assert!(matches!(&query.order_by[1].direction, SortDirection::Using(op) if op.last() == "<"));
    assert!(query.limit.is_some() && query.offset.is_some() && !query.with_ties);
    assert_eq!((query.locking[0].strength, query.locking[0].wait), (LockStrength::NoKeyUpdate, LockWait::Skip));
    assert_eq!(query.locking[0].of[0].name, "q");
    let SelectBody::Core(core) = query.body else { panic!("not a block") };
    assert!(matches!(core.distinct, Some(Distinct::On(ref list)) if list.len() == 1));
    assert_eq!(core.targets[0].alias.as_deref(), Some("x"));
    assert!(core.filter.is_some() && core.having.is_some() && core.group_by.len() == 1);
    let FromItem::Join(join) = &core.from[0] else { panic!("not a join") };
    assert_eq!(join.condition, JoinCondition::Using(vec!["c".into()], Some("m".into())));
    let FromItem::Table { table, alias } = &join.right else { panic!("not a table") };
    assert!(table.only && table.name.schema.as_deref() == Some("s"));
    assert_eq!(alias.as_ref().expect("it has an alias").columns, ["c", "d"]);
    assert!(matches!(core.from[1], FromItem::Function { lateral: true, ordinality: true, .. }));
}

/// Goal: DISTINCT, LIMIT ALL, ties, set operations and VALUES are distinguished. Method: one text each.
#[test]
fn query_bodies_are_told_apart() {
    assert_eq!(core("select distinct a from t").distinct, Some(Distinct::Rows));
    assert!(core("select").targets.is_empty());
    let all = select("select 1 limit all").limit.expect("it has LIMIT");
    assert!(literal(&all).is_null());
    assert!(select("select 1 order by 1 fetch first 2 rows with ties").with_ties);
    let union = select("select 1 union all select 2 intersect values (3) order by 1");
    assert_eq!(union.order_by.len(), 1);
    let SelectBody::SetOperation { op, all, right, .. } = union.body else { panic!("not a set operation") };
    assert_eq!((op, all), (SetOperator::Union, true));
    assert!(matches!(right.body, SelectBody::SetOperation { op: SetOperator::Intersect, all: false, .. }));
    let joins =
        [("natural join", JoinKind::Inner), ("natural left join", JoinKind::Left), ("cross join", JoinKind::Inner)];
    for (join, kind) in joins {
        let FromItem::Join(found) = core(&format!("select 1 from a {join} b")).from.remove(0) else { panic!("{join}") };
        assert_eq!(found.kind, kind);
        assert_eq!(found.condition == JoinCondition::Natural, join.starts_with("natural"), "{join}");
    }
}

/// Goal: writing statements keep every clause. Method: one statement of each kind with all clauses.
#[test]
fn writing_statements_keep_their_clauses() {
    let Stmt::Update(update) = one(
        "with w as (select 1) update t as x set a = 1, (b, c) = (select 2, 3), d[1] = default, (e, f) = row (4, default) \
         from u where x.a = u.a returning x.a as y, *",
    ) else {
        panic!("not an UPDATE")
    };
    assert!(update.with.is_some() && update.filter.is_some() && update.alias.as_deref() == Some("x"));
    assert_eq!((update.from.len(), update.returning.len(), update.set.len()), (1, 2, 4));
    let SetClause::Many { targets, source } = &update.set[1] else { panic!("not a row assignment") };
    assert_eq!(targets.iter().map(|target| target.column.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(matches!(source.kind, ExprKind::Scalar(_)));
    let SetClause::One { target, value } = &update.set[2] else { panic!("not one assignment") };
    assert!(matches!(target.steps[..], [Step::Index(_)]) && value.kind == ExprKind::Default);
    let SetClause::Many { source, .. } = &update.set[3] else { panic!("not a row assignment") };
    assert!(matches!(&source.kind, ExprKind::Row { fields, explicit: true } if fields[1].kind == ExprKind::Default));

    let Stmt::Delete(delete) = one("delete from only t using u, v where t.a = u.a returning *") else { panic!() };
    assert!(delete.table.only && delete.using.len() == 2 && delete.filter.is_some() && delete.returning.len() == 1);

    let Stmt::Insert(insert) = one("insert into t default values") else { panic!() };
    assert_eq!(insert.source, InsertSource::DefaultValues);
    let Stmt::Insert(insert) = one("insert into t as x (a) overriding system value values (1) on conflict do nothing")
    else {
        panic!()
    };
    assert_eq!((insert.alias.as_deref(), insert.overriding), (Some("x"), Some(true)));
    assert_eq!(insert.on_conflict.expect("it has ON CONFLICT").action, ConflictAction::Nothing);
    let Stmt::Insert(insert) = one(
        "insert into t values (1) on conflict (a, lower(b)) where c do update set d = excluded.d, (e, f) = (1, 2) where t.g",
    ) else {
        panic!()
    };
    let conflict = insert.on_conflict.expect("it has ON CONFLICT");
    assert!(
        matches!(conflict.target, Some(ConflictTarget::Index { ref elements, filter: Some(_), .. }) if elements.len() == 2)
    );
    assert!(matches!(conflict.action, ConflictAction::Update { ref set, filter: Some(_) } if set.len() == 2));
}

/// Goal: definitions keep every clause. Method: tables, indexes, ALTER commands.
#[test]
fn definitions_keep_their_clauses() {
    let Stmt::CreateTable(table) = one(
        "create table if not exists s.t (a int constraint n not null default 1 + 1 primary key, \
         b varchar(10) collate \"C\" unique deferrable initially deferred, c int references p (x) match full \
         on delete set null (c) on update cascade, d int null, check (a > 0), constraint u unique nulls not distinct (a, b) \
         include (c) with (fillfactor = 70), foreign key (a, b) references p not valid) with (fillfactor = 100, x = off)",
    ) else {
        panic!()
    };
    assert!(table.if_not_exists && table.name.schema.as_deref() == Some("s"));
    assert_eq!((table.columns.len(), table.constraints.len(), table.options.len()), (4, 3, 2));
    assert_eq!(table.options[0].value, Some(OptionValue::Integer(100)));
    assert_eq!(table.options[1].value, Some(OptionValue::Text("off".into())));
    let [not_null, default, key] = &table.columns[0].constraints[..] else { panic!("{:?}", table.columns[0]) };
    assert_eq!((not_null.name.as_deref(), &not_null.kind), (Some("n"), &ConstraintKind::NotNull));
    assert!(matches!(default.kind, ConstraintKind::Default(_)) && matches!(key.kind, ConstraintKind::PrimaryKey(_)));
    let unique = &table.columns[1].constraints[0];
    assert!(unique.deferrable && unique.initially_deferred);
    let ConstraintKind::ForeignKey(foreign) = &table.columns[2].constraints[0].kind else { panic!() };
    assert!(foreign.match_full && foreign.referenced == ["x"] && foreign.on_delete_columns == ["c"]);
    assert_eq!((foreign.on_update, foreign.on_delete), (ReferentialAction::Cascade, ReferentialAction::SetNull));
    let ConstraintKind::Unique(unique) = &table.constraints[1].kind else { panic!() };
    assert!(unique.nulls_not_distinct && unique.columns == ["a", "b"] && unique.include == ["c"]);
    assert!(table.constraints[2].not_valid);

    let Stmt::CreateIndex(index) = one(
        "create unique index concurrently if not exists i on t using btree (a desc nulls last, lower(b) varchar_pattern_ops) \
         include (c) where d",
    ) else {
        panic!()
    };
    assert!(index.unique && index.concurrently && index.if_not_exists && index.filter.is_some());
    assert_eq!((index.elements[0].descending, index.elements[0].nulls_first), (Some(true), Some(false)));
    assert!(matches!(index.elements[1].key, IndexKey::Expression(_)) && index.elements[1].operator_class.is_some());
    let Stmt::CreateIndex(index) = one("create index on t (a)") else { panic!() };
    assert_eq!((index.name.as_deref(), index.method.as_str()), (None, "btree"));

    let Stmt::AlterTable(alter) = one(
        "alter table if exists t add column if not exists a int, drop column if exists b cascade, alter c set default 1, \
         alter c drop default, alter c set not null, alter c drop not null, alter c type text using c::text, \
         add constraint k primary key using index i, drop constraint z, validate constraint y, set (fillfactor = 1)",
    ) else {
        panic!()
    };
    assert_eq!(alter.commands.len(), 11);
    let drop = AlterCommand::DropColumn { column: "b".into(), if_exists: true, behavior: Behavior::Cascade };
    assert_eq!(alter.commands[1], drop);
    let Stmt::Drop(drop) = one("drop table if exists a, s.b cascade") else { panic!() };
    assert_eq!((drop.names.len(), drop.names[1].to_string().as_str(), drop.behavior), (2, "s.b", Behavior::Cascade));
    let Stmt::Rename(rename) = one("alter table t rename column a to b") else { panic!() };
    assert!(matches!(rename.what, RenameTarget::Column { .. }) && rename.to == "b");
}

/// Goal: utility statements keep every clause. Method: one text each.
#[test]
fn utility_statements_keep_their_clauses() {
    use Transaction as T;
    let modes = vec![TransactionMode::Isolation(IsolationLevel::Serializable), TransactionMode::ReadOnly(true)];
    let begin = |start, modes| Stmt::Transaction(T::Begin { modes, start });
    assert_eq!(one("begin isolation level serializable read only"), begin(false, modes));
    assert_eq!(one("start transaction read write"), begin(true, vec![TransactionMode::ReadOnly(false)]));
    assert_eq!(one("end and chain"), Stmt::Transaction(T::Commit { chain: true }));
    assert_eq!(one("abort"), Stmt::Transaction(T::Rollback { chain: false }));
    assert_eq!(one("rollback to a"), Stmt::Transaction(T::RollbackTo("a".into())));
    assert_eq!(one("prepare transaction 'x'"), Stmt::Transaction(T::Prepare("x".into())));
    let set = |name: &str, values, local| Stmt::Set(Set { name: name.into(), values, local });
    assert_eq!(one("set local a.b to 1"), set("a.b", vec![SetValue::Integer(1)], true));
    let schemas = vec![SetValue::Text("a".into()), SetValue::Text("B".into())];
    assert_eq!(one("set search_path = a, \"B\""), set("search_path", schemas, false));
    assert_eq!(one("set timezone to default"), set("timezone", vec![], false));
    assert_eq!(one("set names 'UTF8'"), set("client_encoding", vec![SetValue::Text("UTF8".into())], false));
    assert_eq!(one("reset all"), Stmt::Reset(None));
    assert_eq!(one("show all"), Stmt::Show("all".into()));
    assert!(matches!(one("set transaction read only"), Stmt::SetTransaction(SetTransaction { session: false, .. })));
    let Stmt::SetConstraints(set) = one("set constraints s.a, b deferred") else { panic!() };
    assert!(set.deferred && set.names.len() == 2 && set.names[0].schema.as_deref() == Some("s"));
    assert!(
        matches!(one("set constraints all immediate"), Stmt::SetConstraints(set) if !set.deferred && set.names.is_empty())
    );
    let Stmt::Vacuum(vacuum) = one("vacuum (analyze, verbose off) t (a, b), u") else { panic!() };
    assert!(vacuum.vacuum && vacuum.options.len() == 2 && vacuum.targets[0].1 == ["a", "b"]);
    assert!(matches!(one("analyze t"), Stmt::Vacuum(Vacuum { vacuum: false, .. })));
    let Stmt::Explain(explain) = one("explain (analyze, costs off, format json) select 1") else { panic!() };
    assert_eq!(explain.options[2].value, Some(OptionValue::Text("json".into())));
    let Stmt::Prepare(prepare) = one("prepare p (int, text) as select $1") else { panic!() };
    assert_eq!(prepare.types.len(), 2);
    assert!(matches!(one("execute p(1, 'x')"), Stmt::Execute(Execute { args, .. }) if args.len() == 2));
    let Stmt::DeclareCursor(cursor) = one("declare c binary no scroll cursor with hold for select 1") else { panic!() };
    assert_eq!((cursor.binary, cursor.scroll, cursor.hold, cursor.insensitive), (true, Some(false), true, None));
    let Stmt::Fetch(fetch) = one("move backward all in c") else { panic!() };
    assert_eq!((fetch.direction, fetch.count, fetch.is_move), (FetchDirection::Backward, i64::MAX, true));
    assert_eq!(one("close all"), Stmt::Close(None));
    assert_eq!(one("discard plans"), Stmt::Discard(Discard::Plans));
    assert_eq!(one("checkpoint"), Stmt::Checkpoint);
    for (text, copy) in [("call collie_checkpoint('/x')", false), ("call collie_checkpoint('/x', true)", true)] {
        assert_eq!(one(text), Stmt::CopyDatabase(CopyDatabase { dir: "/x".into(), copy }));
    }
    let option = SetOption { name: "wal.max_total_wal_size".into(), value: "2GiB".into() };
    assert_eq!(one("call collie_set_option('wal.max_total_wal_size', '2GiB')"), Stmt::SetOption(option));
    assert!(matches!(one("lock t in share mode nowait"), Stmt::Lock(Lock { mode: LockMode::Share, nowait: true, .. })));
    let Stmt::Copy(copy) = one("copy t (a) from stdin csv header delimiter ';' force not null a where a > 0") else {
        panic!()
    };
    assert!(copy.from && copy.target == CopyTarget::Client && copy.filter.is_some() && copy.options.len() == 4);
    let Stmt::Copy(copy) = one("copy (select 1) to stdout with (format csv, force_quote *)") else { panic!() };
    assert!(!copy.from && matches!(copy.source, CopySource::Query(_)));
    assert_eq!(copy.options[1].value, Some(OptionValue::Star));
    let Stmt::Copy(copy) = one("copy t to program 'x'") else { panic!() };
    assert_eq!(copy.target, CopyTarget::Program("x".into()));
    let Stmt::Copy(copy) = one("copy t from '/etc/passwd'") else { panic!() };
    assert_eq!(copy.target, CopyTarget::File("/etc/passwd".into()));
}
