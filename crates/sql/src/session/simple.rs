//! The simple query protocol: one string of statements, run in order, in one implicit transaction unless it contains
//! BEGIN.
//!
//! A single statement whose normal form was seen before runs by the plan kept for that form, without being parsed.

use std::sync::Arc;

use crate::{
    analyze::Access,
    error::{Result, SqlError},
    parse::{NormalForm, Statement, Stmt, normal_form},
    session::{
        Client, Session,
        effective::TextPlans,
        prepared::{Planned, Prepared, Verb},
        run::{Rows, is_long},
        transaction::{Block, failed_block},
    },
    types::{Value, io, oid},
};

/// A text with a known plan, and its literals as parameters.
struct Known {
    prepared: Arc<Prepared>,
    planned: Option<Arc<Planned>>,
    params: Vec<Value>,
}

impl Session {
    /// Runs a string of statements. Answers go to `client`, an error included; the caller then sends ReadyForQuery.
    ///
    /// # Cancel safety
    /// After the future is dropped, dropping the session rolls back the open transaction; a commit that was appended
    /// stays committed.
    pub async fn simple_query<C: Client>(&mut self, text: &str, client: &mut C) {
        let _running = self.running();
        self.begin_message(text);
        if let Err(error) = self.run_text(text, client).await {
            self.fail().await;
            // A session that was ordered to end reports that, and not that its statement was cancelled, unless the
            // error itself ends the session.
            if error.ends_session() || !self.is_told_to_end() {
                client.error(&error, text);
            }
        }
        self.end_message();
    }

    async fn run_text<C: Client>(&mut self, text: &str, client: &mut C) -> Result<()> {
        if let Some(known) = self.known_text(text) {
            return self.run_known(known, client).await;
        }
        // Counts the memory of a long text before it is parsed.
        let _memory = self.text_memory(text)?;
        let statements = self.parse_text(text).await?;
        if statements.is_empty() {
            client.empty();
            return Ok(());
        }
        let count = statements.len();
        for (place, Statement { stmt, range }) in statements.into_iter().enumerate() {
            let last = place + 1 == count;
            self.start_clock();
            let tag = match &stmt {
                Stmt::Transaction(command) => self.transaction_command(command, client).await?.to_owned(),
                _ if self.transaction.block == Block::Failed => return Err(failed_block()),
                _ => self.run_statement(Arc::new(stmt), is_long(&text[range]), client).await?,
            };
            if last && self.transaction.block == Block::Implicit {
                self.commit(client).await?;
            }
            self.stop_clock();
            client.complete(&tag);
        }
        Ok(())
    }

    /// Runs one statement that is not a transaction command, and may be a long one; returns its command tag.
    async fn run_statement<C: Client>(&mut self, stmt: Arc<Stmt>, long: bool, client: &mut C) -> Result<String> {
        if Verb::of(&stmt).is_none() {
            return self.utility(&stmt, client).await;
        }
        if !long {
            let planned = self.plan_text(&stmt)?;
            return Ok(self.run_plan(&stmt, &[], planned, Vec::new(), client).await?.0);
        }
        let planned = self.plan_by_worker(stmt.clone(), None).await?;
        let ran = self.run_plan(&stmt, &[], planned.clone(), Vec::new(), client).await;
        self.database.workers.discard((stmt, planned));
        Ok(ran?.0)
    }

    /// Runs a planned statement with all its answers except the tag; returns the tag and the number of rows.
    async fn run_plan<C: Client>(
        &mut self,
        stmt: &Stmt,
        declared: &[u32],
        planned: Arc<Planned>,
        params: Vec<Value>,
        client: &mut C,
    ) -> Result<(String, u64)> {
        let verb = planned.verb;
        if !planned.analyzed.columns.is_empty() || verb == Verb::Select {
            client.columns(&planned.analyzed.columns, &[]);
        }
        let rows = self.run(stmt, declared, planned, params, Rows::All(&[]), client).await?;
        Ok((verb.tag(rows), rows))
    }

    /// Finds the shared plan of a text by its normal form, or makes it when the form is seen for the second time.
    /// `None`, for any reason, means that the text has to be parsed.
    fn known_text(&mut self, text: &str) -> Option<Known> {
        let mode = self.settings.effective().text_plans;
        if mode == TextPlans::Never || self.must_wait() {
            return None;
        }
        let form = normal_form(text)?;
        let plans = &self.database.plans;
        let wanted =
            if mode == TextPlans::Always { !plans.is_refused(&form.text) } else { plans.seen_before(&form.text) };
        if !wanted {
            return None;
        }
        let Some((prepared, planned)) = self.plan_form(&form) else {
            self.database.plans.refuse(&form.text);
            return None;
        };
        let types = planned.as_ref().map_or(&[][..], |planned| &planned.analyzed.parameters);
        let context = self.text_context();
        let values = form.literals.iter().zip(types).map(|(literal, ty)| io::text_in(*ty, -1, &literal.text, &context));
        let params = values.collect::<Result<_>>().ok()?;
        Some(Known { prepared, planned, params })
    }

    fn plan_form(&mut self, form: &NormalForm<'_>) -> Option<(Arc<Prepared>, Option<Arc<Planned>>)> {
        let types: Vec<u32> = form.literals.iter().map(|literal| literal.ty).collect();
        let prepared = self.prepare_current(&form.text, &types).ok()?;
        let planned = self.planned(&prepared).ok()?;
        if planned.as_ref().is_some_and(|planned| self.has_literal_index(planned)) {
            return None;
        }
        // The unit of an interval literal such as '14' can follow from the type modifier of its column; a parameter is
        // read without the modifier.
        if planned.as_ref().is_some_and(|planned| planned.analyzed.parameters.contains(&oid::INTERVAL)) {
            return None;
        }
        let parameters = planned.as_ref().map_or(0, |planned| planned.analyzed.parameters.len());
        (parameters == types.len()).then_some((prepared, planned))
    }

    /// Returns whether a plan reads a table with an index whose definition contains a literal: the partial index for
    /// `state = 'open'` can answer `WHERE state = 'open'`, but not `WHERE state = $1`.
    fn has_literal_index(&self, planned: &Planned) -> bool {
        let catalog = self.catalog();
        let read = |access: Access| planned.verb != Verb::Insert || access != Access::Write;
        let tables = planned.analyzed.relations.iter().filter(|(_, access)| read(*access));
        let mut tables = tables.filter_map(|(oid, _)| catalog.relation(*oid));
        tables.any(|table| table.indexes.iter().any(|index| index.has_literal()))
    }

    async fn run_known<C: Client>(&mut self, known: Known, client: &mut C) -> Result<()> {
        let Known { prepared, planned, params } = known;
        let Some(stmt) = prepared.stmt.as_deref() else { unreachable!("a form holds a statement") };
        let tag = match (stmt, planned) {
            (Stmt::Transaction(command), _) => self.transaction_command(command, client).await?.to_owned(),
            _ if self.transaction.block == Block::Failed => return Err(failed_block()),
            (_, Some(planned)) => {
                // Its text is not the client's, so no position in it is sent.
                self.begin_read(&prepared, &planned, &params);
                let run = self.run_plan(stmt, &prepared.declared, planned, params, client).await;
                let (tag, rows) = run.map_err(SqlError::without_position)?;
                self.end_read(rows);
                tag
            }
            (_, None) => unreachable!("a form begins with a word of a planned statement or a transaction command"),
        };
        if self.transaction.block == Block::Implicit {
            self.commit(client).await?;
        }
        client.complete(&tag);
        Ok(())
    }
}
