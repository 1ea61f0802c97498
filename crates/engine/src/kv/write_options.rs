//! `WriteOptions`: how one write is made, under RocksDB's names.

use crate::EngineError;

/// How one write is made. The default waits until the write is visible to all, and no longer.
///
/// | options | when the call returns | the process is killed | the power goes |
/// |---|---|---|---|
/// | default | visible to every reader, in the log's memory | kept with a shared ring (`wal.ring`), else as after a power cut | the last `wal.flush_delay` may be lost, never a middle part |
/// | `sync` | on disk | kept | kept |
/// | `disable_wal` | visible to every reader | lost, back to the last flush of its family | the same |
///
/// In a database opened with `wal.enabled = false` every write is as with `disable_wal`, and `sync` is refused.
///
/// What is lost of the first two is lost from the end: if one such write is back, so is every one that was visible before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return once the write is on disk.
    pub sync: bool,
    /// Keep the write out of the log: it gets a marker of a few bytes, and is on disk once its family was flushed
    /// ([`Db::flush_cf`](super::Db::flush_cf), and [`Db::close`](super::Db::close) unless `store.avoid_flush_at_close`). After a crash a
    /// family has exactly those of its unlogged writes that were committed before its last flush, and all logged ones. All writes
    /// of the transaction are to one family, or to families of one atomic group
    /// ([`CfOptions::group`](super::CfOptions::group)), which are flushed together. Refused with `sync`, and while somebody follows the log unless
    /// `store.allow_replication_holes`.
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
        if self.sync && self.disable_wal {
            let what = "sync asks for what disable_wal leaves out: set one of them";
            return Err(EngineError::InvalidArgument { what });
        }
        Ok(())
    }
}
