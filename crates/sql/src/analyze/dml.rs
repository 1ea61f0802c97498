//! INSERT, UPDATE, DELETE: target columns, assigned values, defaults, CHECKs and RETURNING.
//!
//! # Invariants
//! - D1. Every column of the table has exactly one source: a given value, or its default.
//! - D2. A given value is converted to the column's type, modifier included.

use std::sync::Arc;

use super::{
    Access, Analyzer, Typed,
    bound::{
        Bound, Delete, Expr, FromItem, Insert, JoinKind, Query, RangeSource, ResultColumn, SubqueryKind, Update,
        ValuesQuery,
    },
    error,
    expr::row_fields,
    scope::{Clause, Level},
    select::{is_unknown, result_columns, same_width},
    set_operation::{over, over_source},
    unsupported,
};
use crate::{
    catalog::relation::{Relation, Storage},
    error::{Result, SqlError, SqlState},
    parse::ast::{self, ExprKind, Pos},
    types::{SqlType, Value},
};

impl Analyzer<'_> {
    /// Analyzes INSERT.
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<(Bound, Vec<ResultColumn>)> {
        if insert.overriding.is_some() {
            return Err(unsupported("OVERRIDING", insert.table.pos));
        }
        let mark = self.ctes.len();
        if let Some(with) = &insert.with {
            self.with(with)?;
        }
        self.nesting += 1;
        let table = self.target_table(&insert.table)?;
        let mut columns = self.insert_columns(&table, &insert.columns)?;
        let source = match &insert.source {
            ast::InsertSource::DefaultValues => {
                columns.clear();
                one_row(Vec::new(), Vec::new())
            }
            ast::InsertSource::Query(select) => match &select.body {
                ast::SelectBody::Values(rows) if plain(select) => {
                    self.insert_rows(insert, &table, &mut columns, rows)?
                }
                _ => self.insert_query(insert, &table, &mut columns, select)?,
            },
        };
        let mut defaults = Vec::with_capacity(table.columns.len());
        for place in 0..table.columns.len() {
            defaults.push(if columns.contains(&place) { None } else { Some(self.column_default(&table, place)?) });
        }
        let checks = self.checks(&table)?;
        // The table's level opens only now: the source and the defaults must not see its columns.
        let mut level = Level::new(Clause::Returning);
        let name = insert.alias.clone().unwrap_or_else(|| table.name.to_string());
        level.add_table(&table, name, insert.alias.is_some());
        self.levels.push(level);
        let on_conflict = match &insert.on_conflict {
            Some(clause) => Some(self.on_conflict(&table, clause)?),
            None => None,
        };
        let (returning, result) = self.returning(&insert.returning)?;
        self.levels.pop();
        self.nesting -= 1;
        self.ctes.truncate(mark);
        let bound = Insert { table, source, columns, defaults, checks, on_conflict, returning };
        Ok((Bound::Insert(Box::new(bound)), result))
    }

    /// Finds the target table of a statement and notes the write access.
    fn target_table(&mut self, name: &ast::RelationName) -> Result<Arc<Relation>> {
        let table = self.table(name)?;
        if table.storage == Storage::Virtual {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", table.name),
            ));
        }
        self.note(table.oid, Access::Write);
        Ok(table)
    }

    /// Finds the index of each listed column; without a list, of every live column.
    fn insert_columns(&self, table: &Relation, listed: &[ast::AssignTarget]) -> Result<Vec<usize>> {
        if listed.is_empty() {
            return Ok(table.live_columns().map(|(place, _)| place).collect());
        }
        let mut out = Vec::with_capacity(listed.len());
        for target in listed {
            let place = assigned_place(table, target)?;
            if out.contains(&place) {
                let text = format!("column \"{}\" specified more than once", target.column);
                return Err(error(SqlState::DUPLICATE_COLUMN, text, target.pos));
            }
            out.push(place);
        }
        Ok(out)
    }

    /// Checks a row's width against the columns. Without a column list, drops the columns that the row has no value
    /// for.
    fn fit_columns(
        &self,
        insert: &ast::Insert,
        columns: &mut Vec<usize>,
        width: usize,
        place_of: impl Fn(usize) -> Pos,
    ) -> Result<()> {
        if width > columns.len() {
            let text = "INSERT has more expressions than target columns";
            return Err(error(SqlState::SYNTAX_ERROR, text, place_of(columns.len())));
        }
        if width < columns.len() {
            if let Some(target) = insert.columns.get(width) {
                let text = "INSERT has more target columns than expressions";
                return Err(error(SqlState::SYNTAX_ERROR, text, target.pos));
            }
            columns.truncate(width);
        }
        Ok(())
    }

    fn insert_rows(
        &mut self,
        insert: &ast::Insert,
        table: &Arc<Relation>,
        columns: &mut Vec<usize>,
        rows: &[Vec<ast::Expr>],
    ) -> Result<Query> {
        same_width(rows)?;
        let first = rows.first().map_or(&[][..], Vec::as_slice);
        self.fit_columns(insert, columns, first.len(), |at| first.get(at).map_or(Pos::NONE, ast::Expr::start))?;
        let types: Vec<SqlType> = columns.iter().map(|&place| table.columns[place].ty).collect();
        self.levels.push(Level::new(Clause::Values));
        self.hidden_target = Some(table.clone());
        // PostgreSQL analyzes all values before it converts any: the types of parameters and the errors depend on it.
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            let values: Result<Vec<Given>> = row.iter().map(|expr| self.given(expr)).collect();
            read.push(values?);
        }
        self.hidden_target = None;
        let mut out = Vec::with_capacity(rows.len());
        for row in read {
            let values = row.into_iter().zip(&*columns).map(|(given, &place)| self.assigned(table, place, given));
            out.push(values.collect::<Result<Vec<Expr>>>()?);
        }
        self.levels.pop();
        let rows = ValuesQuery { rows: out, types, order_by: Vec::new(), limit: None, offset: None };
        Ok(Query::Values(Box::new(rows)))
    }

    fn insert_query(
        &mut self,
        insert: &ast::Insert,
        table: &Arc<Relation>,
        columns: &mut Vec<usize>,
        select: &ast::Select,
    ) -> Result<Query> {
        self.hidden_target = Some(table.clone());
        let output = self.query(select, false)?;
        self.hidden_target = None;
        self.fit_columns(insert, columns, output.columns.len(), |at| output.places[at])?;
        let mut types = Vec::with_capacity(columns.len());
        for (at, &place) in columns.iter().enumerate() {
            let column = &table.columns[place];
            let given = output.columns[at].ty;
            let sample = Typed::new(Expr::CaseOperand(given), output.places[at]);
            if !is_unknown(given) {
                self.coerce_assigned(sample, &column.name, column.ty)?;
            }
            types.push(column.ty);
        }
        self.convert_output(output, &types)
    }

    /// Analyzes a value to be assigned.
    fn given(&mut self, expr: &ast::Expr) -> Result<Given> {
        match expr.kind {
            ExprKind::Default => Ok(Given::Default),
            _ => Ok(Given::Value(self.transform(expr)?)),
        }
    }

    /// Converts a value to its column's type (D2).
    fn assigned(&mut self, table: &Arc<Relation>, place: usize, given: Given) -> Result<Expr> {
        let column = &table.columns[place];
        match given {
            Given::Default => self.column_default(table, place),
            Given::Value(node) => Ok(self.coerce_assigned(node, &column.name, column.ty)?.expr),
        }
    }

    /// Returns a column's default, or NULL if it has none (D1).
    fn column_default(&mut self, table: &Relation, place: usize) -> Result<Expr> {
        let column = &table.columns[place];
        match &column.default {
            Some(text) if !column.dropped => {
                let mut value = super::stored_expression(text, None, Some(column.ty), self.cx)?;
                super::visit::walk(&mut value, 0, &mut |node, _| {
                    if let Expr::Call { proc, .. } = node {
                        self.note_call(proc);
                    }
                    Ok(true)
                })?;
                Ok(value)
            }
            _ => Ok(Expr::Const(Value::Null, column.ty)),
        }
    }

    /// Returns the CHECKs of a table as conditions over its row, which is range 0.
    fn checks(&self, table: &Arc<Relation>) -> Result<Vec<(String, Expr)>> {
        table
            .checks
            .iter()
            .map(|check| {
                let condition = super::stored_expression(&check.condition, Some(table), Some(SqlType::BOOL), self.cx)?;
                Ok((check.name.to_string(), condition))
            })
            .collect()
    }

    /// Analyzes RETURNING inside the current level.
    fn returning(&mut self, targets: &[ast::Target]) -> Result<(Vec<Expr>, Vec<ResultColumn>)> {
        self.level().clause = Clause::Returning;
        let mut targets = self.targets(targets)?;
        for target in &mut targets {
            self.resolve_target(target)?;
        }
        let columns = result_columns(&targets, self.level(), None);
        Ok((targets.into_iter().map(|target| target.node.expr).collect(), columns))
    }

    /// Opens the level of an UPDATE or DELETE. The target is range 0; FROM or USING follows.
    fn open_target(
        &mut self,
        table: &Arc<Relation>,
        alias: Option<&String>,
        from: &[ast::FromItem],
    ) -> Result<FromItem> {
        let mut level = Level::new(Clause::From);
        let name = alias.cloned().unwrap_or_else(|| table.name.to_string());
        level.add_table(table, name, alias.is_some());
        // Neither FROM nor USING can name the target, not even laterally.
        level.items[0].lateral_only = true;
        level.items[0].lateral_ok = false;
        self.levels.push(level);
        let rest = self.read_from(from)?;
        let target = FromItem::Range(0);
        Ok(match rest {
            None => target,
            Some(rest) => {
                FromItem::Join { kind: JoinKind::Inner, left: Box::new(target), right: Box::new(rest), on: None }
            }
        })
    }

    /// Analyzes UPDATE. As in PostgreSQL, WHERE and RETURNING are analyzed before SET.
    pub(super) fn update(&mut self, update: &ast::Update) -> Result<(Bound, Vec<ResultColumn>)> {
        let mark = self.ctes.len();
        if let Some(with) = &update.with {
            self.with(with)?;
        }
        self.nesting += 1;
        let table = self.target_table(&update.table.name)?;
        let from = self.open_target(&table, update.alias.as_ref(), &update.from)?;
        let filter = self.condition(update.filter.as_ref(), Clause::Where, "WHERE")?;
        let (returning, result) = self.returning(&update.returning)?;
        let assignments = self.assignments(&table, &update.set)?;
        let level = self.levels.pop().expect("the level opened above");
        self.nesting -= 1;
        self.ctes.truncate(mark);
        let checks = self.checks(&table)?;
        let filter = filter.map(|node| node.expr);
        let bound = Update { table, ranges: level.ranges, from, filter, assignments, checks, returning };
        Ok((Bound::Update(Box::new(bound)), result))
    }

    /// Analyzes the SET of UPDATE or of ON CONFLICT inside the current level.
    pub(super) fn assignments(&mut self, table: &Arc<Relation>, set: &[ast::SetClause]) -> Result<Vec<(usize, Expr)>> {
        self.level().clause = Clause::Update;
        // PostgreSQL analyzes all values before it converts any: the types of parameters and the errors depend on it.
        let mut read: Vec<(&ast::AssignTarget, Given)> = Vec::with_capacity(set.len());
        for clause in set {
            match clause {
                ast::SetClause::One { target, value } => read.push((target, self.given(value)?)),
                ast::SetClause::Many { targets, source } => self.given_many(targets, source, &mut read)?,
            }
        }
        let mut assignments: Vec<(usize, Expr)> = Vec::with_capacity(read.len());
        for (target, given) in read {
            let place = assigned_place(table, target)?;
            let value = self.assigned(table, place, given)?;
            if assignments.iter().any(|(old, _)| *old == place) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple assignments to same column \"{}\"", target.column),
                ));
            }
            assignments.push((place, value));
        }
        Ok(assignments)
    }

    /// Analyzes `(a, b) = source`.
    fn given_many<'t>(
        &mut self,
        targets: &'t [ast::AssignTarget],
        source: &ast::Expr,
        read: &mut Vec<(&'t ast::AssignTarget, Given)>,
    ) -> Result<()> {
        let mismatch =
            || error(SqlState::SYNTAX_ERROR, "number of columns does not match number of values", source.start());
        if let Some(fields) = row_fields(source) {
            if fields.len() != targets.len() {
                return Err(mismatch());
            }
            for (target, field) in targets.iter().zip(fields) {
                read.push((target, self.given(field)?));
            }
            return Ok(());
        }
        let ExprKind::Scalar(query) = &source.kind else {
            return Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                source.start(),
            ));
        };
        let (output, correlated) = self.subquery(query, source.pos)?;
        if output.columns.len() != targets.len() {
            return Err(mismatch());
        }
        // One row gives the values of all columns. If the query is not correlated, its rows are shared, so it runs
        // once.
        let shared = (!correlated).then(|| Arc::new(Bound::Query(output.query.clone())));
        for (at, target) in targets.iter().enumerate() {
            let ty = output.columns[at].ty;
            let column = vec![Expr::Column { up: 0, range: 0, column: at, ty }];
            let query = Box::new(match &shared {
                Some(shared) => over_source(RangeSource::Cte(shared.clone()), &output.columns, column),
                None => over(output.query.clone(), &output.columns, column),
            });
            let value = Expr::Subquery { kind: SubqueryKind::Scalar, query, correlated, ty }.at(source.pos);
            read.push((target, Given::Value(value)));
        }
        Ok(())
    }

    /// Analyzes DELETE.
    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<(Bound, Vec<ResultColumn>)> {
        let mark = self.ctes.len();
        if let Some(with) = &delete.with {
            self.with(with)?;
        }
        self.nesting += 1;
        let table = self.target_table(&delete.table.name)?;
        let from = self.open_target(&table, delete.alias.as_ref(), &delete.using)?;
        let filter = self.condition(delete.filter.as_ref(), Clause::Where, "WHERE")?;
        let (returning, result) = self.returning(&delete.returning)?;
        let level = self.levels.pop().expect("the level opened above");
        self.nesting -= 1;
        self.ctes.truncate(mark);
        let filter = filter.map(|node| node.expr);
        let bound = Delete { table, ranges: level.ranges, from, filter, returning };
        Ok((Bound::Delete(Box::new(bound)), result))
    }
}

/// A value to be assigned, before its conversion.
enum Given {
    Default,
    Value(Typed),
}

/// Finds the index of the column that an assignment names.
fn assigned_place(table: &Relation, target: &ast::AssignTarget) -> Result<usize> {
    let Some((place, _)) = table.column(&target.column) else {
        return Err(error(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{}\" of relation \"{}\" does not exist", target.column, table.name),
            target.pos,
        ));
    };
    if !target.steps.is_empty() {
        return Err(unsupported("assigning to a part of a column", target.pos));
    }
    Ok(place)
}

/// Returns whether VALUES stands alone, so that each value goes directly to its column.
fn plain(select: &ast::Select) -> bool {
    select.with.is_none()
        && select.order_by.is_empty()
        && select.limit.is_none()
        && select.offset.is_none()
        && select.locking.is_empty()
}

fn one_row(row: Vec<Expr>, types: Vec<SqlType>) -> Query {
    Query::Values(Box::new(ValuesQuery { rows: vec![row], types, order_by: Vec::new(), limit: None, offset: None }))
}
