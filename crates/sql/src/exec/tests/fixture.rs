//! A database in a temporary directory, a handmade catalog, and clients that run statements on it.

use std::cell::Cell;
use std::sync::Arc;

use collie_engine::{Blocker, Db, Isolation, Options, Session, StatementKind};
use collie_env::Clock;

use crate::{
    analyze::{AnalyzeContext, analyze, bound::Analyzed},
    builtin::{EvalContext, Rows, SystemFunctions},
    catalog::{
        relation::{Column, Index, IndexColumn, KeyPart, Relation, Storage, TableKey},
        snapshot::{Catalog, PUBLIC, Schema},
    },
    codec::{key::KeyColumn, row::RowLayout},
    error::{Result, SqlError},
    exec::{ExecContext, Execution, RowIds, RowSink, Step, VirtualTables, entry::Keyed, from_engine},
    plan::{Plan, PlanContext, plan},
    types::{SqlType, TextContext, Value},
};

/// Rows that a statement returned, and the count of its tag.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) count: u64,
}

pub(super) struct Fixture {
    pub(super) db: Db,
    pub(super) catalog: Arc<Catalog>,
    pub(super) row_ids: RowIds,
    directory: tempfile::TempDir,
}

/// The shape of a test's table: columns (name, type, NOT NULL), primary key, indexes (unique, columns).
pub(super) struct Table<'a> {
    pub(super) name: &'a str,
    pub(super) columns: &'a [(&'a str, SqlType, bool)],
    pub(super) primary: &'a [usize],
    pub(super) indexes: &'a [(&'a str, bool, &'a [usize])],
}

/// Added to a column of an index to make it descending with NULLs first.
pub(super) const DESC: usize = 1 << 16;

impl Fixture {
    pub(super) fn new(tables: &[Table<'_>]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (db, _) = Db::open(directory.path(), Options::small(), collie_env::Env::real(), &mut |_| {}).unwrap();
        let mut catalog = Catalog::default();
        catalog.schemas.insert(PUBLIC, Arc::new(Schema { oid: PUBLIC, name: "public".into() }));
        for (number, table) in (0u32..).zip(tables) {
            catalog.put_relation(Arc::new(relation(&db, 20_000 + number * 100, table)));
        }
        Self { db, catalog: Arc::new(catalog), row_ids: RowIds::new(), directory }
    }

    /// Closes the database and opens it again from its log.
    pub(super) fn reopen(&mut self) {
        self.db.close().unwrap();
        let opened = Db::open(self.directory.path(), Options::small(), collie_env::Env::real(), &mut |_| {});
        self.db = opened.unwrap().0;
    }

    pub(super) fn table(&self, name: &str) -> Arc<Relation> {
        self.catalog.relations.values().find(|relation| &*relation.name == name).unwrap().clone()
    }

    /// Adds the system table `v` to the catalog.
    pub(super) fn add_virtual(&mut self) {
        let columns = [("n", SqlType::INT4, false), ("name", SqlType::TEXT, false)];
        let table = Table { name: "v", columns: &columns, primary: &[], indexes: &[] };
        let relation = Relation { storage: Storage::Virtual, ..relation(&self.db, 30_000, &table) };
        Arc::make_mut(&mut self.catalog).put_relation(Arc::new(relation));
    }

    pub(super) fn client(&self) -> Client<'_> {
        Client { fixture: self, session: self.db.session().unwrap(), explicit: false }
    }

    pub(super) fn plan(&self, analyzed: &Analyzed) -> Arc<Plan> {
        self.try_plan(analyzed).unwrap()
    }

    pub(super) fn try_plan(&self, analyzed: &Analyzed) -> Result<Arc<Plan>> {
        let cx = PlanContext { catalog: &self.catalog, row_estimate: &|_| 0, unreadable: &[] };
        Ok(Arc::new(plan(analyzed, &cx)?))
    }

    /// Fails unless every visible row of every table has exactly one entry per index, and every entry its row; an index
    /// that
    /// computes something must hold what filling it again would give.
    pub(super) fn check_indexes(&self) {
        let mut anew = Vec::new();
        for relation in self.catalog.relations.values() {
            for index in relation.indexes.iter().filter(|index| index.is_computed()) {
                let again = Arc::new(Index { cf: self.db.create_family(), ..Index::clone(index) });
                super::steps::build(self, |cx| super::steps::build_index(cx, relation, &again)).unwrap();
                anew.push((index.clone(), again));
            }
        }
        let mut session = self.db.session().unwrap();
        session.begin(Isolation::ReadCommitted, true).unwrap();
        session.begin_statement(StatementKind::ReadOnly).unwrap();
        for relation in self.catalog.relations.values().filter(|relation| relation.storage != Storage::Virtual) {
            let all: Vec<usize> = (0..relation.columns.len()).collect();
            let rows = dump(&self.db, &session, relation.family());
            for index in relation.indexes.iter().filter(|index| !index.primary && !index.is_computed()) {
                let mut expected = Vec::new();
                for (key, bytes) in &rows {
                    let mut row = vec![Value::Null; all.len()];
                    super::super::entry::decode_row(relation, bytes, &all, &mut row).unwrap();
                    let mut entry = Vec::new();
                    super::super::entry::entry_key(index, Keyed::Row(&row), key, &mut entry).unwrap();
                    expected.push((entry, super::super::entry::entry_value(index, key).to_vec()));
                }
                expected.sort();
                let found = dump(&self.db, &session, index.cf);
                assert_eq!(found, expected, "entries of {} do not match the rows of {}", index.name, relation.name);
            }
        }
        for (index, again) in anew {
            let (found, expected) = (dump(&self.db, &session, index.cf), dump(&self.db, &session, again.cf));
            assert_eq!(found, expected, "entries of {} are not those of a fresh one", index.name);
        }
        session.end_statement();
        session.rollback();
    }
}

fn dump(db: &Db, session: &Session, cf: collie_base::CfId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let family = db.family(cf);
    let end = session.scan(&family, &collie_engine::KeyRange::ALL, None, false, usize::MAX, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    });
    end.unwrap();
    rows
}

fn relation(db: &Db, oid: u32, table: &Table<'_>) -> Relation {
    let columns: Vec<Column> = (1i16..)
        .zip(table.columns)
        .map(|(attnum, (name, ty, not_null))| Column {
            attnum,
            name: (*name).into(),
            ty: *ty,
            not_null: *not_null,
            default: None,
            missing: Value::Null,
            dropped: false,
        })
        .collect();
    let cf = db.create_family();
    let key = |places: &[usize]| -> Vec<IndexColumn> {
        places
            .iter()
            .map(|&place| {
                let (column, desc) = (place % DESC, place >= DESC);
                let Column { ty, not_null, .. } = columns[column];
                let key = KeyColumn { oid: ty.oid, desc, nulls_first: desc, nullable: !not_null };
                IndexColumn { part: KeyPart::Column(column), key }
            })
            .collect()
    };
    let mut indexes = Vec::new();
    if !table.primary.is_empty() {
        indexes.push(Arc::new(Index {
            oid: oid + 1,
            name: format!("{}_pkey", table.name).into(),
            cf,
            unique: true,
            primary: true,
            constraint: None,
            columns: key(table.primary),
            predicate: Vec::new(),
            included: Vec::new(),
        }));
    }
    for (number, (name, unique, places)) in (2u32..).zip(table.indexes) {
        indexes.push(Arc::new(Index {
            oid: oid + number,
            name: (*name).into(),
            cf: db.create_family(),
            unique: *unique,
            primary: false,
            constraint: None,
            columns: key(places),
            predicate: Vec::new(),
            included: Vec::new(),
        }));
    }
    let layout = RowLayout::new(&columns.iter().map(|column| column.ty.oid).collect::<Vec<_>>());
    Relation {
        oid,
        schema: PUBLIC,
        name: table.name.into(),
        version: 1,
        storage: Storage::Family(cf),
        columns,
        key: if table.primary.is_empty() { TableKey::RowId } else { TableKey::Primary },
        indexes,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        options: Vec::new(),
        layout: Arc::new(layout),
    }
}

pub(super) struct Client<'a> {
    fixture: &'a Fixture,
    pub(super) session: Session,
    explicit: bool,
}

/// A statement that has begun and may wait.
pub(super) struct Running {
    execution: Execution,
    rows: Collected,
}

/// The progress of a running statement.
pub(super) enum Progress {
    Done(Answer),
    Waits(Box<Running>, Blocker),
}

#[derive(Default)]
struct Collected(Vec<Vec<Value>>);

impl RowSink for Collected {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.0.push(values.to_vec());
        Ok(())
    }
}

struct Nothing;

thread_local! {
    /// The number of times that this thread has read a clock that stands still.
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of looks at the clock since the last call. Execution looks once per 64 rows of work.
pub(super) fn looks() -> u64 {
    LOOKS.take()
}

/// A clock that stands still, so that a step ends by its rows alone.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        LOOKS.set(LOOKS.get() + 1);
        0
    }

    fn wall_us(&self) -> i64 {
        0
    }
}

/// One system table: `v (n int4, name text)` with the rows 0 to 4. Look-ups return exactly the matching rows.
impl VirtualTables for Nothing {
    fn rows(&self, relation: &Relation, lookup: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>> {
        assert_eq!(&*relation.name, "v");
        let rows = (0..5).map(|n| vec![Value::Int4(n), Value::Text(format!("name {n}").into())]);
        Ok(match lookup {
            Some((column, value)) => rows.filter(|row| &row[column] == value).collect(),
            None => rows.collect(),
        })
    }
}

impl SystemFunctions for Nothing {
    fn call(&self, source: &str, _: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(source))
    }

    fn call_set(&self, source: &str, _: &[Value]) -> Result<Rows> {
        Err(SqlError::unsupported(source))
    }
}

impl Client<'_> {
    pub(super) fn begin(&mut self, isolation: Isolation) {
        self.session.begin(isolation, false).unwrap();
        self.explicit = true;
    }

    pub(super) fn commit(&mut self) {
        self.explicit = false;
        self.session.commit(false).unwrap().block().unwrap();
    }

    pub(super) fn rollback(&mut self) {
        self.explicit = false;
        self.session.rollback();
    }

    /// Starts a statement and runs it until it ends or waits.
    pub(super) fn start(&mut self, plan: &Arc<Plan>, params: &[Value]) -> Result<Progress> {
        if !self.explicit {
            self.session.begin(Isolation::ReadCommitted, false).unwrap();
        }
        self.session.begin_statement(StatementKind::Write).unwrap();
        let execution = Execution::new(plan.clone(), params.to_vec());
        self.go_on(Running { execution, rows: Collected::default() })
    }

    /// Continues a statement after its wait.
    pub(super) fn go_on(&mut self, mut running: Running) -> Result<Progress> {
        // A step also yields by the clock, which on a slow machine can happen anywhere.
        let stepped = loop {
            match self.with_context(|cx| running.execution.step(cx, &mut running.rows, 0)) {
                Ok(Step::Yield) => {}
                stepped => break stepped,
            }
        };
        match stepped {
            Ok(Step::Done { rows }) => {
                self.session.end_statement();
                if !self.explicit {
                    self.session.commit(false).map_err(from_engine)?.block().map_err(from_engine)?;
                }
                Ok(Progress::Done(Answer { rows: running.rows.0, count: rows }))
            }
            Ok(Step::Wait(blocker)) => Ok(Progress::Waits(Box::new(running), blocker)),
            Ok(other) => panic!("a statement without a row limit stopped at {other:?}"),
            Err(error) => {
                self.session.end_statement();
                self.explicit = false;
                self.session.rollback();
                Err(error)
            }
        }
    }

    /// Calls `body` with the context of a step.
    pub(super) fn with_context<T>(&mut self, body: impl FnOnce(&mut ExecContext<'_>) -> T) -> T {
        let text = TextContext::default();
        let cancel = self.session.cancel_handle();
        body(&mut ExecContext {
            db: &self.fixture.db,
            session: &mut self.session,
            catalog: &self.fixture.catalog,
            eval: EvalContext {
                text: &text,
                transaction_time: 0,
                statement_time: 0,
                clock_time: &|| 0,
                system: &Nothing,
                value_bytes_max: usize::MAX,
            },
            virtual_tables: &Nothing,
            row_ids: &self.fixture.row_ids,
            cancel: &cancel,
            clock: &Still,
            aside: &|work| work(),
        })
    }

    /// Returns the lines that EXPLAIN prints for SQL text.
    pub(super) fn explain(&self, text: &str) -> Vec<String> {
        crate::plan::explain(&self.fixture.plan(&self.analyze(text).unwrap()))
    }

    /// Runs SQL text: one statement.
    pub(super) fn sql(&mut self, text: &str) -> Result<(Analyzed, Answer)> {
        let analyzed = self.analyze(text)?;
        let answer = self.run(&analyzed, &[])?;
        Ok((analyzed, answer))
    }

    pub(super) fn analyze(&self, text: &str) -> Result<Analyzed> {
        let statements = crate::parse::statements(text)?;
        let [statement] = statements.as_slice() else { panic!("one statement at a time: {text}") };
        let cx = AnalyzeContext {
            catalog: &self.fixture.catalog,
            search_path: &[PUBLIC],
            parameter_types: &[],
            parameters_allowed: true,
            text: &TextContext::default(),
            database: "test",
        };
        analyze(&statement.stmt, &cx)
    }

    /// Runs a statement that must not wait.
    pub(super) fn run(&mut self, analyzed: &Analyzed, params: &[Value]) -> Result<Answer> {
        let plan = self.fixture.plan(analyzed);
        match self.start(&plan, params)? {
            Progress::Done(answer) => Ok(answer),
            Progress::Waits(_, blocker) => panic!("the statement waits for {blocker:?}"),
        }
    }
}
