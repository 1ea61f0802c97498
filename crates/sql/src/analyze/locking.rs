//! FOR UPDATE and the other locking clauses: the tables that a clause applies to, down into subqueries in FROM.
//!
//! The rules are PostgreSQL's. A clause that applies to a subquery applies to every table in it. A subquery without a
//! clause of its own is then merged into the enclosing level if possible, so that only rows that reach that level's
//! result are locked. A subquery that keeps its own level locks the rows that it returns, and conditions of the
//! enclosing level on its columns move into it. A common table expression is computed on its own: no clause and no
//! condition from outside enters it.
//!
//! # Invariants
//! - K1. After [`Analyzer::lock`], `Select::locking` names only tables, each once, with the strongest of the clauses
//!   that apply to it, and without waiting if one of them says so.
//! - K2. An expression that moves between levels keeps its meaning: it is not volatile, and the only additional rows
//!   that it is evaluated for are those that an inner join or a neighbouring condition would have removed.
//!
//! Checked by `analyze_tests` and, on both servers, by `tests/clients/tests/row_locks.rs`.

use std::sync::Arc;

use super::{
    Access, Analyzer,
    bound::{Bound, Distinct, Expr, FromItem, JoinKind, Locking, Query, RangeSource, Select, ValuesQuery},
    error, unsupported, visit,
};
use crate::{
    builtin::Volatility,
    catalog::relation::Storage,
    error::{Result, SqlError, SqlState},
    parse::ast::{self, LockStrength, LockWait, Pos},
};

/// A locking clause with resolved names.
pub(super) struct LockClause {
    strength: LockStrength,
    wait: LockWait,
    /// The ranges it names; `None` for all.
    of: Option<Vec<(usize, Pos)>>,
}

/// Returns the clause that asks for a lock strength, as it is written.
pub(super) fn clause_name(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

impl Analyzer<'_> {
    /// Resolves the names in the clauses of the current level.
    pub(super) fn locking_clauses(&mut self, clauses: &[ast::Locking]) -> Result<Vec<LockClause>> {
        clauses.iter().map(|clause| self.locking_clause(clause)).collect()
    }

    fn locking_clause(&mut self, clause: &ast::Locking) -> Result<LockClause> {
        let mut named = Vec::with_capacity(clause.of.len());
        for of in &clause.of {
            let level = self.level();
            let found = level.items.iter().find(|item| item.named && item.name.as_deref() == Some(&of.name));
            match found.and_then(|item| item.range) {
                Some(range) => named.push((range, of.pos)),
                None => {
                    let name = clause_name(clause.strength);
                    let text = format!("relation \"{}\" in {name} clause not found in FROM clause", of.name);
                    return Err(error(SqlState::UNDEFINED_TABLE, text, of.pos));
                }
            }
        }
        let of = (!clause.of.is_empty()).then_some(named);
        Ok(LockClause { strength: clause.strength, wait: clause.wait, of })
    }

    /// Applies the clauses of a level to it (K1).
    pub(super) fn lock(&mut self, select: &mut Select, clauses: &[LockClause]) -> Result<()> {
        if let Some(first) = clauses.first() {
            let is_outermost = self.levels.is_empty();
            self.lock_strength = self.lock_strength.filter(|_| !is_outermost).or(Some(first.strength));
        }
        // Only a subquery's own clauses, not those from outside, make it keep its level.
        let own: Vec<bool> = select.ranges.iter().map(|range| locks_itself(&range.source)).collect();
        for clause in clauses {
            self.apply(select, clause)?;
        }
        for (range, own) in own.into_iter().enumerate() {
            if !own && !clauses.is_empty() {
                pull_up(select, range);
            }
            if locks_itself(&select.ranges[range].source) {
                push_down(select, range);
            }
        }
        Ok(())
    }

    fn apply(&mut self, select: &mut Select, clause: &LockClause) -> Result<()> {
        let name = clause_name(clause.strength);
        if let Some(conflict) = conflict(select) {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} {conflict}")));
        }
        let mut nullable = Vec::new();
        if let Some(from) = &select.from {
            nullable_ranges(from, false, &mut nullable);
        }
        let wanted = match &clause.of {
            Some(named) => named.clone(),
            None => (0..select.ranges.len()).map(|range| (range, Pos::NONE)).collect(),
        };
        for (range, pos) in wanted {
            let refused =
                |what: &str| error(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} cannot be applied to {what}"), pos);
            let explicit = clause.of.is_some();
            match &mut select.ranges[range].source {
                RangeSource::Table(relation) if relation.storage == Storage::Virtual => {
                    return Err(unsupported(format!("{name} on a system table"), pos));
                }
                RangeSource::Table(relation) => {
                    let oid = relation.oid;
                    self.note(oid, Access::Lock);
                    mark(&mut select.locking, range, clause);
                }
                RangeSource::Subquery { query, .. } => self.apply_within(query, clause)?,
                RangeSource::Function { .. } if explicit => return Err(refused("a function")),
                RangeSource::Cte(_) if explicit => return Err(refused("a WITH query")),
                RangeSource::Function { .. } | RangeSource::Cte(_) => continue,
            }
            if nullable.contains(&range) {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("{name} cannot be applied to the nullable side of an outer join"),
                ));
            }
        }
        Ok(())
    }

    /// Applies a clause on a subquery to every table in it.
    fn apply_within(&mut self, query: &mut Query, clause: &LockClause) -> Result<()> {
        match query {
            Query::Select(select) => {
                let all = LockClause { of: None, ..*clause };
                self.lock(select, &[all])
            }
            Query::SetOperation(_) => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{} is not allowed with UNION/INTERSECT/EXCEPT", clause_name(clause.strength)),
            )),
            Query::Values(_) => Ok(()),
        }
    }
}

/// Returns the error text for the part of a level that excludes row locks, if there is one.
fn conflict(select: &Select) -> Option<&'static str> {
    if !matches!(select.distinct, Distinct::No) {
        Some("is not allowed with DISTINCT clause")
    } else if !select.group_by.is_empty() {
        Some("is not allowed with GROUP BY clause")
    } else if select.having.is_some() {
        Some("is not allowed with HAVING clause")
    } else if !select.aggregates.is_empty() {
        Some("is not allowed with aggregate functions")
    } else if select.returns_set {
        Some("is not allowed with set-returning functions in the target list")
    } else {
        None
    }
}

/// Records that a clause applies to a table (K1).
fn mark(locking: &mut Vec<Locking>, range: usize, clause: &LockClause) {
    match locking.iter_mut().find(|locking| locking.range == range) {
        Some(locking) => {
            locking.strength = locking.strength.max(clause.strength);
            locking.wait = locking.wait.max(clause.wait);
        }
        None => locking.push(Locking { range, strength: clause.strength, wait: clause.wait }),
    }
}

/// Returns whether a source is a subquery whose own level locks rows.
fn locks_itself(source: &RangeSource) -> bool {
    match source {
        RangeSource::Subquery { query: Query::Select(select), .. } => !select.locking.is_empty(),
        _ => false,
    }
}

/// Collects the ranges whose columns an outer join may set to NULL.
fn nullable_ranges(from: &FromItem, nullable: bool, out: &mut Vec<usize>) {
    match from {
        FromItem::Range(range) if nullable => out.push(*range),
        FromItem::Range(_) => {}
        FromItem::Join { kind, left, right, .. } => {
            nullable_ranges(left, nullable || *kind == JoinKind::Full, out);
            nullable_ranges(right, nullable || *kind != JoinKind::Inner, out);
        }
    }
}

/// Merges a subquery into the enclosing level if it has only tables, conditions and expressions.
fn pull_up(select: &mut Select, range: usize) {
    let RangeSource::Subquery { query: Query::Select(sub), lateral: false } = &select.ranges[range].source else {
        return;
    };
    let plain = sub.order_by.is_empty() && sub.limit.is_none() && sub.offset.is_none() && !sub.locking.is_empty();
    if !plain || sub.targets.iter().any(is_volatile) {
        return;
    }
    let nothing = Query::Values(Box::new(ValuesQuery {
        rows: Vec::new(),
        types: Vec::new(),
        order_by: Vec::new(),
        limit: None,
        offset: None,
    }));
    let hole = RangeSource::Cte(Arc::new(Bound::Query(nothing)));
    let RangeSource::Subquery { query: Query::Select(mut sub), .. } =
        std::mem::replace(&mut select.ranges[range].source, hole)
    else {
        unreachable!("it was one above");
    };
    // The first range of the subquery takes its place; the others are appended.
    let moved = select.ranges.len();
    let place = |inner: usize| if inner == 0 { range } else { moved + inner - 1 };
    visit::walk_select(&mut sub, 0, &mut |node, depth| {
        if let Expr::Column { up, range, .. } = node
            && *up == depth
        {
            *range = place(*range);
        } else if let Some(up) = visit::reference(node)
            && *up > depth
        {
            *up -= 1;
        }
        Ok(true)
    })
    .expect("renaming never fails");
    replace_columns(select, range, &sub.targets);
    let Select { ranges, from, filter, locking, .. } = *sub;
    let mut from = from.expect("a level with tables to lock has a FROM");
    rename_tree(&mut from, &place);
    replace_leaf(select.from.as_mut().expect("the subquery is in it"), range, from);
    let mut ranges = ranges.into_iter();
    select.ranges[range] = ranges.next().expect("a level with tables to lock has ranges");
    select.ranges.extend(ranges);
    add_filter(&mut select.filter, filter.into_iter().collect());
    for Locking { range, strength, wait } in locking {
        select.locking.push(Locking { range: place(range), strength, wait });
    }
}

/// Replaces the columns of a range by their values.
fn replace_columns(select: &mut Select, range: usize, targets: &[Expr]) {
    visit::walk_select(select, 0, &mut |node, depth| {
        let Expr::Column { up, range: of, column, .. } = node else { return Ok(true) };
        if *up == depth && *of == range {
            let mut value = targets[*column].clone();
            visit::shift(&mut value, isize::try_from(depth).expect("levels are few"));
            *node = value;
            return Ok(false);
        }
        Ok(true)
    })
    .expect("replacing never fails");
}

fn rename_tree(from: &mut FromItem, place: &impl Fn(usize) -> usize) {
    match from {
        FromItem::Range(range) => *range = place(*range),
        FromItem::Join { left, right, .. } => {
            rename_tree(left, place);
            rename_tree(right, place);
        }
    }
}

/// Replaces the leaf of a range by a tree.
fn replace_leaf(from: &mut FromItem, range: usize, tree: FromItem) -> Option<FromItem> {
    match from {
        FromItem::Range(leaf) if *leaf == range => {
            *from = tree;
            None
        }
        FromItem::Range(_) => Some(tree),
        FromItem::Join { left, right, .. } => {
            let tree = replace_leaf(left, range, tree)?;
            replace_leaf(right, range, tree)
        }
    }
}

/// Moves the conditions that read only a subquery's columns into it, so that it does not lock rows that they exclude.
fn push_down(select: &mut Select, range: usize) {
    let mut nullable = Vec::new();
    if let Some(from) = &select.from {
        nullable_ranges(from, false, &mut nullable);
    }
    let RangeSource::Subquery { query: Query::Select(sub), .. } = &mut select.ranges[range].source else { return };
    if nullable.contains(&range) || sub.limit.is_some() || sub.offset.is_some() {
        return;
    }
    let Some(filter) = select.filter.take() else { return };
    let terms = match filter {
        Expr::And(terms) => terms,
        term => vec![term],
    };
    let (mut down, stay): (Vec<Expr>, Vec<Expr>) =
        terms.into_iter().partition(|term| may_move(term, range, &sub.targets));
    for term in &mut down {
        visit::walk(term, 0, &mut |node, _| {
            match node {
                Expr::Column { up: 0, column, .. } => {
                    *node = sub.targets[*column].clone();
                    return Ok(false);
                }
                node => {
                    if let Some(up) = visit::reference(node) {
                        *up += 1;
                    }
                }
            }
            Ok(true)
        })
        .expect("replacing never fails");
    }
    add_filter(&mut sub.filter, down);
    add_filter(&mut select.filter, stay);
}

/// Returns whether a condition reads only columns of one range, whose values are `targets`, and may be evaluated inside
/// it.
fn may_move(term: &Expr, range: usize, targets: &[Expr]) -> bool {
    let (mut reads, mut may) = (false, true);
    visit::walk(&mut term.clone(), 0, &mut |node, _| {
        match node {
            Expr::Column { up: 0, range: of, column, .. } => {
                reads = true;
                may &= *of == range && !is_volatile(&targets[*column]);
            }
            Expr::GroupKey { up: 0, .. } | Expr::Aggregate { up: 0, .. } | Expr::Subquery { .. } => may = false,
            node => may &= !calls_volatile(node),
        }
        Ok(may)
    })
    .expect("looking never fails");
    reads && may
}

fn add_filter(filter: &mut Option<Expr>, mut more: Vec<Expr>) {
    let mut terms = match filter.take() {
        None => Vec::new(),
        Some(Expr::And(terms)) => terms,
        Some(term) => vec![term],
    };
    terms.append(&mut more);
    *filter = match terms.len() {
        0 | 1 => terms.pop(),
        _ => Some(Expr::And(terms)),
    };
}

/// Returns whether two evaluations of an expression could give different results.
fn is_volatile(expr: &Expr) -> bool {
    let mut found = false;
    visit::walk(&mut expr.clone(), 0, &mut |node, _| {
        found |= calls_volatile(node);
        Ok(true)
    })
    .expect("looking never fails");
    found
}

fn calls_volatile(node: &Expr) -> bool {
    matches!(node, Expr::Call { proc, .. } if proc.volatility == Volatility::Volatile)
}
