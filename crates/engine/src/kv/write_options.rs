//! `WriteOptions`: how one write is made, under RocksDB's names.

use crate::EngineError;

/// How one write is made. The default waits until the write is visible to all, and no longer.
///
/// | options | when the call returns | the process is killed | the power goes |
/// |---|---|---|---|
/// | default | visible to every reader, in the log's memory | kept with a shared ring (`wal.ring`), else as after a power cut | the last `wal.flush_delay` may be lost, never a middle part |
/// | `sync` | on disk | kept | kept |
///
/// What is lost is lost from the end: if a write is back, so is every write that was visible before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return once the write is on disk.
    pub sync: bool,
    /// Keep the write out of the log. Refused: flushing knows no rows that are not in the log.
    pub disable_wal: bool,
    /// Fail with [`EngineError::Busy`] where the write would wait for room in the log's ring, or for flushes that are behind; it
    /// says for which. Of a transaction's `commit` the ring alone is meant. Waits for locks are not meant:
    /// [`TxnOptions::lock_timeout`](super::TxnOptions::lock_timeout) bounds those.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// Returns options to wait for the disk.
    pub const fn sync() -> Self {
        Self { sync: true, disable_wal: false, no_slowdown: false }
    }

    pub(crate) const fn check(self) -> Result<(), EngineError> {
        let what = match self {
            Self { sync: true, disable_wal: true, .. } => "sync asks for what disable_wal leaves out: set one of them",
            Self { disable_wal: true, .. } => {
                "disable_wal is not built: flushing knows no rows that are not in the log: leave it off"
            }
            _ => return Ok(()),
        };
        Err(EngineError::InvalidArgument { what })
    }
}
