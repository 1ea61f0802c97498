//! `WriteOptions`: how one write is made, with RocksDB's names.

use collie_engine::EngineError;

/// How one write is made. By default a write waits until it is visible to all readers, and no longer.
///
/// | options | the call returns | after a kill | after a power cut |
/// |---|---|---|---|
/// | default | visible to all, in the ring | kept with a shared ring, else a suffix is lost | a suffix is lost |
/// | `sync` | on disk | kept | kept |
/// | `disable_wal` | visible to all | back to the last flush of its family | the same |
///
/// The lost suffix of default writes is about as long as `wal.flush_delay`; `wal.ring` chooses a shared ring,
/// the memory of the log that outlives the process.
///
/// In a database opened with `wal.enabled = false` every write is as with `disable_wal`, and `sync` is refused.
///
/// Lost writes of the first two kinds form a suffix: if one such write survives, so does every one that was visible
/// before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether to return only once the write is on disk.
    pub sync: bool,
    /// Whether to keep the write out of the log. It gets a marker of a few bytes, and is on disk once its family was
    /// flushed ([`Db::flush_cf`](crate::Db::flush_cf), and [`Db::close`](crate::Db::close) unless
    /// `store.avoid_flush_at_close`). After a crash a family has exactly those of its unlogged writes that were
    /// committed before its last flush, and all logged ones. All writes of the transaction must be to one family, or to
    /// families of one atomic group ([`CfOptions::group`](crate::CfOptions::group)), which are flushed together.
    /// Refused with `sync`, and while a consumer follows the log unless `store.allow_replication_holes`.
    pub disable_wal: bool,
    /// Whether to fail with [`EngineError::Busy`], which names the reason, where the write would wait for room in the
    /// log's ring or for flushes that are behind. For `commit` of a transaction only the ring counts. Waits for locks
    /// do not count: [`TxnOptions::lock_timeout`](crate::TxnOptions::lock_timeout) bounds those.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// Returns options for a write that waits for the disk.
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
