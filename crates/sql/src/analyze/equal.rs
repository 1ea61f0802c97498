//! Sameness of bound expressions, as GROUP BY, DISTINCT and ORDER BY need it: the same meaning written in the same way,
//! at any position in the text.
//!
//! Sameness is not equivalence: `a + b` is not the same as `b + a`.

use super::bound::{Aggregate, Expr};

/// Returns whether `left`, which stands `depth` levels further in, is the same expression as `right`.
pub(super) fn same(left: &Expr, right: &Expr, depth: usize) -> bool {
    let both = |l: &Expr, r: &Expr| same(l, r, depth);
    match (left, right) {
        (Expr::Const(a, t), Expr::Const(b, u)) => t == u && a == b,
        (Expr::Param(a, t), Expr::Param(b, u)) => a == b && t == u,
        (
            Expr::Column { up, range, column, .. },
            Expr::Column { up: other_up, range: other_range, column: other_column, .. },
        ) => *up == other_up + depth && range == other_range && column == other_column,
        (Expr::GroupKey { up, index, .. }, Expr::GroupKey { up: other_up, index: other, .. })
        | (Expr::Aggregate { up, index, .. }, Expr::Aggregate { up: other_up, index: other, .. }) => {
            *up == other_up + depth && index == other
        }
        (Expr::Call { proc, args, ty, .. }, Expr::Call { proc: other, args: other_args, ty: other_ty, .. }) => {
            proc.oid == other.oid && ty == other_ty && all_same(args, other_args, depth)
        }
        (Expr::Cast { arg, to, explicit, .. }, Expr::Cast { arg: other, to: other_to, explicit: e, .. }) => {
            to == other_to && explicit == e && both(arg, other)
        }
        (Expr::And(a), Expr::And(b)) | (Expr::Or(a), Expr::Or(b)) | (Expr::Row(a), Expr::Row(b)) => {
            all_same(a, b, depth)
        }
        (Expr::Not(a), Expr::Not(b)) => both(a, b),
        (Expr::IsNull { arg, negated }, Expr::IsNull { arg: other, negated: n }) => negated == n && both(arg, other),
        (
            Expr::BooleanTest { arg, value, negated },
            Expr::BooleanTest { arg: other, value: other_value, negated: other_negated },
        ) => value == other_value && negated == other_negated && both(arg, other),
        (
            Expr::DistinctFrom { equal, left, right, negated },
            Expr::DistinctFrom { equal: e, left: l, right: r, negated: n },
        ) => equal.oid == e.oid && negated == n && both(left, l) && both(right, r),
        (
            Expr::Case { operand, arms, otherwise, ty },
            Expr::Case { operand: other_operand, arms: other_arms, otherwise: other_otherwise, ty: other_ty },
        ) => {
            ty == other_ty
                && match (operand, other_operand) {
                    (Some(a), Some(b)) => both(a, b),
                    (None, None) => true,
                    _ => false,
                }
                && arms.len() == other_arms.len()
                && arms.iter().zip(other_arms).all(|(a, b)| both(&a.0, &b.0) && both(&a.1, &b.1))
                && both(otherwise, other_otherwise)
        }
        (Expr::CaseOperand(t), Expr::CaseOperand(u)) => t == u,
        (Expr::Coalesce(a, t), Expr::Coalesce(b, u)) => t == u && all_same(a, b, depth),
        (Expr::NullIf { equal, left, right, .. }, Expr::NullIf { equal: e, left: l, right: r, .. }) => {
            equal.oid == e.oid && both(left, l) && both(right, r)
        }
        (Expr::Extreme { greatest, args, .. }, Expr::Extreme { greatest: g, args: other, .. }) => {
            greatest == g && all_same(args, other, depth)
        }
        (Expr::InList { arg, list, equal, negated }, Expr::InList { arg: a, list: l, equal: e, negated: n }) => {
            equal.oid == e.oid && negated == n && both(arg, a) && all_same(list, l, depth)
        }
        (Expr::ArrayCompare { arg, array, proc, all }, Expr::ArrayCompare { arg: a, array: r, proc: p, all: l }) => {
            proc.oid == p.oid && all == l && both(arg, a) && both(array, r)
        }
        (
            Expr::RowCompare { kind, left, right, less, .. },
            Expr::RowCompare { kind: k, left: l, right: r, less: s, .. },
        ) => {
            kind == k
                && less.iter().map(|p| p.oid).eq(s.iter().map(|p| p.oid))
                && all_same(left, l, depth)
                && all_same(right, r, depth)
        }
        (Expr::Array { items, ty }, Expr::Array { items: other, ty: u }) => ty == u && all_same(items, other, depth),
        (Expr::Subscript { array, index, .. }, Expr::Subscript { array: a, index: i, .. }) => {
            both(array, a) && both(index, i)
        }
        // Compares printed forms without positions: subqueries are rare here, and any difference makes the forms
        // differ.
        (Expr::Subquery { .. }, Expr::Subquery { .. }) => depth == 0 && printed(left) == printed(right),
        _ => false,
    }
}

/// Returns whether two lists are the same, item by item.
pub(super) fn all_same(left: &[Expr], right: &[Expr], depth: usize) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same(l, r, depth))
}

/// Returns whether two aggregate calls give the same result.
pub(super) fn same_aggregate(left: &Aggregate, right: &Aggregate) -> bool {
    left.proc.oid == right.proc.oid
        && left.distinct == right.distinct
        && left.order_by.len() == right.order_by.len()
        && left.order_by.iter().zip(&right.order_by).all(|(l, r)| l.1 == r.1 && l.2 == r.2 && same(&l.0, &r.0, 0))
        && match (&left.filter, &right.filter) {
            (Some(l), Some(r)) => same(l, r, 0),
            (None, None) => true,
            _ => false,
        }
        && all_same(&left.args, &right.args, 0)
}

/// Prints an expression without its positions (`@` and digits).
fn printed(expr: &Expr) -> String {
    let text = format!("{expr:?}");
    let mut parts = text.split("pos: @");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-'));
    }
    out
}
