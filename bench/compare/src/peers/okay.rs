//! okaywal: entries of chunks, always synced, group commit by a separate thread.

use std::path::Path;

use okaywal::{Configuration, LogVoid, WriteAheadLog};

use super::{Appender, Level, Peer};

pub(crate) struct Okay(WriteAheadLog);

impl Okay {
    /// Opens it in `dir` with files large enough that checkpoints are rare.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let configuration =
            Configuration::default_for(dir).preallocate_bytes(64 << 20).checkpoint_after_bytes(48 << 20);
        Ok(Self(configuration.open(LogVoid)?))
    }
}

impl Peer for Okay {
    fn appender(&self, _thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        anyhow::ensure!(level == Level::Disk, "okaywal always syncs");
        Ok(Box::new(move |record| {
            let mut entry = self.0.begin_entry()?;
            entry.write_chunk(record)?;
            entry.commit()?;
            Ok(())
        }))
    }
}
