//! One planned statement: find or make its plan, lock its tables, check the catalog again, take a snapshot, step it.
//!
//! The order is that of `docs/design/transactions.md` section 7: names are resolved in the newest catalog, then tables
//! are locked, then the catalog's epoch is compared (a change in between means planning again), and only then is the
//! snapshot taken, so that it lies above every definition that the plan names. A transaction that keeps its first
//! snapshot meets definitions above it: what it cannot read of them is decided before the statement runs
//! (`publication.rs` P3).

use std::sync::{Arc, OnceLock};

use collie_base::CfId;
use collie_engine::{StatementKind, TableLock, TableLockMode};

use crate::{
    analyze::{
        self, AnalyzeContext,
        bound::{Access, ResultColumn},
    },
    catalog::{
        relation::Oid,
        snapshot::{Catalog, FIRST_USER_OID},
    },
    error::{Result, SqlError, SqlState},
    exec::{ExecContext, Execution, RowSink, Step},
    parse::{Statement, Stmt},
    plan::{self, Plan},
    session::{
        Client, DATABASE, Database, Formats, NoticeLevel, Session, cache,
        client::draining,
        facts::{Change, Facts},
        named::{NamedColumn, NamedSink, named_columns},
        prepared::{Planned, Prepared, Verb},
        resource_limits::KeptRows,
        text_memory::TextMemory,
    },
    types::{Value, io::TextContext},
};

/// Longest text that the session's own thread parses and plans, in bytes. A longer one takes more than a millisecond
/// and cannot stop in between, so another thread does it.
const LONG_TEXT_BYTES: usize = 8 << 10;

/// Returns whether a text is so long that parsing or planning it would block a thread.
pub(super) const fn is_long(text: &str) -> bool {
    text.len() > LONG_TEXT_BYTES
}

/// The parts of a session that analysis and planning need, apart from the session.
struct Scope {
    database: Arc<Database>,
    catalog: Arc<Catalog>,
    search_path: Vec<Oid>,
    text: TextContext,
}

impl Scope {
    /// Analyzes and plans a statement. `declared` are the types of parameters; `None` where parameters are not allowed.
    fn plan(&self, stmt: &Stmt, declared: Option<&[u32]>) -> Result<Arc<Planned>> {
        let analyzed = analyze::analyze(
            stmt,
            &AnalyzeContext {
                catalog: &self.catalog,
                search_path: &self.search_path,
                parameter_types: declared.unwrap_or(&[]),
                parameters_allowed: declared.is_some(),
                text: &self.text,
                database: DATABASE,
            },
        )?;
        let verb = Verb::of(stmt).unwrap_or(Verb::Select);
        plan_for(&self.database, &self.catalog, analyzed, (verb, self.catalog.epoch), &[])
    }
}

/// Plans an analyzed statement. `verb` is the statement's, and `epoch` that of the catalog it was analyzed with. The
/// plan reads from no index in the families `unreadable`.
fn plan_for(
    database: &Database,
    catalog: &Catalog,
    mut analyzed: analyze::bound::Analyzed,
    (verb, epoch): (Verb, u64),
    unreadable: &[CfId],
) -> Result<Arc<Planned>> {
    plan::leave_out_unread(&mut analyzed.bound);
    let row_estimate = |cf| database.db.rows_in(cf);
    let plan = plan::plan(&analyzed, &plan::PlanContext { catalog, row_estimate: &row_estimate, unreadable })?;
    Ok(Arc::new(Planned { epoch, analyzed, plan: Arc::new(plan), verb, fit: OnceLock::new() }))
}

/// The destination of a statement's rows.
pub(super) enum Rows<'a> {
    /// To the client, all of them.
    All(&'a Formats),
    /// To the client up to the limit, the rest into the buffer.
    Limited { formats: &'a Formats, limit: u64, rest: &'a mut KeptRows },
    /// Into the buffer.
    Kept(&'a mut KeptRows),
    /// Nowhere: they are only counted.
    Dropped,
}

struct Sink<'a, 'b, C> {
    client: &'a mut C,
    columns: &'a [ResultColumn],
    text: &'a TextContext,
    rows: &'a mut Rows<'b>,
    sent: &'a mut u64,
}

impl<C: Client> RowSink for Sink<'_, '_, C> {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        match self.rows {
            Rows::All(formats) => self.client.row(values, self.columns, formats, self.text),
            Rows::Limited { formats, limit, rest } => {
                if *self.sent >= *limit {
                    return rest.push(values);
                }
                *self.sent += 1;
                self.client.row(values, self.columns, formats, self.text)
            }
            Rows::Kept(kept) => kept.push(values),
            Rows::Dropped => Ok(()),
        }
    }

    fn is_full(&self) -> bool {
        self.client.is_full()
    }
}

impl Session {
    /// Returns the shared prepared statement of `text`, a single statement, if its parameter types and result columns
    /// have not changed; otherwise prepares it again.
    pub(super) fn prepare_current(&mut self, text: &str, declared: &[u32]) -> Result<Arc<Prepared>> {
        let mut prepared = self.prepare(text, declared)?;
        if !self.same_result(&prepared)? {
            // Sessions that hold the old one keep it, and get the error when they use it; this one gets a new one.
            self.forget_prepared(text, declared);
            prepared = self.prepare(text, declared)?;
        }
        Ok(prepared)
    }

    /// Returns the shared prepared statement of `text`, a single statement, or prepares it.
    fn prepare(&mut self, text: &str, declared: &[u32]) -> Result<Arc<Prepared>> {
        let key = self.cache_key(text, declared);
        if let Some(found) = self.database.plans.get(&key) {
            return Ok(found);
        }
        let statements = crate::parse::statements(text)?;
        self.keep_prepared(key, statements, declared)
    }

    /// Does the work of [`Session::prepare_current`] for a long text, without blocking other sessions of the thread.
    pub(super) async fn prepare_aside(&mut self, text: &str, declared: &[u32]) -> Result<Arc<Prepared>> {
        let key = self.cache_key(text, declared);
        if let Some(found) = self.database.plans.get(&key) {
            let before = found.planned.lock().as_ref().map(|planned| planned.epoch);
            if before.is_none_or(|epoch| epoch == self.catalog().epoch) {
                return Ok(found);
            }
        }
        let statements = self.parse_text(text).await?;
        self.keep_prepared(key, statements, declared)
    }

    /// Counts a long text on an account until the returned value is dropped (T1 of `text_memory.rs`).
    pub(super) fn text_memory(&self, text: &str) -> Result<Option<TextMemory>> {
        is_long(text).then(|| TextMemory::of(self.database.resources(), text)).transpose()
    }

    /// Parses the statements of a text. A long one is parsed by a worker thread.
    pub(super) async fn parse_text(&mut self, text: &str) -> Result<Vec<Statement>> {
        if !is_long(text) {
            return crate::parse::statements(text);
        }
        let text = text.to_owned();
        self.database.workers.run(&self.cancel, move || crate::parse::statements(&text)).await?
    }

    /// Makes a prepared statement from a parsed one, and shares it with other sessions.
    fn keep_prepared(
        &self,
        key: cache::Key,
        mut statements: Vec<Statement>,
        declared: &[u32],
    ) -> Result<Arc<Prepared>> {
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let stmt = statements.pop().map(|statement| Arc::new(statement.stmt));
        let prepared = Arc::new(Prepared {
            text: key.text.clone(),
            stmt,
            declared: declared.to_vec(),
            planned: parking_lot::Mutex::new(None),
        });
        // Other sessions can use the tree, but not a private catalog's plan; its epoch keeps them from using it.
        self.database.plans.put(key, prepared.clone());
        Ok(prepared)
    }

    /// Returns a plan of a prepared statement for the catalog that this session sees now; `None` for a statement that
    /// is not planned.
    pub(super) fn planned(&self, prepared: &Prepared) -> Result<Option<Arc<Planned>>> {
        Ok(self.found_or_planned(prepared)?.map(|(planned, _)| planned))
    }

    /// Returns the plan of [`Session::planned`], and whether it existed already.
    pub(super) fn found_or_planned(&self, prepared: &Prepared) -> Result<Option<(Arc<Planned>, bool)>> {
        let Some(stmt) = &prepared.stmt else { return Ok(None) };
        if Verb::of(stmt).is_none() {
            return Ok(None);
        }
        let catalog = self.catalog();
        let found = prepared.planned.lock().clone();
        if let Some(planned) = found.filter(|planned| planned.epoch == catalog.epoch) {
            return Ok(Some((planned, true)));
        }
        let planned = self.plan(stmt, &prepared.declared)?;
        keep_planned(prepared, &planned)?;
        Ok(Some((planned, false)))
    }

    /// Plans a prepared statement with a long text by a worker thread, if its plan is missing or old.
    pub(super) async fn plan_aside(&mut self, prepared: &Prepared) -> Result<()> {
        let Some(stmt) = prepared.stmt.clone().filter(|stmt| Verb::of(stmt).is_some()) else { return Ok(()) };
        let epoch = prepared.planned.lock().as_ref().map(|planned| planned.epoch);
        if epoch == Some(self.catalog().epoch) {
            return Ok(());
        }
        let planned = self.plan_by_worker(stmt, Some(prepared.declared.clone())).await?;
        keep_planned(prepared, &planned)
    }

    /// Plans a statement by a worker thread.
    pub(super) async fn plan_by_worker(&mut self, stmt: Arc<Stmt>, declared: Option<Vec<u32>>) -> Result<Arc<Planned>> {
        let scope = self.scope()?;
        self.database.workers.run(&self.cancel, move || scope.plan(&stmt, declared.as_deref())).await?
    }

    /// Returns whether the statement still has the parameter types and result columns of its plan, if it has a plan.
    fn same_result(&self, prepared: &Prepared) -> Result<bool> {
        let before = prepared.planned.lock().clone();
        match (&prepared.stmt, before) {
            (Some(stmt), Some(before)) if before.epoch != self.catalog().epoch => {
                Ok(same_columns(&*self.plan(stmt, &prepared.declared)?, &before))
            }
            _ => Ok(true),
        }
    }

    /// Removes a statement from the cache, so that the next `prepare` makes it again.
    fn forget_prepared(&self, text: &str, declared: &[u32]) {
        self.database.plans.remove(&self.cache_key(text, declared));
    }

    pub(super) fn cache_key(&self, text: &str, declared: &[u32]) -> cache::Key {
        cache::Key {
            text: text.into(),
            types: declared.to_vec(),
            search_path: self.settings.get("search_path").into(),
            reading: self.text_context().into(),
        }
    }

    /// Analyzes and plans a statement for the catalog that this session sees now.
    pub(super) fn plan(&self, stmt: &Stmt, declared: &[u32]) -> Result<Arc<Planned>> {
        self.plan_with(stmt, Some(declared))
    }

    /// Does the work of [`Session::plan`] for a statement from simple text, in which parameters are not allowed.
    pub(super) fn plan_text(&self, stmt: &Stmt) -> Result<Arc<Planned>> {
        self.plan_with(stmt, None)
    }

    fn plan_with(&self, stmt: &Stmt, declared: Option<&[u32]>) -> Result<Arc<Planned>> {
        let scope = self.scope()?;
        if !self.has_long_text {
            return scope.plan(stmt, declared);
        }
        // This call cannot await a worker: it plans again after a definition changed, or plans a part of another
        // statement.
        let mut planned = None;
        self.database.block(&mut || planned = Some(scope.plan(stmt, declared)));
        planned.unwrap_or_else(|| scope.plan(stmt, declared))
    }

    fn scope(&self) -> Result<Scope> {
        self.wait_for_position()?; // P2 of `position.rs`
        let catalog = self.catalog();
        let search_path = self.search_path(&catalog);
        Ok(Scope { database: self.database.clone(), catalog, search_path, text: self.text_context() })
    }

    /// Plans an analyzed statement under the epoch of the catalog that analysis read.
    pub(super) fn plan_analyzed(
        &self,
        analyzed: analyze::bound::Analyzed,
        verb: Verb,
        epoch: u64,
    ) -> Result<Arc<Planned>> {
        self.plan_without(analyzed, verb, epoch, &[])
    }

    /// Does the work of [`Session::plan_analyzed`], with a plan that does not read from the indexes in the families
    /// `unreadable`.
    fn plan_without(
        &self,
        analyzed: analyze::bound::Analyzed,
        verb: Verb,
        epoch: u64,
        unreadable: &[CfId],
    ) -> Result<Arc<Planned>> {
        plan_for(&self.database, &self.catalog(), analyzed, (verb, epoch), unreadable)
    }

    /// Takes a table lock for the rest of the transaction.
    pub(super) async fn lock_table(&mut self, oid: Oid, mode: TableLockMode) -> Result<()> {
        loop {
            match self.engine.lock_table(oid, mode)? {
                TableLock::Granted => return Ok(()),
                TableLock::Wait(blocker) => self.wait(blocker).await?,
            }
        }
    }

    async fn lock_relations(&mut self, planned: &Planned) -> Result<()> {
        for (oid, access) in &planned.analyzed.relations {
            if *oid < FIRST_USER_OID {
                continue;
            }
            self.database.refuse_unsettled()?;
            let mode = match access {
                Access::Read => TableLockMode::AccessShare,
                Access::Lock => TableLockMode::RowShare,
                Access::Write => TableLockMode::RowExclusive,
            };
            self.lock_table(*oid, mode).await?;
        }
        Ok(())
    }

    /// Locks the tables of a plan, and plans again for as long as the catalog changed before the locks were granted
    /// (SQL-5).
    pub(super) async fn lock_planned(
        &mut self,
        stmt: &Stmt,
        declared: &[u32],
        mut planned: Arc<Planned>,
    ) -> Result<Arc<Planned>> {
        loop {
            self.lock_relations(&planned).await?;
            let catalog = self.catalog();
            // A plan without relations holds in every catalog; `rows_of` has no statement to plan such a one again.
            if catalog.epoch == planned.epoch || planned.analyzed.relations.is_empty() {
                let unreadable = self.unreadable_indexes(&planned.analyzed, &catalog)?;
                return match &unreadable[..] {
                    [] => Ok(planned),
                    unreadable => self.plan_without(planned.analyzed.clone(), planned.verb, planned.epoch, unreadable),
                };
            }
            let fresh = self.plan(stmt, declared)?;
            if !same_columns(&fresh, &planned) {
                return Err(result_type_changed());
            }
            planned = fresh;
        }
    }

    /// Locks the tables of a plan and takes the statement's snapshot, by a newer plan if the catalog has changed.
    /// Returns the plan to execute.
    pub(super) async fn begin_planned(
        &mut self,
        stmt: &Stmt,
        declared: &[u32],
        mut planned: Arc<Planned>,
    ) -> Result<Arc<Planned>> {
        loop {
            planned = self.lock_planned(stmt, declared, planned).await?;
            if planned.analyzed.assigns_xid {
                self.refuse_read_only("pg_current_xact_id()")?;
                self.engine.assign_xid()?;
            }
            self.begin_statement(planned.analyzed.writes)?;
            if planned.analyzed.relations.is_empty() || self.is_planned_for_snapshot(planned.epoch) {
                return Ok(planned);
            }
            // L4 of `following.rs`: a definition changed between the plan and the snapshot.
            self.engine.end_statement();
        }
    }

    /// Runs a planned statement to its end inside the open transaction, by a newer plan if the catalog has changed.
    /// Returns the number of rows that it returned or wrote.
    pub(super) async fn run<C: Client>(
        &mut self,
        stmt: &Stmt,
        declared: &[u32],
        mut planned: Arc<Planned>,
        params: Vec<Value>,
        mut rows: Rows<'_>,
        client: &mut C,
    ) -> Result<u64> {
        if planned.analyzed.writes {
            match planned.analyzed.lock_clause() {
                Some(clause) if planned.verb == Verb::Select => self.refuse_read_only(&format!("SELECT {clause}"))?,
                _ => self.refuse_read_only(planned.verb.word())?,
            }
        }
        self.ensure_transaction()?;
        if planned.analyzed.writes {
            self.engine.note_purpose(planned.verb == Verb::Delete);
            // Before the table locks, so that this wait adds none.
            draining(client, self.wait_for_room()).await?;
        }
        planned = draining(client, self.begin_planned(stmt, declared, planned)).await?;
        if let Some(reading) = &mut self.reading {
            reading.snapshot = self.engine.snapshot();
        }
        // The statement may block its thread, so earlier answers leave first.
        if planned.analyzed.may_block {
            client.drain_answered().await?;
        }
        let mut execution = self.execution(planned.plan.clone(), params);
        let mut sent = 0;
        let text = self.text_context();
        let types = planned.analyzed.columns.iter().map(|column| column.ty.oid);
        let named = match &rows {
            Rows::All(formats) | Rows::Limited { formats, .. } => named_columns(types, |place| is_text(formats, place)),
            Rows::Kept(_) | Rows::Dropped => Vec::new(),
        };
        let mut result = loop {
            let mut sink =
                Sink { client, columns: &planned.analyzed.columns, text: &text, rows: &mut rows, sent: &mut sent };
            let step = self.step_named(&mut execution, &text, &named, &mut sink);
            self.tell_warnings(client);
            match step {
                Ok(Step::Done { rows }) => break Ok(rows),
                Ok(Step::Suspended) => {}
                Ok(Step::Wait(blocker)) => {
                    if let Err(error) = draining(client, self.wait(blocker)).await {
                        break Err(error);
                    }
                }
                Ok(Step::Yield) => {
                    if let Err(error) = client.drain().await {
                        break Err(error);
                    }
                    self.database.give_way().await;
                }
                Err(error) => break Err(error),
            }
        };
        self.engine.end_statement();
        if result.is_ok() {
            let events = execution.take_events();
            if let Err(error) = self.answer_all(events).await {
                result = Err(error);
            }
        }
        // A worker thread drops what takes long to drop.
        if execution.is_heavy() {
            self.database.workers.discard(execution);
        }
        result
    }

    /// Sends the warnings of functions to the client.
    pub(super) fn tell_warnings<C: Client>(&mut self, client: &mut C) {
        for warning in self.warnings.drain(..) {
            client.notice(NoticeLevel::Warning, warning.report());
        }
    }

    /// Takes the statement's snapshot.
    pub(super) fn begin_statement(&mut self, writes: bool) -> Result<()> {
        self.wait_for_position()?;
        let kind = if writes { StatementKind::Write } else { StatementKind::ReadOnly };
        let pins = self.pins_catalog();
        self.engine.begin_statement(kind)?;
        if pins {
            self.pin_catalog().inspect_err(|_| self.engine.end_statement())?;
        }
        Ok(())
    }

    /// Steps an execution once.
    pub(super) fn step(
        &mut self,
        execution: &mut Execution,
        text: &TextContext,
        sink: &mut dyn RowSink,
    ) -> Result<Step> {
        self.step_named(execution, text, &[], sink)
    }

    /// Steps an execution once; in its rows the values of the columns in `named` are replaced by their names.
    pub(super) fn step_named(
        &mut self,
        execution: &mut Execution,
        text: &TextContext,
        named: &[NamedColumn],
        sink: &mut dyn RowSink,
    ) -> Result<Step> {
        self.in_context(text, |context, system| {
            if named.is_empty() {
                execution.step(context, sink, 0)
            } else {
                let mut sink = NamedSink { inner: sink, columns: named, system };
                execution.step(context, &mut sink, 0)
            }
        })
    }

    /// Calls `work` with the context of execution, inside the open statement, and with the view of the session for
    /// functions.
    pub(super) fn in_context<T>(
        &mut self,
        text: &TextContext,
        work: impl FnOnce(&mut ExecContext<'_>, &Facts<'_>) -> Result<T>,
    ) -> Result<T> {
        let catalog = self.catalog();
        let transaction_time = self.transaction_time();
        let (xid, snapshot) = (self.engine.xid(), self.engine.snapshot());
        // Separate borrows: `facts` reads parts of the session while execution changes `engine`.
        let Self {
            database,
            engine,
            cancel,
            advisory,
            settings,
            transaction,
            identity,
            pid,
            statement_time,
            names,
            last_commit,
            row_bytes_max,
            ..
        } = self;
        let value_bytes_max = database.resources().statement_bytes().min(*row_bytes_max);
        let value_bytes_max = usize::try_from(value_bytes_max).unwrap_or(usize::MAX);
        let facts = Facts {
            database,
            catalog: &catalog,
            search_path: Default::default(),
            settings,
            transaction,
            identity,
            pid: *pid,
            xid,
            snapshot,
            last_commit: *last_commit,
            names,
            cancel,
            advisory,
            changes: Default::default(),
            warnings: Default::default(),
        };
        let clock = || database.now();
        let mut context = ExecContext {
            db: &database.db,
            session: engine,
            catalog: &catalog,
            eval: crate::builtin::EvalContext {
                text,
                transaction_time,
                statement_time: *statement_time,
                clock_time: &clock,
                system: &facts,
                value_bytes_max,
            },
            virtual_tables: &facts,
            row_ids: &database.row_ids,
            cancel,
            clock: &*database.env.clock,
            aside: &|work| database.block(work),
        };
        let result = work(&mut context, &facts);
        let (changes, warnings) = (facts.changes.into_inner(), facts.warnings.into_inner());
        self.warnings.extend(warnings);
        for Change { name, value, local } in changes {
            self.change_setting(&name, Some(&value), local)?;
        }
        result
    }

    /// Runs a planned statement and returns its rows, for statements that need a computed value.
    pub(super) async fn rows_of<C: Client>(
        &mut self,
        planned: Arc<Planned>,
        client: &mut C,
    ) -> Result<Vec<Vec<Value>>> {
        let mut kept = KeptRows::on(self.database.resources(), "a statement's value");
        // The plan names no table, so no statement is kept to plan it again.
        self.run(&Stmt::Checkpoint, &[], planned, Vec::new(), Rows::Kept(&mut kept), client).await?;
        Ok(kept.into_rows())
    }

    /// Makes an execution of a plan, with an account for the rows that it keeps.
    pub(super) fn execution(&self, plan: Arc<Plan>, params: Vec<Value>) -> Execution {
        let resources = self.database.resources();
        let bytes_max = resources.statement_bytes().min(self.row_bytes_max);
        Execution::new(plan, params).keeping_at_most(bytes_max, resources.memory().clone())
    }
}

/// Stores a new plan of a prepared statement for its next run in any session.
fn keep_planned(prepared: &Prepared, planned: &Arc<Planned>) -> Result<()> {
    let mut kept = prepared.planned.lock();
    if kept.as_ref().is_some_and(|before| !same_columns(planned, before)) {
        return Err(result_type_changed());
    }
    *kept = Some(planned.clone());
    Ok(())
}

fn result_type_changed() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
}

fn same_columns(a: &Planned, b: &Planned) -> bool {
    let (a, b) = (&a.analyzed, &b.analyzed);
    a.parameters == b.parameters
        && a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(|(a, b)| a.ty.oid == b.ty.oid && a.name == b.name)
}

/// Returns whether a column is sent as text.
fn is_text(formats: &Formats, place: usize) -> bool {
    match formats {
        [one] => *one == 0,
        many => many.get(place).is_none_or(|format| *format == 0),
    }
}
