//! Names in scope: the enclosing select levels, their FROM items, and the clause that is being analyzed.
//!
//! # Invariants
//! - S1. The columns of an [`Item`] are expressions over the ranges of its own level (`up: 0`).
//! - S2. A name that two visible columns of one level share is ambiguous; names of an inner level hide outer ones.
//! - S3. `outer` is set on every level from which a name of a level further out was found.

use std::sync::Arc;

use strsim::levenshtein;

use super::{
    Analyzer, Typed,
    bound::{Aggregate, Bound, Expr, Range, RangeSource},
    error, unsupported, visit,
};
use crate::{
    catalog::relation::{Oid, Relation},
    error::{Result, SqlError, SqlState},
    parse::ast::Pos,
    types::{SqlType, Value},
};

/// The clause being analyzed, which decides which constructs are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    Target,
    From,
    FromFunction,
    JoinOn,
    Where,
    GroupBy,
    Having,
    OrderBy,
    DistinctOn,
    Limit,
    Offset,
    Values,
    Update,
    Returning,
    Filter,
    Default,
    Check,
    IndexExpression,
    IndexPredicate,
}

impl Clause {
    /// Returns the clause's name in errors, after "are not allowed in".
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Target => "SELECT",
            Self::From => "FROM clause of their own query level",
            Self::FromFunction => "functions in FROM",
            Self::JoinOn => "JOIN conditions",
            Self::Where => "WHERE",
            Self::GroupBy => "GROUP BY",
            Self::Having => "HAVING",
            Self::OrderBy => "ORDER BY",
            Self::DistinctOn => "DISTINCT ON",
            Self::Limit => "LIMIT",
            Self::Offset => "OFFSET",
            Self::Values => "VALUES",
            Self::Update => "UPDATE",
            Self::Returning => "RETURNING",
            Self::Filter => "FILTER",
            Self::Default => "DEFAULT expressions",
            Self::Check => "check constraints",
            Self::IndexExpression => "index expressions",
            Self::IndexPredicate => "index predicates",
        }
    }

    /// Returns whether the clause may contain aggregates.
    pub(super) fn allows_aggregates(self) -> bool {
        matches!(self, Self::Target | Self::Having | Self::OrderBy | Self::DistinctOn)
    }
}

/// A FROM item as names refer to it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Alias or table name; a join without an alias has none.
    pub(super) name: Option<String>,
    /// Schema and OID of the table, unless an alias hides its name.
    pub(super) relation: Option<(Oid, Oid)>,
    /// Names and values of its columns (S1).
    pub(super) columns: Vec<(String, Expr)>,
    /// Its range; `None` for a join.
    pub(super) range: Option<usize>,
    /// Whether `name.column` refers to it.
    pub(super) named: bool,
    /// Whether `column` and `*` refer to it.
    pub(super) open: bool,
    /// Whether only lateral items may use it so far.
    pub(super) lateral_only: bool,
    /// Whether its join allows lateral use.
    pub(super) lateral_ok: bool,
}

/// One select under analysis.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) ranges: Vec<Range>,
    pub(super) items: Vec<Item>,
    pub(super) lateral: bool,
    pub(super) clause: Clause,
    pub(super) aggregates: Vec<Aggregate>,
    /// References to columns of this level that stand above grouping and outside aggregates: range, column, position.
    pub(super) references: Vec<(usize, usize, Pos)>,
    /// The range made of a set-returning function of the output list.
    pub(super) set_range: Option<usize>,
    /// The range of `excluded`, which has no system columns.
    pub(super) excluded: Option<usize>,
    /// Whether anything inside names a level further out (S3).
    pub(super) outer: bool,
}

/// A common table expression in scope.
pub(super) struct CteEntry {
    pub(super) name: String,
    pub(super) bound: Arc<Bound>,
    /// Its columns; none if it is data-modifying and has no RETURNING.
    pub(super) columns: Vec<(String, SqlType)>,
    /// Number of levels around it.
    pub(super) depth: usize,
    /// Its own nesting depth.
    pub(super) height: u32,
    /// Whether it names a level outside itself and so cannot be computed once.
    pub(super) outer: bool,
}

impl Item {
    /// Makes the item of a range with these columns, without those for which `hidden` returns true.
    pub(super) fn of_range(
        range: usize,
        name: String,
        columns: &[(String, SqlType)],
        hidden: impl Fn(usize) -> bool,
    ) -> Self {
        let columns = columns
            .iter()
            .enumerate()
            .filter(|(column, _)| !hidden(*column))
            .map(|(column, (name, ty))| (name.clone(), Expr::Column { up: 0, range, column, ty: *ty }))
            .collect();
        Self {
            name: Some(name),
            relation: None,
            columns,
            range: Some(range),
            named: true,
            open: true,
            lateral_only: false,
            lateral_ok: true,
        }
    }
}

/// Returns the range that reads a table.
pub(super) fn table_range(relation: &Arc<Relation>, name: String) -> Range {
    Range {
        name,
        source: RangeSource::Table(relation.clone()),
        columns: relation.columns.iter().map(|column| (column.name.to_string(), column.ty)).collect(),
    }
}

impl Level {
    pub(super) fn new(clause: Clause) -> Self {
        Self {
            ranges: Vec::new(),
            items: Vec::new(),
            lateral: false,
            clause,
            aggregates: Vec::new(),
            references: Vec::new(),
            set_range: None,
            excluded: None,
            outer: false,
        }
    }

    /// Makes the level of a statement over one table, which is range 0.
    pub(super) fn of_relation(relation: &Arc<Relation>) -> Self {
        let mut level = Self::new(Clause::Check);
        level.add_table(relation, relation.name.to_string(), false);
        level
    }

    /// Adds a table as a range and as an item; returns the range.
    pub(super) fn add_table(&mut self, relation: &Arc<Relation>, name: String, aliased: bool) -> usize {
        let range = table_range(relation, name.clone());
        let place = self.ranges.len();
        let mut item = Item::of_range(place, name, &range.columns, |column| relation.columns[column].dropped);
        if !aliased {
            item.relation = Some((relation.schema, relation.oid));
        }
        self.ranges.push(range);
        self.items.push(item);
        place
    }
}

/// The result of a look-up on one level.
enum Found {
    Nothing,
    Column(Expr),
}

impl Analyzer<'_> {
    /// Resolves a column reference `column`, `table.column` or `schema.table.column`.
    pub(super) fn column(&mut self, path: &[String], pos: Pos) -> Result<Typed> {
        if self.levels.last().is_some_and(|level| level.clause == Clause::Default) {
            return Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use column reference in DEFAULT expression",
                pos,
            ));
        }
        match path {
            [name] => self.bare_column(name, pos),
            [table, name] => self.qualified_column(None, table, name, pos),
            [schema, table, name] => self.qualified_column(Some(schema), table, name, pos),
            [database, schema, table, name] if *database == self.cx.database => {
                self.qualified_column(Some(schema), table, name, pos)
            }
            [_, _, _, _] => Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: {}", path.join(".")),
                pos,
            )),
            _ => Err(error(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {}", path.join(".")),
                pos,
            )),
        }
    }

    /// Returns whether the path names a FROM item and not a column.
    pub(super) fn is_item(&self, path: &[String]) -> bool {
        let [name] = path else { return false };
        let level = self.levels.iter().rev().find(|level| {
            has_open_column(level, name) || level.items.iter().any(|item| item.name.as_ref() == Some(name))
        });
        level.is_some_and(|level| !has_open_column(level, name))
    }

    fn bare_column(&mut self, name: &str, pos: Pos) -> Result<Typed> {
        for up in 0..self.levels.len() {
            let at = self.levels.len() - 1 - up;
            if let Found::Column(expr) = open_column(&self.levels[at], name, pos)? {
                return Ok(self.found(expr, up, pos));
            }
        }
        for level in self.levels.iter().rev() {
            if level.items.iter().any(|item| item.named && item.name.as_deref() == Some(name) && usable(level, item)) {
                return Err(unsupported("a whole-row reference", pos).hint("Name the columns, or use table.*."));
            }
        }
        for level in self.levels.iter().rev() {
            let found = level.items.iter().filter(|item| item.open && usable(level, item));
            if let Some(system) = found.filter_map(|item| system_column(level, item, name, pos)).next() {
                return system;
            }
        }
        let missing = error(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"), pos);
        Err(self.suggest(missing, None, name))
    }

    fn qualified_column(&mut self, schema: Option<&str>, table: &str, name: &str, pos: Pos) -> Result<Typed> {
        let Some((up, item)) = self.named_item(schema, table, pos)? else {
            return Err(self.missing_table(schema, table, pos));
        };
        let at = self.levels.len() - 1 - up;
        let item = &self.levels[at].items[item];
        let mut matches = item.columns.iter().filter(|(column, _)| column == name);
        let shown = || match schema {
            Some(schema) => format!("{schema}.{table}.{name}"),
            None => format!("{table}.{name}"),
        };
        match (matches.next(), matches.next()) {
            (Some((_, expr)), None) => {
                let expr = expr.clone();
                Ok(self.found(expr, up, pos))
            }
            (Some(_), Some(_)) => Err(ambiguous(name, pos)),
            (None, _) => {
                if let Some(system) = system_column(&self.levels[at], item, name, pos) {
                    return system;
                }
                let missing = error(SqlState::UNDEFINED_COLUMN, format!("column {} does not exist", shown()), pos);
                Err(self.suggest(missing, Some(table), name))
            }
        }
    }

    /// Finds the item named `table`; returns the number of levels out and its index there.
    pub(super) fn named_item(&self, schema: Option<&str>, table: &str, pos: Pos) -> Result<Option<(usize, usize)>> {
        let wanted = match schema {
            None => None,
            Some(schema) => match self.cx.catalog.schema_named(schema) {
                Some(schema) => Some(schema.oid),
                None => return Ok(None),
            },
        };
        for (up, level) in self.levels.iter().rev().enumerate() {
            let mut found = None;
            for (at, item) in level.items.iter().enumerate() {
                let is_it = match wanted {
                    None => item.name.as_deref() == Some(table),
                    Some(wanted) => {
                        item.relation.is_some_and(|(schema, _)| schema == wanted) && item.name.as_deref() == Some(table)
                    }
                };
                if !is_it || !item.named || !usable(level, item) {
                    continue;
                }
                if found.is_some() {
                    return Err(error(SqlState(*b"42P09"), format!("table reference \"{table}\" is ambiguous"), pos));
                }
                lateral_allowed(item, pos)?;
                found = Some(at);
            }
            if let Some(at) = found {
                return Ok(Some((up, at)));
            }
        }
        Ok(None)
    }

    /// Makes the error for a table name that is not in FROM.
    pub(super) fn missing_table(&self, schema: Option<&str>, table: &str, pos: Pos) -> SqlError {
        let shown = schema.map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"));
        let present =
            self.levels.iter().rev().any(|level| level.items.iter().any(|item| item.name.as_deref() == Some(table)));
        let aliased = self.levels.iter().rev().find_map(|level| {
            level.items.iter().find_map(|item| match &level.ranges.get(item.range?)?.source {
                RangeSource::Table(relation) if &*relation.name == table => item.name.clone(),
                _ => None,
            })
        });
        match aliased {
            Some(alias) if alias != table => error(
                SqlState::UNDEFINED_TABLE,
                format!("invalid reference to FROM-clause entry for table \"{shown}\""),
                pos,
            )
            .hint(format!("Perhaps you meant to reference the table alias \"{alias}\".")),
            _ if present => error(
                SqlState::UNDEFINED_TABLE,
                format!("invalid reference to FROM-clause entry for table \"{shown}\""),
                pos,
            )
            .hint(format!(
                "There is an entry for table \"{shown}\", but it cannot be referenced from this part of the query."
            )),
            _ => error(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{shown}\""), pos),
        }
    }

    /// Records the use of a column found `up` levels out and returns it as seen from the current level.
    pub(super) fn found(&mut self, mut expr: Expr, up: usize, pos: Pos) -> Typed {
        let at = self.levels.len() - 1 - up;
        for level in &mut self.levels[at + 1..] {
            level.outer = true; // S3
        }
        let level = &mut self.levels[at];
        if level.clause.allows_aggregates() {
            let references = &mut level.references;
            visit::walk(&mut expr, 0, &mut |node, _| {
                if let Expr::Column { range, column, .. } = node {
                    references.push((*range, *column, pos));
                }
                Ok(true)
            })
            .expect("looking never fails");
        }
        if up > 0 {
            visit::shift(&mut expr, isize::try_from(up).expect("levels are few"));
        }
        Typed::new(expr, pos)
    }

    /// Adds PostgreSQL's hint about a column whose name is close to the missing one.
    fn suggest(&self, missing: SqlError, table: Option<&str>, name: &str) -> SqlError {
        let mut best: Vec<String> = Vec::new();
        let mut best_distance = 4;
        for level in self.levels.iter().rev() {
            for item in level.items.iter().filter(|item| item.range.is_some()) {
                let Some(item_name) = &item.name else { continue };
                let apart = table.map_or(0, |table| levenshtein(table, item_name));
                for (column, _) in &item.columns {
                    let total = apart + levenshtein(name, column);
                    if total > name.len() / 2 + apart || total >= 4 || total > best_distance {
                        continue;
                    }
                    if total < best_distance {
                        best.clear();
                        best_distance = total;
                    }
                    best.push(format!("\"{item_name}.{column}\""));
                }
            }
        }
        let unreachable = |table: &str| {
            format!(
                "There is a column named \"{name}\" in table \"{table}\", but it cannot be referenced from this part of the query."
            )
        };
        match (&self.hidden_target, table) {
            (Some(target), None) if target.column(name).is_some() => return missing.hint(unreachable(&target.name)),
            _ => {}
        }
        if best_distance == 0
            && let Some(table) =
                best.first().and_then(|found| found.trim_matches('"').strip_suffix(&format!(".{name}")))
        {
            return missing.hint(unreachable(table));
        }
        match best.as_slice() {
            [one] => missing.hint(format!("Perhaps you meant to reference the column {one}.")),
            [one, two] => missing.hint(format!("Perhaps you meant to reference the column {one} or the column {two}.")),
            _ => missing,
        }
    }
}

/// Resolves a system column of a table; `None` if `name` is not one or the item is not a table.
fn system_column(level: &Level, item: &Item, name: &str, pos: Pos) -> Option<Result<Typed>> {
    let range = item.range.filter(|range| level.excluded != Some(*range))?;
    let RangeSource::Table(relation) = &level.ranges.get(range)?.source else { return None };
    match name {
        "tableoid" => Some(Ok(Typed::new(Expr::Const(Value::Oid(relation.oid), SqlType::OID), pos))),
        "ctid" | "xmin" | "xmax" | "cmin" | "cmax" => Some(Err(unsupported(format!("system column \"{name}\""), pos))),
        _ => None,
    }
}

/// Returns whether the item is in scope for the current expression.
fn usable(level: &Level, item: &Item) -> bool {
    !item.lateral_only || level.lateral
}

/// Refuses an item whose join does not allow lateral use.
fn lateral_allowed(item: &Item, pos: Pos) -> Result<()> {
    if item.lateral_only && !item.lateral_ok {
        let name = item.name.as_deref().unwrap_or_default();
        return Err(error(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("invalid reference to FROM-clause entry for table \"{name}\""),
            pos,
        )
        .detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."));
    }
    Ok(())
}

/// Finds a column by its bare name on one level (S2).
fn open_column(level: &Level, name: &str, pos: Pos) -> Result<Found> {
    let mut found = Found::Nothing;
    for item in level.items.iter().filter(|item| item.open && usable(level, item)) {
        for (column, expr) in &item.columns {
            if column != name {
                continue;
            }
            if matches!(found, Found::Column(_)) {
                return Err(ambiguous(name, pos));
            }
            lateral_allowed(item, pos)?;
            found = Found::Column(expr.clone());
        }
    }
    Ok(found)
}

/// Returns whether the level has an open column of this name; an ambiguous one counts.
pub(super) fn has_open_column(level: &Level, name: &str) -> bool {
    level.items.iter().filter(|item| item.open).any(|item| item.columns.iter().any(|(column, _)| column == name))
}

fn ambiguous(name: &str, pos: Pos) -> SqlError {
    error(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"), pos)
}
