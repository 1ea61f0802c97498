//! Index expressions: the expressions of a key and the terms of a predicate, and whether a query's conditions are about
//! them.
//!
//! Expressions are compared by the text that `deparse` prints of them: the catalog stores this text, and by `deparse`
//! P1 equal texts over one table mean the same.
//!
//! # Invariants
//! - I1. Only an expression over columns of the one range has a text. An expression that names another level, a
//!   parameter or a subquery has none, so it is never mistaken for an index expression.
//! - I2. Where a condition is true, each of its facts is true.
//!
//! Checked by the tests of `exec` (same rows with the index and without it) and by the SQL scripts.

use std::sync::Arc;

use super::{
    AnalyzeContext,
    bound::{Expr, RowComparison},
    deparse,
    scope::{Clause, Level},
    target, visit, with_stack,
};
use crate::{
    builtin::{self, CastContext, Proc, Volatility},
    catalog::relation::Relation,
    error::Result,
    parse::ast,
};

/// Analyzes an expression of an index key over `relation`, which becomes range 0.
///
/// # Errors
/// As for [`super::analyze`]; subqueries, aggregates and sets are refused in PostgreSQL's words.
pub fn index_expression(expr: &ast::Expr, relation: &Arc<Relation>, cx: &AnalyzeContext<'_>) -> Result<Expr> {
    with_stack(cx, |analyzer| {
        analyzer.levels.push(Level { clause: Clause::IndexExpression, ..Level::of_relation(relation) });
        // A literal keeps its unknown type, which has no order.
        let node = analyzer.transform(expr)?;
        analyzer.levels.pop();
        Ok(node.expr)
    })
}

/// Analyzes the WHERE of an index over `relation`, which becomes range 0.
///
/// # Errors
/// As for [`index_expression`]; 42804 if the expression is not a condition.
pub fn index_predicate(expr: &ast::Expr, relation: &Arc<Relation>, cx: &AnalyzeContext<'_>) -> Result<Expr> {
    with_stack(cx, |analyzer| {
        analyzer.levels.push(Level { clause: Clause::IndexPredicate, ..Level::of_relation(relation) });
        let node = analyzer.transform(expr)?;
        let node = analyzer.coerce_to_bool(node, "WHERE")?;
        analyzer.levels.pop();
        Ok(node.expr)
    })
}

/// Returns the name of the index column that an expression forms.
pub fn index_column_name(expr: &ast::Expr) -> String {
    target::figure(expr).map_or_else(|| "expr".to_owned(), |(name, _)| name)
}

/// Returns whether the value of an expression can depend on more than the row: on settings, the clock or other rows.
pub fn is_mutable(expr: &Expr) -> bool {
    let moves = |proc: &Proc| proc.volatility != Volatility::Immutable;
    let mut found = false;
    visit::walk(&mut expr.clone(), 0, &mut |node, _| {
        found |= match node {
            Expr::Call { proc, .. } | Expr::ArrayCompare { proc, .. } => moves(proc),
            Expr::DistinctFrom { equal, .. } | Expr::NullIf { equal, .. } | Expr::InList { equal, .. } => moves(equal),
            Expr::RowCompare { equal, less, .. } => equal.iter().chain(&*less).any(|proc| moves(proc)),
            Expr::Cast { arg, to, .. } => {
                let from = arg.ty().oid;
                let how = builtin::conversion(from, to.oid, CastContext::Explicit);
                !matches!(**arg, Expr::Const(..)) && how.is_none_or(|how| !how.is_immutable(from, to.oid))
            }
            _ => false,
        };
        Ok(true)
    })
    .expect("looking never fails");
    found
}

/// Splits a condition into the terms that must all be true.
pub fn terms(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::And(parts) => parts.iter().flat_map(terms).collect(),
        term => vec![term],
    }
}

/// Returns the text of an expression over range `range`, which reads `relation`; `None` if it names anything else (I1).
pub fn text_over(expr: &Expr, relation: &Relation, range: usize) -> Option<String> {
    let mut own = true;
    visit::walk(&mut expr.clone(), 0, &mut |node, _| {
        own &= match node {
            Expr::Column { up, range: at, .. } => *up == 0 && *at == range,
            Expr::Param(..) | Expr::GroupKey { .. } | Expr::Aggregate { .. } | Expr::Subquery { .. } => false,
            _ => true,
        };
        Ok(own)
    })
    .expect("looking never fails");
    let name = |_, place: usize| relation.columns.get(place).map_or_else(String::new, |column| column.name.to_string());
    own.then(|| deparse::expression(expr, &name))
}

/// Collects facts about a row of range `range`, which reads `relation`, that hold where the condition is true (I2), as
/// texts: the condition's terms, and IS NOT NULL for each part in which a term is strict.
pub fn facts(condition: &Expr, relation: &Relation, range: usize, out: &mut Vec<String>) {
    for term in terms(condition) {
        out.extend(text_over(term, relation, range));
        let mut known = Vec::new();
        match term {
            Expr::Column { .. } => known.push(term),
            // With a NULL these two can be false, but not true.
            Expr::ArrayCompare { arg, array, all: false, .. } => known.extend([&**arg, &**array]),
            Expr::RowCompare { kind: RowComparison::Equal, left, right, .. } => known.extend(left.iter().chain(right)),
            term => strict_parts(term, &mut known),
        }
        for part in known {
            let test = Expr::IsNull { arg: Box::new(part.clone()), negated: true };
            out.extend(text_over(&test, relation, range));
        }
    }
}

/// Collects the parts that are not NULL if the expression is not NULL.
fn strict_parts<'e>(expr: &'e Expr, out: &mut Vec<&'e Expr>) {
    let mut inside = |parts: &[&'e Expr]| {
        for &part in parts {
            out.push(part);
            strict_parts(part, out);
        }
    };
    match expr {
        Expr::Call { proc, args, .. } if proc.strict => inside(&args.iter().collect::<Vec<_>>()),
        Expr::Cast { arg, .. } | Expr::Not(arg) | Expr::InList { arg, .. } => inside(&[arg]),
        Expr::IsNull { arg, negated: true } if !is_row(arg) => strict_parts(arg, out),
        Expr::Subscript { array, index, .. } => inside(&[array, index]),
        _ => {}
    }
}

fn is_row(expr: &Expr) -> bool {
    expr.ty().oid == crate::types::oid::RECORD
}
