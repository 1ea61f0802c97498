//! Rows of the views that show catalog tables for reading: `pg_tables`, `pg_indexes`, statistics of tables and indexes.
//!
//! Statistics that Collie does not count are 0.
//!
//! Checked by `system_tests`.

use super::{SessionFacts, definition, name::schema_name, output::Output, relation_rows::sorted, role, size, tables};
use crate::{
    catalog::{
        relation::{Relation, Storage},
        snapshot::PG_CATALOG,
    },
    types::Value,
};

/// Adds the rows if the relation is one of these views.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG {
        return false;
    }
    let catalog = facts.catalog();
    let schema = |relation: &Relation| Value::text(schema_name(catalog, relation.schema));
    let user = |relation: &Relation| relation.storage != Storage::Virtual;
    match out.name() {
        "pg_tables" => {
            for relation in sorted(catalog) {
                if !user(relation) && tables::kind(relation.oid) != b'r' {
                    continue;
                }
                out.push([
                    ("schemaname", schema(relation)),
                    ("tablename", Value::Text(relation.name.clone())),
                    ("tableowner", Value::text(role::OWNER_NAME)),
                    ("hasindexes", Value::Bool(!relation.indexes.is_empty())),
                    ("hasrules", Value::Bool(false)),
                    ("hastriggers", Value::Bool(false)),
                    ("rowsecurity", Value::Bool(false)),
                ]);
            }
        }
        "pg_indexes" => {
            for relation in sorted(catalog) {
                for index in &relation.indexes {
                    out.push([
                        ("schemaname", schema(relation)),
                        ("tablename", Value::Text(relation.name.clone())),
                        ("indexname", Value::Text(index.name.clone())),
                        ("indexdef", definition::index(catalog, None, relation, index).into()),
                    ]);
                }
            }
        }
        name @ ("pg_stat_user_tables" | "pg_stat_all_tables") => {
            for relation in sorted(catalog) {
                if (user(relation) || name == "pg_stat_all_tables") && out.wants("relid", relation.oid) {
                    table_statistics(facts, out, relation, schema(relation));
                }
            }
        }
        "pg_stat_user_indexes" | "pg_stat_all_indexes" => {
            for relation in sorted(catalog) {
                for index in &relation.indexes {
                    out.push([
                        ("relid", Value::Oid(relation.oid)),
                        ("indexrelid", Value::Oid(index.oid)),
                        ("schemaname", schema(relation)),
                        ("relname", Value::Text(relation.name.clone())),
                        ("indexrelname", Value::Text(index.name.clone())),
                        ("idx_scan", Value::Int8(0)),
                        ("idx_tup_read", Value::Int8(0)),
                        ("idx_tup_fetch", Value::Int8(0)),
                    ]);
                }
            }
        }
        _ => return false,
    }
    true
}

fn table_statistics(facts: &dyn SessionFacts, out: &mut Output<'_>, relation: &Relation, schema: Value) {
    let zero = || Value::Int8(0);
    let rows = i64::try_from(size::rows(facts, relation)).unwrap_or(i64::MAX);
    out.push([
        ("relid", Value::Oid(relation.oid)),
        ("schemaname", schema),
        ("relname", Value::Text(relation.name.clone())),
        ("seq_scan", zero()),
        ("seq_tup_read", zero()),
        ("idx_scan", zero()),
        ("idx_tup_fetch", zero()),
        ("n_tup_ins", zero()),
        ("n_tup_upd", zero()),
        ("n_tup_del", zero()),
        ("n_tup_hot_upd", zero()),
        ("n_live_tup", Value::Int8(rows)),
        ("n_dead_tup", zero()),
        ("n_mod_since_analyze", zero()),
        ("n_ins_since_vacuum", zero()),
        ("vacuum_count", zero()),
        ("autovacuum_count", zero()),
        ("analyze_count", zero()),
        ("autoanalyze_count", zero()),
    ]);
}
