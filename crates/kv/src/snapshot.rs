//! `Snapshot`: one consistent state of the database, for as long as it is held.

use std::sync::Arc;

use collie_base::Lsn;

use collie_engine::{Isolation, KeyRange, RowBytes, Session, StatementKind};

use crate::core::Core;
use crate::{Cf, Error, Scan, scan};

/// One consistent state of the database: it shows every commit that was acknowledged when the snapshot was taken, each
/// commit wholly or not at all, and nothing that a crash could take back, except commits that were acknowledged without
/// waiting for the disk.
///
/// A snapshot keeps the old versions that it shows in memory. If these exceed `txn.old_version_memory`, or the snapshot
/// is older than `txn.max_snapshot_age`, it is cancelled: reads then fail with `SnapshotTooOld`.
#[derive(Debug)]
pub struct Snapshot {
    /// Present until the drop.
    session: Option<Session>,
    core: Arc<Core>,
}

impl Snapshot {
    pub(crate) fn new(core: &Arc<Core>) -> Result<Self, Error> {
        let mut snapshot = Self { session: Some(core.take_session()?), core: Arc::clone(core) };
        if let Some(session) = &mut snapshot.session {
            session.begin(Isolation::RepeatableRead, true)?;
            session.begin_statement(StatementKind::ReadOnly)?;
        }
        Ok(snapshot)
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("it is given back by the drop only")
    }

    /// Returns the position of the snapshot, which shows every commit below it.
    pub fn position(&self) -> Lsn {
        self.session().snapshot().unwrap_or(Lsn::ZERO)
    }

    /// Returns the value at `key`, without copying its bytes.
    ///
    /// # Errors
    /// `NotFound`, `SnapshotTooOld`.
    ///
    /// # Progress
    /// Waits for no transaction and for no disk.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, Error> {
        scan::get(self.session(), cf, key.as_ref())
    }

    /// Returns the rows of a range, written as a range of Rust: `a..b`, `a..=b`, `a..`, `..b`, `..`.
    ///
    /// # Errors
    /// Those of the items, as of [`Snapshot::get`].
    ///
    /// # Progress
    /// As [`Snapshot::get`].
    pub fn scan(&self, cf: &Cf, range: impl Into<KeyRange>) -> Scan<'_> {
        Scan::new(self.session(), cf, range.into())
    }

    /// Returns the rows whose keys begin with `prefix`.
    ///
    /// # Errors
    /// Those of the items, as of [`Snapshot::get`].
    pub fn prefix(&self, cf: &Cf, prefix: impl AsRef<[u8]>) -> Scan<'_> {
        self.scan(cf, KeyRange::prefix(prefix.as_ref()))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.core.give_back(session);
        }
    }
}
