//! Removes damaged parts from the catalog of a database that is opened with what is left of damaged LSM levels.

use std::sync::Arc;

use collie_base::CfId;

use super::snapshot::Catalog;

/// Removes the indexes whose families are `damaged` from the catalog, so that no row of an undamaged table is missed
/// because its entry is lost. Returns a line for each damaged table and index.
pub(crate) fn leave_out(catalog: &mut Catalog, damaged: &[CfId]) -> Vec<String> {
    let mut lines = Vec::new();
    if damaged.is_empty() {
        return lines;
    }
    if damaged.contains(&CfId::CATALOG) {
        lines.push("the definitions of tables are not whole: tables may be missing".to_owned());
    }
    let relations: Vec<_> = catalog.relations.values().cloned().collect();
    for relation in relations {
        let schema = catalog.schemas.get(&relation.schema).map_or("?", |schema| &*schema.name);
        if damaged.contains(&relation.family()) {
            lines.push(format!(
                "table {schema}.{} (family {}) is not whole: it has only what the log still has of it",
                relation.name,
                relation.family()
            ));
        }
        let is_out = |cf: CfId| cf != relation.family() && damaged.contains(&cf);
        if !relation.indexes.iter().any(|index| is_out(index.cf)) {
            continue;
        }
        for index in relation.indexes.iter().filter(|index| is_out(index.cf)) {
            lines.push(format!(
                "index {schema}.{} (family {}) is not whole: tables are read without it",
                index.name, index.cf
            ));
        }
        let mut whole = (*relation).clone();
        whole.indexes.retain(|index| !is_out(index.cf));
        catalog.put_relation(Arc::new(whole));
    }
    lines
}
