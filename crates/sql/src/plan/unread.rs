//! Removes columns that are not read: a column of a subquery in FROM, or of a common table expression that is named
//! once,
//! is NULL if the level around it does not read it, so that `SELECT count(*) FROM (SELECT 1 / 0 AS x) s` counts one
//! row.
//!
//! Columns of tables are not affected: each scan has a list of columns to decode. It runs once, over the tree of
//! analysis,
//! before planning.
//!
//! # Invariants
//! - U1. The rows stay the same in number and order: values that DISTINCT compares or that are sorted by are kept, and
//!   so
//!   are calls of volatile functions.
//! - U2. A common table expression is changed only if the statement names it once and it neither says MATERIALIZED nor
//!   locks rows nor calls a volatile function: then PostgreSQL reads it as a subquery. Others are computed whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    analyze::bound::{
        Bound, Distinct, Expr, FromItem, Query, Range, RangeSource, Select, SetKind, SortKey, SubqueryKind,
    },
    plan::{
        select::needed_columns,
        walk::{is_volatile, locks, walk_expr, walk_from, walk_query, walk_select, walk_source},
    },
    types::{SqlType, Value},
};

/// Removes the columns that a statement does not read.
pub(crate) fn leave_out_unread(bound: &mut Bound) {
    match bound {
        Bound::Query(query) => inside(query),
        Bound::Insert(insert) => {
            inside(&mut insert.source);
            in_all(insert.returning.iter_mut());
        }
        Bound::Update(update) => {
            let exprs = update.filter.iter().chain(&update.returning).chain(update.assignments.iter().map(|(_, e)| e));
            let needed = needed_by(&update.ranges, &update.from, exprs.chain(update.checks.iter().map(|(_, e)| e)));
            in_ranges(&mut update.ranges, &needed);
            in_from(&mut update.from);
            let assigned = update.assignments.iter_mut().map(|(_, expr)| expr);
            in_all(update.filter.iter_mut().chain(&mut update.returning).chain(assigned));
        }
        Bound::Delete(delete) => {
            let exprs = delete.filter.iter().chain(&delete.returning);
            let needed = needed_by(&delete.ranges, &delete.from, exprs);
            in_ranges(&mut delete.ranges, &needed);
            in_from(&mut delete.from);
            in_all(delete.filter.iter_mut().chain(&mut delete.returning));
        }
    }
}

/// Returns the columns of its ranges that a writing statement reads.
fn needed_by<'e>(ranges: &[Range], from: &FromItem, exprs: impl Iterator<Item = &'e Expr>) -> Vec<BTreeSet<usize>> {
    needed_columns(ranges, |visit| {
        for range in ranges {
            walk_source(&range.source, 0, visit);
        }
        walk_from(from, 0, visit);
        for expr in exprs {
            walk_expr(expr, 0, visit);
        }
    })
}

/// Visits the inside of a query whose own columns are all read.
fn inside(query: &mut Query) {
    match query {
        Query::Select(select) => {
            let needed = needed_columns(&select.ranges, |visit| walk_select(select, 0, visit));
            in_ranges(&mut select.ranges, &needed);
            if let Some(from) = &mut select.from {
                in_from(from);
            }
            let singles = select.filter.iter_mut().chain(&mut select.having).chain(&mut select.limit);
            in_all(singles.chain(&mut select.offset).chain(&mut select.group_by).chain(&mut select.targets));
            for aggregate in &mut select.aggregates {
                let order = aggregate.order_by.iter_mut().map(|(expr, _, _)| expr);
                in_all(aggregate.args.iter_mut().chain(order).chain(&mut aggregate.filter));
            }
        }
        Query::SetOperation(both) => {
            inside(&mut both.left);
            inside(&mut both.right);
            in_all(both.limit.iter_mut().chain(&mut both.offset));
        }
        Query::Values(values) => in_all(values.rows.iter_mut().flatten()),
    }
}

fn in_ranges(ranges: &mut [Range], needed: &[BTreeSet<usize>]) {
    for (range, needed) in ranges.iter_mut().zip(needed) {
        match &mut range.source {
            RangeSource::Table(_) => {}
            RangeSource::Subquery { query, .. } => {
                blank(query, needed);
                inside(query);
            }
            RangeSource::Cte(cte) => {
                if let Some(Bound::Query(query)) = Arc::get_mut(cte)
                    && !locks(query)
                    && !is_volatile_query(query)
                {
                    blank(query, needed);
                    inside(query);
                }
            }
            RangeSource::Function { args, .. } => in_all(args.iter_mut()),
        }
    }
}

fn in_from(from: &mut FromItem) {
    if let FromItem::Join { left, right, on, .. } = from {
        in_from(left);
        in_from(right);
        in_all(on.iter_mut());
    }
}

/// Visits the subqueries of expressions.
fn in_all<'e>(exprs: impl Iterator<Item = &'e mut Expr>) {
    exprs.for_each(in_expr);
}

fn in_expr(expr: &mut Expr) {
    match expr {
        Expr::Const(..)
        | Expr::Param(..)
        | Expr::Column { .. }
        | Expr::GroupKey { .. }
        | Expr::Aggregate { .. }
        | Expr::CaseOperand(_) => {}
        Expr::Call { args, .. }
        | Expr::And(args)
        | Expr::Or(args)
        | Expr::Coalesce(args, _)
        | Expr::Row(args)
        | Expr::Extreme { args, .. }
        | Expr::Array { items: args, .. } => in_all(args.iter_mut()),
        Expr::Cast { arg, .. } | Expr::Not(arg) | Expr::IsNull { arg, .. } | Expr::BooleanTest { arg, .. } => {
            in_expr(arg)
        }
        Expr::DistinctFrom { left, right, .. } | Expr::NullIf { left, right, .. } => {
            in_expr(left);
            in_expr(right);
        }
        Expr::Case { operand, arms, otherwise, .. } => {
            if let Some(operand) = operand {
                in_expr(operand);
            }
            for (condition, result) in arms {
                in_expr(condition);
                in_expr(result);
            }
            in_expr(otherwise);
        }
        Expr::InList { arg, list, .. } => {
            in_expr(arg);
            in_all(list.iter_mut());
        }
        Expr::ArrayCompare { arg: a, array: b, .. } | Expr::Subscript { array: a, index: b, .. } => {
            in_expr(a);
            in_expr(b);
        }
        Expr::RowCompare { left, right, .. } => in_all(left.iter_mut().chain(right)),
        Expr::Subquery { kind, query, .. } => {
            if let SubqueryKind::Compare { left, .. } = kind {
                in_all(left.iter_mut());
            }
            if matches!(kind, SubqueryKind::Exists) {
                blank(query, &BTreeSet::new());
            }
            inside(query);
        }
    }
}

fn is_volatile_query(query: &Query) -> bool {
    let mut found = false;
    // Each call is visited by itself, so that checking one does not include those below it.
    walk_query(query, 0, &mut |expr, _| found |= matches!(expr, Expr::Call { .. }) && is_volatile(expr));
    found
}

/// Replaces the columns of a query that are not `needed` by NULL, as far as U1 allows.
fn blank(query: &mut Query, needed: &BTreeSet<usize>) {
    match query {
        Query::Select(select) => blank_select(select, needed),
        Query::SetOperation(both) if both.kind == SetKind::Union && both.all => {
            let needed = with_keys(needed, &both.order_by);
            blank(&mut both.left, &needed);
            blank(&mut both.right, &needed);
        }
        // All columns are compared.
        Query::SetOperation(_) => {}
        Query::Values(values) => {
            // With several rows, PostgreSQL computes all columns.
            let [row] = &mut values.rows[..] else { return };
            for (place, (value, ty)) in row.iter_mut().zip(&values.types).enumerate() {
                if !needed.contains(&place) {
                    blank_expr(value, *ty);
                }
            }
        }
    }
}

fn with_keys(needed: &BTreeSet<usize>, keys: &[SortKey]) -> BTreeSet<usize> {
    needed.iter().copied().chain(keys.iter().map(|key| key.target)).collect()
}

fn blank_select(select: &mut Select, needed: &BTreeSet<usize>) {
    let mut needed = with_keys(needed, &select.order_by);
    match &select.distinct {
        Distinct::No => {}
        Distinct::All => return,
        Distinct::On(keys) => needed.extend(keys),
    }
    for (place, target) in select.targets.iter_mut().take(select.visible).enumerate() {
        if !needed.contains(&place) {
            let ty = target.ty();
            blank_expr(target, ty);
        }
    }
}

fn blank_expr(expr: &mut Expr, ty: SqlType) {
    if !matches!(expr, Expr::Const(..)) && !is_volatile(expr) {
        *expr = Expr::Const(Value::Null, ty);
    }
}
