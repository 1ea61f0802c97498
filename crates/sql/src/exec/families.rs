//! `Families`: the column families of one table and its indexes, each looked up at its first write.
//!
//! It holds no lock and no row; the handles stay valid as long as the statement's table lock.

use std::sync::Arc;

use collie_engine::Family;

use crate::{catalog::relation::Relation, exec::context::Run};

/// The families that one statement writes for one table.
pub(crate) struct Families {
    table: Option<Arc<Family>>,
    /// One entry per entry of `Relation::indexes`.
    entries: Vec<Option<Arc<Family>>>,
}

impl Families {
    /// Creates the set for `relation`; nothing is looked up yet.
    pub(crate) fn new(relation: &Relation) -> Self {
        Self { table: None, entries: relation.indexes.iter().map(|_| None).collect() }
    }

    /// Returns the family of the rows.
    pub(crate) fn table(&mut self, relation: &Relation, run: &Run<'_>) -> &Family {
        self.table.get_or_insert_with(|| run.db.family(relation.family()))
    }

    /// Returns the family of the index at `place` in `Relation::indexes`; that of the primary key is the table's.
    pub(crate) fn entries(&mut self, relation: &Relation, place: usize, run: &Run<'_>) -> &Family {
        self.entries[place].get_or_insert_with(|| run.db.family(relation.indexes[place].cf))
    }
}
