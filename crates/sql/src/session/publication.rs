//! `Publication`: the private catalog of a committed transaction until all sessions use it; and what a snapshot older
//! than a definition may still read.
//!
//! # Invariants
//! - P1. The catalog is replaced after every later snapshot shows the commit, and before the locks end. So a session
//!   that plans with the new one finds the rows of its new families, and every entry of an index that was made under
//!   SHARE.
//! - P2. If it is unknown whether a commit survives a crash, the old catalog stays: only what was durable before can be
//!   read then.
//! - P3. A family that a definition filled at once, from a table that existed before, has the CSN of that commit in
//!   [`Catalog::filled_at`] for as long as a lower snapshot is held. A statement under such a snapshot does not read
//!   the family: it would see nothing of a rewritten table (40001), and no entry of an index (another plan).
//!
//! Checked by the clients' tests of definitions that run during transactions (`tests/clients/tests/definitions.rs`).

use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_engine::{Receipt, TableLocksHeld};

use crate::{
    analyze::bound::Analyzed,
    catalog::{relation::Storage, snapshot::Catalog},
    error::{Result, SqlError, SqlState},
    session::{Database, Session},
};

/// A committed change of the catalog that other sessions do not see yet. If it is dropped, it is published at once: its
/// session has ended and cannot wait.
pub(super) struct Publication<'a> {
    database: &'a Database,
    overlay: Option<Arc<Catalog>>,
    /// Families that the transaction created.
    made: Vec<CfId>,
    _locks: Option<TableLocksHeld>,
}

impl<'a> Publication<'a> {
    /// Makes it. `locks` are the transaction's, which keep other sessions from the changed tables.
    pub(super) fn new(
        database: &'a Database,
        overlay: Arc<Catalog>,
        made: Vec<CfId>,
        locks: Option<TableLocksHeld>,
    ) -> Self {
        Self { database, overlay: Some(overlay), made, _locks: locks }
    }

    /// Publishes the catalog once the commit is acknowledged (`receipt`); without a receipt the old catalog stays (P2).
    pub(super) fn end(mut self, receipt: Option<&Receipt>) {
        let overlay = self.overlay.take();
        if let (Some(mut overlay), Some(receipt)) = (overlay, receipt) {
            self.note_filled(Arc::make_mut(&mut overlay), receipt);
            self.database.catalog.store(overlay);
        }
    }

    /// Keeps P3 for the families that this transaction filled, and forgets those for which no older snapshot is held.
    fn note_filled(&self, catalog: &mut Catalog, receipt: &Receipt) {
        let db = &self.database.db;
        let oldest = db.stat().oldest_snapshot;
        catalog.filled_at.retain(|_, filled| oldest.is_some_and(|oldest| oldest <= *filled));
        let Some(csn) = receipt.csn.filter(|_| !self.made.is_empty()) else { return };
        let before = self.database.catalog();
        for relation in catalog.relations.values().filter(|relation| before.relations.contains_key(&relation.oid)) {
            let Storage::Family(rows) = relation.storage else { continue };
            let families = relation.indexes.iter().map(|index| index.cf).chain([rows]);
            for cf in families.filter(|cf| self.made.contains(cf)) {
                catalog.filled_at.insert(cf, csn);
            }
        }
    }
}

impl Drop for Publication<'_> {
    fn drop(&mut self) {
        if let Some(overlay) = self.overlay.take() {
            self.database.catalog.store(overlay);
        }
    }
}

impl Session {
    /// Returns the snapshot that the transaction keeps, if it has one.
    fn kept_snapshot(&self) -> Option<Lsn> {
        // READ COMMITTED has none between statements.
        self.engine.snapshot()
    }

    /// Returns the indexes of a statement's tables for which the transaction's snapshot is too old (P3).
    ///
    /// # Errors
    /// 40001 if it is too old for a table.
    pub(super) fn unreadable_indexes(&self, analyzed: &Analyzed, catalog: &Catalog) -> Result<Vec<CfId>> {
        let Some(snapshot) = self.kept_snapshot().filter(|_| !catalog.filled_at.is_empty()) else {
            return Ok(Vec::new());
        };
        let is_too_old = |cf: CfId| catalog.filled_at.get(&cf).is_some_and(|filled| *filled >= snapshot);
        let mut unreadable = Vec::new();
        for (oid, _) in &analyzed.relations {
            let Some(relation) = catalog.relation(*oid) else { continue };
            let Storage::Family(rows) = relation.storage else { continue };
            if is_too_old(rows) {
                let text = format!(
                    "could not serialize access: table \"{}\" was rewritten after the transaction's snapshot",
                    relation.name
                );
                return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, text)
                    .hint("The transaction might succeed if retried."));
            }
            unreadable.extend(relation.indexes.iter().map(|index| index.cf).filter(|cf| is_too_old(*cf)));
        }
        Ok(unreadable)
    }

    /// Refuses to build a definition from the rows of a table, under its lock, if the transaction's snapshot may lack
    /// some of them.
    ///
    /// # Errors
    /// 40001.
    pub(super) fn refuse_stale_snapshot(&self) -> Result<()> {
        if self.kept_snapshot().is_some() && self.engine.saw_beyond_snapshot() {
            let text = "could not serialize access due to concurrent update";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, text)
                .hint("Rows may have changed after the transaction's snapshot; run the transaction again."));
        }
        Ok(())
    }
}
