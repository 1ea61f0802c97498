//! Look-ups in the catalog by name, and the names in literals of `reg*` types.

use std::sync::Arc;

use super::{Analyzer, error};
use crate::{
    builtin,
    catalog::relation::{Oid, Relation},
    error::{Result, SqlError, SqlState},
    parse::{self, ast},
    types::{Value, oid},
};

/// The object that a relation's name refers to.
pub(super) enum Named {
    Table(Arc<Relation>),
    Index,
    Nothing,
}

impl Analyzer<'_> {
    /// Finds the table that `name` refers to, or returns the reason why it cannot be used.
    pub(super) fn table(&self, name: &ast::RelationName) -> Result<Arc<Relation>> {
        if let Some(database) = &name.catalog
            && database != self.cx.database
        {
            return Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: \"{name}\""),
                name.pos,
            ));
        }
        match self.named(name.schema.as_deref(), &name.name) {
            Named::Table(relation) => Ok(relation),
            Named::Index => {
                Err(error(SqlState::WRONG_OBJECT_TYPE, format!("cannot open relation \"{}\"", name.name), name.pos)
                    .detail("This operation is not supported for indexes."))
            }
            Named::Nothing => {
                let shown = match &name.schema {
                    Some(schema) => format!("{schema}.{}", name.name),
                    None => name.name.clone(),
                };
                Err(error(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"), name.pos))
            }
        }
    }

    fn named(&self, schema: Option<&str>, name: &str) -> Named {
        match self.object(schema, name) {
            None => Named::Nothing,
            Some(oid) => self.cx.catalog.relation(oid).map_or(Named::Index, |relation| Named::Table(relation.clone())),
        }
    }

    fn object(&self, schema: Option<&str>, name: &str) -> Option<Oid> {
        let schema = match schema {
            Some(schema) => Some(self.cx.catalog.schema_named(schema)?.oid),
            None => None,
        };
        self.cx.catalog.object_named(schema, self.cx.search_path, name)
    }

    /// Reads a literal of a `reg*` type, whose meaning depends on the catalog. `None` means that the session must read
    /// it.
    pub(super) fn registered(&self, target: u32, text: &str) -> Result<Option<Value>> {
        let text = text.trim();
        if text == "-" {
            return Ok(Some(Value::Oid(0)));
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(text.parse().ok().map(Value::Oid));
        }
        let Some(parts) = split_name(text) else {
            return Err(SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"));
        };
        let found = match (target, parts.as_slice()) {
            (oid::REGCLASS, [name]) => self.object(None, name),
            (oid::REGCLASS, [schema, name]) => self.object(Some(schema), name),
            (oid::REGNAMESPACE, [name]) => self.cx.catalog.schema_named(name).map(|schema| schema.oid),
            (oid::REGPROC, [.., name]) => match builtin::procs_named(name) {
                [] => None,
                [proc] => Some(proc.oid),
                _ => {
                    return Err(SqlError::new(
                        SqlState::AMBIGUOUS_FUNCTION,
                        format!("more than one function named \"{text}\""),
                    ));
                }
            },
            (oid::REGTYPE, _) => {
                let expr = parse_expression(&format!("NULL::{text}"));
                let Ok(ast::ExprKind::Cast { ty, .. }) = expr.map(|expr| expr.kind) else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{text}\"")));
                };
                Some(super::type_name(&ty, self.cx).map_err(SqlError::without_position)?.oid)
            }
            _ => return Ok(None),
        };
        match (found, target) {
            (Some(oid), _) => Ok(Some(Value::Oid(oid))),
            (None, oid::REGCLASS) => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{}\" does not exist", parts.join(".")),
            )),
            (None, oid::REGNAMESPACE) => {
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{text}\" does not exist")))
            }
            (None, oid::REGPROC) => {
                Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist")))
            }
            (None, _) => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist"))),
        }
    }
}

/// Splits a dotted name with optional quotes and folds unquoted parts to lower case. `None` if the text is not a name.
fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next()? {
                    (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        chars.next();
                        name.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, c) => name.push(c),
                }
            };
            part = name;
            rest = quoted.get(end..)?.trim_start();
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part = rest.get(..end)?.trim_end().to_ascii_lowercase();
            rest = rest.get(end..)?;
        }
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// Parses a text from the catalog or from a literal as one expression.
pub(super) fn parse_expression(text: &str) -> Result<ast::Expr> {
    let broken = || {
        SqlError::new(SqlState::DATA_CORRUPTED, format!("stored text is not an expression: {text}"))
            .hint("Restore the catalog from a backup.")
    };
    let mut statements = parse::statements(&format!("SELECT {text}"))?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else { return Err(broken()) };
    let ast::Stmt::Select(select) = statement.stmt else { return Err(broken()) };
    let ast::SelectBody::Core(core) = select.body else { return Err(broken()) };
    let mut targets = core.targets;
    match (targets.pop(), targets.is_empty()) {
        (Some(target), true) => Ok(target.expr),
        _ => Err(broken()),
    }
}
