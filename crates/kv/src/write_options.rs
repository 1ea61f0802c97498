//! `WriteOptions`: how one write is made; `Durability`: how safe it is when the call returns.

use collie_engine::CommitLevel;

/// How safe a write is when its call returns. Readers see it in each case, and in the same order.
///
/// | durability | the call returns when the write is | after a kill of the process | after a power cut | RocksDB |
/// |---|---|---|---|---|
/// | `Unlogged` | visible to all | lost, unless its family was flushed since | the same | `disableWAL` |
/// | `Async` | visible to all, in the log's ring | kept with a shared ring, else a suffix is lost | a suffix is lost | `sync = false` |
/// | `Local` | on this machine's disk | kept | kept | `sync = true` |
/// | `Quorum` | on the disks of a quorum of replicas, too | kept | kept, also if this machine is lost | - |
///
/// The lost suffix of `Async` writes is about as long as `wal.flush_delay`; `wal.ring` chooses a shared ring, the
/// memory of the log that outlives the process. If one logged write survives, so does every logged one that was visible
/// before it.
///
/// In a database opened with `wal.enabled = false` every write is `Unlogged`, and `Local` and `Quorum` are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The write is kept out of the log, which gets a marker of a few bytes. It is on disk once its family was flushed
    /// ([`Db::flush_cf`](crate::Db::flush_cf), and [`Db::close`](crate::Db::close) unless
    /// `store.avoid_flush_at_close`). After a crash a family has exactly those of its unlogged writes that were
    /// committed before its last flush, and all logged ones that were kept. All writes of the transaction must be to
    /// one family, or to families of one atomic group ([`CfOptions::group`](crate::CfOptions::group)), which are
    /// flushed together. Refused while a consumer follows the log, unless `store.allow_replication_holes`.
    Unlogged,
    /// The write is in the log's memory, and on its way to the disk.
    #[default]
    Async,
    /// The write is on the disk of this machine.
    Local,
    /// The write is also on the disks of a quorum of replicas. Refused in a database that serves no replicas. If
    /// replicas are given up while the call waits, it returns and the receipt says
    /// [`Local`](crate::Receipt::durability).
    Quorum,
}

impl Durability {
    /// Returns the level at which the engine commits.
    pub(crate) const fn level(self) -> CommitLevel {
        match self {
            Self::Unlogged | Self::Async => CommitLevel::Async,
            Self::Local => CommitLevel::Local,
            Self::Quorum => CommitLevel::RemoteFlush,
        }
    }
}

/// How one write is made. A [`Durability`] alone will do where options are expected: `db.put(&cf, "key", "value",
/// Durability::Local)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    pub(crate) durability: Durability,
    pub(crate) no_slowdown: bool,
}

impl WriteOptions {
    /// Returns options for a write with [`Durability::Async`] that waits where it has to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how safe the write is when the call returns. Default [`Durability::Async`].
    #[must_use]
    pub const fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Makes the write fail with `Busy`, and a text that names the reason, where it would wait for room in the log's
    /// ring or for flushes that are behind. For [`Txn::commit`](crate::Txn::commit) only the ring counts. Waits for
    /// locks do not count: [`TxnOptions::lock_timeout`](crate::TxnOptions::lock_timeout) bounds those.
    #[must_use]
    pub const fn no_slowdown(self) -> Self {
        Self { no_slowdown: true, ..self }
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> Self {
        Self::new().durability(durability)
    }
}
