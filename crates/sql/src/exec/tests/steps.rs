//! Stopping and continuing: row limits, full sinks, cancel; building indexes; row ids after reopening.

use std::sync::Arc;

use collie_engine::{Db, Isolation, Options, StatementKind};

use super::{
    fixture::{Fixture, Table, looks},
    tree::int,
};
use crate::{
    catalog::relation::{Index, KeyPart, Relation, TableKey},
    error::{Result, SqlState},
    exec::{ExecContext, Execution, RowIds, RowSink, Step, index_build::Pass},
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

fn fixture(rows: i32) -> Fixture {
    let fixture = Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, false), ("a", INT, false)],
        primary: &[],
        indexes: &[("t_a_idx", false, &[1])],
    }]);
    let rows = (0..rows).map(|id| vec![int(id), int(id % 7)]).collect();
    fixture.client().run(&super::tree::insert(&fixture.table("t"), rows), &[]).unwrap();
    fixture
}

/// A sink that is full after every `limit` rows, until it is drained.
struct Small {
    rows: Vec<Vec<Value>>,
    limit: usize,
    drained: usize,
}

impl RowSink for Small {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() - self.drained >= self.limit
    }
}

/// Goal: a row limit suspends and a full sink yields without losing or repeating a row, for reads and for RETURNING.
/// Method: reads 20 rows in fives through a sink that takes three at a time.
#[test]
fn row_limits_and_full_sinks_lose_and_repeat_nothing() {
    let fixture = fixture(20);
    for text in ["select id from t order by id", "update t set a = a + 1 where id >= 0 returning id"] {
        let mut client = fixture.client();
        let plan = fixture.plan(&client.analyze(text).unwrap());
        let mut execution = Execution::new(plan, Vec::new());
        let mut sink = Small { rows: Vec::new(), limit: 3, drained: 0 };
        client.session.begin(Isolation::ReadCommitted, false).unwrap();
        client.session.begin_statement(StatementKind::Write).unwrap();
        let (mut suspended, mut yielded) = (0, 0);
        loop {
            let step = client.with_context(|cx| execution.step(cx, &mut sink, 5)).unwrap();
            match step {
                Step::Done { .. } => break,
                Step::Suspended => suspended += 1,
                Step::Yield => {
                    yielded += 1;
                    sink.drained = sink.rows.len();
                }
                Step::Wait(_) => panic!("nobody else is here"),
            }
        }
        client.session.end_statement();
        client.commit();
        let mut ids: Vec<i32> = sink.rows.iter().map(|row| row[0].as_i32().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..20).collect::<Vec<_>>(), "{text}");
        assert!(suspended >= 3 && yielded >= 5, "{text}: {suspended} suspensions, {yielded} yields");
    }
    fixture.check_indexes();
}

/// Goal: a hash join gives way while it returns no row: while the many candidates of one left row fail ON, and while
/// matched rows of a FULL JOIN are passed over (T309). Method: joins of 30,000 rows; the most work of one step, by the
/// number of times that it looks at the clock, and the work of all steps, which includes every row that is passed over.
#[test]
fn a_hash_join_without_results_gives_way() {
    const LOOKS_MAX: u64 = 8_192 / 64 + 8;
    let fixture = fixture(30_000);
    for (text, least) in [
        ("select count(*) from t a left join t b on a.a * 0 = b.a * 0 and a.id + b.id < 0 where a.id = 3", 4),
        ("select count(*) from t a full join t b on a.id * 1 = b.id * 1", 7),
    ] {
        let mut client = fixture.client();
        let plan = fixture.plan(&client.analyze(text).unwrap());
        assert!(format!("{plan:?}").contains("HashJoin"), "{text}: {plan:?}");
        let mut execution = Execution::new(plan, Vec::new());
        let mut sink = Small { rows: Vec::new(), limit: usize::MAX, drained: 0 };
        client.session.begin(Isolation::ReadCommitted, false).unwrap();
        client.session.begin_statement(StatementKind::Write).unwrap();
        let (mut most, mut all) = (0, 0);
        loop {
            looks();
            let step = client.with_context(|cx| execution.step(cx, &mut sink, 0)).unwrap();
            let step_looks = looks();
            (most, all) = (most.max(step_looks), all + step_looks);
            if matches!(step, Step::Done { .. }) {
                break;
            }
        }
        client.session.end_statement();
        client.commit();
        assert!(most <= LOOKS_MAX, "{text}: {most} looks in one step");
        assert!(all >= least * 30_000 / 64, "{text}: {all} looks in all steps");
    }
}

/// Goal: a cancelled statement ends with 57014, also inside a long join. Method: cancels before the step.
#[test]
fn a_cancelled_statement_ends_with_57014() {
    let fixture = fixture(600);
    let mut client = fixture.client();
    client.session.cancel_handle().cancel();
    let error = client.sql("select count(*) from t a, t b where a.id + b.id < 0").unwrap_err();
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    assert_eq!(error.report().message, "canceling statement due to user request");
}

/// Runs `body` in its own transaction, which is rolled back if it fails.
pub(super) fn build(fixture: &Fixture, body: impl FnOnce(&mut ExecContext<'_>) -> Result<()>) -> Result<()> {
    let mut client = fixture.client();
    client.session.begin(Isolation::ReadCommitted, false).unwrap();
    client.session.begin_statement(StatementKind::Write).unwrap();
    let result = client.with_context(body);
    client.session.end_statement();
    if result.is_ok() {
        client.commit()
    } else {
        client.rollback()
    }
    result
}

/// Fills an index in a loop of steps.
pub(super) fn build_index(cx: &mut ExecContext<'_>, relation: &Arc<Relation>, index: &Arc<Index>) -> Result<()> {
    let mut pass = Pass::over_index(cx, relation, index)?;
    while !pass.step(cx)? {}
    Ok(())
}

/// Rewrites a table in a loop of steps.
fn rewrite_table(cx: &mut ExecContext<'_>, old: &Arc<Relation>, new: &Arc<Relation>) -> Result<()> {
    let mut pass = Pass::over_table(cx, old, new)?;
    while !pass.step(cx)? {}
    Ok(())
}

fn with_index(fixture: &Fixture, unique: bool, primary: bool, column: usize) -> (Relation, Index) {
    let mut relation = Relation::clone(&fixture.table("t"));
    let mut index = Index::clone(&relation.indexes[0]);
    index.oid += 10;
    index.name = "t_new".into();
    index.cf = fixture.db.create_family();
    index.unique = unique;
    index.primary = primary;
    index.columns[0].part = KeyPart::Column(column);
    index.columns[0].key.nullable = !primary;
    if primary {
        relation.columns[column].not_null = true;
    }
    (relation, index)
}

/// Goal: an index over existing rows is complete, and a unique one is refused if it has duplicates. Method: fills one
/// of
/// each kind, then checks entries against rows.
#[test]
fn an_index_built_over_rows_has_an_entry_for_each_or_names_the_duplicate() {
    let mut fixture = fixture(600);
    let (mut relation, index) = with_index(&fixture, true, false, 0);
    build(&fixture, |cx| build_index(cx, &Arc::new(relation.clone()), &Arc::new(index.clone()))).unwrap();
    relation.indexes.push(Arc::new(index));
    Arc::make_mut(&mut fixture.catalog).put_relation(Arc::new(relation));
    fixture.check_indexes();
    let (relation, index) = with_index(&fixture, true, false, 1);
    let error =
        build(&fixture, |cx| build_index(cx, &Arc::new(relation.clone()), &Arc::new(index.clone()))).unwrap_err();
    assert_eq!(error.report().message, "could not create unique index \"t_new\"");
    assert_eq!(error.report().detail.as_deref(), Some("Key (a)=(0) is duplicated."));
}

/// Goal: ADD PRIMARY KEY gives the same rows under the new key, with all indexes. Method: rewrites, replaces the
/// catalog's
/// table, reads and checks; then a key with NULL.
#[test]
fn adding_a_primary_key_rewrites_the_table_and_its_indexes() {
    let mut fixture = fixture(300);
    let before = fixture.client().sql("select id, a from t order by id").unwrap().1;
    let old = fixture.table("t");
    let (mut relation, primary) = with_index(&fixture, true, true, 0);
    relation.storage = crate::catalog::relation::Storage::Family(primary.cf);
    relation.key = TableKey::Primary;
    let mut second = Index::clone(&relation.indexes[0]);
    second.cf = fixture.db.create_family();
    relation.indexes = vec![Arc::new(primary), Arc::new(second)];
    build(&fixture, |cx| rewrite_table(cx, &old, &Arc::new(relation.clone()))).unwrap();
    Arc::make_mut(&mut fixture.catalog).put_relation(Arc::new(relation));
    assert_eq!(fixture.client().sql("select id, a from t order by id").unwrap().1, before);
    fixture.check_indexes();
    fixture.client().sql("update t set id = id + 1000 where a = 3").unwrap();
    fixture.check_indexes();
}

/// Goal: NULL in a column of a new primary key is refused. Method: one row with NULL.
#[test]
fn adding_a_primary_key_over_null_is_23502() {
    let fixture = fixture(3);
    fixture.client().sql("insert into t values (null, 1)").unwrap();
    let old = fixture.table("t");
    let (mut relation, primary) = with_index(&fixture, true, true, 0);
    relation.storage = crate::catalog::relation::Storage::Family(primary.cf);
    relation.key = TableKey::Primary;
    relation.indexes = vec![Arc::new(primary)];
    let error = build(&fixture, |cx| rewrite_table(cx, &old, &Arc::new(relation.clone()))).unwrap_err();
    assert_eq!(error.state(), SqlState::NOT_NULL_VIOLATION);
    assert_eq!(error.report().message, "column \"id\" of relation \"t\" contains null values");
}

/// Goal: row ids continue above the highest key after a reopen. Method: inserts, closes, opens, and takes the next id.
#[test]
fn row_ids_go_on_above_the_highest_key_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Db::open(directory.path(), Options::small(), collie_env::Env::real(), &mut |_| {}).unwrap().0;
    let db = open();
    let cf = db.create_family();
    let next = |db: &Db, ids: &RowIds| {
        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        let id = ids.next(db, &session, cf).unwrap();
        let inserted = session.insert(&db.family(cf), &id.to_be_bytes(), b"row").unwrap();
        assert_eq!(inserted, collie_engine::Insert::Done);
        session.end_statement();
        session.commit(true).unwrap().block().unwrap();
        id
    };
    let ids = RowIds::new();
    assert_eq!((next(&db, &ids), next(&db, &ids)), (1, 2));
    db.close().unwrap();
    drop(db);
    let db = open();
    assert_eq!(next(&db, &RowIds::new()), 3);
}
