//! The text of definitions: indexes, constraints and signatures, as PostgreSQL prints them.
//!
//! Defaults and conditions are printed as stored: the deparser printed them when they were declared.
//!
//! Checked by `system_tests`.

use std::fmt::Write as _;

use super::name::{qualified, quoted, visible};
use crate::{
    builtin::{self, Proc},
    catalog::{
        relation::{ConstraintTiming, ForeignKey, Index, IndexColumn, KeyPart, Oid, ReferentialAction, Relation},
        snapshot::Catalog,
    },
    types::{SqlType, oid},
};

/// A constraint of a table.
pub(super) enum Constraint<'a> {
    /// PRIMARY KEY or UNIQUE, kept by an index.
    Unique(&'a Index),
    /// CHECK: its name and condition.
    Check(&'a crate::catalog::relation::Check),
    /// FOREIGN KEY.
    Foreign(&'a ForeignKey),
}

impl Constraint<'_> {
    /// Returns its OID.
    pub(super) fn oid(&self) -> Oid {
        match self {
            Self::Unique(index) => index.constraint.unwrap_or(0),
            Self::Check(check) => check.oid,
            Self::Foreign(key) => key.oid,
        }
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Unique(index) => &index.name,
            Self::Check(check) => &check.name,
            Self::Foreign(key) => &key.name,
        }
    }

    /// Returns the letter of `pg_constraint.contype`.
    pub(super) fn letter(&self) -> u8 {
        match self {
            Self::Unique(index) if index.primary => b'p',
            Self::Unique(_) => b'u',
            Self::Check(_) => b'c',
            Self::Foreign(_) => b'f',
        }
    }

    /// Returns the places of its columns, in order; none for a CHECK, whose columns are not recorded.
    pub(super) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Unique(index) => index.key_places().collect(),
            Self::Check(_) => Vec::new(),
            Self::Foreign(key) => key.columns.clone(),
        }
    }
}

/// Returns every constraint of a table.
pub(super) fn constraints(relation: &Relation) -> impl Iterator<Item = Constraint<'_>> {
    let unique = relation.indexes.iter().filter(|index| index.constraint.is_some());
    let unique = unique.map(|index| Constraint::Unique(index));
    let foreign = relation.foreign_keys.iter().map(Constraint::Foreign);
    unique.chain(relation.checks.iter().map(Constraint::Check)).chain(foreign)
}

/// Formats a constraint as ALTER TABLE ADD accepts it. `pretty` omits unneeded parentheses and a schema that the search
/// path finds.
pub(super) fn constraint(
    catalog: &Catalog,
    search_path: &[Oid],
    relation: &Relation,
    constraint: &Constraint<'_>,
    pretty: bool,
) -> String {
    match constraint {
        Constraint::Unique(index) => {
            let columns = names(relation, index.key_places());
            let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
            format!("{kind} ({columns}){}", include(relation, index))
        }
        Constraint::Check(check) => {
            let condition = if pretty { pretty_expression(&check.condition) } else { check.condition.to_string() };
            format!("CHECK ({condition})")
        }
        Constraint::Foreign(key) => {
            let columns = names(relation, key.columns.iter().copied());
            let Some(target) = catalog.relation(key.target) else { return format!("FOREIGN KEY ({columns})") };
            let name = visible(catalog, search_path, target);
            let target_columns = names(target, key.target_columns.iter().copied());
            let mut text = format!("FOREIGN KEY ({columns}) REFERENCES {name}({target_columns})");
            if key.match_full {
                text.push_str(" MATCH FULL");
            }
            if key.on_update != ReferentialAction::NoAction {
                let _ = write!(text, " ON UPDATE {}", action(key.on_update));
            }
            if key.on_delete != ReferentialAction::NoAction {
                let _ = write!(text, " ON DELETE {}", action(key.on_delete));
            }
            if !key.on_delete_columns.is_empty() {
                let _ = write!(text, " ({})", names(relation, key.on_delete_columns.iter().copied()));
            }
            text.push_str(match key.timing {
                ConstraintTiming::Immediate => "",
                ConstraintTiming::Deferrable => " DEFERRABLE",
                ConstraintTiming::Deferred => " DEFERRABLE INITIALLY DEFERRED",
            });
            if !key.validated {
                text.push_str(" NOT VALID");
            }
            text
        }
    }
}

/// Returns the keywords of an action.
fn action(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}

fn names(relation: &Relation, places: impl Iterator<Item = usize>) -> String {
    places.map(|place| quoted(&relation.columns[place].name)).collect::<Vec<_>>().join(", ")
}

/// Formats a stored expression with fewer parentheses: none around the whole, around the terms of an AND, or around a
/// name or number that is cast.
pub(super) fn pretty_expression(text: &str) -> String {
    let text = without_brackets(text);
    let terms = and_terms(text);
    if terms.len() > 1 {
        // Only OR keeps its parentheses, because it binds less tightly than AND.
        let shown =
            |term: &str| if has_or(term) { format!("({})", pretty_expression(term)) } else { pretty_expression(term) };
        return terms.into_iter().map(shown).collect::<Vec<_>>().join(" AND ");
    }
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut quote) = (text, None);
    while let Some(c) = rest.chars().next() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '(' => {
                let other = |c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_';
                let cast = rest[1..].find(other).map(|end| rest.split_at(end + 1));
                if let Some((inside, after)) = cast
                    && inside.len() > 1
                    && after.starts_with(")::")
                {
                    out.push_str(&inside[1..]);
                    rest = &after[1..];
                    continue;
                }
            }
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Splits an expression at each AND outside parentheses.
fn and_terms(text: &str) -> Vec<&str> {
    split_outside(text, " AND ")
}

fn has_or(term: &str) -> bool {
    split_outside(without_brackets(term), " OR ").len() > 1
}

/// Splits a text where `word` occurs outside parentheses, brackets and quotes.
fn split_outside<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut depth, mut quote) = (0_u32, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) => depth = depth.saturating_sub(1),
            (' ', None) if depth == 0 && text[at..].starts_with(word) => {
                parts.push(&text[start..at]);
                start = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Removes the parentheses around a whole expression, if there are any.
pub(super) fn without_brackets(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return text };
    let mut depth = 0_u32;
    let mut quote = None;
    for c in inner.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('(', None) => depth += 1,
            (')', None) if depth == 0 => return text,
            (')', None) => depth -= 1,
            _ => {}
        }
    }
    inner
}

/// Formats the statement that creates an index. With a `search_path` the text is pretty, and the schema is omitted if
/// the path finds the table.
pub(super) fn index(catalog: &Catalog, search_path: Option<&[Oid]>, relation: &Relation, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let table = match search_path {
        Some(path) => visible(catalog, path, relation),
        None => qualified(catalog, relation.schema, &relation.name),
    };
    let pretty = search_path.is_some();
    let columns: Vec<String> = index.columns.iter().map(|part| index_column(relation, part, pretty)).collect();
    let (name, columns, include) = (quoted(&index.name), columns.join(", "), include(relation, index));
    let condition = match predicate(index) {
        None => String::new(),
        Some(text) if pretty => format!(" WHERE {}", pretty_expression(&text)),
        Some(text) => format!(" WHERE {text}"),
    };
    format!("CREATE {unique}INDEX {name} ON {table} USING btree ({columns}){include}{condition}")
}

/// Returns the predicate of an index, if it is a partial one.
pub(super) fn predicate(index: &Index) -> Option<String> {
    match index.predicate.as_slice() {
        [] => None,
        [one] => Some(one.to_string()),
        many => Some(format!("({})", many.join(" AND "))),
    }
}

/// Formats an expression of an index key as CREATE INDEX accepts it: in parentheses unless it is a call.
pub(crate) fn key_expression_text(text: &str, pretty: bool) -> String {
    let shown = if pretty { pretty_expression(text) } else { text.to_owned() };
    if is_call(&shown) { shown } else { format!("({shown})") }
}

/// Returns whether an expression is a single call, as `f(x)` is and `f(x) + 1` is not.
fn is_call(text: &str) -> bool {
    let Some(open) = text.find('(').filter(|&at| at > 0) else { return false };
    let name = &text[..open];
    let plain = name.starts_with('"') || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let arguments = &text[open..];
    plain && !matches!(name, "ROW" | "NOT") && without_brackets(arguments).len() < arguments.len()
}

/// Formats a column of an index without its order.
pub(super) fn index_part(relation: &Relation, part: &IndexColumn, pretty: bool) -> String {
    match &part.part {
        KeyPart::Column(place) => quoted(&relation.columns[*place].name),
        KeyPart::Expression(expression) => key_expression_text(&expression.text, pretty),
    }
}

/// Formats the INCLUDE clause of an index, with a leading space; empty if it has none.
fn include(relation: &Relation, index: &Index) -> String {
    if index.included.is_empty() {
        return String::new();
    }
    format!(" INCLUDE ({})", names(relation, index.included.iter().copied()))
}

fn index_column(relation: &Relation, part: &IndexColumn, pretty: bool) -> String {
    let order = match (part.key.desc, part.key.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    };
    format!("{}{order}", index_part(relation, part, pretty))
}

/// Formats a type's name as `format_type` does; `typmod` is `None` if none was given.
pub(super) fn type_name(type_oid: u32, typmod: Option<i32>) -> String {
    match (type_oid, typmod) {
        (0, _) => "-".to_owned(),
        // For the modifier -1, PostgreSQL answers with names that read back as types without a modifier.
        (oid::BPCHAR, Some(-1)) => "bpchar".to_owned(),
        (oid::BPCHAR_ARRAY, Some(-1)) => "bpchar[]".to_owned(),
        (oid::BIT, Some(-1)) => "\"bit\"".to_owned(),
        (oid::BIT_ARRAY, Some(-1)) => "\"bit\"[]".to_owned(),
        _ if oid::sql_name(type_oid).is_some() || oid::is_array(type_oid) => {
            SqlType::with_typmod(type_oid, typmod.unwrap_or(-1)).name()
        }
        _ => match builtin::type_by_oid(type_oid) {
            Some(ty) if ty.element != 0 && ty.category == b'A' => format!("{}[]", type_name(ty.element, typmod)),
            Some(ty) => quoted(ty.name),
            None => "???".to_owned(),
        },
    }
}

/// Formats the types of a function's arguments, separated by `separator`.
pub(super) fn argument_types(proc: &Proc, separator: &str) -> String {
    proc.arguments.iter().map(|&ty| type_name(ty, None)).collect::<Vec<_>>().join(separator)
}

/// Formats a function's arguments as CREATE FUNCTION accepts them.
pub(super) fn arguments(proc: &Proc) -> String {
    let last = proc.arguments.len().wrapping_sub(1);
    let argument = |(place, &ty): (usize, &u32)| {
        let mode = if proc.variadic != 0 && place == last { "VARIADIC " } else { "" };
        format!("{mode}{}", type_name(ty, None))
    };
    proc.arguments.iter().enumerate().map(argument).collect::<Vec<_>>().join(", ")
}
