//! The extended query protocol: Parse, Bind, Describe, Execute, Close, Sync, one call each.
//!
//! After an error the caller skips to Sync; nothing here does. A portal ends with its transaction.

use std::sync::Arc;

use collie_obs::{Bind, word};

use crate::{
    analyze::bound::ResultColumn,
    error::{Result, SqlError, SqlState},
    parse::Stmt,
    session::{
        Client, Session,
        described::Described,
        prepared::{NamedStatement, Portal, Prepared, Verb},
        resource_limits::KeptRows,
        run::Rows,
        transaction::{Block, failed_block},
    },
    types::{Value, io},
};

/// The description of a statement or portal.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Parameter types.
    pub parameters: Vec<u32>,
    /// Result columns; `None` if it returns no rows.
    pub columns: Option<Vec<ResultColumn>>,
    /// Formats of a portal's rows.
    pub formats: Vec<u16>,
}

fn no_statement(name: &str) -> SqlError {
    let what = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

impl Session {
    /// Prepares a statement under `name`. The empty name is the unnamed statement, which is replaced.
    ///
    /// # Errors
    /// 42P05 for a name in use, and the errors of parsing and analysis.
    pub async fn parse(&mut self, name: &str, text: &str, types: &[u32]) -> Result<()> {
        self.check_clock()?;
        self.begin_message(text);
        if name.is_empty() {
            self.names.statements.remove(name);
        } else if self.names.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        // Counts the memory before the text is parsed.
        let _memory = self.text_memory(text)?;
        let prepared = match self.has_long_text {
            true => self.prepare_aside(text, types).await?,
            false => self.prepare_current(text, types)?,
        };
        if self.transaction.block == Block::Failed && !ends_failed_block(prepared.stmt.as_deref()) {
            return Err(failed_block());
        }
        match self.has_long_text {
            true => self.plan_aside(&prepared).await?,
            false => _ = self.planned(&prepared)?,
        }
        if !name.is_empty() {
            self.database.resources().check_prepared(self.names.statements.len())?;
        }
        let named = NamedStatement {
            text: prepared.text.clone(),
            prepared,
            since: self.statement_time,
            from_sql: false,
            runs: 0,
        };
        self.names.statements.insert(name.to_owned(), named);
        Ok(())
    }

    /// Returns the statement prepared under `name`.
    ///
    /// # Errors
    /// 26000 when there is none.
    fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.names.statements.get(name).map(|named| named.prepared.clone()).ok_or_else(|| no_statement(name))
    }

    /// Makes a portal from a prepared statement. `values` are the parameters as sent, each with format 0 (text) or 1
    /// (binary) by its place; `formats` are the requested formats of the result.
    ///
    /// # Errors
    /// 26000, 34000, 42P03, 08P01 for counts that do not fit, and the errors of reading the values.
    pub fn bind<'v>(
        &mut self,
        portal: &str,
        statement: &str,
        values: impl ExactSizeIterator<Item = Option<&'v [u8]>>,
        value_format: impl Fn(usize) -> u16,
        formats: Vec<u16>,
    ) -> Result<()> {
        let span = collie_obs::start::<Bind>();
        self.check_clock()?;
        let prepared = self.statement(statement)?;
        self.begin_message(&prepared.text);
        if !portal.is_empty() && self.names.portals.contains_key(portal) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{portal}\" already exists")));
        }
        if self.transaction.block == Block::Failed && !ends_failed_block(prepared.stmt.as_deref()) {
            return Err(failed_block());
        }
        // The parameter types come from the plan, which the portal keeps.
        let (planned, cached_plan) = self.found_or_planned(&prepared)?.unzip();
        let (types, columns) =
            planned.as_ref().map_or((&[][..], 0), |p| (&p.analyzed.parameters[..], p.analyzed.columns.len()));
        // Counts are checked before values are read by their place.
        if values.len() != types.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
                    values.len(),
                    types.len()
                ),
            ));
        }
        if formats.len() > 1 && planned.is_some() && formats.len() != columns {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {} result formats but query has {columns} columns", formats.len()),
            ));
        }
        let context = self.text_context();
        let (mut params, mut param_bytes) = (Vec::with_capacity(types.len()), 0);
        for (place, (bytes, oid)) in values.zip(types).enumerate() {
            param_bytes += bytes.map_or(0, <[u8]>::len);
            params.push(match bytes {
                None => Value::Null,
                Some(bytes) if value_format(place) == 1 => io::binary_in(*oid, -1, bytes)?,
                Some(bytes) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
                    if bytes.contains(&0) {
                        return Err(not_utf8());
                    }
                    io::text_in(*oid, -1, text, &context)?
                }
            });
        }
        if let Some(span) = span {
            let (params, param_bytes, cached_plan) =
                (word(params.len()), word(param_bytes), u32::from(cached_plan == Some(true)));
            span.stop(Bind { params, param_bytes, cached_plan });
        }
        let portal_made = Portal { prepared, planned, params, formats, rest: None, started: false };
        self.names.portals.insert(portal.to_owned(), portal_made);
        if let Some(named) = self.names.statements.get_mut(statement) {
            named.runs += 1;
        }
        Ok(())
    }

    /// Describes the parameters and results of a prepared statement.
    ///
    /// # Errors
    /// 26000 when there is none of that name.
    pub fn describe_statement(&mut self, name: &str) -> Result<Description> {
        self.check_clock()?;
        let prepared = self.statement(name)?;
        if self.transaction.block == Block::Failed && !ends_failed_block(prepared.stmt.as_deref()) {
            return Err(failed_block());
        }
        Ok(match self.planned(&prepared)? {
            Some(planned) => Description {
                parameters: planned.analyzed.parameters.clone(),
                columns: returns_rows(&planned.analyzed.columns, planned.verb)
                    .then(|| planned.analyzed.columns.clone()),
                formats: Vec::new(),
            },
            None => Description {
                columns: prepared.stmt.as_deref().and_then(|stmt| self.utility_columns(stmt)),
                ..Description::default()
            },
        })
    }

    /// Describes the results of a portal.
    ///
    /// # Errors
    /// 34000 when there is none of that name.
    pub fn describe_portal(&mut self, name: &str) -> Result<Description> {
        self.check_clock()?;
        let portal = self.names.portals.get(name).ok_or_else(|| no_portal(name))?;
        let columns = match &portal.planned {
            Some(planned) => {
                returns_rows(&planned.analyzed.columns, planned.verb).then(|| planned.analyzed.columns.clone())
            }
            None => portal.prepared.stmt.as_deref().and_then(|stmt| self.utility_columns(stmt)),
        };
        Ok(Description { parameters: Vec::new(), columns, formats: portal.formats.clone() })
    }

    /// Runs a portal, sends at most `max_rows` rows (0: all), and reports how it ended.
    ///
    /// # Errors
    /// 34000 when there is none of that name, and the errors of the statement.
    pub async fn execute<C: Client>(&mut self, name: &str, max_rows: u32, client: &mut C) -> Result<()> {
        let _running = self.running();
        self.check_clock()?;
        let mut portal = self.names.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if !self.answering {
            self.begin_message(&portal.prepared.text);
        }
        self.start_clock();
        let result = self.run_portal(&mut portal, max_rows, client).await;
        // COMMIT, ROLLBACK and errors end every portal, this one included.
        if result.is_ok() && self.transaction.block != Block::None {
            self.names.portals.insert(name.to_owned(), portal);
        }
        result
    }

    async fn run_portal<C: Client>(&mut self, portal: &mut Portal, max_rows: u32, client: &mut C) -> Result<()> {
        let prepared = portal.prepared.clone();
        let Some(stmt) = &prepared.stmt else {
            self.stop_clock();
            client.empty();
            return Ok(());
        };
        let Some(planned) = portal.planned.clone() else {
            if let Stmt::Transaction(command) = &**stmt {
                let tag = self.transaction_command(command, client).await?;
                self.stop_clock();
                client.complete(tag);
                return Ok(());
            }
            if self.transaction.block == Block::Failed {
                return Err(failed_block());
            }
            let tag = self.utility(stmt, &mut Described { client, formats: &portal.formats }).await?;
            self.stop_clock();
            client.complete(&tag);
            return Ok(());
        };
        let limit = if max_rows == 0 { u64::MAX } else { u64::from(max_rows) };
        if portal.started {
            return self.resume_portal(portal, limit, client).await;
        }
        if self.transaction.block == Block::Failed {
            return Err(failed_block());
        }
        portal.started = true;
        let params = std::mem::take(&mut portal.params);
        let verb = planned.verb;
        let mut rest = KeptRows::on(self.database.resources(), "a portal");
        let rows = if max_rows == 0 {
            Rows::All(&portal.formats)
        } else {
            Rows::Limited { formats: &portal.formats, limit, rest: &mut rest }
        };
        self.begin_read(&prepared, &planned, &params);
        let count = self.run(stmt, &prepared.declared, planned, params, rows, client).await?;
        self.end_read(count);
        if rest.is_empty() && (count < limit || verb != Verb::Select) {
            portal.rest = Some(rest.into_rest());
            self.stop_clock();
            client.complete(&verb.tag(count));
        } else {
            // The client got as many rows as the limit allows: the portal is suspended even if no row is left.
            portal.rest = Some(rest.into_rest());
            client.suspended();
        }
        Ok(())
    }

    /// Sends more rows of a portal that was suspended.
    async fn resume_portal<C: Client>(&mut self, portal: &mut Portal, limit: u64, client: &mut C) -> Result<()> {
        let planned = portal.planned.clone().expect("only planned portals are suspended");
        let text = self.text_context();
        let resources = self.database.resources();
        let rest = portal.rest.get_or_insert_with(|| KeptRows::on(resources, "a portal").into_rest());
        let mut sent = 0;
        while sent < limit {
            let Some(row) = rest.next() else {
                self.stop_clock();
                client.complete(&planned.verb.tag(sent));
                return Ok(());
            };
            client.row(&row, &planned.analyzed.columns, &portal.formats, &text)?;
            sent += 1;
            if client.is_full() {
                client.drain().await?;
                self.database.give_way().await;
            }
        }
        client.suspended();
        Ok(())
    }

    /// Drops a prepared statement, if there is one of that name.
    pub fn close_statement(&mut self, name: &str) {
        self.names.statements.remove(name);
    }

    /// Drops a portal, if there is one of that name.
    pub fn close_portal(&mut self, name: &str) {
        self.names.portals.remove(name);
    }

    /// Ends a pipeline: commits its work outside a transaction block.
    ///
    /// # Errors
    /// When the commit fails; the caller reports it before ReadyForQuery.
    pub async fn sync<C: Client>(&mut self, client: &mut C) -> Result<()> {
        let _running = self.running();
        if let Err(error) = self.check_clock() {
            self.end_message();
            return Err(error);
        }
        self.stop_clock();
        let ended = match self.transaction.block {
            Block::Implicit => self.commit(client).await,
            Block::None => {
                self.names.portals.clear();
                Ok(())
            }
            Block::Explicit | Block::Failed => Ok(()),
        };
        self.end_message();
        ended
    }

    /// Notes that a message of the extended protocol failed; the caller skips to Sync.
    pub async fn failed(&mut self) {
        self.stop_clock();
        self.fail().await;
    }

    /// Returns the text of a prepared statement, for the position of an error in it.
    pub fn statement_text(&self, name: &str) -> Option<Arc<str>> {
        self.names.statements.get(name).map(|named| named.prepared.text.clone())
    }

    /// Returns the text of a portal's statement, for the position of an error in it.
    pub fn portal_text(&self, name: &str) -> Option<Arc<str>> {
        self.names.portals.get(name).map(|portal| portal.prepared.text.clone())
    }
}

fn returns_rows(columns: &[ResultColumn], verb: Verb) -> bool {
    verb == Verb::Select || !columns.is_empty()
}

/// Returns whether a statement may run in a failed block: only the statements that end it may.
fn ends_failed_block(stmt: Option<&Stmt>) -> bool {
    use crate::parse::ast::Transaction;
    match stmt {
        None => true,
        Some(Stmt::Transaction(command)) => {
            matches!(command, Transaction::Commit { .. } | Transaction::Rollback { .. } | Transaction::RollbackTo(_))
        }
        Some(_) => false,
    }
}

fn not_utf8() -> SqlError {
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
}
