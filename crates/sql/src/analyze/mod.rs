//! Analysis: from a parsed statement to the bound tree, with every name, type, operator and cast decided.
//!
//! The order of work is PostgreSQL's (FROM, targets, WHERE, HAVING, ORDER BY, GROUP BY, DISTINCT, LIMIT, locking),
//! because the types of parameters and the positions of errors depend on it. Analysis reads a catalog and nothing else:
//! no rows, no session, no clock. It chooses no access path (`plan`) and folds no calls; only literals become constants
//! of their type.
//!
//! # Invariants
//! - A1. The resulting tree obeys `bound` B1 to B4.
//! - A2. Recursion over the statement is counted, also through the names of common table expressions, since planning
//!   and execution follow them. A statement nested deeper than [`DEPTH_MAX`] is 54001; one deeper than `DEPTH_INLINE`
//!   is analyzed on a thread with a sufficient stack.
//! - A3. Analysis of one statement under one catalog always gives the same result, whatever was analyzed before.
//!
//! Checked by `analyze_tests`.

pub mod bound;
mod coerce;
pub mod deparse;
mod dml;
mod equal;
mod expr;
mod expr_call;
mod expr_compare;
mod from;
mod group;
mod index;
mod locking;
mod names;
mod on_conflict;
mod order;
mod params;
mod resolve;
mod scope;
mod select;
mod set_operation;
mod target;
mod type_name;
mod visit;

#[cfg(test)]
mod analyze_tests;

use std::sync::Arc;

pub use bound::*;
pub use index::{facts, index_column_name, index_expression, index_predicate, is_mutable, terms, text_over};
use scope::{Clause, Level};

use crate::{
    catalog::{
        relation::{Oid, Relation},
        snapshot::Catalog,
    },
    error::{Result, SqlError, SqlState},
    parse::ast::{self, Pos},
    types::{SqlType, TextContext},
};

/// Deepest nesting of expressions and queries that is analyzed.
pub const DEPTH_MAX: u32 = 500;

/// Deepest nesting that is analyzed on the caller's stack.
const DEPTH_INLINE: u32 = 60;

/// Stack for deeper statements, in bytes: 64 KiB per level, an order of magnitude more than a level uses.
const DEEP_STACK_BYTES: usize = 32 << 20;

/// The input of analysis besides the statement.
#[derive(Clone, Copy)]
pub struct AnalyzeContext<'a> {
    /// The definitions.
    pub catalog: &'a Catalog,
    /// Schemas searched for unqualified names, in order; `pg_catalog` comes first unless it is named.
    pub search_path: &'a [Oid],
    /// Declared type of each parameter `$1..`; 0 means undeclared. There may be more parameters than entries.
    pub parameter_types: &'a [u32],
    /// Whether the statement may have parameters at all.
    pub parameters_allowed: bool,
    /// The settings by which literals of dates and times are read.
    pub text: &'a TextContext,
    /// Name of the database, which a three-part name may repeat.
    pub database: &'a str,
}

/// Analyzes a SELECT, VALUES, INSERT, UPDATE or DELETE.
///
/// Pure. Cost: some microseconds for a point statement; linear in the statement's length, except for long lists of
/// ambiguous names. A statement nested more than 60 levels also costs a thread.
///
/// # Errors
/// Those of PostgreSQL's analysis, with SQLSTATE, text and position; 0A000 with a position for a feature that is not
/// built.
pub fn analyze(stmt: &ast::Stmt, cx: &AnalyzeContext<'_>) -> Result<Analyzed> {
    with_stack(cx, |analyzer| analyzer.statement(stmt))
}

/// Analyzes the expression of a CHECK constraint (with `relation`) or of a DEFAULT (without), and converts it to
/// `target` as an assignment does. Columns become `Expr::Column { up: 0, range: 0 }`.
///
/// # Errors
/// As for [`analyze`]; subqueries, aggregates, parameters and, in a DEFAULT, columns are refused in PostgreSQL's words.
pub fn expression(
    expr: &ast::Expr,
    relation: Option<&Arc<Relation>>,
    target: Option<SqlType>,
    cx: &AnalyzeContext<'_>,
) -> Result<Expr> {
    with_stack(cx, |analyzer| {
        let mut level = match relation {
            Some(relation) => Level::of_relation(relation),
            None => Level::new(Clause::Default),
        };
        level.clause = if relation.is_some() { Clause::Check } else { Clause::Default };
        analyzer.levels.push(level);
        let node = analyzer.transform(expr)?;
        let node = match target {
            Some(ty) if relation.is_some() && ty.oid == crate::types::oid::BOOL => {
                analyzer.coerce_to_bool(node, "CHECK")?
            }
            Some(ty) => analyzer.coerce_default(node, None, ty)?,
            None => analyzer.resolve_unknown(node)?,
        };
        analyzer.levels.pop();
        Ok(node.expr)
    })
}

/// Analyzes the DEFAULT of the column `column` of type `ty`, like [`expression`]; errors name the column.
///
/// # Errors
/// As for [`expression`]; 42804 if the expression's type cannot be assigned.
pub fn default(expr: &ast::Expr, column: &str, ty: SqlType, cx: &AnalyzeContext<'_>) -> Result<Expr> {
    with_stack(cx, |analyzer| {
        analyzer.levels.push(Level::new(Clause::Default));
        let node = analyzer.transform(expr)?;
        let node = analyzer.coerce_default(node, Some(column), ty)?;
        analyzer.levels.pop();
        Ok(node.expr)
    })
}

/// Reads back an expression that `deparse` printed: a CHECK over `relation`, or a DEFAULT without one.
///
/// # Errors
/// XX001 if the text holds anything but one expression, the parser's error if it does not parse; otherwise as for
/// [`expression`].
pub fn stored_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    target: Option<SqlType>,
    cx: &AnalyzeContext<'_>,
) -> Result<Expr> {
    expression(&names::parse_expression(text)?, relation, target, cx)
}

/// Finds the type that `name` denotes, with its modifier and array dimensions.
///
/// # Errors
/// 42704 for an unknown type, 0A000 for a known type that is not built, 22023 for bad modifiers.
pub fn type_name(name: &ast::TypeName, cx: &AnalyzeContext<'_>) -> Result<SqlType> {
    type_name::resolve(name, cx)
}

/// An expression with the start of its text; errors about its value point there.
#[derive(Clone, Debug)]
struct Typed {
    expr: Expr,
    pos: Pos,
}

impl Typed {
    fn new(expr: Expr, pos: Pos) -> Self {
        Self { expr, pos }
    }

    fn ty(&self) -> SqlType {
        self.expr.ty()
    }
}

/// State of the analysis of one statement.
struct Analyzer<'a> {
    cx: &'a AnalyzeContext<'a>,
    /// The selects around the current expression, outermost first.
    levels: Vec<Level>,
    /// Common table expressions in scope, innermost last.
    ctes: Vec<scope::CteEntry>,
    params: params::Params,
    /// Number of enclosing queries and statements, common table expressions included.
    nesting: usize,
    modifying: Vec<Arc<Bound>>,
    whole: Vec<Arc<Bound>>,
    relations: Vec<(Oid, Access)>,
    writes: bool,
    lock_strength: Option<ast::LockStrength>,
    assigns_xid: bool,
    may_block: bool,
    depth: u32,
    /// The largest `depth` so far. References to common table expressions count with those expressions' depth, since
    /// planning and execution go as deep.
    reached: u32,
    depth_max: u32,
    /// Whether `depth_max` was reached, which is then the reason for the error.
    too_deep: bool,
    /// The target of an INSERT while its query is analyzed. Errors mention its columns, names do not refer to them.
    hidden_target: Option<Arc<Relation>>,
    /// Position of the last aggregate, for errors about nested aggregates.
    aggregate_pos: Pos,
}

impl<'a> Analyzer<'a> {
    fn new(cx: &'a AnalyzeContext<'a>, depth_max: u32) -> Self {
        Self {
            cx,
            levels: Vec::new(),
            ctes: Vec::new(),
            params: params::Params::new(cx.parameter_types),
            nesting: 0,
            modifying: Vec::new(),
            whole: Vec::new(),
            relations: Vec::new(),
            writes: false,
            lock_strength: None,
            assigns_xid: false,
            may_block: false,
            depth: 0,
            reached: 0,
            depth_max,
            too_deep: false,
            hidden_target: None,
            aggregate_pos: Pos::NONE,
        }
    }

    /// Runs `work` one level deeper (A2).
    fn deeper<T>(&mut self, pos: Pos, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= self.depth_max {
            self.too_deep = true;
            return Err(too_deep(self.depth_max, pos));
        }
        self.depth += 1;
        self.reached = self.reached.max(self.depth);
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Notes that the statement uses a table.
    fn note(&mut self, relation: Oid, access: Access) {
        match self.relations.iter_mut().find(|(oid, _)| *oid == relation) {
            Some((_, old)) => *old = (*old).max(access),
            None => self.relations.push((relation, access)),
        }
        self.writes |= access != Access::Read;
    }

    /// Returns the current level.
    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("work on expressions happens inside a level")
    }

    fn statement(&mut self, stmt: &ast::Stmt) -> Result<Analyzed> {
        let (bound, columns) = match stmt {
            ast::Stmt::Select(select) => {
                let output = self.query(select, true)?;
                (Bound::Query(output.query), output.columns)
            }
            ast::Stmt::Insert(insert) => self.insert(insert)?,
            ast::Stmt::Update(update) => self.update(update)?,
            ast::Stmt::Delete(delete) => self.delete(delete)?,
            _ => return Err(SqlError::unsupported("analysis of this statement")),
        };
        debug_assert!(self.levels.is_empty() && self.ctes.is_empty());
        let parameters = self.params.finish()?;
        let relations = std::mem::take(&mut self.relations);
        Ok(Analyzed {
            bound,
            parameters,
            columns,
            modifying: std::mem::take(&mut self.modifying),
            whole: std::mem::take(&mut self.whole),
            relations,
            writes: self.writes,
            lock_strength: self.lock_strength,
            assigns_xid: self.assigns_xid,
            may_block: self.may_block,
        })
    }
}

/// Runs `work` on this stack, and again on a larger one if the statement proves too deep (A2). The first run leaves no
/// trace (A3).
fn with_stack<T: Send>(cx: &AnalyzeContext<'_>, work: impl Fn(&mut Analyzer<'_>) -> Result<T> + Sync) -> Result<T> {
    let mut analyzer = Analyzer::new(cx, DEPTH_INLINE);
    let result = work(&mut analyzer);
    if !analyzer.too_deep {
        return result;
    }
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("collie-analyze-deep".into())
            .stack_size(DEEP_STACK_BYTES)
            .spawn_scoped(scope, || work(&mut Analyzer::new(cx, DEPTH_MAX)))
            .map_err(|error| {
                SqlError::new(SqlState::OUT_OF_MEMORY, format!("no thread for a deeply nested statement: {error}"))
                    .hint("Try again when fewer statements run, or nest less deeply.")
            })?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes the error for a statement nested deeper than `depth_max` levels.
fn too_deep(depth_max: u32, pos: Pos) -> SqlError {
    error(SqlState::STATEMENT_TOO_COMPLEX, format!("statement is nested deeper than {depth_max} levels"), pos)
        .hint("Split the statement, or nest its expressions less deeply.")
}

/// Makes an error with the position, if it is known.
fn error(state: SqlState, message: impl Into<String>, pos: Pos) -> SqlError {
    SqlError::new(state, message).at_opt(pos.get())
}

/// Makes the 0A000 error for a feature that is not built.
fn unsupported(what: impl std::fmt::Display, pos: Pos) -> SqlError {
    SqlError::unsupported(what).at_opt(pos.get())
}
