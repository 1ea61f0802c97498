//! Conjuncts of conditions, and the conditions that an index can answer.
//!
//! # Invariants
//! - J1. An equality condition means exactly what its conjunct means; a range condition may admit NULLs, so its
//!   conjunct
//!   stays in the filter.

use crate::{
    analyze::bound::{Expr, Query, SubqueryKind},
    builtin::{CastContext, Conversion, Strategy, conversion},
    plan::{
        compile::{column_types, comparison},
        walk::{Ranges, is_volatile, ranges_of, walk_expr},
    },
    types::oid,
};

/// One term of a condition that is a conjunction.
#[derive(Clone, Copy)]
pub(crate) struct Conjunct<'e> {
    pub(crate) expr: &'e Expr,
    /// The ranges of the level that it reads.
    pub(crate) ranges: Ranges,
    /// Whether it calls a volatile function and therefore must stay on top.
    pub(crate) volatile: bool,
    /// Whether it runs a subquery and therefore is better evaluated late.
    pub(crate) subquery: bool,
}

impl<'e> Conjunct<'e> {
    pub(crate) fn new(expr: &'e Expr) -> Self {
        let mut subquery = false;
        walk_expr(expr, 0, &mut |expr, _| subquery |= matches!(expr, Expr::Subquery { .. }));
        Self { expr, ranges: ranges_of(expr), volatile: is_volatile(expr), subquery }
    }
}

/// Splits a condition into its conjuncts.
pub(crate) fn split<'e>(condition: Option<&'e Expr>, out: &mut Vec<Conjunct<'e>>) {
    match condition {
        None => {}
        Some(Expr::And(terms)) => terms.iter().for_each(|term| split(Some(term), out)),
        Some(term) => out.push(Conjunct::new(term)),
    }
}

/// A condition on one column that an index can answer.
#[derive(Clone, Copy)]
pub(crate) enum Condition<'e> {
    Equal(&'e Expr),
    In(&'e [Expr]),
    Any(&'e Expr),
    /// IN over an uncorrelated subquery.
    Query(&'e Query),
    Lower(&'e Expr, bool),
    Upper(&'e Expr, bool),
}

/// Returns the column of `range` that an expression denotes, ignoring conversions that change nothing.
pub(crate) fn column_of(expr: &Expr, range: usize) -> Option<usize> {
    match strip(expr) {
        Expr::Column { up: 0, range: r, column, .. } if *r == range => Some(*column),
        _ => None,
    }
}

/// Removes conversions that change nothing.
pub(crate) fn strip(mut expr: &Expr) -> &Expr {
    while let Expr::Cast { arg, to, .. } = expr {
        let same = matches!(conversion(arg.ty().oid, to.oid, CastContext::Explicit), Some(Conversion::Same));
        // For a comparison, a modifier may be ignored only if it is the column's own.
        if !same || (to.typmod >= 0 && arg.ty().typmod != to.typmod) {
            break;
        }
        expr = arg;
    }
    expr
}

/// Returns whether values of type `value` can be keys of a column of type `column`.
fn fits(column: u32, value: u32) -> bool {
    let integer = |oid: u32| matches!(oid, oid::INT2 | oid::INT4 | oid::INT8);
    let text = |oid: u32| matches!(oid, oid::TEXT | oid::VARCHAR | oid::NAME);
    column == value
        || (integer(column) && integer(value))
        || (text(column) && text(value))
        || (oid::is_oid_like(column) && oid::is_oid_like(value))
}

/// Returns the condition that a conjunct imposes on one thing that `place_of` numbers, such as a column of a range, if
/// its
/// other side can be computed from `bound` ranges.
pub(crate) fn condition<'e>(
    conjunct: &Conjunct<'e>,
    place_of: &dyn Fn(&Expr) -> Option<usize>,
    bound: Ranges,
) -> Option<(usize, Condition<'e>)> {
    let usable = |expr: &Expr| ranges_of(expr) & !bound == 0 && !is_volatile(expr);
    match conjunct.expr {
        Expr::Call { proc, args, .. } => {
            let strategy = comparison(proc)?;
            let [left, right] = args.as_slice() else { return None };
            let (column, value, swapped) = match place_of(left).filter(|_| usable(right)) {
                Some(column) => (column, right, false),
                None => (place_of(right).filter(|_| usable(left))?, left, true),
            };
            let side = if swapped { right } else { left };
            if !fits(strip(side).ty().oid, strip(value).ty().oid) {
                return None;
            }
            Some((
                column,
                match (strategy, swapped) {
                    (Strategy::Equal, _) => Condition::Equal(value),
                    (Strategy::Less, false) | (Strategy::Greater, true) => Condition::Upper(value, false),
                    (Strategy::LessEqual, false) | (Strategy::GreaterEqual, true) => Condition::Upper(value, true),
                    (Strategy::Greater, false) | (Strategy::Less, true) => Condition::Lower(value, false),
                    (Strategy::GreaterEqual, false) | (Strategy::LessEqual, true) => Condition::Lower(value, true),
                },
            ))
        }
        Expr::InList { arg, list, equal, negated: false } => {
            let column = place_of(arg)?;
            let ty = strip(arg).ty().oid;
            let fit = list.iter().all(|item| usable(item) && fits(ty, item.ty().oid));
            (comparison(equal)? == Strategy::Equal && fit).then_some((column, Condition::In(list)))
        }
        Expr::ArrayCompare { arg, array, proc, all: false } => {
            let column = place_of(arg)?;
            let element = array.ty().element()?.oid;
            let fit = usable(array) && fits(strip(arg).ty().oid, element);
            (comparison(proc)? == Strategy::Equal && fit).then_some((column, Condition::Any(array)))
        }
        Expr::Subquery {
            kind: SubqueryKind::Compare { left, procs, all: false }, query, correlated: false, ..
        } => {
            let types = column_types(query);
            let ([left], [proc], [ty]) = (left.as_slice(), procs.as_slice(), types.as_slice()) else {
                return None;
            };
            let column = place_of(left)?;
            let fit = fits(strip(left).ty().oid, ty.oid) && !ty.is_array();
            (comparison(proc)? == Strategy::Equal && fit).then_some((column, Condition::Query(query)))
        }
        _ => None,
    }
}

/// Columns and the rows of values with which they are compared.
pub(crate) type RowList<'e> = (Vec<usize>, Vec<Vec<&'e Expr>>);

/// Returns the columns and rows of `(a, b) IN ((1, 2), ...)`, which analysis represents as OR of ANDs of equalities.
pub(crate) fn row_list<'e>(
    conjunct: &Conjunct<'e>,
    place_of: &dyn Fn(&Expr) -> Option<usize>,
    bound: Ranges,
) -> Option<RowList<'e>> {
    let Expr::Or(terms) = conjunct.expr else { return None };
    let mut columns: Vec<usize> = Vec::new();
    let mut rows = Vec::with_capacity(terms.len());
    for term in terms {
        let mut parts = Vec::new();
        split(Some(term), &mut parts);
        let mut row: Vec<(usize, &Expr)> = Vec::with_capacity(parts.len());
        for part in &parts {
            let (column, Condition::Equal(value)) = condition(part, place_of, bound)? else { return None };
            row.push((column, value));
        }
        row.sort_by_key(|(column, _)| *column);
        let names: Vec<usize> = row.iter().map(|(column, _)| *column).collect();
        if rows.is_empty() {
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return None;
            }
            columns = names;
        } else if columns != names {
            return None;
        }
        rows.push(row.into_iter().map(|(_, value)| value).collect());
    }
    (!rows.is_empty()).then_some((columns, rows))
}
