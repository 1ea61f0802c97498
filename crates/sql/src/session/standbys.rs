//! Who follows this database: whoever serves replicas says it, views show it, and `pg_drop_replication_slot` has it forgotten.

use crate::{
    catalog::system::{DelayRow, NodeRow, SlotRow, Standby},
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// What serves the replicas of a database.
pub trait Replication: Send + Sync {
    /// The replicas that follow, or did.
    fn standbys(&self) -> Vec<Standby>;

    /// The slots, with the log that is kept for them.
    fn slots(&self) -> Vec<SlotRow>;

    /// How far each was behind in each of the last seconds, oldest first.
    fn delays(&self) -> Vec<DelayRow>;

    /// Forgets the slot `name`. Blocks on writing two small files.
    ///
    /// # Errors
    /// 42704 when there is none; 55006 while its replica is connected; 58030 when the disk refuses.
    fn drop_slot(&self, name: &str) -> Result<()>;
}

impl Database {
    /// Has views and functions about replication ask `replication`. Only the first call counts.
    pub fn show_replication(&self, replication: Box<dyn Replication>) {
        let _already_there = self.replication.set(replication);
    }

    /// Returns who this database is.
    pub(super) fn node(&self) -> NodeRow {
        let db = &self.db;
        let (term, histories) = db.histories();
        let newest = histories.last();
        NodeRow {
            is_replica: db.is_replica(),
            cluster: db.cluster_id(),
            node: db.node_id(),
            term: term.get(),
            history: newest.map(|history| (history.history.get(), history.start)),
            commits: db.commits(),
        }
    }

    /// Returns the replicas to show.
    pub(super) fn standbys(&self) -> Vec<Standby> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.standbys())
    }

    /// Returns the slots to show.
    pub(super) fn slots(&self) -> Vec<SlotRow> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.slots())
    }

    /// Returns the seconds to show.
    pub(super) fn delays(&self) -> Vec<DelayRow> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.delays())
    }

    /// Forgets a slot.
    pub(super) fn drop_slot(&self, name: &str) -> Result<()> {
        let Some(replication) = self.replication.get() else { return Err(no_slot(name)) };
        let mut dropped = Ok(());
        self.block(&mut || dropped = replication.drop_slot(name));
        dropped
    }
}

/// There is no slot of that name.
pub fn no_slot(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("replication slot \"{name}\" does not exist"))
}
