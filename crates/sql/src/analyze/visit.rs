//! Walks over bound trees: they visit every node of an expression, also in subqueries, with the number of select levels
//! entered.
//!
//! The visitor decides what happens to a node.
//!
//! # Invariants
//! - V1. A node is visited before its parts; the parts are visited only if the visitor asks for it.
//! - V2. `depth` counts the levels entered since the start, so `up == depth` in a node means the starting level.

use super::bound::{Aggregate, Expr, FromItem, Query, Range, RangeSource, Select, SubqueryKind};
use crate::error::Result;

/// The function called at every node, with its depth; it returns whether to visit the node's parts.
pub(super) type Visitor<'v> = dyn FnMut(&mut Expr, usize) -> Result<bool> + 'v;

/// Visits `expr` and everything below it.
pub(super) fn walk(expr: &mut Expr, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    if !visit(expr, depth)? {
        return Ok(());
    }
    match expr {
        Expr::Const(..)
        | Expr::Param(..)
        | Expr::Column { .. }
        | Expr::GroupKey { .. }
        | Expr::Aggregate { .. }
        | Expr::CaseOperand(_) => Ok(()),
        Expr::Call { args, .. }
        | Expr::And(args)
        | Expr::Or(args)
        | Expr::Coalesce(args, _)
        | Expr::Extreme { args, .. }
        | Expr::Row(args)
        | Expr::Array { items: args, .. } => walk_all(args, depth, visit),
        Expr::Cast { arg, .. } | Expr::Not(arg) | Expr::IsNull { arg, .. } | Expr::BooleanTest { arg, .. } => {
            walk(arg, depth, visit)
        }
        Expr::DistinctFrom { left, right, .. } | Expr::NullIf { left, right, .. } => {
            walk(left, depth, visit)?;
            walk(right, depth, visit)
        }
        Expr::ArrayCompare { arg, array, .. } => {
            walk(arg, depth, visit)?;
            walk(array, depth, visit)
        }
        Expr::Subscript { array, index, .. } => {
            walk(array, depth, visit)?;
            walk(index, depth, visit)
        }
        Expr::Case { operand, arms, otherwise, .. } => {
            if let Some(operand) = operand {
                walk(operand, depth, visit)?;
            }
            for (condition, result) in arms {
                walk(condition, depth, visit)?;
                walk(result, depth, visit)?;
            }
            walk(otherwise, depth, visit)
        }
        Expr::InList { arg, list, .. } => {
            walk(arg, depth, visit)?;
            walk_all(list, depth, visit)
        }
        Expr::RowCompare { left, right, .. } => {
            walk_all(left, depth, visit)?;
            walk_all(right, depth, visit)
        }
        Expr::Subquery { kind, query, .. } => {
            if let SubqueryKind::Compare { left, .. } = kind {
                walk_all(left, depth, visit)?;
            }
            walk_query(query, depth + 1, visit)
        }
    }
}

/// Visits every expression of a list.
pub(super) fn walk_all(exprs: &mut [Expr], depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    exprs.iter_mut().try_for_each(|expr| walk(expr, depth, visit))
}

/// Visits every expression of a query whose own level is `depth`. Shared common table expressions are not entered: they
/// name no level outside themselves.
pub(super) fn walk_query(query: &mut Query, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    match query {
        Query::Select(select) => walk_select(select, depth, visit),
        Query::SetOperation(operation) => {
            walk_query(&mut operation.left, depth, visit)?;
            walk_query(&mut operation.right, depth, visit)?;
            walk_option(&mut operation.limit, depth, visit)?;
            walk_option(&mut operation.offset, depth, visit)
        }
        Query::Values(values) => {
            for row in &mut values.rows {
                walk_all(row, depth, visit)?;
            }
            walk_option(&mut values.limit, depth, visit)?;
            walk_option(&mut values.offset, depth, visit)
        }
    }
}

/// Visits every expression of one select level.
pub(super) fn walk_select(select: &mut Select, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    walk_ranges(&mut select.ranges, depth, visit)?;
    if let Some(from) = &mut select.from {
        walk_from(from, depth, visit)?;
    }
    walk_option(&mut select.filter, depth, visit)?;
    walk_all(&mut select.group_by, depth, visit)?;
    for aggregate in &mut select.aggregates {
        walk_aggregate(aggregate, depth, visit)?;
    }
    walk_option(&mut select.having, depth, visit)?;
    walk_all(&mut select.targets, depth, visit)?;
    walk_option(&mut select.limit, depth, visit)?;
    walk_option(&mut select.offset, depth, visit)
}

/// Visits the expressions of an aggregate call.
pub(super) fn walk_aggregate(aggregate: &mut Aggregate, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    walk_all(&mut aggregate.args, depth, visit)?;
    for (expr, ..) in &mut aggregate.order_by {
        walk(expr, depth, visit)?;
    }
    walk_option(&mut aggregate.filter, depth, visit)
}

fn walk_ranges(ranges: &mut [Range], depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    for range in ranges {
        match &mut range.source {
            RangeSource::Table(_) | RangeSource::Cte(_) => {}
            RangeSource::Subquery { query, .. } => walk_query(query, depth + 1, visit)?,
            RangeSource::Function { args, .. } => walk_all(args, depth, visit)?,
        }
    }
    Ok(())
}

fn walk_from(from: &mut FromItem, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    match from {
        FromItem::Range(_) => Ok(()),
        FromItem::Join { left, right, on, .. } => {
            walk_from(left, depth, visit)?;
            walk_from(right, depth, visit)?;
            walk_option(on, depth, visit)
        }
    }
}

fn walk_option(expr: &mut Option<Expr>, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    expr.as_mut().map_or(Ok(()), |expr| walk(expr, depth, visit))
}

/// Returns the level reference of a node, if it has one.
pub(super) fn reference(expr: &mut Expr) -> Option<&mut usize> {
    match expr {
        Expr::Column { up, .. } | Expr::GroupKey { up, .. } | Expr::Aggregate { up, .. } => Some(up),
        _ => None,
    }
}

/// Returns a visitor that adds `by` to every reference to the starting level or a level outside it.
fn shifter(by: isize, start: usize) -> impl FnMut(&mut Expr, usize) -> Result<bool> {
    move |node, depth| {
        if let Some(up) = reference(node)
            && *up >= depth + start
        {
            *up = up.checked_add_signed(by).expect("a reference is only moved inward of the level it names");
        }
        Ok(true)
    }
}

/// Moves an expression `by` levels further in, or further out if `by` is negative.
pub(super) fn shift(expr: &mut Expr, by: isize) {
    walk(expr, 0, &mut shifter(by, 0)).expect("shifting never fails");
}

/// Moves a query `by` levels further in; its references to its own levels stay.
pub(super) fn shift_query(query: &mut Query, by: isize) {
    walk_query(query, 0, &mut shifter(by, 1)).expect("shifting never fails");
}

/// Returns the nearest level that the expressions name; 0 is the level that they stand in.
pub(super) fn nearest_level(exprs: &mut [Expr]) -> Option<usize> {
    let mut nearest: Option<usize> = None;
    walk_all(exprs, 0, &mut |node, depth| {
        if let Some(level) = reference(node).and_then(|up| up.checked_sub(depth)) {
            nearest = Some(nearest.map_or(level, |old| old.min(level)));
        }
        Ok(true)
    })
    .expect("looking never fails");
    nearest
}

/// Returns whether the expression names a column, group key or aggregate of the level it stands in.
pub(super) fn names_own_level(expr: &Expr) -> bool {
    match expr {
        Expr::Const(..) | Expr::Param(..) => false,
        _ => nearest_level(std::slice::from_mut(&mut expr.clone())) == Some(0),
    }
}

/// Returns whether the expression names an aggregate of the level that it stands in.
pub(super) fn names_own_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    walk(&mut expr.clone(), 0, &mut |node, depth| {
        found |= matches!(node, Expr::Aggregate { up, .. } if *up == depth);
        Ok(true)
    })
    .expect("looking never fails");
    found
}
