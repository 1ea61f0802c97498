//! Rows of `information_schema`: the same facts under the names of the SQL standard.
//!
//! Checked by `system_tests`.

use super::{
    SessionFacts,
    definition::{self, Constraint},
    name::schema_name,
    output::{Output, yes_no},
    relation_rows::sorted,
    role, tables,
};
use crate::{
    builtin,
    catalog::{
        relation::{Column, ConstraintTiming, Relation, Storage},
        snapshot::INFORMATION_SCHEMA,
    },
    types::{SqlType, Value, interval, oid, typmod},
};

/// The maximal size of a text in bytes.
const TEXT_BYTES_MAX: i32 = 1 << 30;
/// The maximal size of a UTF-8 character in bytes.
const CHARACTER_BYTES_MAX: i32 = 4;

/// Adds the rows if the relation is one of these views.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != INFORMATION_SCHEMA {
        return false;
    }
    let catalog = facts.catalog();
    let database = || Value::text(facts.database());
    let schema = |relation: &Relation| Value::text(schema_name(catalog, relation.schema));
    match out.name() {
        "information_schema_catalog_name" => out.push([("catalog_name", database())]),
        "schemata" => {
            let mut schemas: Vec<_> = catalog.schemas.values().collect();
            schemas.sort_unstable_by_key(|schema| schema.oid);
            for found in schemas {
                out.push([
                    ("catalog_name", database()),
                    ("schema_name", Value::Text(found.name.clone())),
                    ("schema_owner", Value::text(role::OWNER_NAME)),
                ]);
            }
        }
        "tables" => {
            for relation in sorted(catalog) {
                let user = relation.storage != Storage::Virtual;
                let view = !user && tables::kind(relation.oid) == b'v';
                out.push([
                    ("table_catalog", database()),
                    ("table_schema", schema(relation)),
                    ("table_name", Value::Text(relation.name.clone())),
                    ("table_type", Value::text(if view { "VIEW" } else { "BASE TABLE" })),
                    ("is_insertable_into", yes_no(user)),
                    ("is_typed", yes_no(false)),
                ]);
            }
        }
        "columns" => {
            for relation in sorted(catalog) {
                if out.wanted_text("table_name").is_some_and(|name| *name != *relation.name) {
                    continue;
                }
                for (_, column) in relation.live_columns() {
                    column_row(facts, out, relation, column);
                }
            }
        }
        "table_constraints" => {
            for relation in sorted(catalog) {
                for constraint in definition::constraints(relation) {
                    let timing = match &constraint {
                        Constraint::Foreign(key) => key.timing,
                        _ => ConstraintTiming::Immediate,
                    };
                    let nulls = if constraint.letter() == b'u' { yes_no(true) } else { Value::Null };
                    out.push([
                        ("constraint_catalog", database()),
                        ("constraint_schema", schema(relation)),
                        ("constraint_name", Value::text(constraint.name())),
                        ("table_catalog", database()),
                        ("table_schema", schema(relation)),
                        ("table_name", Value::Text(relation.name.clone())),
                        ("constraint_type", Value::text(kind(&constraint))),
                        ("is_deferrable", yes_no(timing != ConstraintTiming::Immediate)),
                        ("initially_deferred", yes_no(timing == ConstraintTiming::Deferred)),
                        ("enforced", yes_no(true)),
                        ("nulls_distinct", nulls),
                    ]);
                }
            }
        }
        "check_constraints" => {
            for relation in sorted(catalog) {
                for check in &relation.checks {
                    out.push([
                        ("constraint_catalog", database()),
                        ("constraint_schema", schema(relation)),
                        ("constraint_name", Value::Text(check.name.clone())),
                        ("check_clause", format!("({})", check.condition).into()),
                    ]);
                }
            }
        }
        "key_column_usage" | "constraint_column_usage" => key_columns(facts, out),
        _ => return false,
    }
    true
}

fn kind(constraint: &Constraint<'_>) -> &'static str {
    match constraint {
        Constraint::Unique(index) if index.primary => "PRIMARY KEY",
        Constraint::Unique(_) => "UNIQUE",
        Constraint::Check(_) => "CHECK",
        Constraint::Foreign(_) => "FOREIGN KEY",
    }
}

/// Adds the columns of constraints: for `constraint_column_usage` the columns that are referenced, otherwise the
/// columns
/// that declare the key.
fn key_columns(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let catalog = facts.catalog();
    let about = out.name() == "constraint_column_usage";
    for relation in sorted(catalog) {
        for constraint in definition::constraints(relation) {
            let (mut table, mut columns, mut unique_places) = (relation, constraint.columns(), Vec::new());
            if let Constraint::Foreign(key) = &constraint {
                if let Some((_, index)) = catalog.index(key.index) {
                    let in_index = |place| index.columns.iter().position(|part| part.column() == Some(place));
                    unique_places = key.target_columns.iter().filter_map(|&place| in_index(place)).collect();
                }
                if about {
                    let Some(target) = catalog.relation(key.target) else { continue };
                    (table, columns) = (target, key.target_columns.clone());
                }
            }
            for (at, &place) in columns.iter().enumerate() {
                let names = [
                    ("constraint_catalog", Value::text(facts.database())),
                    ("constraint_schema", Value::text(schema_name(catalog, relation.schema))),
                    ("constraint_name", Value::text(constraint.name())),
                    ("table_catalog", Value::text(facts.database())),
                    ("table_schema", Value::text(schema_name(catalog, table.schema))),
                    ("table_name", Value::Text(table.name.clone())),
                    ("column_name", Value::Text(table.columns[place].name.clone())),
                ];
                if about {
                    out.push(names);
                } else {
                    let [a, b, c, d, e, f, g] = names;
                    let unique = unique_places.get(at).map_or(Value::Null, |&place| ordinal(place + 1));
                    let position = ("ordinal_position", ordinal(at + 1));
                    out.push([a, b, c, d, e, f, g, position, ("position_in_unique_constraint", unique)]);
                }
            }
        }
    }
}

fn ordinal(place: usize) -> Value {
    Value::Int4(i32::try_from(place).expect("a key has at most 1600 columns"))
}

fn column_row(facts: &dyn SessionFacts, out: &mut Output<'_>, relation: &Relation, column: &Column) {
    let user = relation.storage != Storage::Virtual;
    let number = |n: Option<i32>| n.map_or(Value::Null, Value::Int4);
    let ty = column.ty;
    let (precision, radix, scale) = number_facts(ty);
    let type_name = builtin::type_by_oid(ty.oid).map_or("", |ty| ty.name);
    out.push([
        ("table_catalog", Value::text(facts.database())),
        ("table_schema", Value::text(schema_name(facts.catalog(), relation.schema))),
        ("table_name", Value::Text(relation.name.clone())),
        ("column_name", Value::Text(column.name.clone())),
        ("ordinal_position", Value::Int4(i32::from(column.attnum))),
        ("column_default", column.default.clone().map_or(Value::Null, Value::Text)),
        ("is_nullable", yes_no(!column.not_null)),
        ("data_type", if ty.is_array() { "ARRAY".into() } else { definition::type_name(ty.oid, None).into() }),
        ("character_maximum_length", number(typmod_length(ty))),
        ("character_octet_length", number(octets(ty))),
        ("numeric_precision", number(precision)),
        ("numeric_precision_radix", number(radix)),
        ("numeric_scale", number(scale)),
        ("datetime_precision", number(datetime_precision(ty))),
        ("interval_type", interval_type(ty)),
        ("udt_catalog", Value::text(facts.database())),
        ("udt_schema", Value::text("pg_catalog")),
        ("udt_name", Value::text(type_name)),
        ("dtd_identifier", column.attnum.to_string().into()),
        ("is_self_referencing", yes_no(false)),
        ("is_identity", yes_no(false)),
        ("identity_cycle", yes_no(false)),
        ("is_generated", Value::text("NEVER")),
        ("is_updatable", yes_no(user)),
    ]);
}

fn typmod_length(ty: SqlType) -> Option<i32> {
    matches!(ty.oid, oid::VARCHAR | oid::BPCHAR).then(|| typmod::length(ty.typmod)).flatten()
}

fn octets(ty: SqlType) -> Option<i32> {
    match ty.oid {
        oid::TEXT => Some(TEXT_BYTES_MAX),
        oid::VARCHAR | oid::BPCHAR => {
            Some(typmod::length(ty.typmod).map_or(TEXT_BYTES_MAX, |n| n.saturating_mul(CHARACTER_BYTES_MAX)))
        }
        _ => None,
    }
}

/// Returns the precision, its base and the scale of a number type.
fn number_facts(ty: SqlType) -> (Option<i32>, Option<i32>, Option<i32>) {
    match ty.oid {
        oid::INT2 => (Some(16), Some(2), Some(0)),
        oid::INT4 => (Some(32), Some(2), Some(0)),
        oid::INT8 => (Some(64), Some(2), Some(0)),
        oid::FLOAT4 => (Some(24), Some(2), None),
        oid::FLOAT8 => (Some(53), Some(2), None),
        oid::NUMERIC => match typmod::numeric_parts(ty.typmod) {
            Some((precision, scale)) => (Some(precision), Some(10), Some(scale)),
            None => (None, Some(10), None),
        },
        _ => (None, None, None),
    }
}

/// Returns the fields of an interval that is restricted to some, as SQL names them.
fn interval_type(ty: SqlType) -> Value {
    match interval::modifier::field_names(ty.typmod) {
        "" => Value::Null,
        _ if ty.oid != oid::INTERVAL => Value::Null,
        _ => interval::modifier::display(ty.typmod).trim_start().to_uppercase().into(),
    }
}

fn datetime_precision(ty: SqlType) -> Option<i32> {
    match ty.oid {
        oid::DATE => Some(0),
        oid::INTERVAL => Some(interval::modifier::digits(ty.typmod)),
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => Some(if ty.typmod < 0 { 6 } else { ty.typmod }),
        _ => None,
    }
}
