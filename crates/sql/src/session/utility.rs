//! Statements that are neither planned nor transaction commands: SET, SHOW, EXPLAIN, PREPARE, VACUUM and others. COPY
//! and the statements that define objects are only dispatched here, and have their own files.

use std::sync::Arc;

use collie_engine::TableLockMode;

use crate::{
    analyze::{
        self,
        bound::{Analyzed, Bound, Query, ResultColumn, ValuesQuery},
    },
    error::{Result, SqlError, SqlState},
    parse::{Stmt, ast},
    plan,
    session::{
        Client, NoticeLevel, Session,
        checkpoint::copied_columns,
        prepared::{NamedStatement, Prepared, Verb, utility_tag},
        run::Rows,
        settings::{SETTINGS, find},
        transaction::{isolation_level, isolation_text, on_off},
    },
    types::{SqlType, Value, oid},
};

/// The name in `SET collie.training_switch = 'SCAN:replayed_read=off'`, which sets the option `training.switch` of the
/// running server.
const SWITCH: &str = "collie.training_switch";

fn text_column(name: &str) -> ResultColumn {
    ResultColumn { name: name.to_owned(), ty: SqlType::new(oid::TEXT), origin: None }
}

fn text_value(text: impl AsRef<str>) -> Value {
    Value::Text(text.as_ref().into())
}

impl Session {
    /// Returns the columns of a utility statement's result, if it has one.
    pub(super) fn utility_columns(&self, stmt: &Stmt) -> Option<Vec<ResultColumn>> {
        match stmt {
            Stmt::Show(name) if name.eq_ignore_ascii_case("all") => {
                Some(["name", "setting", "description"].map(text_column).to_vec())
            }
            Stmt::Show(name) => Some(vec![text_column(shown_name(name))]),
            Stmt::Explain(_) => Some(vec![text_column("QUERY PLAN")]),
            Stmt::CopyDatabase(_) => Some(copied_columns()),
            Stmt::Execute(execute) => {
                let named = self.names.statements.get(&execute.name)?;
                let planned = self.planned(&named.prepared).ok()??;
                let columns = &planned.analyzed.columns;
                (planned.verb == Verb::Select || !columns.is_empty()).then(|| columns.clone())
            }
            _ => None,
        }
    }

    /// Runs a statement that is not planned; returns its command tag.
    pub(super) async fn utility<C: Client>(&mut self, stmt: &Arc<Stmt>, client: &mut C) -> Result<String> {
        let tag = utility_tag(stmt).to_owned();
        // These statements may wait or block, so earlier answers leave first.
        if !matches!(**stmt, Stmt::Set(_) | Stmt::Show(_) | Stmt::Prepare(_) | Stmt::Execute(_) | Stmt::Deallocate(_)) {
            client.drain_answered().await?;
        }
        match &**stmt {
            Stmt::CreateTable(_)
            | Stmt::CreateIndex(_)
            | Stmt::CreateSchema(_)
            | Stmt::Drop(_)
            | Stmt::AlterTable(_)
            | Stmt::Rename(_)
            | Stmt::SetSchema(_)
            | Stmt::Truncate(_) => {
                self.refuse_read_only(&tag)?;
                self.define(stmt, client).await?;
            }
            Stmt::Copy(copy) => return self.copy(copy, client).await,
            Stmt::Set(set) => self.set(set, client)?,
            Stmt::SetTransaction(set) => self.set_transaction(set, client)?,
            Stmt::SetConstraints(set) => self.set_constraints(set, client).await?,
            Stmt::Reset(name) => self.reset(name.as_deref(), client)?,
            Stmt::Show(name) => {
                self.show(name, client)?;
                self.ensure_block();
            }
            Stmt::Vacuum(vacuum) => self.vacuum(vacuum).await?,
            Stmt::Explain(explain) => self.explain(explain, client).await?,
            Stmt::Prepare(prepare) => self.prepare_named(prepare)?,
            Stmt::Execute(execute) => return self.execute_named(execute, client).await,
            Stmt::Deallocate(name) => self.deallocate(name.as_deref())?,
            Stmt::Discard(what) => self.discard(*what)?,
            Stmt::Checkpoint => self.checkpoint()?,
            Stmt::CopyDatabase(copy) => self.copy_database(copy, client)?,
            Stmt::SetOption(option) => self.set_option(option)?,
            Stmt::Lock(lock) => self.lock_tables(lock).await?,
            Stmt::DeclareCursor(_) | Stmt::Fetch(_) | Stmt::Close(_) => {
                return Err(SqlError::unsupported("cursors in SQL")
                    .hint("Use the row limit of the extended protocol (fetch size in most drivers)."));
            }
            Stmt::Transaction(_) | Stmt::Select(_) | Stmt::Insert(_) | Stmt::Update(_) | Stmt::Delete(_) => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a planned statement reached the utility path"));
            }
        }
        Ok(tag)
    }

    fn set<C: Client>(&mut self, set: &ast::Set, client: &mut C) -> Result<()> {
        let words = set.values.iter().map(|value| match value {
            ast::SetValue::Text(text) | ast::SetValue::Number(text) => text.clone(),
            ast::SetValue::Integer(number) => number.to_string(),
        });
        let value = if set.name.eq_ignore_ascii_case("search_path") {
            words.map(|word| quoted_if_needed(&word)).collect::<Vec<_>>().join(", ")
        } else {
            words.collect::<Vec<_>>().join(", ")
        };
        let value = (!set.values.is_empty()).then_some(value);
        match (set.name.to_ascii_lowercase().as_str(), value.as_deref()) {
            (name @ ("transaction_isolation" | "transaction_read_only" | "transaction_deferrable"), value) => {
                self.transaction_modes(&[mode_of_setting(name, value)?])
            }
            // Not a setting of the session: it holds for the server, as the option does.
            (SWITCH, Some(value)) => {
                if set.local {
                    let text = format!("{SWITCH} holds for the server: it cannot be set for a transaction alone");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
                }
                self.set_option(&ast::SetOption { name: "training.switch".to_owned(), value: value.to_owned() })
            }
            (name, value) => self.set_in_transaction(name, value, set.local, client),
        }
    }

    fn set_transaction<C: Client>(&mut self, set: &ast::SetTransaction, client: &mut C) -> Result<()> {
        if !set.session {
            if self.transaction.block != super::transaction::Block::Explicit {
                let text = "SET TRANSACTION can only be used in transaction blocks";
                let warning = SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text);
                client.notice(NoticeLevel::Warning, warning.report());
                return Ok(());
            }
            return self.transaction_modes(&set.modes);
        }
        for mode in &set.modes {
            let (name, value) = match mode {
                ast::TransactionMode::Isolation(level) => ("default_transaction_isolation", isolation_text(*level)),
                ast::TransactionMode::ReadOnly(on) => ("default_transaction_read_only", on_off(*on)),
                ast::TransactionMode::Deferrable(on) => ("default_transaction_deferrable", on_off(*on)),
            };
            self.set_in_transaction(name, Some(value), false, client)?;
        }
        Ok(())
    }

    fn reset<C: Client>(&mut self, name: Option<&str>, client: &mut C) -> Result<()> {
        match name {
            Some(name) => {
                let set = ast::Set { name: name.to_owned(), values: Vec::new(), local: false };
                self.set(&set, client)
            }
            None => self.change_settings(false, |settings| {
                settings.reset_all();
                Ok(())
            }),
        }
    }

    fn shown(&self, name: &str) -> Result<String> {
        let lower = name.to_ascii_lowercase();
        if let Some(shown) = self.transaction.shown(&lower, &self.settings, self.database.db.is_replica()) {
            return Ok(shown.to_owned());
        }
        match lower.as_str() {
            "synchronous_standby_names" => Ok(self.database.quorum_list()),
            _ => self.settings.show(name),
        }
    }

    fn show<C: Client>(&mut self, name: &str, client: &mut C) -> Result<()> {
        let text = self.text_context();
        if name.eq_ignore_ascii_case("all") {
            let columns = ["name", "setting", "description"].map(text_column);
            client.columns(&columns, &[]);
            for setting in SETTINGS {
                let row = [setting.display().to_owned(), self.shown(setting.name)?, setting.description.to_owned()];
                client.row(&row.map(text_value), &columns, &[], &text)?;
            }
            return Ok(());
        }
        let columns = [text_column(shown_name(name))];
        let value = self.shown(name)?;
        client.columns(&columns, &[]);
        client.row(&[text_value(value)], &columns, &[], &text)
    }

    /// Runs VACUUM or ANALYZE, which have no work: old versions are pruned as rows are written, and the planner asks
    /// the indexes. The named tables and columns must exist all the same.
    async fn vacuum(&mut self, vacuum: &ast::Vacuum) -> Result<()> {
        if vacuum.vacuum {
            self.refuse_in_block("VACUUM")?;
        }
        for (table, columns) in &vacuum.targets {
            let relation = self.table_named(&table.name)?;
            for column in columns {
                if relation.column(column).is_none() {
                    let text = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name);
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, text));
                }
            }
        }
        Ok(())
    }

    async fn explain<C: Client>(&mut self, explain: &ast::Explain, client: &mut C) -> Result<()> {
        let (mut analyze, mut costs) = (false, true);
        for option in &explain.options {
            let on = !matches!(option.value, Some(ast::OptionValue::Bool(false)))
                && !matches!(&option.value, Some(ast::OptionValue::Text(text)) if super::settings::parse_bool(text) == Some(false));
            match option.name.as_str() {
                "analyze" => analyze = on,
                "costs" => costs = on,
                "verbose" | "timing" | "summary" | "buffers" | "settings" => {}
                "format" if matches!(&option.value, Some(ast::OptionValue::Text(text)) if text.eq_ignore_ascii_case("text")) =>
                    {}
                other => {
                    return Err(SqlError::unsupported(format!("EXPLAIN option {other}")).at_opt(option.pos.get()));
                }
            }
        }
        let Some(_) = Verb::of(&explain.stmt) else {
            return Err(SqlError::unsupported(format!("EXPLAIN of {}", utility_tag(&explain.stmt))));
        };
        self.ensure_transaction()?;
        let planned = self.plan(&explain.stmt, &[])?;
        let mut lines = plan::explain_with(&planned.plan, costs);
        if analyze {
            let clock = self.database.env.clock.clone();
            let begun = clock.now_ns();
            let rows = self.run(&explain.stmt, &[], planned, Vec::new(), Rows::Dropped, client).await?;
            let us = (clock.now_ns() - begun) / 1_000;
            lines.push(format!("Actual Rows: {rows}"));
            lines.push(format!("Execution Time: {}.{:03} ms", us / 1_000, us % 1_000));
        }
        let columns = [text_column("QUERY PLAN")];
        let text = self.text_context();
        client.columns(&columns, &[]);
        for line in lines {
            client.row(&[text_value(line)], &columns, &[], &text)?;
        }
        Ok(())
    }

    fn prepare_named(&mut self, prepare: &ast::Prepare) -> Result<()> {
        if self.names.statements.contains_key(&prepare.name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{}\" already exists", prepare.name),
            ));
        }
        let declared = self.analyzing(None, |cx| {
            prepare.types.iter().map(|name| Ok(analyze::type_name(name, cx)?.oid)).collect::<Result<Vec<_>>>()
        })?;
        let prepared = Prepared {
            text: format!("PREPARE {}", prepare.name).into(),
            stmt: Some(Arc::new((*prepare.stmt).clone())),
            declared,
            planned: parking_lot::Mutex::new(None),
        };
        self.planned(&prepared)?;
        self.database.resources().check_prepared(self.names.statements.len())?;
        let named = NamedStatement {
            prepared: Arc::new(prepared),
            text: prepare.text.as_str().into(),
            since: self.statement_time,
            from_sql: true,
            runs: 0,
        };
        self.names.statements.insert(prepare.name.clone(), named);
        Ok(())
    }

    async fn execute_named<C: Client>(&mut self, execute: &ast::Execute, client: &mut C) -> Result<String> {
        let named = self.names.statements.get_mut(&execute.name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{}\" does not exist", execute.name),
            )
        })?;
        named.runs += 1;
        let prepared = named.prepared.clone();
        let (Some(stmt), Some(planned)) = (&prepared.stmt, self.planned(&prepared)?) else {
            return Err(SqlError::unsupported("EXECUTE of a statement that is not SELECT, INSERT, UPDATE or DELETE"));
        };
        let params = self.computed(&execute.args, &planned.analyzed.parameters, &execute.name, client).await?;
        if planned.verb == Verb::Select || !planned.analyzed.columns.is_empty() {
            client.columns(&planned.analyzed.columns, &[]);
        }
        let verb = planned.verb;
        let rows = self.run(stmt, &prepared.declared, planned, params, Rows::All(&[]), client).await?;
        Ok(verb.tag(rows))
    }

    /// Returns EXECUTE's arguments as values of the parameters' types.
    async fn computed<C: Client>(
        &mut self,
        args: &[ast::Expr],
        types: &[u32],
        name: &str,
        client: &mut C,
    ) -> Result<Vec<Value>> {
        if args.len() != types.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!("Expected {} parameters but got {}.", types.len(), args.len())));
        }
        if args.is_empty() {
            return Ok(Vec::new());
        }
        let types: Vec<SqlType> = types.iter().map(|oid| SqlType::new(*oid)).collect();
        let row = self.analyzing(None, |cx| {
            args.iter().zip(&types).map(|(arg, ty)| analyze::expression(arg, None, Some(*ty), cx)).collect()
        })?;
        let columns = types.iter().map(|ty| ResultColumn { name: String::new(), ty: *ty, origin: None }).collect();
        let values = ValuesQuery { rows: vec![row], types, order_by: Vec::new(), limit: None, offset: None };
        let analyzed = Analyzed {
            bound: Bound::Query(Query::Values(Box::new(values))),
            parameters: Vec::new(),
            columns,
            modifying: Vec::new(),
            whole: Vec::new(),
            relations: Vec::new(),
            writes: false,
            lock_strength: None,
            assigns_xid: false,
            may_block: false,
        };
        let planned = self.plan_analyzed(analyzed, Verb::Select, self.catalog().epoch)?;
        Ok(self.rows_of(planned, client).await?.pop().unwrap_or_default())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.names.statements.clear(),
            Some(name) => {
                if self.names.statements.remove(name).is_none() {
                    return Err(SqlError::new(
                        SqlState::INVALID_SQL_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn discard(&mut self, what: ast::Discard) -> Result<()> {
        match what {
            ast::Discard::All => {
                self.refuse_in_block("DISCARD ALL")?;
                self.names.statements.clear();
                self.names.portals.clear();
                self.settings.reset_all();
                self.reported.note_change();
                self.advisory.give_all_back();
            }
            ast::Discard::Plans => self.database.plans.clear(),
            ast::Discard::Sequences | ast::Discard::Temp => {}
        }
        Ok(())
    }

    async fn lock_tables(&mut self, lock: &ast::Lock) -> Result<()> {
        if self.transaction.block != super::transaction::Block::Explicit {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        if lock.nowait {
            return Err(SqlError::unsupported("LOCK TABLE ... NOWAIT"));
        }
        self.ensure_transaction()?;
        let mode = match lock.mode {
            ast::LockMode::AccessShare => TableLockMode::AccessShare,
            ast::LockMode::RowShare => TableLockMode::RowShare,
            ast::LockMode::RowExclusive => TableLockMode::RowExclusive,
            ast::LockMode::ShareUpdateExclusive => TableLockMode::ShareUpdateExclusive,
            ast::LockMode::Share => TableLockMode::Share,
            ast::LockMode::ShareRowExclusive => TableLockMode::ShareRowExclusive,
            ast::LockMode::Exclusive => TableLockMode::Exclusive,
            ast::LockMode::AccessExclusive => TableLockMode::AccessExclusive,
        };
        for table in &lock.tables {
            let oid = self.table_named(&table.name)?.oid;
            self.lock_table(oid, mode).await?;
        }
        Ok(())
    }
}

fn shown_name(name: &str) -> &str {
    find(name).map_or(name, |setting| setting.display())
}

fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

/// Returns the transaction mode that a setting stands for; without a value, the mode after RESET.
fn mode_of_setting(name: &str, value: Option<&str>) -> Result<ast::TransactionMode> {
    let switch = || match value {
        None => Ok(false),
        Some(text) => super::settings::parse_bool(text).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("parameter \"{name}\" requires a Boolean value"))
        }),
    };
    Ok(match name {
        "transaction_read_only" => ast::TransactionMode::ReadOnly(switch()?),
        "transaction_deferrable" => ast::TransactionMode::Deferrable(switch()?),
        _ => {
            let text = value.unwrap_or("read committed");
            ast::TransactionMode::Isolation(isolation_level(text).ok_or_else(|| invalid(name, text))?)
        }
    })
}

/// Returns a schema name of the search path in a form that splitting the path reads back.
fn quoted_if_needed(name: &str) -> String {
    let plain =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain || name.contains('"') || name.contains(',') { name.to_owned() } else { format!("\"{name}\"") }
}
