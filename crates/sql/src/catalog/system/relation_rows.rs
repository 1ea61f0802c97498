//! Rows of the relations that describe user objects and the system relations: `pg_class`, `pg_attribute`, `pg_index`,
//! `pg_constraint`, `pg_attrdef`, `pg_namespace`.
//!
//! Look-ups by OID, by the owning relation and by name visit only the relations concerned.
//!
//! Checked by `system_tests`.

use std::sync::Arc;

use super::{
    SessionFacts,
    definition::{self, Constraint},
    output::{Output, small, texts, vector},
    role, size, tables,
};
use crate::{
    builtin,
    catalog::{
        relation::{Column, ConstraintTiming, Index, IndexColumn, Oid, ReferentialAction, Relation, Storage},
        snapshot::{Catalog, PG_CATALOG},
    },
    types::{SqlType, Value, oid},
};

/// OID of the access method of tables.
pub(super) const HEAP: Oid = 2;
/// OID of the access method of indexes.
pub(super) const BTREE: Oid = 403;
/// OID of the collation `default`.
pub(super) const DEFAULT_COLLATION: Oid = 100;

/// Returns every relation, ordered by OID (S3).
pub(super) fn sorted(catalog: &Catalog) -> Vec<&Arc<Relation>> {
    let mut relations: Vec<&Arc<Relation>> = catalog.relations.values().collect();
    relations.sort_unstable_by_key(|relation| relation.oid);
    relations
}

/// Adds the rows if the relation is one of these.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG {
        return false;
    }
    let catalog = facts.catalog();
    match out.name() {
        "pg_class" => {
            for relation in wanted_classes(catalog, out) {
                class(facts, out, relation);
            }
        }
        "pg_namespace" => {
            let mut schemas: Vec<_> = catalog.schemas.values().collect();
            schemas.sort_unstable_by_key(|schema| schema.oid);
            for schema in schemas {
                out.push([
                    ("oid", Value::Oid(schema.oid)),
                    ("nspname", Value::Text(schema.name.clone())),
                    ("nspowner", Value::Oid(role::OWNER)),
                ]);
            }
        }
        "pg_attribute" => {
            for relation in wanted_owners(catalog, out, "attrelid") {
                attributes(out, relation);
            }
        }
        "pg_attrdef" => {
            for relation in wanted_owners(catalog, out, "adrelid") {
                defaults(out, relation);
            }
        }
        "pg_index" => {
            for relation in wanted_indexed(catalog, out) {
                for index in &relation.indexes {
                    index_row(out, relation, index);
                }
            }
        }
        "pg_constraint" => {
            for relation in wanted_owners(catalog, out, "conrelid") {
                for constraint in definition::constraints(relation) {
                    constraint_row(catalog, out, relation, &constraint);
                }
            }
        }
        _ => return false,
    }
    true
}

/// Returns the tables whose `pg_class` rows are wanted, each with its indexes.
fn wanted_classes<'c>(catalog: &'c Catalog, out: &Output<'_>) -> Vec<&'c Arc<Relation>> {
    let owner_of = |oid: Oid| catalog.relation(catalog.index_owner.get(&oid).copied().unwrap_or(oid));
    if let Some(oid) = out.wanted_oid("oid") {
        return owner_of(oid).into_iter().collect();
    }
    if let Some(name) = out.wanted_text("relname") {
        let mut found: Vec<_> = catalog
            .schemas
            .keys()
            .filter_map(|&schema| catalog.object_named(Some(schema), &[], name).and_then(owner_of))
            .collect();
        found.sort_unstable_by_key(|relation| relation.oid);
        return found;
    }
    sorted(catalog)
}

/// Returns the tables whose parts are wanted; `column` holds the OID of a table or index.
fn wanted_owners<'c>(catalog: &'c Catalog, out: &Output<'_>, column: &str) -> Vec<&'c Arc<Relation>> {
    match out.wanted_oid(column) {
        Some(oid) => catalog.relation(catalog.index_owner.get(&oid).copied().unwrap_or(oid)).into_iter().collect(),
        None => sorted(catalog),
    }
}

fn wanted_indexed<'c>(catalog: &'c Catalog, out: &Output<'_>) -> Vec<&'c Arc<Relation>> {
    match out.wanted_oid("indexrelid") {
        Some(oid) => catalog.index(oid).map(|(relation, _)| relation).into_iter().collect(),
        None => wanted_owners(catalog, out, "indrelid"),
    }
}

fn class(facts: &dyn SessionFacts, out: &mut Output<'_>, relation: &Relation) {
    let user = relation.storage != Storage::Virtual;
    let kind = if user { b'r' } else { tables::kind(relation.oid) };
    let (rows, bytes) = (size::rows(facts, relation), size::table(facts, relation));
    // PostgreSQL implements foreign keys by triggers; psql asks for foreign keys only where there are triggers.
    let has_keys = !relation.foreign_keys.is_empty() || facts.catalog().referencing.contains_key(&relation.oid);
    if out.wants("oid", relation.oid) {
        let options = relation.options.iter().map(|(name, value)| format!("{name}={value}"));
        out.push([
            ("oid", Value::Oid(relation.oid)),
            ("relname", Value::Text(relation.name.clone())),
            ("relnamespace", Value::Oid(relation.schema)),
            ("relowner", Value::Oid(role::OWNER)),
            ("relam", Value::Oid(if kind == b'r' { HEAP } else { 0 })),
            ("relfilenode", Value::Oid(if user { relation.oid } else { 0 })),
            ("relpages", pages(bytes)),
            ("reltuples", tuples(rows)),
            ("relhasindex", Value::Bool(!relation.indexes.is_empty())),
            ("relpersistence", Value::Char(b'p')),
            ("relkind", Value::Char(kind)),
            ("relnatts", small(relation.columns.len())),
            ("relhastriggers", Value::Bool(has_keys)),
            ("relchecks", small(relation.checks.len())),
            ("relispopulated", Value::Bool(true)),
            ("relreplident", Value::Char(if user { b'd' } else { b'n' })),
            ("reloptions", if relation.options.is_empty() { Value::Null } else { texts(options) }),
        ]);
    }
    for index in &relation.indexes {
        if out.wants("oid", index.oid) {
            out.push([
                ("oid", Value::Oid(index.oid)),
                ("relname", Value::Text(index.name.clone())),
                ("relnamespace", Value::Oid(relation.schema)),
                ("relowner", Value::Oid(role::OWNER)),
                ("relam", Value::Oid(BTREE)),
                ("relfilenode", Value::Oid(index.oid)),
                ("relpages", pages(size::index(facts, relation, index))),
                ("reltuples", tuples(rows)),
                ("relpersistence", Value::Char(b'p')),
                ("relkind", Value::Char(b'i')),
                ("relnatts", small(index.columns.len() + index.included.len())),
                ("relispopulated", Value::Bool(true)),
                ("relreplident", Value::Char(b'n')),
            ]);
        }
    }
}

fn pages(bytes: u64) -> Value {
    Value::Int4(i32::try_from(bytes / size::PAGE_BYTES).unwrap_or(i32::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate; PostgreSQL keeps it as float4 as well")]
fn tuples(rows: u64) -> Value {
    Value::Float4(rows as f32)
}

fn attributes(out: &mut Output<'_>, relation: &Relation) {
    if out.wants("attrelid", relation.oid) {
        for column in &relation.columns {
            attribute(out, relation.oid, column, column.attnum);
        }
    }
    for index in &relation.indexes {
        if out.wants("attrelid", index.oid) {
            let keys = index.columns.iter().map(|part| part.ty(relation));
            let types = keys.chain(index.included.iter().map(|&place| relation.columns[place].ty));
            for (number, (ty, name)) in (1_i16..).zip(types.zip(index.column_names(relation))) {
                let (name, missing) = (name.into(), Value::Null);
                let column =
                    Column { attnum: number, name, ty, not_null: false, default: None, missing, dropped: false };
                attribute(out, index.oid, &column, number);
            }
        }
    }
}

fn attribute(out: &mut Output<'_>, relation: Oid, column: &Column, number: i16) {
    let ty = builtin::type_by_oid(column.ty.oid);
    // A dropped column shows no name and no type, so that clients do not take it for a live one.
    let name = match column.dropped {
        true => format!("........pg.dropped.{number}........").into(),
        false => column.name.clone(),
    };
    out.push([
        ("attrelid", Value::Oid(relation)),
        ("attname", Value::Text(name)),
        ("atttypid", Value::Oid(if column.dropped { 0 } else { column.ty.oid })),
        ("attstattarget", Value::Int4(-1)),
        ("attlen", Value::Int2(column.ty.len())),
        ("attnum", Value::Int2(number)),
        ("attndims", Value::Int4(i32::from(column.ty.is_array()))),
        ("attcacheoff", Value::Int4(-1)),
        ("atttypmod", Value::Int4(column.ty.typmod)),
        ("attbyval", Value::Bool(ty.is_some_and(|ty| ty.by_value))),
        ("attalign", Value::Char(ty.map_or(b'i', |ty| ty.align))),
        ("attstorage", Value::Char(ty.map_or(b'p', |ty| ty.storage))),
        ("attnotnull", Value::Bool(column.not_null)),
        ("atthasdef", Value::Bool(column.default.is_some() && !column.dropped)),
        ("attisdropped", Value::Bool(column.dropped)),
        ("attislocal", Value::Bool(true)),
        ("attcollation", Value::Oid(collation(column.ty))),
    ]);
}

/// Returns the collation of a column of type `ty`, which is the collation of the type.
pub(super) fn collation(ty: SqlType) -> Oid {
    builtin::type_by_oid(ty.oid).map_or(0, |ty| ty.collation)
}

fn defaults(out: &mut Output<'_>, relation: &Relation) {
    for (_, column) in relation.live_columns() {
        if let Some(text) = &column.default {
            out.push([
                ("oid", Value::Oid(default_oid(relation, column))),
                ("adrelid", Value::Oid(relation.oid)),
                ("adnum", Value::Int2(column.attnum)),
                ("adbin", Value::Text(text.clone())),
            ]);
        }
    }
}

/// Returns a number for a default, which has no OID: distinct within a table, and above every OID in use.
fn default_oid(relation: &Relation, column: &Column) -> Oid {
    u32::MAX - relation.oid.wrapping_mul(1600).wrapping_add(u32::from(column.attnum.unsigned_abs())) % (1 << 30)
}

fn index_row(out: &mut Output<'_>, relation: &Relation, index: &Index) {
    let keys = index.columns.iter().map(IndexColumn::column);
    let attnums = keys.chain(index.included.iter().copied().map(Some));
    // An expression has no column; its number is 0.
    let attnums = attnums.map(|place| Value::Int2(place.map_or(0, |place| relation.columns[place].attnum))).collect();
    let types = || index.columns.iter().map(|part| part.ty(relation));
    let collations = types().map(|ty| Value::Oid(collation(ty))).collect();
    let class = |ty: SqlType| builtin::op_class_for(ty.oid).map_or(0, |class| class.oid);
    let classes = types().map(|ty| Value::Oid(class(ty))).collect();
    let option = |desc: bool, nulls_first: bool| Value::Int2(i16::from(desc) | i16::from(nulls_first) << 1);
    let options = index.columns.iter().map(|part| option(part.key.desc, part.key.nulls_first)).collect();
    let expressions: Vec<&str> = index.columns.iter().filter_map(|part| Some(&*part.expression()?.text)).collect();
    let expressions = if expressions.is_empty() { Value::Null } else { expressions.join(", ").into() };
    out.push([
        ("indexrelid", Value::Oid(index.oid)),
        ("indrelid", Value::Oid(relation.oid)),
        ("indnatts", small(index.columns.len() + index.included.len())),
        ("indnkeyatts", small(index.columns.len())),
        ("indisunique", Value::Bool(index.unique)),
        ("indisprimary", Value::Bool(index.primary)),
        ("indimmediate", Value::Bool(true)),
        ("indisvalid", Value::Bool(true)),
        ("indisready", Value::Bool(true)),
        ("indislive", Value::Bool(true)),
        ("indkey", vector(oid::INT2, attnums)),
        ("indcollation", vector(oid::OID, collations)),
        ("indclass", vector(oid::OID, classes)),
        ("indoption", vector(oid::INT2, options)),
        ("indexprs", expressions),
        ("indpred", definition::predicate(index).map_or(Value::Null, Into::into)),
    ]);
}

fn constraint_row(catalog: &Catalog, out: &mut Output<'_>, relation: &Relation, constraint: &Constraint<'_>) {
    if !out.wants("oid", constraint.oid()) {
        return;
    }
    let attnums = |relation: &Relation, places: &[usize]| {
        let number = |&place: &usize| Value::Int2(relation.columns[place].attnum);
        Value::array(oid::INT2, places.iter().map(number).collect())
    };
    let mut index_oid = 0;
    let (mut target, mut target_columns, mut equal, mut condition) = (0, Value::Null, Value::Null, Value::Null);
    // A constraint that is not a foreign key shows spaces.
    let (mut on_update, mut on_delete, mut matching) = (b' ', b' ', b' ');
    let (mut set_columns, mut timing, mut validated) = (Value::Null, ConstraintTiming::Immediate, true);
    match constraint {
        Constraint::Unique(index) => index_oid = index.oid,
        Constraint::Check(check) => condition = Value::Text(check.condition.clone()),
        Constraint::Foreign(key) => {
            (on_update, on_delete) = (action_letter(key.on_update), action_letter(key.on_delete));
            matching = if key.match_full { b'f' } else { b's' };
            (timing, validated) = (key.timing, key.validated);
            (target, index_oid) = (key.target, key.index);
            if !key.on_delete_columns.is_empty() {
                set_columns = attnums(relation, &key.on_delete_columns);
            }
            if let Some(referenced) = catalog.relation(key.target) {
                target_columns = attnums(referenced, &key.target_columns);
                let types = key.target_columns.iter().map(|&place| referenced.columns[place].ty.oid);
                equal = Value::array(oid::OID, types.map(|ty| Value::Oid(equality(ty))).collect());
            }
        }
    }
    let columns = constraint.columns();
    out.push([
        ("oid", Value::Oid(constraint.oid())),
        ("conname", Value::text(constraint.name())),
        ("connamespace", Value::Oid(relation.schema)),
        ("contype", Value::Char(constraint.letter())),
        ("condeferrable", Value::Bool(timing != ConstraintTiming::Immediate)),
        ("condeferred", Value::Bool(timing == ConstraintTiming::Deferred)),
        ("convalidated", Value::Bool(validated)),
        ("conrelid", Value::Oid(relation.oid)),
        ("conindid", Value::Oid(index_oid)),
        ("confrelid", Value::Oid(target)),
        ("confupdtype", Value::Char(on_update)),
        ("confdeltype", Value::Char(on_delete)),
        ("confmatchtype", Value::Char(matching)),
        ("conislocal", Value::Bool(true)),
        ("connoinherit", Value::Bool(!matches!(constraint, Constraint::Check(_)))),
        ("conkey", if columns.is_empty() { Value::Null } else { attnums(relation, &columns) }),
        ("confkey", target_columns),
        ("conpfeqop", equal.clone()),
        ("conppeqop", equal.clone()),
        ("conffeqop", equal),
        ("confdelsetcols", set_columns),
        ("conbin", condition),
    ]);
}

/// Returns the letter of `pg_constraint.confupdtype` and `confdeltype`.
fn action_letter(action: ReferentialAction) -> u8 {
    match action {
        ReferentialAction::NoAction => b'a',
        ReferentialAction::Restrict => b'r',
        ReferentialAction::Cascade => b'c',
        ReferentialAction::SetNull => b'n',
        ReferentialAction::SetDefault => b'd',
    }
}

fn equality(ty: u32) -> Oid {
    builtin::btree_operator(ty, ty, builtin::Strategy::Equal).map_or(0, |operator| operator.oid)
}
