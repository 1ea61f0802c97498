//! The catalog of a replica: the threads that replay the log replace it while sessions run.
//!
//! # Invariants
//! - L1. A change of the catalog is read when it is completely in place and no snapshot shows it yet;
//!   [`Database::catalog`] is the newest catalog that snapshots show. So a statement that plans with a catalog and then
//!   takes its snapshot finds the rows that its definitions name, as on the primary. No statement waits for a change
//!   that may never be shown: its primary may be gone.
//! - L2. An older snapshot reads no family that a definition filled at once (P3 of `publication.rs`): replay notes
//!   those families here too.
//! - L3. Catalogs follow each other in the order of the log: a catalog that was read up to a position is not replaced
//!   by an older one. The first one has every change that was replayed before the hook was set, shown or not.
//! - L4. A statement runs with the definitions that its snapshot shows: either it was planned for them, or it is
//!   planned again. A transaction that keeps its snapshot keeps its definitions too, whatever the primary has changed
//!   since: if a table was dropped and another one was created with its name, the name means the old one there. If
//!   those definitions are not known any more, the statement fails with a serialization failure.
//!
//! Unlike on the primary, no lock keeps a definition away from a transaction that has used it. Running statements
//! continue with their plans, and the data of a dropped table stays while a snapshot may show it; the next statement of
//! a transaction at READ COMMITTED finds the new definitions.
//!
//! Checked by `following/tests.rs`.

use std::sync::{Arc, Weak, atomic::Ordering};

use collie_base::Lsn;
use collie_engine::{CatalogChange, Isolation, StatementKind};

use crate::{
    catalog::{
        relation::{Oid, Storage},
        snapshot::Catalog,
        store::{self, Loaded},
        system,
    },
    error::{Result, SqlError, SqlState},
    session::{Database, Session},
};

/// The catalog that a replica follows, as rows.
#[derive(Debug, Default)]
pub(super) struct FollowedCatalog {
    /// `rows` has every change that snapshots show from this position or a lower one on.
    shown_from: Lsn,
    /// `None` until the rows were read.
    rows: Option<store::Rows>,
    /// Changes that came before the rows were read, in their order.
    pending: Vec<CatalogChange>,
}

impl Database {
    /// Follows the changes of the catalog from now on.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub(super) fn follow(self: &Arc<Self>) -> Result<()> {
        let this: Weak<Self> = Arc::downgrade(self);
        let changed = self.db.on_catalog_change(Arc::new(move |change| {
            let Some(this) = this.upgrade() else { return };
            let mut followed = this.followed.lock();
            if followed.rows.is_some() {
                this.change_catalog(&mut followed, &change);
            } else {
                followed.pending.push(change);
            }
        }));
        let mut session = self.db.session()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        // Replay may be ahead of the read horizon, and does not report the changes that it took before the hook was
        // set.
        let shown_from = session.snapshot().unwrap_or(Lsn::ZERO).max(changed);
        let rows = store::rows_at(&self.db, shown_from);
        session.rollback();
        let loaded = store::load_rows(&rows)?;
        let mut followed = self.followed.lock();
        (followed.shown_from, followed.rows) = (shown_from, Some(rows));
        self.replace_catalog(loaded, shown_from);
        // Changes that came meanwhile.
        let pending = std::mem::take(&mut followed.pending);
        pending.iter().for_each(|change| self.change_catalog(&mut followed, change));
        Ok(())
    }

    /// Replaces the catalog by the definitions in its rows, which were read up to a position.
    fn replace_catalog(&self, loaded: Loaded, shown_from: Lsn) {
        // New definitions after a promotion need it (D3 of `database.rs`).
        self.next_oid.fetch_max(loaded.next_oid, Ordering::Relaxed);
        let mut catalog = loaded.catalog;
        system::install(&mut catalog);
        let tables: Vec<Oid> = catalog.relations.keys().copied().collect();
        self.publish(catalog, shown_from, &tables);
    }

    /// Applies a change to the catalog, unless the catalog has it already (L3).
    fn change_catalog(&self, followed: &mut FollowedCatalog, change: &CatalogChange) {
        let Some(rows) = followed.rows.as_mut().filter(|_| change.shown_from > followed.shown_from) else { return };
        followed.shown_from = change.shown_from;
        let mut catalog = Catalog::clone(&self.catalog.load());
        // This reads memory, which does not fail.
        let Ok((tables, next_oid)) = store::load_changed(rows, &change.rows, &mut catalog) else { return };
        self.next_oid.fetch_max(next_oid, Ordering::Relaxed);
        self.publish(catalog, change.shown_from, &tables);
    }

    /// Makes `catalog` available to sessions as soon as it is shown; `tables` may differ from the tables before.
    fn publish(&self, mut catalog: Catalog, shown_from: Lsn, tables: &[Oid]) {
        catalog.shown_from = shown_from;
        self.note_refilled(&mut catalog, tables);
        catalog.epoch = self.new_epoch();
        let mut earlier = self.earlier.lock();
        earlier.push(self.catalog.load_full());
        // Snapshots taken from now on need no catalog before the newest shown one.
        let shown = self.db.shown();
        let first = earlier.iter().rposition(|catalog| catalog.shown_from <= shown).unwrap_or(0);
        earlier.drain(..first);
        self.catalog.store(Arc::new(catalog));
    }

    /// Keeps L2 for new families of existing tables among `tables`, and forgets families for which no held snapshot is
    /// too old.
    fn note_refilled(&self, catalog: &mut Catalog, tables: &[Oid]) {
        let before = self.catalog.load_full();
        let oldest = self.db.stat().oldest_snapshot;
        let is_held = |filled: Lsn| oldest.is_some_and(|oldest| oldest <= filled);
        let kept = before.filled_at.iter().filter(|(_, filled)| is_held(**filled));
        catalog.filled_at = kept.map(|(cf, filled)| (*cf, *filled)).collect();
        // A snapshot below the position where the change is shown sees nothing of it.
        let filled = Lsn::new(catalog.shown_from.get().saturating_sub(1));
        let mut refilled = Vec::new();
        for relation in tables.iter().filter_map(|oid| catalog.relation(*oid)) {
            let Some(old) = before.relation(relation.oid) else { continue };
            let Storage::Family(rows) = relation.storage else { continue };
            let had = |cf| {
                matches!(old.storage, Storage::Family(old) if old == cf)
                    || old.indexes.iter().any(|index| index.cf == cf)
            };
            let families = relation.indexes.iter().map(|index| index.cf).chain([rows]);
            refilled.extend(families.filter(|cf| !had(*cf)));
        }
        catalog.filled_at.extend(refilled.into_iter().map(|cf| (cf, filled)));
    }

    /// Returns the newest definitions that snapshots show (L1).
    pub(super) fn shown_catalog(&self) -> Arc<Catalog> {
        let newest = self.catalog.load_full();
        if newest.shown_from == Lsn::ZERO || !self.db.is_replica() {
            return newest;
        }
        loop {
            // The read horizon may have moved on meanwhile, and the catalogs below it may be gone.
            if let Some(catalog) = self.catalog_at(self.db.shown()) {
                return catalog;
            }
        }
    }

    /// Returns the newest definitions that a snapshot at `position` shows; `None` if they are not kept any more.
    fn catalog_at(&self, position: Lsn) -> Option<Arc<Catalog>> {
        let is_shown = |catalog: &&Arc<Catalog>| catalog.shown_from <= position;
        let newest = self.catalog.load_full();
        if is_shown(&&newest) {
            return Some(newest);
        }
        self.earlier.lock().iter().rev().find(is_shown).cloned()
    }
}

impl Session {
    /// Returns the definitions that the transaction keeps (L4).
    pub(super) fn pinned_catalog(&self) -> Option<Arc<Catalog>> {
        // After a promotion, the transaction uses the newest definitions, as on any primary.
        self.transaction.pinned.clone().filter(|_| self.database.db.is_replica())
    }

    /// Returns whether the transaction will keep the snapshot of the statement that begins, and its definitions with
    /// it.
    pub(super) fn pins_catalog(&self) -> bool {
        self.database.db.is_replica() && self.transaction.pinned.is_none() && self.is_repeatable()
    }

    /// Keeps the definitions that the new snapshot shows (L4).
    ///
    /// # Errors
    /// 40001 if several changes of definitions came at that moment.
    pub(super) fn pin_catalog(&mut self) -> Result<()> {
        let snapshot = self.engine.snapshot().unwrap_or(Lsn::MAX);
        let shown = self.database.catalog_at(snapshot).ok_or_else(|| {
            SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent changes of definitions",
            )
            .hint("The primary changed definitions while the snapshot was taken; run the transaction again.")
        })?;
        self.transaction.pinned = Some(shown);
        Ok(())
    }

    /// Returns whether a plan for the catalog of `epoch` fits the definitions that the statement's snapshot shows (L4).
    pub(super) fn is_planned_for_snapshot(&self, epoch: u64) -> bool {
        if !self.database.db.is_replica() {
            return true; // table locks ensure it
        }
        let Some(snapshot) = self.engine.snapshot() else { return true };
        match self.pinned_catalog() {
            Some(pinned) => pinned.epoch == epoch,
            None => self.database.catalog_at(snapshot).is_none_or(|shown| shown.epoch <= epoch),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
