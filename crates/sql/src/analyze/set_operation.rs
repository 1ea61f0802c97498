//! UNION, INTERSECT, EXCEPT, and casts of the columns of an analyzed query.
//!
//! # Invariants
//! - U1. Both inputs have the result's types; a literal of unknown type is read as that type, with its position.
//! - U2. A query that compares, sorts or limits its rows is wrapped, not changed, so that the casts come afterwards.

use super::{
    Analyzer, Typed,
    bound::{Distinct, Expr, FromItem, Query, Range, RangeSource, ResultColumn, Select, SetKind, SetOperation},
    coerce, error,
    scope::{Clause, Level},
    select::{Output, is_unknown},
    visit,
};
use crate::{
    builtin::CastContext,
    error::{Result, SqlError, SqlState},
    parse::ast::{self, Pos},
    types::SqlType,
};

impl Analyzer<'_> {
    pub(super) fn set_operation(
        &mut self,
        select: &ast::Select,
        op: ast::SetOperator,
        all: bool,
        left: &ast::Select,
        right: &ast::Select,
    ) -> Result<Output> {
        let (kind, name) = match op {
            ast::SetOperator::Union => (SetKind::Union, "UNION"),
            ast::SetOperator::Intersect => (SetKind::Intersect, "INTERSECT"),
            ast::SetOperator::Except => (SetKind::Except, "EXCEPT"),
        };
        if let Some(locking) = select.locking.iter().chain(&left.locking).chain(&right.locking).next() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{} is not allowed with UNION/INTERSECT/EXCEPT", super::locking::clause_name(locking.strength)),
            ));
        }
        let left = self.query(left, false)?;
        let right = self.query(right, false)?;
        if left.columns.len() != right.columns.len() {
            return Err(error(
                SqlState::SYNTAX_ERROR,
                format!("each {name} query must have the same number of columns"),
                right.places.first().copied().unwrap_or(Pos::NONE),
            ));
        }
        let mut types = Vec::with_capacity(left.columns.len());
        for (at, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
            let side = |ty: SqlType, pos: Pos| Typed::new(Expr::CaseOperand(ty), pos);
            let (l, r) = (side(l.ty, left.places[at]), side(r.ty, right.places[at]));
            let sides = [&l, &r];
            let ty = coerce::common_type(&sides, Some(name))?.expect("with a name, no common type is an error");
            for side in sides {
                if !coerce::can_coerce(side.ty().oid, ty, CastContext::Implicit) {
                    return Err(error(
                        SqlState::CANNOT_COERCE,
                        format!(
                            "{name} could not convert type {} to {}",
                            SqlType::new(side.ty().oid).name(),
                            SqlType::new(ty).name()
                        ),
                        side.pos,
                    ));
                }
            }
            let ty = SqlType::with_typmod(ty, coerce::common_typmod(&sides, ty));
            if !all {
                self.equality_exists(ty, l.pos)?;
            }
            types.push(ty);
        }
        let columns: Vec<ResultColumn> = left
            .columns
            .iter()
            .zip(&types)
            .map(|(column, &ty)| ResultColumn { name: column.name.clone(), ty, origin: None })
            .collect();
        let places = left.places.clone();
        let mut outer = left.outer || right.outer;
        let left = self.convert_output(left, &types)?;
        let right = self.convert_output(right, &types)?;
        self.levels.push(Level::new(Clause::OrderBy));
        let order_by = self.order_columns(&select.order_by, &columns, name)?;
        let (limit, offset) = self.limits(select)?;
        outer |= self.levels.pop().expect("the level pushed above").outer;
        let query = SetOperation { kind, all, left, right, types, order_by, limit, offset };
        Ok(Output { query: Query::SetOperation(Box::new(query)), columns, places, outer })
    }

    /// Converts a query's columns to `types`; literals and parameters of unknown type are converted in place (U1).
    pub(super) fn convert_output(&mut self, mut output: Output, types: &[SqlType]) -> Result<Query> {
        if let Query::Select(select) = &mut output.query {
            for (at, &ty) in types.iter().enumerate() {
                if !is_unknown(output.columns[at].ty) {
                    continue;
                }
                let placeholder = Expr::Const(crate::types::Value::Null, SqlType::UNKNOWN);
                let expr = std::mem::replace(&mut select.targets[at], placeholder);
                let node = self.try_coerce(Typed::new(expr, output.places[at]), ty, CastContext::Assignment)?;
                let node = node.expect("a value of unknown type becomes any type");
                output.columns[at].ty = ty;
                select.targets[at] = node.expr;
            }
        }
        Ok(cast_columns(output.query, &output.columns, types))
    }
}

/// Casts the columns of a query to `types`; the caller has checked that this is possible. Columns that have their type
/// already stay unchanged.
pub(super) fn cast_columns(mut query: Query, columns: &[ResultColumn], types: &[SqlType]) -> Query {
    let needed = |at: usize| {
        let (from, to) = (columns[at].ty, types[at]);
        from.oid != to.oid || (to.typmod >= 0 && from.typmod != to.typmod)
    };
    if !(0..types.len()).any(needed) {
        return query;
    }
    let cast = |at: usize, arg: Expr| Expr::Cast { arg: Box::new(arg), to: types[at], explicit: false, pos: Pos::NONE };
    match &mut query {
        Query::Select(select) if matches!(select.distinct, Distinct::No) && select.order_by.is_empty() => {
            for (at, target) in select.targets.iter_mut().enumerate().take(types.len()) {
                if needed(at) {
                    let arg = std::mem::replace(target, Expr::And(Vec::new()));
                    *target = cast(at, arg);
                }
            }
            query
        }
        Query::Values(values) if values.order_by.is_empty() => {
            for row in &mut values.rows {
                for (at, value) in row.iter_mut().enumerate() {
                    if needed(at) {
                        let arg = std::mem::replace(value, Expr::And(Vec::new()));
                        *value = cast(at, arg);
                    }
                }
            }
            values.types = types.to_vec();
            query
        }
        _ => {
            let targets = (0..types.len())
                .map(|at| {
                    let column = Expr::Column { up: 0, range: 0, column: at, ty: columns[at].ty };
                    if needed(at) { cast(at, column) } else { column }
                })
                .collect();
            over(query, columns, targets) // U2
        }
    }
}

/// Makes a query that reads all rows of `query` as range 0 and returns `targets`.
pub(super) fn over(mut query: Query, columns: &[ResultColumn], targets: Vec<Expr>) -> Query {
    visit::shift_query(&mut query, 1);
    over_source(RangeSource::Subquery { query, lateral: false }, columns, targets)
}

/// Makes a query that reads all rows of a source as range 0 and returns `targets`.
pub(super) fn over_source(source: RangeSource, columns: &[ResultColumn], targets: Vec<Expr>) -> Query {
    let visible = targets.len();
    Query::Select(Box::new(Select {
        ranges: vec![Range {
            name: "*SELECT*".to_owned(),
            source,
            columns: columns.iter().map(|column| (column.name.clone(), column.ty)).collect(),
        }],
        from: Some(FromItem::Range(0)),
        filter: None,
        group_by: Vec::new(),
        aggregates: Vec::new(),
        grouped: false,
        having: None,
        targets,
        visible,
        distinct: Distinct::No,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
        returns_set: false,
    }))
}
