//! Resolution of type names to an OID and a modifier.
//!
//! `builtin` and `types::oid` hold the names; `types::typmod` defines the effect of a modifier.

use super::{AnalyzeContext, error, unsupported};
use crate::{
    builtin,
    error::{Result, SqlState},
    parse::ast::{self, ExprKind, Literal},
    types::{SqlType, oid, typmod},
};

/// Finds the type that `name` denotes.
pub(super) fn resolve(name: &ast::TypeName, cx: &AnalyzeContext<'_>) -> Result<SqlType> {
    let schema = name.name.schema();
    if let Some(schema) = schema
        && cx.catalog.schema_named(schema).is_none()
        && schema != "pg_catalog"
    {
        return Err(error(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"), name.pos));
    }
    let last = name.name.last();
    let found = match schema {
        None | Some("pg_catalog") => builtin::type_by_name(last).map(|t| (t.oid, t.supported)),
        Some(_) => None,
    };
    let Some((base, supported)) = found else {
        if schema.is_none()
            && matches!(last, "serial" | "serial4" | "bigserial" | "serial8" | "smallserial" | "serial2")
        {
            return Err(unsupported(format!("type {last}"), name.pos)
                .hint("Use an integer column and give its values in INSERT."));
        }
        return Err(match oid::by_typname(last) {
            Some(known) if matches!(schema, None | Some("pg_catalog")) => {
                unsupported(format!("type {}", SqlType::new(known).name()), name.pos)
            }
            _ => error(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", name.name), name.pos),
        });
    };
    if !supported {
        return Err(unsupported(format!("type {}", SqlType::new(base).name()), name.pos));
    }
    let typmod = if name.modifiers.is_empty() { -1 } else { modifier(base, name)? };
    let ty = SqlType::with_typmod(base, typmod);
    if name.array_bounds.is_empty() || ty.is_array() {
        return Ok(ty);
    }
    ty.array().ok_or_else(|| {
        error(SqlState::UNDEFINED_OBJECT, format!("could not find array type for data type {}", ty.name()), name.pos)
    })
}

/// Encodes the modifiers after the name.
fn modifier(base: u32, name: &ast::TypeName) -> Result<i32> {
    let mut modifiers = Vec::new();
    for item in &name.modifiers {
        match &item.kind {
            ExprKind::Literal(Literal::Integer(value)) => modifiers.push(i64::from(*value)),
            ExprKind::Literal(Literal::Number(_)) => {
                return Err(error(SqlState::INVALID_PARAMETER_VALUE, "type modifier is out of range", item.pos));
            }
            _ => {
                return Err(error(
                    SqlState::SYNTAX_ERROR,
                    "type modifiers must be simple constants or identifiers",
                    name.pos,
                ));
            }
        }
    }
    if !matches!(
        base,
        oid::VARCHAR
            | oid::BPCHAR
            | oid::NUMERIC
            | oid::TIME
            | oid::TIMESTAMP
            | oid::TIMESTAMPTZ
            | oid::INTERVAL
            | oid::TIMETZ
    ) {
        return Err(error(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{}\"", name.name.last()),
            name.pos,
        ));
    }
    typmod::encode(base, &modifiers).map_err(|e| e.at_opt(name.pos.get()))
}
