//! ON CONFLICT: the unique indexes that decide, and the effect of DO UPDATE on the existing row.
//!
//! The index for a list of columns is chosen when the statement is planned, as in PostgreSQL, so that a statement whose
//! index is missing can be prepared.
//!
//! # Invariants
//! - O1. `excluded` is range 1 of the level, after the table. Names refer to it only in SET and WHERE; in other places
//!   only errors mention it.

use std::sync::Arc;

use super::{
    Analyzer, Typed,
    bound::{Arbiter, ArbiterKeys, ConflictUpdate, Expr, OnConflict},
    error,
    expr::{is_collated, known_collation},
    index::{facts, text_over},
    scope::Clause,
};
use crate::{
    builtin::{op_class_by_name, op_class_for},
    catalog::relation::{Index, Relation},
    error::{Result, SqlError, SqlState},
    parse::ast::{self, IndexElement, IndexKey, Pos},
};

/// The range of the row proposed for insertion (O1).
const EXCLUDED: &str = "excluded";

impl Analyzer<'_> {
    /// Analyzes ON CONFLICT inside the level whose range 0 is the table.
    pub(super) fn on_conflict(&mut self, table: &Arc<Relation>, clause: &ast::OnConflict) -> Result<OnConflict> {
        let update = match &clause.action {
            ast::ConflictAction::Nothing => None,
            ast::ConflictAction::Update { set, filter } => Some((set, filter.as_ref())),
        };
        let excluded = update.map(|_| self.add_excluded(table));
        let arbiter = match &clause.target {
            Some(target) => self.arbiter(table, target)?,
            None if update.is_some() => {
                return Err(error(
                    SqlState::SYNTAX_ERROR,
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                    clause.pos,
                )
                .hint("For example, ON CONFLICT (column_name)."));
            }
            None => Arbiter::Every,
        };
        let update = match (update, excluded) {
            (Some((set, filter)), Some(item)) => {
                self.open_excluded(item, true);
                let assignments = self.assignments(table, set)?;
                let filter = self.condition(filter, Clause::Where, "WHERE")?.map(|node| node.expr);
                self.open_excluded(item, false);
                Some(ConflictUpdate { assignments, filter })
            }
            _ => None,
        };
        Ok(OnConflict { arbiter, update })
    }

    /// Adds `excluded` to the level, hidden; returns the item.
    fn add_excluded(&mut self, table: &Arc<Relation>) -> usize {
        let level = self.level();
        let range = level.add_table(table, EXCLUDED.to_owned(), true);
        level.excluded = Some(range);
        let item = level.items.len() - 1;
        self.open_excluded(item, false);
        item
    }

    fn open_excluded(&mut self, item: usize, open: bool) {
        let item = &mut self.level().items[item];
        (item.named, item.open) = (open, open);
    }

    /// Analyzes the conflict target, which stands between ON CONFLICT and DO.
    fn arbiter(&mut self, table: &Relation, target: &ast::ConflictTarget) -> Result<Arbiter> {
        match target {
            ast::ConflictTarget::Constraint(name, _) => named_constraint(table, name),
            ast::ConflictTarget::Index { elements, filter, pos } => {
                let mut keys = ArbiterKeys::default();
                let mut matched = true;
                for element in elements {
                    match self.arbiter_element(element, *pos)? {
                        None => matched = false,
                        Some(Expr::Column { up: 0, range: 0, column, .. }) => keys.columns.push(column),
                        Some(expr) => match text_over(&expr, table, 0) {
                            None => matched = false,
                            Some(text) => keys.expressions.push((text, expr.ty().oid)),
                        },
                    }
                }
                if let Some(filter) = filter {
                    self.level().clause = Clause::IndexPredicate;
                    let filter = self.transform(filter)?;
                    facts(&filter.expr, table, 0, &mut keys.facts);
                }
                keys.columns.sort_unstable();
                keys.columns.dedup();
                Ok(if matched { Arbiter::Keys(keys) } else { Arbiter::Unmatched })
            }
        }
    }

    /// Returns the column or expression that an element stands for; `None` if no index can match it, because the
    /// element asks for an order that indexes do not have.
    fn arbiter_element(&mut self, element: &IndexElement, pos: Pos) -> Result<Option<Expr>> {
        let refuse = |what: &str| {
            Err(error(SqlState::INVALID_COLUMN_REFERENCE, format!("{what} is not allowed in ON CONFLICT clause"), pos))
        };
        if element.descending.is_some() {
            return refuse("ASC/DESC");
        }
        if element.nulls_first.is_some() {
            return refuse("NULLS FIRST/LAST");
        }
        self.level().clause = Clause::IndexExpression;
        let node: Typed = match &element.key {
            IndexKey::Column(name) => self.column(std::slice::from_ref(name), pos)?,
            IndexKey::Expression(expr) => {
                let node = self.transform(expr)?;
                self.resolve_unknown(node)?
            }
        };
        if let Some(collation) = &element.collation {
            known_collation(collation, node.pos)?;
        }
        let class = match &element.operator_class {
            None => None,
            Some(name) => Some(op_class_by_name(name.last()).next().ok_or_else(|| {
                let text = format!("operator class \"{name}\" does not exist for access method \"btree\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, text)
            })?),
        };
        let ty = node.ty();
        // Every index has the default order of its columns' types. All text is compared bytewise, as the other operator
        // classes and the collations of text ask for.
        let ordered = class.is_none_or(|class| op_class_for(ty.oid).is_some_and(|own| own.input == class.input));
        let collated = element.collation.is_none() || is_collated(ty);
        Ok((ordered && collated).then_some(node.expr))
    }
}

/// Finds the constraint that ON CONSTRAINT names.
fn named_constraint(table: &Relation, name: &str) -> Result<Arbiter> {
    let named = |index: &&Arc<Index>| (index.primary || index.constraint.is_some()) && &*index.name == name;
    if let Some(index) = table.indexes.iter().find(named) {
        return Ok(Arbiter::Index(index.oid));
    }
    let unindexed = table.checks.iter().any(|check| &*check.name == name)
        || table.foreign_keys.iter().any(|key| &*key.name == name);
    if unindexed {
        return Ok(Arbiter::Unindexed);
    }
    let text = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text))
}
