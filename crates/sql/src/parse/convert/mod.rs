//! Converts the grammar's tree to `ast`, and refuses what has no place there.
//!
//! It does not check meaning. Rules that the grammar leaves to PostgreSQL's analysis are left to `analyze` here.
//!
//! # Invariants
//! - C1. Every node is destructured with all its fields named, so that a new field of the grammar fails to compile
//!   here. A
//!   field without a use is passed to `absent`, which returns 0A000 if it is set (P2).
//! - C2. Every function that can call itself, directly or not, passes `down`, which stops at `DEPTH_MAX`.
//!
//! Checked by `parse/tests`.

mod ddl;
mod expr;
mod query;
mod utility;

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::ast::*;
use super::{DEPTH_MAX, Statement, too_complex};
use crate::error::{Result, SqlError, SqlState};

/// Converts all statements of `text` from the grammar's tree.
pub(super) fn statements(text: &str, parsed: pb::ParseResult) -> Result<Vec<Statement>> {
    let mut deepest = 0;
    convert_all(text, parsed, &mut deepest)
}

/// Converts all statements and returns the depth of the deepest one.
#[cfg(test)]
pub(super) fn depth_of(text: &str, parsed: pb::ParseResult) -> Result<u32> {
    let mut deepest = 0;
    convert_all(text, parsed, &mut deepest)?;
    Ok(deepest)
}

fn convert_all(text: &str, parsed: pb::ParseResult, deepest: &mut u32) -> Result<Vec<Statement>> {
    let pb::ParseResult { version: _, stmts } = parsed;
    let mut statements = Vec::with_capacity(stmts.len());
    for pb::RawStmt { stmt, stmt_location, stmt_len } in stmts {
        let start = usize::try_from(stmt_location).unwrap_or(0);
        let bytes = usize::try_from(stmt_len).unwrap_or(0);
        let end = if bytes == 0 { text.len() } else { start.saturating_add(bytes) };
        let written = text.get(start..end).unwrap_or_default();
        let start = start + (written.len() - skip_blanks(written).len());
        let range = start..start + text.get(start..end).unwrap_or_default().trim_end().len();
        let mut convert =
            Convert { text, start: u32::try_from(start).map_or(Pos::NONE, Pos::new), depth: 0, deepest: 0 };
        let Some(node) = stmt else { continue };
        statements.push(Statement { stmt: convert.stmt(*node)?, range });
        *deepest = convert.deepest.max(*deepest);
    }
    Ok(statements)
}

/// Returns the rest of `text` after leading whitespace and comments.
fn skip_blanks(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
        if text.starts_with("--") {
            text = text.find(['\n', '\r']).and_then(|end| text.get(end..)).unwrap_or_default();
        } else if text.starts_with("/*") {
            let (mut open, mut at) = (0_usize, 0);
            let bytes = text.as_bytes();
            while at < bytes.len() {
                match bytes.get(at..at + 2) {
                    Some(b"/*") => (open, at) = (open + 1, at + 2),
                    Some(b"*/") => (open, at) = (open - 1, at + 2),
                    _ => at += 1,
                }
                if open == 0 {
                    break;
                }
            }
            text = text.get(at..).unwrap_or_default();
        } else {
            return text;
        }
    }
}

/// The state of the conversion of one statement.
struct Convert<'a> {
    /// The whole text, to which positions refer.
    text: &'a str,
    /// The start of the statement, which serves as the position of nodes without one.
    start: Pos,
    /// The number of open levels (C2).
    depth: u32,
    /// The largest number of levels that were open.
    deepest: u32,
}

impl Convert<'_> {
    /// Runs `f` one level deeper, or fails at the limit.
    fn enter<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.down()?;
        let result = f(self)?;
        self.up();
        Ok(result)
    }

    /// Opens a level, or fails at the limit. After an error nothing more is converted, so the level need not be closed.
    fn down(&mut self) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            return Err(too_complex(format_args!("it is nested deeper than {DEPTH_MAX} levels"), Pos::NONE));
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        Ok(())
    }

    /// Closes a level.
    fn up(&mut self) {
        self.depth -= 1;
    }

    /// Converts a whole statement, or a statement inside another.
    fn stmt(&mut self, node: pb::Node) -> Result<Stmt> {
        match inner(node)? {
            NodeEnum::SelectStmt(s) => Ok(Stmt::Select(Box::new(self.select(*s)?))),
            NodeEnum::InsertStmt(s) => self.enter(|c| c.insert(*s)),
            NodeEnum::UpdateStmt(s) => self.enter(|c| c.update(*s)),
            NodeEnum::DeleteStmt(s) => self.enter(|c| c.delete(*s)),
            NodeEnum::CreateStmt(s) => self.create_table(s),
            NodeEnum::IndexStmt(s) => self.create_index(*s),
            NodeEnum::CreateSchemaStmt(s) => self.create_schema(s),
            NodeEnum::DropStmt(s) => self.drop_objects(s),
            NodeEnum::AlterTableStmt(s) => self.alter_table(s),
            NodeEnum::RenameStmt(s) => self.rename(*s),
            NodeEnum::AlterObjectSchemaStmt(s) => self.set_schema(*s),
            NodeEnum::TruncateStmt(s) => self.truncate(s),
            NodeEnum::CopyStmt(s) => self.copy(*s),
            NodeEnum::TransactionStmt(s) => self.transaction(s),
            NodeEnum::VariableSetStmt(s) => self.set(s),
            NodeEnum::ConstraintsSetStmt(s) => self.set_constraints(s),
            NodeEnum::VariableShowStmt(pb::VariableShowStmt { name }) => Ok(Stmt::Show(name)),
            NodeEnum::VacuumStmt(s) => self.vacuum(s),
            NodeEnum::ExplainStmt(s) => self.enter(|c| c.explain(*s)),
            NodeEnum::PrepareStmt(s) => self.enter(|c| c.prepare(*s)),
            NodeEnum::ExecuteStmt(s) => self.execute(s),
            NodeEnum::DeallocateStmt(s) => self.deallocate(s),
            NodeEnum::DeclareCursorStmt(s) => self.declare(*s),
            NodeEnum::FetchStmt(s) => self.fetch(s),
            NodeEnum::ClosePortalStmt(pb::ClosePortalStmt { portalname }) => Ok(Stmt::Close(optional(portalname))),
            NodeEnum::DiscardStmt(s) => self.discard(s),
            NodeEnum::CheckPointStmt(pb::CheckPointStmt {}) => Ok(Stmt::Checkpoint),
            NodeEnum::LockStmt(s) => self.lock(s),
            NodeEnum::CallStmt(s) => self.procedure(*s),
            _ => Err(self.unsupported(self.statement_name(), self.start)),
        }
    }

    /// Returns the name of the statement by the words with which it starts.
    fn statement_name(&self) -> String {
        let at = self.start.get().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        let words = self.text.get(at..).unwrap_or_default().split_ascii_whitespace();
        let mut name = String::new();
        for word in words.take(5) {
            let plain = word.bytes().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let (kept, cut) = (word.get(..plain).unwrap_or_default().to_ascii_uppercase(), plain < word.len());
            match kept.as_str() {
                // Modifiers between the verb and the kind of object are not part of the name.
                "OR" | "REPLACE" | "TEMP" | "TEMPORARY" | "UNLOGGED" | "RECURSIVE" | "TRUSTED" | "CONSTRAINT" => {}
                "" => break,
                _ => {
                    let one_word =
                        name.is_empty() && !matches!(kept.as_str(), "CREATE" | "ALTER" | "DROP" | "SECURITY");
                    let two_words = !name.is_empty()
                        && !matches!(kept.as_str(), "EVENT" | "MATERIALIZED" | "FOREIGN" | "TEXT" | "ACCESS" | "USER");
                    name = if name.is_empty() { kept } else { name + " " + &kept };
                    if one_word || two_words {
                        break;
                    }
                }
            }
            if cut {
                break;
            }
        }
        if name.is_empty() { "this statement".into() } else { name }
    }

    /// Returns the 0A000 for `what` at `pos`, or at the statement if the position is unknown.
    fn unsupported(&self, what: impl std::fmt::Display, pos: Pos) -> SqlError {
        SqlError::unsupported(what).at_opt(pos.or(self.start).get())
    }

    /// Returns 0A000 if a field without a use is set (C1).
    fn absent(&self, set: bool, what: &str, pos: Pos) -> Result<()> {
        if set { Err(self.unsupported(what, pos)) } else { Ok(()) }
    }

    /// Converts the name of a relation in a place that allows neither alias nor ONLY.
    fn relation(&self, relation: Option<pb::RangeVar>) -> Result<RelationName> {
        let (table, alias) = self.table(relation)?;
        self.absent(alias.is_some(), "an alias here", table.name.pos)?;
        Ok(table.name)
    }

    /// Converts the name of a table in a place that allows no alias.
    fn plain_table(&self, relation: Option<pb::RangeVar>) -> Result<TableName> {
        let (table, alias) = self.table(relation)?;
        self.absent(alias.is_some(), "an alias here", table.name.pos)?;
        Ok(table)
    }

    /// Converts a table with its alias.
    fn table(&self, relation: Option<pb::RangeVar>) -> Result<(TableName, Option<Alias>)> {
        let relation = relation.ok_or_else(missing)?;
        let pb::RangeVar { catalogname, schemaname, relname, inh, relpersistence, alias, location } = relation;
        let pos = pos(location);
        match relpersistence.as_str() {
            "p" | "" => {}
            "t" => return Err(self.unsupported("a temporary table", pos)),
            "u" => return Err(self.unsupported("an unlogged table", pos)),
            _ => return Err(self.unsupported("this persistence", pos)),
        }
        let name = RelationName { catalog: optional(catalogname), schema: optional(schemaname), name: relname, pos };
        Ok((TableName { name, only: !inh }, alias.map(alias_of).transpose()?))
    }

    /// Converts the name of a type.
    fn type_name(&mut self, ty: Option<pb::TypeName>) -> Result<TypeName> {
        let ty = ty.ok_or_else(missing)?;
        let pb::TypeName { names, type_oid, setof, pct_type, typmods, typemod, array_bounds, location } = ty;
        let pos = pos(location);
        self.absent(setof, "SETOF", pos)?;
        self.absent(pct_type, "%TYPE", pos)?;
        self.absent(type_oid != 0 || !(typemod == -1 || typemod == 0), "a resolved type", pos)?;
        let name = ObjectName { parts: strings(names)?, pos };
        let modifiers = self.exprs(typmods)?;
        let array_bounds = array_bounds
            .into_iter()
            .map(|bound| match inner(bound)? {
                NodeEnum::Integer(pb::Integer { ival }) => Ok((ival >= 0).then_some(ival)),
                _ => Err(missing()),
            })
            .collect::<Result<_>>()?;
        Ok(TypeName { name, modifiers, array_bounds, pos })
    }

    /// Converts a list of named options.
    fn options(&self, nodes: Vec<pb::Node>) -> Result<Vec<NamedOption>> {
        nodes.into_iter().map(|node| self.option(node)).collect()
    }

    /// Converts one named option.
    fn option(&self, node: pb::Node) -> Result<NamedOption> {
        let NodeEnum::DefElem(element) = inner(node)? else { return Err(missing()) };
        let pb::DefElem { defnamespace, defname, arg, defaction, location, arg_location: _ } = *element;
        let pos = pos(location);
        let plain =
            matches!(pb::DefElemAction::try_from(defaction), Ok(pb::DefElemAction::DefelemUnspec)) || defaction == 0;
        self.absent(!plain, "SET, ADD or DROP of an option", pos)?;
        let value = arg.map(|arg| self.option_value(*arg, pos)).transpose()?;
        Ok(NamedOption { namespace: optional(defnamespace), name: defname, value, pos })
    }

    fn option_value(&self, node: pb::Node, pos: Pos) -> Result<OptionValue> {
        Ok(match inner(node)? {
            NodeEnum::String(pb::String { sval }) => OptionValue::Text(sval),
            NodeEnum::Integer(pb::Integer { ival }) => OptionValue::Integer(ival),
            NodeEnum::Float(pb::Float { fval }) => OptionValue::Number(fval),
            NodeEnum::Boolean(pb::Boolean { boolval }) => OptionValue::Bool(boolval),
            NodeEnum::AStar(pb::AStar {}) => OptionValue::Star,
            NodeEnum::List(pb::List { items }) => OptionValue::List(strings(items)?),
            // An unquoted word such as `off` is read as the name of a type.
            NodeEnum::TypeName(pb::TypeName {
                names,
                type_oid: _,
                setof,
                pct_type,
                typmods,
                typemod: _,
                array_bounds,
                location: _,
            }) => {
                let simple = !setof && !pct_type && typmods.is_empty() && array_bounds.is_empty();
                self.absent(!simple, "a type as the value of an option", pos)?;
                OptionValue::Text(strings(names)?.pop().unwrap_or_default())
            }
            _ => return Err(self.unsupported("this value of an option", pos)),
        })
    }

    fn behavior(&self, behavior: i32) -> Behavior {
        match pb::DropBehavior::try_from(behavior) {
            Ok(pb::DropBehavior::DropCascade) => Behavior::Cascade,
            _ => Behavior::Restrict,
        }
    }
}

/// Returns the error for a tree that the grammar does not produce.
fn missing() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the grammar's tree has an unexpected shape")
}

/// Unwraps a node.
fn inner(node: pb::Node) -> Result<NodeEnum> {
    node.node.ok_or_else(missing)
}

/// Unwraps a node in an optional box.
fn required<T>(node: Option<Box<T>>) -> Result<T> {
    node.map(|node| *node).ok_or_else(missing)
}

/// Converts a location of the grammar, which is negative if unknown.
fn pos(location: i32) -> Pos {
    u32::try_from(location).map_or(Pos::NONE, Pos::new)
}

/// Converts a name, which the grammar leaves empty if it is absent; an empty name cannot be written.
fn optional(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}

/// Converts a node that is a name.
fn string(node: pb::Node) -> Result<String> {
    match inner(node)? {
        NodeEnum::String(pb::String { sval }) => Ok(sval),
        _ => Err(missing()),
    }
}

/// Converts a list of names.
fn strings(nodes: Vec<pb::Node>) -> Result<Vec<String>> {
    nodes.into_iter().map(string).collect()
}

/// Converts a dotted name, whose node has no position.
fn object_name(nodes: Vec<pb::Node>, pos: Pos) -> Result<ObjectName> {
    Ok(ObjectName { parts: strings(nodes)?, pos })
}

/// Converts an alias.
fn alias_of(alias: pb::Alias) -> Result<Alias> {
    let pb::Alias { aliasname, colnames } = alias;
    Ok(Alias { name: aliasname, columns: strings(colnames)? })
}
