//! raft-engine: the log store of a key-value database; each thread writes to its own region.

use std::path::Path;

use raft_engine::{Config, Engine, LogBatch, ReadableSize};

use super::{Appender, Level, Peer};

pub(crate) struct Raft(Engine);

impl Raft {
    /// Opens it in `dir`, with files filled in advance if `filled`, or else as by default.
    pub(crate) fn open(dir: &Path, filled: bool) -> anyhow::Result<Self> {
        let config = Config {
            dir: dir.to_string_lossy().into_owned(),
            enable_log_recycle: true,
            prefill_for_recycle: filled,
            purge_threshold: ReadableSize::mb(256),
            prefill_limit: filled.then(|| ReadableSize::mb(128)),
            // The others do not compress either.
            batch_compression_threshold: ReadableSize(0),
            ..Config::default()
        };
        Ok(Self(Engine::open(config)?))
    }
}

impl Peer for Raft {
    fn appender(&self, thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        let (region, mut batch) = (thread as u64 + 1, LogBatch::default());
        Ok(Box::new(move |record| {
            // One key per region, so that its index in memory stays small.
            batch.put(region, b"k".to_vec(), record.to_vec())?;
            self.0.write(&mut batch, level == Level::Disk)?;
            Ok(())
        }))
    }
}
