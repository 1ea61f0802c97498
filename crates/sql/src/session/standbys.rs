//! Who follows this database: whoever serves replicas says it, views show it.

use crate::{catalog::system::Standby, session::Database};

/// Says who follows.
pub type Standbys = Box<dyn Fn() -> Vec<Standby> + Send + Sync>;

impl Database {
    /// Has `pg_stat_replication` and `collie_replication` show what `standbys` says. Only the first call counts.
    pub fn show_standbys(&self, standbys: Standbys) {
        let _already_there = self.standbys.set(standbys);
    }

    /// Returns the replicas to show.
    pub(super) fn standbys(&self) -> Vec<Standby> {
        self.standbys.get().map_or_else(Vec::new, |standbys| standbys())
    }
}
