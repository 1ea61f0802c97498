//! ORDER BY, GROUP BY and DISTINCT ON: items that may be ordinals, output names or expressions.
//!
//! # Invariants
//! - O1. ORDER BY and DISTINCT ON read a bare name first as an output name, GROUP BY first as a FROM column.
//! - O2. An item that equals no output column becomes a hidden one, after all visible columns.

use super::{
    Analyzer, Typed,
    bound::{Expr, ResultColumn, SortKey},
    equal, error,
    expr_call::direction,
    scope::{self, Clause},
    select::{is_unknown, sort_key},
    target::Target,
    visit,
};
use crate::{
    error::{Result, SqlState},
    parse::ast::{self, ExprKind, Literal, Pos},
    types::SqlType,
};

/// The meaning of an item.
enum Item {
    Target(usize),
    Expr(Typed),
}

impl Analyzer<'_> {
    /// Finds the meaning of an item (O1).
    fn item(&mut self, expr: &ast::Expr, targets: &[Target]) -> Result<Item> {
        let clause = self.level().clause;
        match &expr.kind {
            ExprKind::Column { path, star: false } if path.len() == 1 => {
                let name = &path[0];
                let column_first = clause == Clause::GroupBy && scope::has_open_column(self.level(), name);
                if !column_first {
                    let mut found: Option<usize> = None;
                    for (at, target) in targets.iter().enumerate().filter(|(_, t)| !t.junk && t.name == *name) {
                        match found {
                            Some(old) if !equal::same(&targets[old].node.expr, &target.node.expr, 0) => {
                                let text = format!("{} \"{name}\" is ambiguous", clause.described());
                                return Err(error(SqlState::AMBIGUOUS_COLUMN, text, expr.pos));
                            }
                            Some(_) => {}
                            None => found = Some(at),
                        }
                    }
                    if let Some(at) = found {
                        return Ok(Item::Target(at));
                    }
                }
            }
            ExprKind::Literal(literal) => {
                return ordinal(literal, targets.iter().filter(|t| !t.junk).count(), clause, expr.pos)
                    .map(Item::Target);
            }
            _ => {}
        }
        let mut node = self.transform(expr)?;
        match targets.iter().position(|target| equal::same(&target.node.expr, &node.expr, 0)) {
            Some(at) => {
                visit::walk(&mut node.expr, 0, &mut |part, _| {
                    if let Expr::Param(place, SqlType::UNKNOWN) = part {
                        self.params.forget(*place);
                    }
                    Ok(true)
                })?;
                Ok(Item::Target(at))
            }
            None => Ok(Item::Expr(node)),
        }
    }

    /// Returns the target for an item; adds a hidden one if necessary (O2).
    fn item_target(&mut self, expr: &ast::Expr, targets: &mut Vec<Target>) -> Result<usize> {
        match self.item(expr, targets)? {
            Item::Target(at) => {
                if is_unknown(targets[at].node.ty()) {
                    let node = targets[at].node.clone();
                    targets[at].node = self.resolve_unknown(node)?;
                }
                Ok(at)
            }
            Item::Expr(node) => {
                let node = self.resolve_unknown(node)?;
                targets.push(Target::junk(node));
                Ok(targets.len() - 1)
            }
        }
    }

    /// Analyzes ORDER BY of a SELECT.
    pub(super) fn order_by(
        &mut self,
        items: &[ast::SortItem],
        targets: &mut Vec<Target>,
        distinct: bool,
    ) -> Result<Vec<SortKey>> {
        let mut out: Vec<SortKey> = Vec::with_capacity(items.len());
        for item in items {
            let at = self.item_target(&item.expr, targets)?;
            if distinct && targets[at].junk {
                return Err(error(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    targets[at].node.pos,
                ));
            }
            self.ordering_exists(targets[at].node.ty(), targets[at].node.pos)?;
            if !out.iter().any(|key| key.target == at) {
                out.push(sort_key(at, direction(item)?));
            }
        }
        Ok(out)
    }

    /// Analyzes GROUP BY.
    pub(super) fn group_by(&mut self, items: &[ast::Expr], targets: &mut [Target]) -> Result<Vec<Expr>> {
        let mut out: Vec<Expr> = Vec::with_capacity(items.len());
        for item in items {
            let node = match self.item(item, targets)? {
                Item::Target(at) => {
                    self.resolve_target(&mut targets[at])?;
                    targets[at].node.clone()
                }
                Item::Expr(node) => self.resolve_unknown(node)?,
            };
            if visit::names_own_aggregate(&node.expr) {
                return Err(error(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed in GROUP BY",
                    node.pos,
                ));
            }
            self.equality_exists(node.ty(), node.pos)?;
            if !out.iter().any(|old| equal::same(old, &node.expr, 0)) {
                out.push(node.expr);
            }
        }
        Ok(out)
    }

    /// Analyzes DISTINCT ON; its items must be the first ones of ORDER BY.
    pub(super) fn distinct_on(
        &mut self,
        items: &[ast::Expr],
        targets: &mut Vec<Target>,
        order_by: &[SortKey],
    ) -> Result<Vec<usize>> {
        let mut out = Vec::with_capacity(items.len());
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            let at = self.item_target(item, targets)?;
            self.equality_exists(targets[at].node.ty(), targets[at].node.pos)?;
            if !out.contains(&at) {
                out.push(at);
                places.push(item.start());
            }
        }
        let leading = order_by.iter().take_while(|key| out.contains(&key.target)).count();
        let skipped = leading < order_by.len();
        let misplaced = out.iter().position(|at| match order_by.iter().position(|key| key.target == *at) {
            Some(place) => place > leading,
            None => skipped,
        });
        if let Some(misplaced) = misplaced {
            return Err(error(
                SqlState::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                places[misplaced],
            ));
        }
        Ok(out)
    }

    /// Analyzes ORDER BY over result columns, for set operations and VALUES.
    pub(super) fn order_columns(
        &mut self,
        items: &[ast::SortItem],
        columns: &[ResultColumn],
        what: &str,
    ) -> Result<Vec<SortKey>> {
        let mut out: Vec<SortKey> = Vec::with_capacity(items.len());
        for item in items {
            let at = match &item.expr.kind {
                ExprKind::Literal(literal) => ordinal(literal, columns.len(), Clause::OrderBy, item.expr.pos)?,
                ExprKind::Column { path, star: false } if path.len() == 1 => {
                    let mut named = columns.iter().enumerate().filter(|(_, column)| column.name == path[0]);
                    match (named.next(), named.next()) {
                        (Some((at, _)), None) => at,
                        (Some(_), Some(_)) => {
                            let text = format!("ORDER BY \"{}\" is ambiguous", path[0]);
                            return Err(error(SqlState::AMBIGUOUS_COLUMN, text, item.expr.pos));
                        }
                        _ => {
                            let text = format!("column \"{}\" does not exist", path[0]);
                            return Err(error(SqlState::UNDEFINED_COLUMN, text, item.expr.pos));
                        }
                    }
                }
                _ if what == "VALUES" => {
                    return Err(super::unsupported("ORDER BY an expression over VALUES", item.expr.start()));
                }
                _ => {
                    return Err(error(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                        item.expr.start(),
                    )
                    .detail("Only result column names can be used, not expressions or functions.")
                    .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause."));
                }
            };
            self.ordering_exists(columns[at].ty, item.expr.start())?;
            if !out.iter().any(|key| key.target == at) {
                out.push(sort_key(at, direction(item)?));
            }
        }
        Ok(out)
    }
}

/// Converts an ordinal, which counts from 1, to an index.
fn ordinal(literal: &Literal, columns: usize, clause: Clause, pos: Pos) -> Result<usize> {
    let Literal::Integer(number) = literal else {
        let text = format!("non-integer constant in {}", clause.described());
        return Err(error(SqlState::SYNTAX_ERROR, text, pos));
    };
    match usize::try_from(*number).ok().and_then(|number| number.checked_sub(1)) {
        Some(at) if at < columns => Ok(at),
        _ => Err(error(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("{} position {number} is not in select list", clause.described()),
            pos,
        )),
    }
}
