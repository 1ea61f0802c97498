//! ALTER TABLE, and the passes over all rows that some of its forms need.

use std::sync::Arc;

use collie_engine::TableLockMode;

use super::storage_options;
use crate::{
    analyze::{
        self,
        bound::{Analyzed, Bound, Distinct, Expr, FromItem, Query, Range, RangeSource, ResultColumn, Select},
    },
    catalog::relation::{Relation, Storage},
    error::{Result, SqlError, SqlState},
    exec::{RowSink, Step, index_build::Pass},
    parse::ast,
    session::{Client, Session, definition::skipped, foreign_key::Declared, prepared::Verb},
    types::{SqlType, Value, oid},
};

impl Session {
    pub(in crate::session) async fn alter_table<C: Client>(
        &mut self,
        alter: &ast::AlterTable,
        client: &mut C,
    ) -> Result<()> {
        if alter.kind != ast::ObjectKind::Table {
            return Err(SqlError::unsupported("ALTER INDEX").at_opt(alter.table.name.pos.get()));
        }
        if alter.if_exists && self.table_named(&alter.table.name).is_err() {
            let text = format!("relation \"{}\" does not exist, skipping", alter.table.name);
            skipped(client, SqlState(*b"00000"), &text);
            return Ok(());
        }
        // One lock for all commands, in the strongest mode that any of them needs.
        let mode = alter.commands.iter().map(lock_mode).max().unwrap_or(TableLockMode::AccessExclusive);
        let table = self.table_to_change(&alter.table.name, mode).await;
        let table = table.map_err(SqlError::without_position)?;
        self.refuse_pending("ALTER TABLE", &table)?;
        for command in &alter.commands {
            let table = self.table_named(&alter.table.name)?;
            self.alter(&table, command, client).await?;
        }
        Ok(())
    }

    async fn alter<C: Client>(
        &mut self,
        table: &Arc<Relation>,
        command: &ast::AlterCommand,
        client: &mut C,
    ) -> Result<()> {
        let mut changed = (**table).clone();
        changed.version += 1;
        match command {
            ast::AlterCommand::AddConstraint(constraint) => {
                if let ast::ConstraintKind::ForeignKey(key) = &constraint.kind {
                    let declared = Declared { column: None, constraint, key, fresh: false };
                    return self.add_foreign_key(table, declared).await;
                }
                return self.add_constraint_to_table(table, constraint).await;
            }
            ast::AlterCommand::DropConstraint { name, if_exists, behavior } => {
                return self.drop_constraint(table, name, (*if_exists, *behavior), client).await;
            }
            ast::AlterCommand::SetDefault { column, value } => {
                let place = self.place(table, column)?;
                changed.columns[place].default = self.default_text(column, table.columns[place].ty, value)?;
            }
            ast::AlterCommand::DropDefault { column } => changed.columns[self.place(table, column)?].default = None,
            ast::AlterCommand::SetOptions(options) => {
                for (name, value) in storage_options(options)? {
                    changed.options.retain(|(other, _)| *other != name);
                    changed.options.push((name, value));
                }
            }
            ast::AlterCommand::ResetOptions(options) => {
                changed.options.retain(|(name, _)| !options.iter().any(|option| option.name == *name));
            }
            ast::AlterCommand::SetNotNull { .. } => return Err(SqlError::unsupported("ALTER COLUMN SET NOT NULL")),
            ast::AlterCommand::DropNotNull { .. } => return Err(SqlError::unsupported("ALTER COLUMN DROP NOT NULL")),
            ast::AlterCommand::AddColumn { .. } => return Err(SqlError::unsupported("ALTER TABLE ADD COLUMN")),
            ast::AlterCommand::DropColumn { .. } => return Err(SqlError::unsupported("ALTER TABLE DROP COLUMN")),
            ast::AlterCommand::SetType { pos, .. } => {
                return Err(SqlError::unsupported("ALTER COLUMN TYPE").at_opt(pos.get()));
            }
            ast::AlterCommand::ValidateConstraint { name } => return self.validate_constraint(table, name).await,
        }
        self.redefine(Some(table), Some(changed))
    }

    fn place(&self, table: &Relation, column: &str) -> Result<usize> {
        table.column(column).map(|(place, _)| place).ok_or_else(|| {
            let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, text)
        })
    }

    async fn add_constraint_to_table(&mut self, table: &Arc<Relation>, constraint: &ast::Constraint) -> Result<()> {
        if constraint.not_valid {
            return Err(SqlError::unsupported("NOT VALID").at_opt(constraint.pos.get()));
        }
        let mut changed = (**table).clone();
        changed.version += 1;
        self.add_constraint(&mut changed, None, constraint).map_err(|error| match error.state() {
            SqlState::INVALID_TABLE_DEFINITION => error.without_position(),
            _ => error,
        })?;
        match &constraint.kind {
            ast::ConstraintKind::PrimaryKey(_) => self.rewrite_by_primary_key(table, changed).await,
            ast::ConstraintKind::Unique(_) => {
                let index = changed.indexes.last().expect("a key was added").clone();
                self.build_index(table, &index).await?;
                self.redefine(Some(table), Some(changed))
            }
            ast::ConstraintKind::Check(_) => {
                let known: Vec<_> = table.checks.iter().map(|check| check.oid).collect();
                let added = changed.checks.iter().find(|check| !known.contains(&check.oid)).expect("a check was added");
                let (name, condition) = (added.name.clone(), added.condition.clone());
                self.verify_check(table, &name, &condition).await?;
                self.redefine(Some(table), Some(changed))
            }
            _ => Ok(()),
        }
    }

    /// Writes every row again under its primary key, with all indexes, into new families.
    async fn rewrite_by_primary_key(&mut self, table: &Arc<Relation>, mut changed: Relation) -> Result<()> {
        let cf = self.new_family();
        changed.storage = Storage::Family(cf);
        for index in &mut changed.indexes {
            let cf = if index.primary { cf } else { self.new_family() };
            Arc::make_mut(index).cf = cf;
        }
        let changed = Arc::new(changed);
        self.run_pass(table, |cx| Pass::over_table(cx, table, &changed)).await?;
        self.replace_family(table.family());
        for index in table.indexes.iter().filter(|index| !index.primary) {
            self.replace_family(index.cf);
        }
        self.redefine(Some(table), Some((*changed).clone()))
    }

    async fn verify_check(&mut self, table: &Arc<Relation>, name: &str, condition: &str) -> Result<()> {
        let bool_type = SqlType::new(oid::BOOL);
        let bound =
            self.analyzing(None, |cx| analyze::stored_expression(condition, Some(table), Some(bool_type), cx))?;
        let violated = self.any_row_violates(table, bound).await?;
        if violated {
            let text = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
            let error = SqlError::new(SqlState::CHECK_VIOLATION, text).constraint(name);
            return Err(self.about(table, error));
        }
        Ok(())
    }

    /// Returns whether some row makes `condition` false.
    async fn any_row_violates(&mut self, table: &Arc<Relation>, condition: Expr) -> Result<bool> {
        let columns = table.columns.iter().map(|column| (column.name.to_string(), column.ty)).collect();
        let one = Expr::Const(Value::Int4(1), SqlType::new(oid::INT4));
        let select = Select {
            ranges: vec![Range { name: table.name.to_string(), source: RangeSource::Table(table.clone()), columns }],
            from: Some(FromItem::Range(0)),
            filter: Some(Expr::Not(Box::new(condition))),
            group_by: Vec::new(),
            aggregates: Vec::new(),
            grouped: false,
            having: None,
            targets: vec![one],
            visible: 1,
            distinct: Distinct::No,
            order_by: Vec::new(),
            limit: Some(Expr::Const(Value::Int8(1), SqlType::new(oid::INT8))),
            offset: None,
            locking: Vec::new(),
            returns_set: false,
        };
        let analyzed = Analyzed {
            bound: Bound::Query(Query::Select(Box::new(select))),
            parameters: Vec::new(),
            columns: vec![ResultColumn { name: String::new(), ty: SqlType::new(oid::INT4), origin: None }],
            modifying: Vec::new(),
            whole: Vec::new(),
            relations: Vec::new(),
            writes: false,
            lock_strength: None,
            assigns_xid: false,
            may_block: false,
        };
        let planned = self.plan_analyzed(analyzed, Verb::Select, self.catalog().epoch)?;
        self.refuse_stale_snapshot()?;
        self.begin_statement(true)?;
        let mut execution = self.execution(planned.plan.clone(), Vec::new());
        let mut counted = Counted(0);
        let text = self.text_context();
        let result = loop {
            match self.step(&mut execution, &text, &mut counted) {
                Ok(Step::Done { .. }) => break Ok(counted.0 > 0),
                // A plain read waits for no lock; it only yields.
                Ok(_) => self.database.give_way().await,
                Err(error) => break Err(error),
            }
        };
        self.engine.end_statement();
        result
    }

    async fn drop_constraint<C: Client>(
        &mut self,
        table: &Arc<Relation>,
        name: &str,
        (if_exists, behavior): (bool, ast::Behavior),
        client: &mut C,
    ) -> Result<()> {
        if let Some(key) = table.foreign_keys.iter().find(|key| &*key.name == name) {
            return self.drop_foreign_keys(&[(table.clone(), key.clone())]).await;
        }
        if let Some(index) = table.indexes.iter().find(|index| index.constraint.is_some() && &*index.name == name) {
            if index.primary {
                return Err(SqlError::unsupported("dropping a primary key"));
            }
            let what = format!("constraint {name} on {}", self.table_text(table));
            self.drop_index_dependents(table, index.oid, what, behavior, client).await?;
            // A foreign key of the table to itself may have been dropped with it.
            let table = self.catalog().relation(table.oid).cloned().unwrap_or_else(|| table.clone());
            return self.remove_index(&table, &index.clone());
        }
        if !table.checks.iter().any(|check| &*check.name == name) {
            let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            if if_exists {
                skipped(client, SqlState(*b"00000"), &format!("{text}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text));
        }
        let mut changed = (**table).clone();
        changed.version += 1;
        changed.checks.retain(|check| &*check.name != name);
        self.redefine(Some(table), Some(changed))
    }
}

/// Returns the lock that a command takes on its table: against all other sessions, except for foreign keys, which
/// change no row and no reader's plan. Writers check a key that is not validated like any other, so its validation lets
/// writers continue.
const fn lock_mode(command: &ast::AlterCommand) -> TableLockMode {
    match command {
        ast::AlterCommand::ValidateConstraint { .. } => TableLockMode::ShareUpdateExclusive,
        ast::AlterCommand::AddConstraint(constraint)
            if matches!(constraint.kind, ast::ConstraintKind::ForeignKey(_)) =>
        {
            TableLockMode::ShareRowExclusive
        }
        _ => TableLockMode::AccessExclusive,
    }
}

/// A sink that counts rows.
struct Counted(u64);

impl RowSink for Counted {
    fn row(&mut self, _values: &[Value]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}
