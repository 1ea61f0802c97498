//! FROM: ranges, their join tree, and the items that names refer to.
//!
//! # Invariants
//! - J1. While FROM is read, items to the left are visible only to lateral subqueries and functions; afterwards they
//!   are visible everywhere.
//! - J2. A RIGHT join is a LEFT join with its sides exchanged; the items, not the tree, give the order of the columns.
//! - J3. A column merged by USING or NATURAL is the left column; in a RIGHT join it is the right one, and in a FULL
//!   join COALESCE of both. Merged columns come first.

use super::{
    Access, Analyzer, DEPTH_MAX, Typed,
    bound::{Bound, Expr, FromItem, JoinKind, Range, RangeSource},
    error,
    resolve::named,
    scope::{Clause, Item},
    too_deep, unsupported, visit,
};
use crate::{
    catalog::relation::Relation,
    error::{Result, SqlState},
    parse::ast::{self, Pos},
    types::{SqlType, oid},
};

use std::sync::Arc;

impl Analyzer<'_> {
    /// Analyzes a FROM list into the current level; returns the join tree.
    pub(super) fn read_from(&mut self, list: &[ast::FromItem]) -> Result<Option<FromItem>> {
        let mut tree: Option<FromItem> = None;
        for entry in list {
            let (from, mut items) = self.read_item(entry)?;
            self.no_conflict(&items)?;
            lateral_state(&mut items, true, true);
            self.level().items.extend(items);
            tree = Some(match tree {
                None => from,
                Some(left) => {
                    FromItem::Join { kind: JoinKind::Inner, left: Box::new(left), right: Box::new(from), on: None }
                }
            });
        }
        lateral_state(&mut self.level().items, false, true);
        Ok(tree)
    }

    /// Refuses items whose name another item of the level already has.
    fn no_conflict(&mut self, items: &[Item]) -> Result<()> {
        let level = self.level();
        for item in items.iter().filter(|item| item.named) {
            let clash = level.items.iter().filter(|old| old.named).any(|old| clashes(old, item));
            if clash {
                return Err(duplicate(item));
            }
        }
        Ok(())
    }

    fn read_item(&mut self, entry: &ast::FromItem) -> Result<(FromItem, Vec<Item>)> {
        match entry {
            ast::FromItem::Table { table, alias } => self.read_table(&table.name, alias.as_ref()),
            ast::FromItem::Subquery { query, lateral, alias, pos } => {
                let Some(alias) = alias else {
                    return Err(error(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias", *pos)
                        .hint("For example, FROM (SELECT ...) [AS] foo."));
                };
                let outside = std::mem::replace(&mut self.level().lateral, *lateral);
                let output = self.query(query, true)?;
                self.level().lateral = outside;
                let columns = output.columns.into_iter().map(|column| (column.name, column.ty)).collect();
                let source = RangeSource::Subquery { query: output.query, lateral: *lateral && output.outer };
                self.add_range(source, columns, alias.name.clone(), Some(alias))
            }
            ast::FromItem::Function { function, lateral: _, ordinality, alias } => {
                self.read_function(function, *ordinality, alias.as_ref())
            }
            ast::FromItem::Join(join) => self.deeper(Pos::NONE, |this| this.join(join)),
        }
    }

    fn read_table(&mut self, name: &ast::RelationName, alias: Option<&ast::Alias>) -> Result<(FromItem, Vec<Item>)> {
        if name.schema.is_none()
            && let Some(cte) = self.ctes.iter().rev().find(|cte| cte.name == name.name)
        {
            if cte.columns.is_empty() && !matches!(*cte.bound, Bound::Query(_)) {
                let text = format!("WITH query \"{}\" does not have a RETURNING clause", cte.name);
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, name.pos));
            }
            let reached = self.depth + cte.height;
            if reached > DEPTH_MAX {
                return Err(too_deep(DEPTH_MAX, name.pos));
            }
            self.reached = self.reached.max(reached);
            let columns = cte.columns.clone();
            let (depth, inner) = (cte.depth, cte.outer);
            let source = if inner {
                // The query names a level outside its WITH, so it is computed at each use.
                let Bound::Query(mut query) = (*cte.bound).clone() else {
                    unreachable!("a data-modifying expression stands at the top, where nothing is outside it")
                };
                let by = isize::try_from(self.levels.len() - depth).expect("levels are few");
                visit::shift_query(&mut query, by);
                for level in &mut self.levels[depth..] {
                    level.outer = true;
                }
                RangeSource::Subquery { query, lateral: false }
            } else {
                RangeSource::Cte(cte.bound.clone())
            };
            let shown = alias.map_or(&name.name, |alias| &alias.name).clone();
            return self.add_range(source, columns, shown, alias);
        }
        let relation = self.table(name)?;
        self.note(relation.oid, Access::Read);
        self.table_item(&relation, alias)
    }

    /// Adds a table as a range of the current level.
    fn table_item(&mut self, relation: &Arc<Relation>, alias: Option<&ast::Alias>) -> Result<(FromItem, Vec<Item>)> {
        let shown = alias.map_or_else(|| relation.name.to_string(), |alias| alias.name.clone());
        let level = self.level();
        let place = level.add_table(relation, shown, alias.is_some());
        let mut item = level.items.pop().expect("the item just added");
        if let Some(alias) = alias {
            rename(&mut item, alias)?;
        }
        Ok((FromItem::Range(place), vec![item]))
    }

    fn add_range(
        &mut self,
        source: RangeSource,
        columns: Vec<(String, SqlType)>,
        name: String,
        alias: Option<&ast::Alias>,
    ) -> Result<(FromItem, Vec<Item>)> {
        let level = self.level();
        let place = level.ranges.len();
        let mut item = Item::of_range(place, name.clone(), &columns, |_| false);
        if let Some(alias) = alias {
            rename(&mut item, alias)?;
        }
        let columns = item.columns.iter().zip(&columns).map(|((name, _), (_, ty))| (name.clone(), *ty)).collect();
        level.ranges.push(Range { name, source, columns });
        Ok((FromItem::Range(place), vec![item]))
    }

    fn read_function(
        &mut self,
        function: &ast::Expr,
        ordinality: bool,
        alias: Option<&ast::Alias>,
    ) -> Result<(FromItem, Vec<Item>)> {
        let level = self.level();
        let lateral = std::mem::replace(&mut level.lateral, true);
        let clause = std::mem::replace(&mut level.clause, Clause::FromFunction);
        let call = self.table_function(function)?;
        let level = self.level();
        (level.lateral, level.clause) = (lateral, clause);
        if call.ty.oid == oid::RECORD {
            return Err(unsupported(format!("function {} in FROM", call.proc.name), function.pos));
        }
        let own = super::target::column_name(function);
        let name = alias.map_or_else(|| own.clone(), |alias| alias.name.clone());
        // The only column of a function takes the alias's name.
        let mut columns = vec![(name.clone(), call.ty)];
        if ordinality {
            columns.push(("ordinality".to_owned(), SqlType::INT8));
        }
        let source = RangeSource::Function { proc: call.proc, args: call.args, ordinality };
        self.add_range(source, columns, name, alias)
    }

    fn join(&mut self, join: &ast::Join) -> Result<(FromItem, Vec<Item>)> {
        let (left, mut left_items) = self.read_item(&join.left)?;
        let lateral_ok = matches!(join.kind, ast::JoinKind::Inner | ast::JoinKind::Left);
        lateral_state(&mut left_items, true, lateral_ok);
        // The right side may use the left one laterally, so its items are in scope meanwhile (J1).
        let before = self.level().items.len();
        self.level().items.extend(left_items.iter().cloned());
        let (right, right_items) = self.read_item(&join.right)?;
        self.level().items.truncate(before);
        for item in right_items.iter().filter(|item| item.named) {
            if left_items.iter().filter(|old| old.named).any(|old| clashes(old, item)) {
                return Err(duplicate(item));
            }
        }
        lateral_state(&mut left_items, false, true);
        let merged_names = self.merged_names(join, &left_items, &right_items)?;
        let mut merged = Vec::with_capacity(merged_names.len());
        let mut terms = Vec::with_capacity(merged_names.len());
        for name in &merged_names {
            let left = the_column(&left_items, name, "left")?;
            let right = the_column(&right_items, name, "right")?;
            merged.push((name.clone(), self.merge(join.kind, left.clone(), right.clone())?));
            let (left, right) = (Typed::new(left, Pos::NONE), Typed::new(right, Pos::NONE));
            terms.push(self.operate(&named("=", Pos::NONE), Some(left), right, Pos::NONE)?.expr);
        }
        let mut items: Vec<Item> = left_items;
        items.extend(right_items);
        let on = match &join.condition {
            ast::JoinCondition::On(condition) => {
                let outside = std::mem::replace(&mut self.level().items, items);
                let clause = std::mem::replace(&mut self.level().clause, Clause::JoinOn);
                let node = self.transform(condition)?;
                let node = self.coerce_to_bool(node, "JOIN/ON")?;
                let level = self.level();
                level.clause = clause;
                items = std::mem::replace(&mut level.items, outside);
                Some(node.expr)
            }
            _ if terms.len() > 1 => Some(Expr::And(terms)),
            _ => terms.pop(),
        };
        if merged_names.is_empty() && join.alias.is_none() {
            return Ok((tree(join.kind, left, right, on), items));
        }
        let mut columns = merged;
        for item in items.iter().filter(|item| item.open) {
            let others = item.columns.iter().filter(|(name, _)| !merged_names.contains(name));
            columns.extend(others.cloned());
        }
        let mut whole = Item {
            name: None,
            relation: None,
            columns,
            range: None,
            named: false,
            open: true,
            lateral_only: false,
            lateral_ok: true,
        };
        if let Some(alias) = &join.alias {
            items.clear();
            whole.name = Some(alias.name.clone());
            whole.named = true;
            rename(&mut whole, alias)?;
        }
        for item in &mut items {
            item.open = false;
        }
        items.push(whole);
        Ok((tree(join.kind, left, right, on), items))
    }

    /// Returns the names of the columns that a join merges.
    fn merged_names(&self, join: &ast::Join, left: &[Item], right: &[Item]) -> Result<Vec<String>> {
        Ok(match &join.condition {
            ast::JoinCondition::Using(names, None) => {
                for (at, name) in names.iter().enumerate() {
                    if names[..at].contains(name) {
                        let text = format!("column name \"{name}\" appears more than once in USING clause");
                        return Err(error(SqlState::DUPLICATE_COLUMN, text, Pos::NONE));
                    }
                }
                names.clone()
            }
            ast::JoinCondition::Using(_, Some(_)) => return Err(unsupported("an alias of a USING clause", Pos::NONE)),
            ast::JoinCondition::Natural => open_names(left)
                .filter(|name| open_names(right).any(|other| other == *name))
                .map(str::to_owned)
                .collect(),
            ast::JoinCondition::None | ast::JoinCondition::On(_) => Vec::new(),
        })
    }

    /// Makes the value of a merged column (J3).
    fn merge(&mut self, kind: ast::JoinKind, left: Expr, right: Expr) -> Result<Expr> {
        let nodes = vec![Typed::new(left, Pos::NONE), Typed::new(right, Pos::NONE)];
        let (mut nodes, ty) = self.unify(nodes, "JOIN/USING")?;
        let right = nodes.pop().expect("two went in").expr;
        let left = nodes.pop().expect("two went in").expr;
        Ok(match kind {
            ast::JoinKind::Full => Expr::Coalesce(vec![left, right], ty),
            ast::JoinKind::Right => right,
            ast::JoinKind::Left => left,
            // Both sides are equal; planning can use a plain column better than a converted one.
            ast::JoinKind::Inner => match (&left, &right) {
                (Expr::Cast { .. }, Expr::Column { .. }) => right,
                _ => left,
            },
        })
    }
}

fn tree(kind: ast::JoinKind, left: FromItem, right: FromItem, on: Option<Expr>) -> FromItem {
    let (kind, left, right) = match kind {
        ast::JoinKind::Inner => (JoinKind::Inner, left, right),
        ast::JoinKind::Left => (JoinKind::Left, left, right),
        ast::JoinKind::Right => (JoinKind::Left, right, left), // J2
        ast::JoinKind::Full => (JoinKind::Full, left, right),
    };
    FromItem::Join { kind, left: Box::new(left), right: Box::new(right), on }
}

fn lateral_state(items: &mut [Item], only: bool, ok: bool) {
    for item in items {
        item.lateral_only = only;
        item.lateral_ok = ok;
    }
}

/// Returns whether two items cannot be in one FROM: they have the same name and are not two different tables without an
/// alias.
fn clashes(left: &Item, right: &Item) -> bool {
    left.name.is_some()
        && left.name == right.name
        && match (left.relation, right.relation) {
            (Some((_, left)), Some((_, right))) => left == right,
            _ => true,
        }
}

fn duplicate(item: &Item) -> crate::error::SqlError {
    let name = item.name.as_deref().unwrap_or_default();
    error(SqlState::DUPLICATE_ALIAS, format!("table name \"{name}\" specified more than once"), Pos::NONE)
}

fn open_names(items: &[Item]) -> impl Iterator<Item = &str> {
    items.iter().filter(|item| item.open).flat_map(|item| item.columns.iter().map(|(name, _)| name.as_str()))
}

/// Finds the only column with this name on one side of a join.
fn the_column(items: &[Item], name: &str, side: &str) -> Result<Expr> {
    let mut found =
        items.iter().filter(|item| item.open).flat_map(|item| item.columns.iter().filter(|(column, _)| column == name));
    match (found.next(), found.next()) {
        (Some((_, expr)), None) => Ok(expr.clone()),
        (Some(_), Some(_)) => Err(error(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
            Pos::NONE,
        )),
        _ => Err(error(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
            Pos::NONE,
        )),
    }
}

/// Gives an item and its columns the names of an alias.
fn rename(item: &mut Item, alias: &ast::Alias) -> Result<()> {
    if alias.columns.len() > item.columns.len() {
        return Err(error(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "table \"{}\" has {} columns available but {} columns specified",
                alias.name,
                item.columns.len(),
                alias.columns.len()
            ),
            Pos::NONE,
        ));
    }
    item.name = Some(alias.name.clone());
    for (column, name) in item.columns.iter_mut().zip(&alias.columns) {
        column.0.clone_from(name);
    }
    Ok(())
}
