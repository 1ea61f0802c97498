//! The catalog of a replica: replaced by whoever replays the log, while sessions run.
//!
//! # Invariants
//! - L1. A change of the catalog is read when all of it is in place and no snapshot shows it yet; whoever gets a catalog from
//!   [`Database::catalog`] waits until snapshots show it. So a statement that plans with a catalog and then takes its snapshot finds the
//!   rows that its definitions name, as on the primary.
//! - L2. A snapshot that is older reads no family that a definition filled at once (P3 of `publication.rs`): that is noted here too.
//! - L3. Catalogs come in the order of the log: one that was read up to a position is not replaced by an older one.
//!
//! What differs from the primary: no lock keeps a definition away from a transaction that has used it. Statements that run go on with
//! what they have planned, and data of a dropped table stays while a snapshot may show it; the next statement finds the new definitions.
//!
//! Checked by `following_tests.rs`.

use std::sync::{Arc, Weak, atomic::Ordering};

use collie_base::Lsn;
use collie_engine::{CatalogChange, Isolation, StatementKind};

use crate::{
    catalog::{
        relation::Storage,
        snapshot::Catalog,
        store::{self, Loaded},
        system,
    },
    error::Result,
    session::Database,
};

impl Database {
    /// Follows the changes of the catalog from now on.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub(super) fn follow(self: &Arc<Self>) -> Result<()> {
        let this: Weak<Self> = Arc::downgrade(self);
        self.db.on_catalog_change(Arc::new(move |change| {
            let Some(this) = this.upgrade() else { return };
            // Memory is read, which does not fail.
            if let Ok(loaded) = store::load_changed(&this.db, &change) {
                this.replace_catalog(loaded, change);
            }
        }));
        // Whatever came between the first reading and now.
        let mut session = self.db.session()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        let loaded = store::load(&self.db, &session)?;
        let shown_from = session.snapshot().unwrap_or(Lsn::ZERO);
        session.rollback();
        self.replace_catalog(loaded, CatalogChange::at(shown_from));
        Ok(())
    }

    /// Replaces the catalog by one that was read up to a position, unless it was by a later one (L3).
    fn replace_catalog(&self, loaded: Loaded, change: CatalogChange) {
        let mut followed = self.followed.lock();
        if change.shown_from < *followed {
            return;
        }
        *followed = change.shown_from;
        // For definitions after a promotion (D3 of `database.rs`).
        self.next_oid.fetch_max(loaded.next_oid, Ordering::Relaxed);
        let mut catalog = loaded.catalog;
        system::install(&mut catalog);
        catalog.shown_from = change.shown_from;
        self.note_refilled(&mut catalog);
        catalog.epoch = self.new_epoch();
        self.catalog.store(Arc::new(catalog));
    }

    /// Keeps L2 for the families that tables got which were there before, and forgets what no snapshot can be below.
    fn note_refilled(&self, catalog: &mut Catalog) {
        let before = self.catalog.load_full();
        let oldest = self.db.stat().oldest_snapshot;
        let is_held = |filled: Lsn| oldest.is_some_and(|oldest| oldest <= filled);
        let kept = before.filled_at.iter().filter(|(_, filled)| is_held(**filled));
        catalog.filled_at.extend(kept.map(|(cf, filled)| (*cf, *filled)));
        // A snapshot below where the change is shown has nothing of it.
        let filled = Lsn::new(catalog.shown_from.get().saturating_sub(1));
        let mut refilled = Vec::new();
        for relation in catalog.relations.values() {
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

    /// Waits until snapshots show the definitions of `catalog` (L1): on a replica, the few instructions between a change and its
    /// showing, or as long as the primary holds it back.
    pub(super) fn wait_until_shown(&self, catalog: &Catalog) {
        if catalog.shown_from == Lsn::ZERO {
            return;
        }
        if let Some(wait) = self.db.wait_shown(catalog.shown_from) {
            let mut wait = Some(wait);
            self.block(&mut || {
                // Replay that has stopped shows nothing more: the statement then finds what there is.
                let _ = wait.take().map(collie_engine::ShownWait::block);
            });
        }
    }
}

#[cfg(test)]
#[path = "following_tests.rs"]
pub(super) mod tests;
