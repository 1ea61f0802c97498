//! Queries: WITH, one SELECT level, and VALUES, in PostgreSQL's order of work.
//!
//! FROM is in `from`, output columns in `target`, ORDER BY and DISTINCT in `order`, grouping in `group`, and UNION,
//! INTERSECT and EXCEPT in `set_operation`.

use std::sync::Arc;

use super::{
    Analyzer, Typed,
    bound::{Bound, Distinct, FromItem, JoinKind, Query, RangeSource, ResultColumn, Select, SortKey, ValuesQuery},
    error,
    expr::exprs,
    locking::clause_name,
    scope::{Clause, CteEntry, Level},
    target::Target,
    unsupported, visit,
};
use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast::{self, Pos},
    types::{SqlType, oid},
};

/// An analyzed query.
pub(super) struct Output {
    pub(super) query: Query,
    /// Its result columns; a type may still be unknown if the caller did not ask to resolve it.
    pub(super) columns: Vec<ResultColumn>,
    /// Start of each column's expression.
    pub(super) places: Vec<Pos>,
    /// Whether it names a level outside itself.
    pub(super) outer: bool,
}

impl Analyzer<'_> {
    /// Analyzes a query. With `resolve`, output columns of unknown type become text.
    pub(super) fn query(&mut self, select: &ast::Select, resolve: bool) -> Result<Output> {
        self.deeper(Pos::NONE, |this| {
            let mark = this.ctes.len();
            if let Some(with) = &select.with {
                this.with(with)?;
            }
            this.nesting += 1;
            let output = match &select.body {
                ast::SelectBody::Core(core) => this.core(select, core, resolve)?,
                ast::SelectBody::Values(rows) => this.values(select, rows)?,
                ast::SelectBody::SetOperation { op, all, left, right } => {
                    this.set_operation(select, *op, *all, left, right)?
                }
            };
            this.nesting -= 1;
            this.ctes.truncate(mark);
            Ok(output)
        })
    }

    /// Brings the queries of a WITH into scope in their order.
    pub(super) fn with(&mut self, with: &ast::With) -> Result<()> {
        if with.recursive {
            return Err(unsupported("WITH RECURSIVE", with.pos));
        }
        let is_outermost = self.nesting == 0;
        self.nesting += 1;
        let first = self.ctes.len();
        for cte in &with.ctes {
            if self.ctes[first..].iter().any(|other| other.name == cte.name) {
                return Err(error(
                    SqlState::DUPLICATE_ALIAS,
                    format!("WITH query name \"{}\" specified more than once", cte.name),
                    cte.pos,
                ));
            }
            // `reached` restarts here to measure this query's depth, which counts again wherever it is named (A2).
            let around = std::mem::replace(&mut self.reached, self.depth);
            let (bound, columns, outer) = self.with_query(cte, is_outermost)?;
            let height = std::mem::replace(&mut self.reached, around) - self.depth + 1;
            let mut columns: Vec<(String, SqlType)> =
                columns.into_iter().map(|column| (column.name, column.ty)).collect();
            if cte.columns.len() > columns.len() {
                return Err(error(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!(
                        "WITH query \"{}\" has {} columns available but {} columns specified",
                        cte.name,
                        columns.len(),
                        cte.columns.len()
                    ),
                    cte.pos,
                ));
            }
            for (column, name) in columns.iter_mut().zip(&cte.columns) {
                column.0.clone_from(name);
            }
            self.ctes.push(CteEntry {
                name: cte.name.clone(),
                bound,
                columns,
                depth: self.levels.len(),
                height,
                outer,
            });
        }
        self.nesting -= 1;
        Ok(())
    }

    /// Analyzes one query of a WITH; also returns its columns, and whether it names a level outside itself.
    fn with_query(&mut self, cte: &ast::Cte, is_outermost: bool) -> Result<(Arc<Bound>, Vec<ResultColumn>, bool)> {
        let (bound, columns) = match &*cte.stmt {
            ast::Stmt::Select(select) => {
                let output = self.query(select, true)?;
                let bound = Arc::new(Bound::Query(output.query));
                if cte.materialized == Some(true) {
                    self.whole.push(bound.clone());
                }
                return Ok((bound, output.columns, output.outer));
            }
            _ if !is_outermost => {
                return Err(error(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "WITH clause containing a data-modifying statement must be at the top level",
                    cte.pos,
                ));
            }
            ast::Stmt::Insert(insert) => self.insert(insert)?,
            ast::Stmt::Update(update) => self.update(update)?,
            ast::Stmt::Delete(delete) => self.delete(delete)?,
            _ => return Err(unsupported("this statement in WITH", cte.pos)),
        };
        let bound = Arc::new(bound);
        self.modifying.push(bound.clone());
        Ok((bound, columns, false))
    }

    fn core(&mut self, select: &ast::Select, core: &ast::SelectCore, resolve: bool) -> Result<Output> {
        // The order of the clauses is PostgreSQL's: parameter types and error positions depend on it.
        self.levels.push(Level::new(Clause::From));
        let from = self.read_from(&core.from)?;
        self.level().clause = Clause::Target;
        let mut targets = self.targets(&core.targets)?;
        let set_range = self.level().set_range;
        let from = match (from, set_range.map(FromItem::Range)) {
            (Some(left), Some(set)) => {
                Some(FromItem::Join { kind: JoinKind::Inner, left: Box::new(left), right: Box::new(set), on: None })
            }
            (from, set) => from.or(set),
        };
        let filter = self.condition(core.filter.as_ref(), Clause::Where, "WHERE")?;
        let having = self.condition(core.having.as_ref(), Clause::Having, "HAVING")?;
        self.level().clause = Clause::OrderBy;
        let order_by =
            self.order_by(&select.order_by, &mut targets, matches!(core.distinct, Some(ast::Distinct::Rows)))?;
        self.level().clause = Clause::GroupBy;
        let mut group_by = self.group_by(&core.group_by, &mut targets)?;
        let distinct = match &core.distinct {
            None => Distinct::No,
            Some(ast::Distinct::Rows) => {
                for target in targets.iter_mut().filter(|target| !target.junk) {
                    self.resolve_target(target)?;
                    self.equality_exists(target.node.ty(), target.node.pos)?;
                }
                Distinct::All
            }
            Some(ast::Distinct::On(items)) => {
                self.level().clause = Clause::DistinctOn;
                Distinct::On(self.distinct_on(items, &mut targets, &order_by)?)
            }
        };
        let (limit, offset) = self.limits(select)?;
        if resolve {
            for target in targets.iter_mut().filter(|target| !target.junk) {
                self.resolve_target(target)?;
            }
        }
        let aggregated = !self.level().aggregates.is_empty();
        let grouped = aggregated || !core.group_by.is_empty() || core.having.is_some();
        if grouped && set_range.is_some() {
            return Err(unsupported("a set-returning function in the select list of a grouped query", Pos::NONE)
                .hint("Group in a subquery in FROM."));
        }
        let clauses = self.locking_clauses(&select.locking)?;
        let mut having = having.map(|node| node.expr);
        // Comes after every clause that adds targets, so that B3 holds for all of them.
        if grouped {
            self.regroup(&mut group_by, &mut targets, having.as_mut())?;
        }
        let level = self.levels.pop().expect("the level pushed above");
        let columns = result_columns(&targets, &level, grouped.then_some(&group_by));
        let places = targets.iter().filter(|target| !target.junk).map(|target| target.node.pos).collect();
        let visible = targets.iter().filter(|target| !target.junk).count();
        debug_assert!(targets[visible..].iter().all(|target| target.junk), "hidden targets come last");
        let mut bound = Select {
            ranges: level.ranges,
            from,
            filter: filter.map(|node| node.expr),
            group_by,
            aggregates: level.aggregates,
            grouped,
            having,
            targets: targets.into_iter().map(|target| target.node.expr).collect(),
            visible,
            distinct,
            order_by,
            limit,
            offset,
            locking: Vec::new(),
            returns_set: set_range.is_some(),
        };
        self.lock(&mut bound, &clauses)?;
        let query = Query::Select(Box::new(bound));
        Ok(Output { query, columns, places, outer: level.outer })
    }

    /// Analyzes WHERE or HAVING.
    pub(super) fn condition(
        &mut self,
        condition: Option<&ast::Expr>,
        clause: Clause,
        construct: &str,
    ) -> Result<Option<Typed>> {
        let Some(condition) = condition else { return Ok(None) };
        self.level().clause = clause;
        let node = self.transform(condition)?;
        Ok(Some(self.coerce_to_bool(node, construct)?))
    }

    /// Analyzes LIMIT and OFFSET inside the current level.
    pub(super) fn limits(&mut self, select: &ast::Select) -> Result<(Option<super::Expr>, Option<super::Expr>)> {
        let offset = self.limit(select.offset.as_ref(), Clause::Offset, "OFFSET")?;
        let limit = self.limit(select.limit.as_ref(), Clause::Limit, "LIMIT")?;
        if select.with_ties {
            return Err(unsupported("FETCH FIRST ... WITH TIES", select.limit.as_ref().map_or(Pos::NONE, |e| e.pos)));
        }
        Ok((limit, offset))
    }

    fn limit(&mut self, expr: Option<&ast::Expr>, clause: Clause, construct: &str) -> Result<Option<super::Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        self.level().clause = clause;
        let node = self.transform(expr)?;
        let node = self.coerce_argument(node, SqlType::INT8, construct)?;
        if visit::names_own_level(&node.expr) {
            return Err(error(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("argument of {construct} must not contain variables"),
                node.pos,
            ));
        }
        Ok(Some(node.expr))
    }

    /// Analyzes VALUES as a stand-alone query.
    fn values(&mut self, select: &ast::Select, rows: &[Vec<ast::Expr>]) -> Result<Output> {
        if !select.locking.is_empty() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{} cannot be applied to VALUES", clause_name(select.locking[0].strength)),
            ));
        }
        self.levels.push(Level::new(Clause::Values));
        let rows = self.value_rows(rows)?;
        let width = rows.first().map_or(0, Vec::len);
        let mut columns: Vec<Vec<Typed>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            for (column, node) in columns.iter_mut().zip(row) {
                column.push(node);
            }
        }
        let mut types = Vec::with_capacity(width);
        let mut typed = Vec::with_capacity(width);
        let mut places = Vec::with_capacity(width);
        for column in columns {
            places.push(column.first().map_or(Pos::NONE, |node| node.pos));
            let (nodes, ty) = self.unify(column, "VALUES")?;
            types.push(ty);
            typed.push(exprs(nodes).into_iter());
        }
        let mut rows = Vec::new();
        loop {
            let row: Vec<super::Expr> = typed.iter_mut().filter_map(Iterator::next).collect();
            if row.len() < width || width == 0 {
                break;
            }
            rows.push(row);
        }
        let columns: Vec<ResultColumn> = types
            .iter()
            .enumerate()
            .map(|(i, &ty)| ResultColumn { name: format!("column{}", i + 1), ty, origin: None })
            .collect();
        let order_by = self.order_columns(&select.order_by, &columns, "VALUES")?;
        let (limit, offset) = self.limits(select)?;
        let outer = self.levels.pop().expect("the level pushed above").outer;
        let query = Query::Values(Box::new(ValuesQuery { rows, types, order_by, limit, offset }));
        Ok(Output { query, columns, places, outer })
    }

    fn value_rows(&mut self, rows: &[Vec<ast::Expr>]) -> Result<Vec<Vec<Typed>>> {
        same_width(rows)?;
        rows.iter().map(|row| self.transform_all(row)).collect()
    }
}

/// Refuses rows of different lengths.
pub(super) fn same_width(rows: &[Vec<ast::Expr>]) -> Result<()> {
    let width = rows.first().map_or(0, Vec::len);
    match rows.iter().find(|row| row.len() != width) {
        None => Ok(()),
        Some(odd) => Err(error(
            SqlState::SYNTAX_ERROR,
            "VALUES lists must all be the same length",
            odd.first().map_or(Pos::NONE, ast::Expr::start),
        )),
    }
}

/// Describes the visible targets; a column that is read unchanged names its table.
pub(super) fn result_columns(
    targets: &[Target],
    level: &Level,
    group_by: Option<&Vec<super::Expr>>,
) -> Vec<ResultColumn> {
    let origin = |expr: &super::Expr| {
        let expr = match (expr, group_by) {
            (super::Expr::GroupKey { up: 0, index, .. }, Some(keys)) => keys.get(*index)?,
            (expr, _) => expr,
        };
        let super::Expr::Column { up: 0, range, column, .. } = expr else { return None };
        match &level.ranges.get(*range)?.source {
            RangeSource::Table(relation) => Some((relation.oid, relation.columns.get(*column)?.attnum)),
            _ => None,
        }
    };
    targets
        .iter()
        .filter(|target| !target.junk)
        .map(|target| ResultColumn {
            name: target.name.clone(),
            ty: target.node.ty(),
            origin: origin(&target.node.expr),
        })
        .collect()
}

/// Makes a sort key from its direction.
pub(super) fn sort_key(target: usize, (descending, nulls_first): (bool, bool)) -> SortKey {
    SortKey { target, descending, nulls_first }
}

/// Returns whether the type is not known yet.
pub(super) fn is_unknown(ty: SqlType) -> bool {
    ty.oid == oid::UNKNOWN
}
