//! Walks over bound trees: which columns of a level are read, and in which places.
//!
//! # Invariants
//! - W1. `depth` is the number of levels between the expression's start and the node: a column with `up == depth`
//!   belongs to the level in which the walk started.
//! - W2. A SELECT and a VALUES are one level each; a set operation is none, and its inputs are in the level around it.

use std::sync::Arc;

use crate::analyze::bound::{Bound, Expr, FromItem, Query, Range, RangeSource, Select, SubqueryKind};

/// Calls `visit` with every expression at and below `expr`, subqueries included, with its depth (W1).
pub(crate) fn walk_expr(expr: &Expr, depth: usize, visit: &mut dyn FnMut(&Expr, usize)) {
    visit(expr, depth);
    let mut all = |list: &[Expr]| list.iter().for_each(|item| walk_expr(item, depth, visit));
    match expr {
        Expr::Const(..)
        | Expr::Param(..)
        | Expr::Column { .. }
        | Expr::GroupKey { .. }
        | Expr::Aggregate { .. }
        | Expr::CaseOperand(_) => {}
        Expr::Call { args, .. } | Expr::And(args) | Expr::Or(args) | Expr::Coalesce(args, _) | Expr::Row(args) => {
            all(args);
        }
        Expr::Extreme { args, .. } => all(args),
        Expr::Array { items, .. } => all(items),
        Expr::Cast { arg, .. } | Expr::Not(arg) | Expr::IsNull { arg, .. } | Expr::BooleanTest { arg, .. } => {
            walk_expr(arg, depth, visit);
        }
        Expr::DistinctFrom { left, right, .. } | Expr::NullIf { left, right, .. } => {
            walk_expr(left, depth, visit);
            walk_expr(right, depth, visit);
        }
        Expr::Case { operand, arms, otherwise, .. } => {
            if let Some(operand) = operand {
                walk_expr(operand, depth, visit);
            }
            for (condition, result) in arms {
                walk_expr(condition, depth, visit);
                walk_expr(result, depth, visit);
            }
            walk_expr(otherwise, depth, visit);
        }
        Expr::InList { arg, list, .. } => {
            walk_expr(arg, depth, visit);
            list.iter().for_each(|item| walk_expr(item, depth, visit));
        }
        Expr::ArrayCompare { arg, array, .. } => {
            walk_expr(arg, depth, visit);
            walk_expr(array, depth, visit);
        }
        Expr::RowCompare { left, right, .. } => {
            all(left);
            right.iter().for_each(|item| walk_expr(item, depth, visit));
        }
        Expr::Subscript { array, index, .. } => {
            walk_expr(array, depth, visit);
            walk_expr(index, depth, visit);
        }
        Expr::Subquery { kind, query, .. } => {
            if let SubqueryKind::Compare { left, .. } = kind {
                all(left);
            }
            walk_query(query, depth, visit);
        }
    }
}

/// Calls `visit` with every expression of a query in a level `depth` deep.
pub(crate) fn walk_query(query: &Query, depth: usize, visit: &mut dyn FnMut(&Expr, usize)) {
    match query {
        Query::Select(select) => walk_select(select, depth + 1, visit),
        Query::SetOperation(both) => {
            walk_query(&both.left, depth, visit);
            walk_query(&both.right, depth, visit);
            for expr in both.limit.iter().chain(&both.offset) {
                walk_expr(expr, depth + 1, visit);
            }
        }
        Query::Values(values) => {
            for expr in values.rows.iter().flatten().chain(&values.limit).chain(&values.offset) {
                walk_expr(expr, depth + 1, visit);
            }
        }
    }
}

/// Calls `visit` with every expression of a SELECT whose own expressions have depth `depth`.
pub(crate) fn walk_select(select: &Select, depth: usize, visit: &mut dyn FnMut(&Expr, usize)) {
    for range in &select.ranges {
        walk_source(&range.source, depth, visit);
    }
    if let Some(from) = &select.from {
        walk_from(from, depth, visit);
    }
    let singles = select.filter.iter().chain(&select.having).chain(&select.limit).chain(&select.offset);
    for expr in singles.chain(&select.group_by).chain(&select.targets) {
        walk_expr(expr, depth, visit);
    }
    for aggregate in &select.aggregates {
        let order = aggregate.order_by.iter().map(|(expr, _, _)| expr);
        for expr in aggregate.args.iter().chain(order).chain(&aggregate.filter) {
            walk_expr(expr, depth, visit);
        }
    }
}

/// Calls `visit` with every expression inside a range.
pub(crate) fn walk_source(source: &RangeSource, depth: usize, visit: &mut dyn FnMut(&Expr, usize)) {
    match source {
        // A common table expression refers to no level outside itself.
        RangeSource::Table(_) | RangeSource::Cte(_) => {}
        RangeSource::Subquery { query, .. } => walk_query(query, depth, visit),
        RangeSource::Function { args, .. } => args.iter().for_each(|arg| walk_expr(arg, depth, visit)),
    }
}

/// Calls `visit` with every join condition.
pub(crate) fn walk_from(from: &FromItem, depth: usize, visit: &mut dyn FnMut(&Expr, usize)) {
    if let FromItem::Join { left, right, on, .. } = from {
        walk_from(left, depth, visit);
        walk_from(right, depth, visit);
        if let Some(on) = on {
            walk_expr(on, depth, visit);
        }
    }
}

/// Returns whether a query itself locks rows, or a subquery in its FROM does.
pub(crate) fn locks(query: &Query) -> bool {
    match query {
        Query::Select(select) => {
            let within = |range: &Range| match &range.source {
                RangeSource::Subquery { query, .. } => locks(query),
                RangeSource::Table(_) | RangeSource::Cte(_) | RangeSource::Function { .. } => false,
            };
            !select.locking.is_empty() || select.ranges.iter().any(within)
        }
        Query::SetOperation(both) => locks(&both.left) || locks(&both.right),
        Query::Values(_) => false,
    }
}

/// Collects the common table expressions in the FROM of a query, subqueries in it included.
pub(crate) fn ctes_of<'q>(query: &'q Query, out: &mut Vec<&'q Arc<Bound>>) {
    match query {
        Query::Select(select) => {
            for range in &select.ranges {
                match &range.source {
                    RangeSource::Subquery { query, .. } => ctes_of(query, out),
                    RangeSource::Cte(cte) => out.push(cte),
                    RangeSource::Table(_) | RangeSource::Function { .. } => {}
                }
            }
        }
        Query::SetOperation(both) => {
            ctes_of(&both.left, out);
            ctes_of(&both.right, out);
        }
        Query::Values(_) => {}
    }
}

/// A set of ranges of one level, as bits.
pub(crate) type Ranges = u128;

/// The maximal number of ranges of one level.
pub(crate) const MAX_RANGES: usize = 128;

/// Returns the ranges of its own level that an expression reads, in subqueries too.
pub(crate) fn ranges_of(expr: &Expr) -> Ranges {
    let mut ranges = 0;
    walk_expr(expr, 0, &mut |expr, depth| {
        if let Expr::Column { up, range, .. } = expr
            && *up == depth
        {
            ranges |= 1 << range;
        }
    });
    ranges
}

/// Returns the ranges of the level that a range's own query or arguments read (LATERAL).
pub(crate) fn lateral_ranges(source: &RangeSource) -> Ranges {
    let mut ranges = 0;
    walk_source(source, 0, &mut |expr, depth| {
        if let Expr::Column { up, range, .. } = expr
            && *up == depth
        {
            ranges |= 1 << range;
        }
    });
    ranges
}

/// Returns whether evaluating an expression twice, or elsewhere, could give another result: it calls a volatile
/// function.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    let mut found = false;
    walk_expr(expr, 0, &mut |expr, _| {
        if let Expr::Call { proc, .. } = expr {
            found |= proc.volatility == crate::builtin::Volatility::Volatile;
        }
    });
    found
}
