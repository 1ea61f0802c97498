//! `Snapshot`: one state of the database to read from, for as long as it is held.

use collie_base::Lsn;

use super::{Cf, Db, Scan, scan};
use crate::{EngineError, Isolation, KeyRange, RowBytes, Session, StatementKind};

/// One state of the database to read from: every commit that was acknowledged when it was made, of each commit all or nothing,
/// and nothing that a crash could take back, except what was acknowledged without waiting for the disk.
///
/// It keeps the old versions that it shows in memory. When they are more than `txn.old_version_memory` allows, or the snapshot
/// older than `txn.max_snapshot_age`, it is given up: reads then fail with [`EngineError::SnapshotCancelled`].
#[derive(Debug)]
pub struct Snapshot {
    /// There until the drop.
    session: Option<Session>,
    db: Db,
}

impl Snapshot {
    pub(crate) fn new(db: &Db) -> Result<Self, EngineError> {
        let mut snapshot = Self { session: Some(db.take_session()?), db: db.clone() };
        if let Some(session) = &mut snapshot.session {
            session.begin(Isolation::RepeatableRead, true)?;
            session.begin_statement(StatementKind::ReadOnly)?;
        }
        Ok(snapshot)
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("it is given back by the drop only")
    }

    /// Returns the position of the snapshot: it shows every commit below.
    pub fn position(&self) -> Lsn {
        self.session().snapshot().unwrap_or(Lsn::ZERO)
    }

    /// Reads the value at `key`. Copies no bytes.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`], [`EngineError::SnapshotCancelled`].
    ///
    /// # Progress
    /// Waits for nobody's transaction and for no disk.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, EngineError> {
        scan::get(self.session(), cf, key.as_ref())
    }

    /// Reads the rows of a range, which is written as Rust's ranges are: `a..b`, `a..=b`, `a..`, `..b`, `..`.
    ///
    /// # Errors
    /// The items', as of [`Snapshot::get`].
    ///
    /// # Progress
    /// As [`Snapshot::get`].
    pub fn scan(&self, cf: &Cf, range: impl Into<KeyRange>) -> Scan<'_> {
        Scan::new(self.session(), cf, range.into())
    }

    /// Reads the rows whose keys begin with `prefix`.
    ///
    /// # Errors
    /// The items', as of [`Snapshot::get`].
    pub fn prefix(&self, cf: &Cf, prefix: impl AsRef<[u8]>) -> Scan<'_> {
        self.scan(cf, KeyRange::prefix(prefix.as_ref()))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.db.give_back(session);
        }
    }
}
