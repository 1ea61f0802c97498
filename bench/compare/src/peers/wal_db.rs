//! wal-db: reservation by one atomic operation, a write per record, shared syncs.

use std::path::Path;

use wal_db::Wal;

use super::{Appender, Level, Peer};

pub(crate) struct WalDb(Wal);

impl WalDb {
    /// Opens it on a file in `dir`.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self(Wal::open(dir.join("log")).map_err(|error| anyhow::anyhow!("wal-db: {error}"))?))
    }
}

impl Peer for WalDb {
    fn appender(&self, _thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        Ok(Box::new(move |record| {
            let appended = if level == Level::Disk { self.0.append_and_sync(record) } else { self.0.append(record) };
            appended.map(|_lsn| ()).map_err(|error| anyhow::anyhow!("wal-db: {error}"))
        }))
    }
}
