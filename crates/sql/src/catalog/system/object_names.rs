//! Names of objects as values: the text forms of the `reg*` types, `to_reg*`, and whether a name is found without its
//! schema.
//!
//! Built-in functions, operators and types are always visible, because there are no user objects of those kinds.
//!
//! Checked by `system_tests`.

use std::sync::Arc;

use super::{
    SessionFacts, definition,
    functions::{oid_of, text_of},
    name::{self, quoted},
    role,
};
use crate::{
    builtin::{self, Operator, Proc},
    catalog::relation::{Oid, Relation},
    error::{Result, SqlError, SqlState},
    types::{Value, oid},
};

/// Computes the function with this source, if it is one of these.
///
/// # Errors
/// 42P01, 42704, 42883, 42725, 3F000 for names that denote nothing or are ambiguous; 42602 for text that is not a name.
pub(super) fn call(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Option<Value>> {
    let text = || text_of(args, 0);
    let value = match source {
        "regclassin" | "text_regclass" => input(text(), |text| class(facts, text))?,
        "regtypein" => input(text(), type_named)?,
        "regprocin" => input(text(), function)?,
        "regprocedurein" => input(text(), function_with_types)?,
        "regoperin" => operator_input(text(), operator)?,
        "regoperatorin" => operator_input(text(), operator_with_types)?,
        "regnamespacein" => input(text(), |text| namespace(facts, text))?,
        "regrolein" => input(text(), |text| role_named(facts, text))?,
        "to_regclass" => found(class(facts, text()))?,
        "to_regtype" => found(type_named(text()))?,
        "to_regproc" => found(function(text()))?,
        "to_regprocedure" => found(function_with_types(text()))?,
        "to_regoper" => found(operator(text()))?,
        "to_regoperator" => found(operator_with_types(text()))?,
        "to_regnamespace" => found(namespace(facts, text()))?,
        "to_regrole" => found(role_named(facts, text()))?,
        "regclassout" => output(args, |oid| class_name(facts, oid)),
        "regtypeout" => output(args, |oid| builtin::type_by_oid(oid).map(|_| definition::type_name(oid, None))),
        "regprocout" => output(args, |oid| builtin::proc_by_oid(oid).map(function_name)),
        "regprocedureout" => output(args, |oid| builtin::proc_by_oid(oid).map(signature)),
        "regoperout" => match oid_of(args, 0) {
            0 => Value::text("0"),
            _ => output(args, |oid| builtin::operator_by_oid(oid).map(operator_name)),
        },
        "regoperatorout" => match oid_of(args, 0) {
            0 => Value::text("0"),
            _ => output(args, |oid| builtin::operator_by_oid(oid).map(operator_signature)),
        },
        "regnamespaceout" => output(args, |oid| facts.catalog().schemas.get(&oid).map(|schema| quoted(&schema.name))),
        "regroleout" => output(args, |oid| role::name(facts, oid).map(|name| quoted(&name))),
        _ => return Ok(visibility(facts, source, args)),
    };
    Ok(Some(value))
}

/// Returns whether an object is found by its name alone; NULL if it does not exist.
fn visibility(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Option<Value> {
    let catalog = facts.catalog();
    let oid = oid_of(args, 0);
    let known = match source {
        "pg_table_is_visible" => {
            let table = catalog.relation(oid).map(|relation| &relation.name);
            let found = table.or_else(|| catalog.index(oid).map(|(_, index)| &index.name));
            return Some(found.map_or(Value::Null, |name| {
                Value::Bool(catalog.object_named(None, facts.search_path(), name) == Some(oid))
            }));
        }
        "pg_type_is_visible" => builtin::type_by_oid(oid).is_some(),
        "pg_function_is_visible" => builtin::proc_by_oid(oid).is_some(),
        "pg_operator_is_visible" => builtin::operator_by_oid(oid).is_some(),
        "pg_opclass_is_visible" => builtin::op_classes().iter().any(|class| class.oid == oid),
        "pg_opfamily_is_visible" => builtin::op_classes().iter().any(|class| class.family == oid),
        "pg_collation_is_visible" => matches!(oid, 100 | 950 | 951),
        "pg_conversion_is_visible"
        | "pg_statistics_obj_is_visible"
        | "pg_ts_config_is_visible"
        | "pg_ts_dict_is_visible"
        | "pg_ts_parser_is_visible"
        | "pg_ts_template_is_visible" => false,
        _ => return None,
    };
    Some(if known { Value::Bool(true) } else { Value::Null })
}

/// Reads the text form of a `reg*` type: `-` for none, a number, or a name.
fn input(text: &str, find: impl Fn(&str) -> Result<Oid>) -> Result<Value> {
    if text == "-" { Ok(Value::Oid(0)) } else { operator_input(text, find) }
}

/// Like [`input`], for operators: `-` is an operator, so only 0 means none.
fn operator_input(text: &str, find: impl Fn(&str) -> Result<Oid>) -> Result<Value> {
    numbered(text).map_or_else(|| find(text), Ok).map(Value::Oid)
}

fn numbered(text: &str) -> Option<Oid> {
    if text.starts_with(|c: char| c.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Converts the error for an unknown or ambiguous name to NULL.
fn found(result: Result<Oid>) -> Result<Value> {
    match result {
        Ok(oid) => Ok(Value::Oid(oid)),
        Err(error)
            if [
                SqlState::UNDEFINED_TABLE,
                SqlState::UNDEFINED_OBJECT,
                SqlState::UNDEFINED_FUNCTION,
                SqlState::AMBIGUOUS_FUNCTION,
                SqlState::INVALID_SCHEMA_NAME,
            ]
            .contains(&error.state()) =>
        {
            Ok(Value::Null)
        }
        Err(error) => Err(error),
    }
}

fn output(args: &[Value], print: impl Fn(Oid) -> Option<String>) -> Value {
    match oid_of(args, 0) {
        0 => Value::text("-"),
        oid => print(oid).unwrap_or_else(|| oid.to_string()).into(),
    }
}

fn class(facts: &dyn SessionFacts, text: &str) -> Result<Oid> {
    let catalog = facts.catalog();
    let (schema, relation) = name::schema_and_name(text, facts.database())?;
    let unknown = || {
        let shown = schema.iter().chain([&relation]).map(String::as_str).collect::<Vec<_>>().join(".");
        SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"))
    };
    let schema_oid = match &schema {
        Some(schema) => Some(catalog.schema_named(schema).ok_or_else(unknown)?.oid),
        None => None,
    };
    catalog.object_named(schema_oid, facts.search_path(), &relation).ok_or_else(unknown)
}

/// Finds a table by its name as text.
///
/// # Errors
/// 42P01 if there is none; 42602 for text that is not a name.
pub(super) fn table<'f>(facts: &'f dyn SessionFacts, text: &str) -> Result<&'f Arc<Relation>> {
    let oid = class(facts, text)?;
    facts
        .catalog()
        .relation(oid)
        .ok_or_else(|| SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{text}\" is not a table")))
}

fn class_name(facts: &dyn SessionFacts, oid: Oid) -> Option<String> {
    let catalog = facts.catalog();
    if let Some(relation) = catalog.relation(oid) {
        return Some(name::visible(catalog, facts.search_path(), relation));
    }
    let (relation, index) = catalog.index(oid)?;
    Some(name::object(catalog, facts.search_path(), relation.schema, &index.name, oid))
}

fn namespace(facts: &dyn SessionFacts, text: &str) -> Result<Oid> {
    let name = single(text)?;
    let unknown = || SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
    facts.catalog().schema_named(&name).map(|schema| schema.oid).ok_or_else(unknown)
}

fn role_named(facts: &dyn SessionFacts, text: &str) -> Result<Oid> {
    let name = single(text)?;
    let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
    role::named(facts, &name).ok_or_else(unknown)
}

/// Reads a name without a schema.
fn single(text: &str) -> Result<String> {
    let mut parts = name::parts(text)?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(SqlError::new(SqlState::INVALID_NAME, "invalid name syntax")),
    }
}

/// Finds a type by its SQL name or its catalog name. A modifier is ignored.
fn type_named(text: &str) -> Result<Oid> {
    let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist"));
    let mut rest = text.trim();
    let mut array = false;
    while let Some(before) = rest.strip_suffix(']') {
        let (element, bounds) = before.rsplit_once('[').ok_or_else(unknown)?;
        if !bounds.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unknown());
        }
        array = true;
        rest = element.trim_end();
    }
    let mut plain = rest.to_owned();
    if let Some(open) = plain.find('(') {
        let close = plain.find(')').filter(|&close| close > open).ok_or_else(unknown)?;
        plain.replace_range(open..=close, "");
    }
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let name = match standard_type(&words) {
        Some(name) => name.to_owned(),
        None => match name::parts(&plain).map_err(|_| unknown())?.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == "pg_catalog" => name.clone(),
            _ => return Err(unknown()),
        },
    };
    let found = builtin::type_by_name(&name).ok_or_else(unknown)?;
    match (array, found.array) {
        (false, _) => Ok(found.oid),
        (true, 0) => Err(unknown()),
        (true, array) => Ok(array),
    }
}

/// Returns the catalog name of a type that the grammar names by keywords.
fn standard_type(words: &str) -> Option<&'static str> {
    Some(match words {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "float" | "double precision" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "character varying" | "char varying" | "national character varying" => "varchar",
        "character" | "char" | "nchar" | "national character" => "bpchar",
        "bit varying" => "varbit",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        _ => return None,
    })
}

/// Reads the name of a built-in function or operator, unqualified or in `pg_catalog`.
fn builtin_name(text: &str) -> Result<Option<String>> {
    let parts = name::parts(text)?;
    Ok(match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == "pg_catalog" => Some(name.clone()),
        _ => None,
    })
}

fn function(text: &str) -> Result<Oid> {
    let name = builtin_name(text)?;
    match name.as_deref().map(builtin::procs_named).unwrap_or_default() {
        [] => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))),
        [proc] => Ok(proc.oid),
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one function named \"{text}\""))),
    }
}

/// Splits `name(type, ...)` into the name and the types.
fn name_and_types(text: &str) -> Result<(&str, Vec<Oid>)> {
    let bad = |what: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what.to_owned());
    let (name, rest) = text.split_once('(').ok_or_else(|| bad("expected a left parenthesis"))?;
    let list = rest.trim_end().strip_suffix(')').ok_or_else(|| bad("expected a right parenthesis"))?;
    if list.trim().is_empty() {
        return Ok((name, Vec::new()));
    }
    let mut types = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 || at == list.len() => {
                let item = list[start..at].trim();
                types.push(if item.eq_ignore_ascii_case("none") { 0 } else { type_named(item)? });
                start = at + 1;
            }
            _ => {}
        }
    }
    Ok((name, types))
}

fn function_with_types(text: &str) -> Result<Oid> {
    let (name, types) = name_and_types(text)?;
    let name = builtin_name(name)?;
    let mut overloads = name.as_deref().map(builtin::procs_named).unwrap_or_default().iter();
    let unknown = || SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"));
    overloads.find(|proc| *proc.arguments == *types).map(|proc| proc.oid).ok_or_else(unknown)
}

/// Returns the overloads of an operator that is named unqualified or in `pg_catalog`.
fn operators(text: &str) -> &'static [Operator] {
    let text = text.trim();
    let name = text.strip_prefix("pg_catalog.").unwrap_or(text);
    builtin::operators_named(name)
}

fn operator(text: &str) -> Result<Oid> {
    match operators(text) {
        [] => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))),
        [operator] => Ok(operator.oid),
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one operator named {text}"))),
    }
}

fn operator_with_types(text: &str) -> Result<Oid> {
    let (name, types) = name_and_types(text)?;
    let [left, right] = types.as_slice() else {
        let text = if types.len() < 2 { "missing argument" } else { "too many arguments" };
        return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, text)
            .hint("Use NONE to denote the missing argument of a unary operator."));
    };
    let unknown = || SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"));
    let mut overloads = operators(name).iter();
    overloads.find(|found| (found.left, found.right) == (*left, *right)).map(|found| found.oid).ok_or_else(unknown)
}

/// Formats a function's name, with its schema if the name is overloaded.
fn function_name(proc: &Proc) -> String {
    let alone = builtin::procs_named(proc.name).len() == 1;
    if alone { quoted(proc.name) } else { format!("pg_catalog.{}", quoted(proc.name)) }
}

fn signature(proc: &Proc) -> String {
    format!("{}({})", quoted(proc.name), definition::argument_types(proc, ","))
}

fn operator_name(operator: &Operator) -> String {
    let alone = builtin::operators_named(operator.name).len() == 1;
    if alone { operator.name.to_owned() } else { format!("pg_catalog.{}", operator.name) }
}

fn operator_signature(operator: &Operator) -> String {
    let side = |ty: u32| if ty == oid::INVALID { "NONE".to_owned() } else { definition::type_name(ty, None) };
    format!("{}({},{})", operator.name, side(operator.left), side(operator.right))
}
