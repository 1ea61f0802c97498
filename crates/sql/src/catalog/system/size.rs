//! Estimated sizes and row counts of relations: rows are in memory, and their bytes are not counted individually.
//!
//! Checked by `system_tests`.

use super::SessionFacts;
use crate::{
    catalog::relation::{Index, Oid, Relation, Storage},
    types::SqlType,
};

/// Bytes of a page, the unit in which PostgreSQL reports sizes.
pub(super) const PAGE_BYTES: u64 = 8192;
/// Bytes of a row in addition to its columns.
const ROW_OVERHEAD_BYTES: u64 = 32;
/// Assumed size of a value of variable length.
const VARIABLE_BYTES: u64 = 16;

/// Returns the estimated number of rows of a table.
pub(super) fn rows(facts: &dyn SessionFacts, relation: &Relation) -> u64 {
    match relation.storage {
        Storage::Family(cf) => facts.row_estimate(cf),
        Storage::Virtual => 0,
    }
}

/// Returns the estimated bytes of a table's rows.
pub(super) fn table(facts: &dyn SessionFacts, relation: &Relation) -> u64 {
    pages(rows(facts, relation), relation.live_columns().map(|(_, column)| column.ty))
}

/// Returns the estimated bytes of an index.
pub(super) fn index(facts: &dyn SessionFacts, relation: &Relation, index: &Index) -> u64 {
    pages(rows(facts, relation), index.columns.iter().map(|part| part.ty(relation)))
}

/// Returns the estimated bytes of all indexes of a table.
pub(super) fn indexes(facts: &dyn SessionFacts, relation: &Relation) -> u64 {
    relation.indexes.iter().map(|entry| index(facts, relation, entry)).sum()
}

/// Returns the estimated bytes of the whole database.
pub(super) fn database(facts: &dyn SessionFacts) -> u64 {
    let each = |relation: &std::sync::Arc<Relation>| table(facts, relation) + indexes(facts, relation);
    facts.catalog().relations.values().map(each).sum()
}

/// Returns the estimated bytes of a table or index by its OID.
pub(super) fn of(facts: &dyn SessionFacts, oid: Oid) -> Option<u64> {
    let catalog = facts.catalog();
    match catalog.relation(oid) {
        Some(relation) => Some(table(facts, relation)),
        None => catalog.index(oid).map(|(relation, entry)| index(facts, relation, entry)),
    }
}

fn pages(rows: u64, types: impl Iterator<Item = SqlType>) -> u64 {
    let width: u64 = types.map(|ty| u64::try_from(ty.len()).unwrap_or(VARIABLE_BYTES)).sum();
    rows.saturating_mul(ROW_OVERHEAD_BYTES + width).div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
}
