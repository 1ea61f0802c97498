//! Conversions between types: the contexts that allow them, the common type of several values, and the nodes that
//! convert.
//!
//! `builtin::cast_value` converts values; `resolve` chooses functions.
//!
//! # Invariants
//! - C1. A literal of unknown type becomes a constant of its type here, so that a bad one is an error with its
//!   position.
//! - C2. One conversion is one `Cast` node, which also applies the target's modifier.

use super::{Analyzer, Typed, bound::Expr, error};
use crate::{
    builtin::{self, CastContext},
    error::{Result, SqlError, SqlState},
    parse::ast::Pos,
    types::{SqlType, TextContext, Value, datetime, io, oid},
};

/// Returns a type's category letter and whether it is the preferred one of its category.
pub(super) fn category(ty: u32) -> (u8, bool) {
    if let Some(ty) = builtin::type_by_oid(ty) {
        return (ty.category, ty.preferred);
    }
    match ty {
        oid::UNKNOWN => (b'X', false),
        _ if oid::is_array(ty) => (b'A', false),
        _ => (b'P', false),
    }
}

/// Returns whether the type stands for other types in a signature.
pub(super) fn is_polymorphic(ty: u32) -> bool {
    matches!(
        ty,
        oid::ANY
            | oid::ANYELEMENT
            | oid::ANYARRAY
            | oid::ANYNONARRAY
            | oid::ANYENUM
            | oid::ANYCOMPATIBLE
            | oid::ANYCOMPATIBLEARRAY
            | oid::ANYCOMPATIBLENONARRAY
    )
}

/// Returns whether `context` allows a value of type `source` to become one of type `target`.
pub(super) fn can_coerce(source: u32, target: u32, context: CastContext) -> bool {
    if source == target || source == oid::UNKNOWN || target == oid::ANY {
        return true;
    }
    if is_polymorphic(target) {
        return match target {
            oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => oid::element_of(source).is_some(),
            oid::ANYNONARRAY | oid::ANYCOMPATIBLENONARRAY => !oid::is_array(source),
            oid::ANYENUM => false,
            _ => true,
        };
    }
    if let Some(cast) = builtin::cast(source, target) {
        return cast.context <= context;
    }
    // A vector type may become an array, but nothing becomes a vector.
    if let (Some(from), Some(to)) = (oid::element_of(source), array_element(target)) {
        return can_coerce(from, to, context);
    }
    if source == oid::RECORD || target == oid::RECORD {
        return false;
    }
    (context >= CastContext::Assignment && category(target).0 == b'S')
        || (context == CastContext::Explicit && category(source).0 == b'S' && target != oid::VOID)
}

fn array_element(ty: u32) -> Option<u32> {
    if oid::is_array(ty) { oid::element_of(ty) } else { None }
}

/// Finds the common type of `nodes`. `what` names the construct in errors.
///
/// # Errors
/// 42804 if there is none; if `what` is `None`, the result is `None` instead.
pub(super) fn common_type(nodes: &[&Typed], what: Option<&str>) -> Result<Option<u32>> {
    let Some(first) = nodes.first() else { return Ok(Some(oid::TEXT)) };
    let mut chosen = first.ty().oid;
    let (mut kind, mut preferred) = category(chosen);
    for node in nodes.iter().skip(1) {
        let other = node.ty().oid;
        if other == chosen || other == oid::UNKNOWN {
            continue;
        }
        let (other_kind, other_preferred) = category(other);
        if chosen == oid::UNKNOWN {
            (chosen, kind, preferred) = (other, other_kind, other_preferred);
        } else if other_kind != kind {
            let Some(what) = what else { return Ok(None) };
            let (had, wants) = (SqlType::new(chosen).name(), SqlType::new(other).name());
            return Err(error(
                SqlState::DATATYPE_MISMATCH,
                format!("{what} types {had} and {wants} cannot be matched"),
                node.pos,
            ));
        } else if !preferred
            && can_coerce(chosen, other, CastContext::Implicit)
            && !can_coerce(other, chosen, CastContext::Implicit)
        {
            (chosen, kind, preferred) = (other, other_kind, other_preferred);
        }
    }
    Ok(Some(if chosen == oid::UNKNOWN { oid::TEXT } else { chosen }))
}

/// Returns the modifier that all nodes share if all are of type `ty`, otherwise -1.
pub(super) fn common_typmod(nodes: &[&Typed], ty: u32) -> i32 {
    let mut typmods = nodes.iter().map(|node| node.ty());
    let Some(first) = typmods.next() else { return -1 };
    if first.oid == ty && typmods.all(|other| other == first) { first.typmod } else { -1 }
}

impl Analyzer<'_> {
    /// Converts `node` to `to`; `None` if `context` does not allow it.
    pub(super) fn try_coerce(&mut self, node: Typed, to: SqlType, context: CastContext) -> Result<Option<Typed>> {
        let from = node.ty();
        let pos = node.pos;
        if is_polymorphic(to.oid) || to.oid == oid::UNKNOWN && from.oid == oid::UNKNOWN {
            return Ok(Some(node));
        }
        if from.oid == oid::UNKNOWN {
            let plain = SqlType::new(to.oid);
            let typed = match node.expr {
                Expr::Const(Value::Null, _) => Expr::Const(Value::Null, to),
                // The modifier tells the unit of a number that has none: INTERVAL '1' DAY.
                Expr::Const(value, _) if to.oid == oid::INTERVAL => self.literal(&value, to, pos)?,
                Expr::Const(value, _) => self.literal(&value, plain, pos)?,
                Expr::Param(place, _) => {
                    self.params.decide(place, to.oid, pos)?;
                    Expr::Param(place, plain)
                }
                other => {
                    Expr::Cast { arg: Box::new(other), to: plain, explicit: context == CastContext::Explicit, pos }
                }
            };
            return Ok(Some(with_typmod(Typed::new(typed, pos), to, context)));
        }
        if from.oid == to.oid {
            return Ok(Some(with_typmod(node, to, context)));
        }
        if !can_coerce(from.oid, to.oid, context) {
            return Ok(None);
        }
        let explicit = context == CastContext::Explicit;
        if let Expr::Const(Value::Null, _) = node.expr {
            return Ok(Some(Typed::new(Expr::Const(Value::Null, to), pos)));
        }
        Ok(Some(Typed::new(Expr::Cast { arg: Box::new(node.expr), to, explicit, pos }, pos)))
    }

    /// Converts `node` to `to`; the caller has checked [`can_coerce`].
    pub(super) fn coerce(&mut self, node: Typed, to: u32) -> Result<Typed> {
        let from = node.ty();
        let pos = node.pos;
        self.try_coerce(node, SqlType::new(to), CastContext::Implicit)?.ok_or_else(|| {
            error(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", from.name(), SqlType::new(to).name()),
                pos,
            )
        })
    }

    /// Reads a literal as a constant of type `to` (C1).
    fn literal(&mut self, value: &Value, to: SqlType, pos: Pos) -> Result<Expr> {
        let text = value.as_str().unwrap_or_default();
        let placed = |e: SqlError| e.at_opt(pos.get());
        if matches!(
            to.oid,
            oid::REGCLASS
                | oid::REGTYPE
                | oid::REGPROC
                | oid::REGNAMESPACE
                | oid::REGROLE
                | oid::REGPROCEDURE
                | oid::REGOPER
                | oid::REGOPERATOR
                | oid::REGCOLLATION
                | oid::REGCONFIG
                | oid::REGDICTIONARY
        ) {
            return Ok(match self.registered(to.oid, text).map_err(placed)? {
                Some(value) => Expr::Const(value, to),
                None => {
                    let arg = Box::new(Expr::Const(value.clone(), SqlType::TEXT));
                    Expr::Cast { arg, to, explicit: true, pos }
                }
            });
        }
        if category(to.oid).0 == b'P' && to.oid != oid::VOID && to.oid != oid::CSTRING {
            let text = format!("cannot accept a value of type {}", SqlType::new(to.oid).name());
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, pos));
        }
        let value = io::text_in(to.oid, to.typmod, text, self.cx.text).map_err(placed)?;
        // Sessions share plans and keep them, so 'now' and the like are read when the statement runs. A stored
        // expression keeps the moment of its definition.
        if !self.is_stored() && self.names_a_moment(&value, to, text) {
            let arg = Box::new(Expr::Const(Value::text(text), SqlType::TEXT));
            return Ok(Expr::Cast { arg, to, explicit: true, pos });
        }
        Ok(Expr::Const(value, to))
    }

    /// Returns whether the text that was read as `value` would give a different value at another time.
    fn names_a_moment(&self, value: &Value, to: SqlType, text: &str) -> bool {
        let element = to.element().map_or(to.oid, |element| element.oid);
        if !matches!(element, oid::DATE | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ) {
            return false;
        }
        // A different day and a different time of day.
        let later = TextContext { now: self.cx.text.now.saturating_add(datetime::DAY_US + 1), ..*self.cx.text };
        io::text_in(to.oid, to.typmod, text, &later).is_ok_and(|other| other != *value)
    }

    /// Gives a literal or parameter of unknown type the type text, as for an output column.
    pub(super) fn resolve_unknown(&mut self, node: Typed) -> Result<Typed> {
        if node.ty().oid == oid::UNKNOWN { self.coerce(node, oid::TEXT) } else { Ok(node) }
    }

    /// Converts all nodes to their [`common_type`]. `what` names the construct in errors.
    pub(super) fn unify(&mut self, nodes: Vec<Typed>, what: &str) -> Result<(Vec<Typed>, SqlType)> {
        let borrowed: Vec<&Typed> = nodes.iter().collect();
        let ty = common_type(&borrowed, Some(what))?.expect("with a name, no common type is an error");
        let ty = SqlType::with_typmod(ty, common_typmod(&borrowed, ty));
        let nodes = nodes.into_iter().map(|node| self.unified(node, ty.oid, what)).collect::<Result<_>>()?;
        Ok((nodes, ty))
    }

    /// Converts one node to the common type of a construct.
    pub(super) fn unified(&mut self, node: Typed, to: u32, what: &str) -> Result<Typed> {
        let (from, pos) = (node.ty(), node.pos);
        if from.oid == to {
            return Ok(node);
        }
        self.try_coerce(node, SqlType::new(to), CastContext::Implicit)?.ok_or_else(|| {
            error(
                SqlState::CANNOT_COERCE,
                format!(
                    "{what} could not convert type {} to {}",
                    SqlType::new(from.oid).name(),
                    SqlType::new(to).name()
                ),
                pos,
            )
        })
    }

    /// Converts the argument of `construct` to boolean.
    pub(super) fn coerce_to_bool(&mut self, node: Typed, construct: &str) -> Result<Typed> {
        self.coerce_argument(node, SqlType::BOOL, construct)
    }

    /// Converts the argument of `construct` to the type it takes.
    pub(super) fn coerce_argument(&mut self, node: Typed, to: SqlType, construct: &str) -> Result<Typed> {
        let (from, pos) = (node.ty(), node.pos);
        self.try_coerce(node, to, CastContext::Assignment)?.ok_or_else(|| {
            error(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "argument of {construct} must be type {}, not type {}",
                    to.name(),
                    SqlType::new(from.oid).name()
                ),
                pos,
            )
        })
    }

    /// Converts a value that is to be stored in the column `column` of type `to`.
    pub(super) fn coerce_assigned(&mut self, node: Typed, column: &str, to: SqlType) -> Result<Typed> {
        let (from, pos) = (node.ty(), node.pos);
        self.try_coerce(node, to, CastContext::Assignment)?.ok_or_else(|| {
            error(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{column}\" is of type {} but expression is of type {}",
                    SqlType::new(to.oid).name(),
                    SqlType::new(from.oid).name()
                ),
                pos,
            )
            .hint("You will need to rewrite or cast the expression.")
        })
    }

    /// Converts the expression of a DEFAULT.
    pub(super) fn coerce_default(&mut self, node: Typed, column: Option<&str>, to: SqlType) -> Result<Typed> {
        let from = node.ty();
        self.try_coerce(node, to, CastContext::Assignment)?.ok_or_else(|| {
            let column = column.map_or_else(|| "column".to_owned(), |column| format!("column \"{column}\""));
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "{column} is of type {} but default expression is of type {}",
                    SqlType::new(to.oid).name(),
                    SqlType::new(from.oid).name()
                ),
            )
            .hint("You will need to rewrite or cast the expression.")
        })
    }

    /// Converts as CAST does. `pos` is the position of the cast.
    pub(super) fn cast(&mut self, node: Typed, to: SqlType, pos: Pos) -> Result<Typed> {
        let from = node.ty();
        let converted = self.try_coerce(node, to, CastContext::Explicit)?.ok_or_else(|| {
            error(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", SqlType::new(from.oid).name(), SqlType::new(to.oid).name()),
                pos,
            )
        })?;
        Ok(Typed::new(converted.expr, pos))
    }
}

/// Applies the modifier of `to` to a node that already has the type of `to`.
fn with_typmod(node: Typed, to: SqlType, context: CastContext) -> Typed {
    if to.typmod < 0 || node.ty().typmod == to.typmod {
        return node;
    }
    let explicit = context == CastContext::Explicit;
    Typed::new(Expr::Cast { arg: Box::new(node.expr), to, explicit, pos: node.pos }, node.pos)
}
