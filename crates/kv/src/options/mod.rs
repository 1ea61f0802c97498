//! `Options`: how a program that embeds a database opens it, with one struct per table of settings.
//!
//! A setting has the same name everywhere, `table.field`: the field here, the key of [`Options::set`] and of a file,
//! and the key of the server's configuration if the server has it.
//!
//! | file | holds |
//! |---|---|
//! | `setters` | a method per setting, to be chained |
//! | `text` | settings by their names, and from the text of a file |

mod setters;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use collie_engine::{Compression, LevelOptions};
use collie_wal::{RecoveryMode, RingKind};

/// How a database is opened: settings with their defaults, which methods change one by one, and [`Options::open`].
///
/// ```
/// use std::time::Duration;
///
/// use collie_kv::Options;
///
/// let dir = tempfile::tempdir()?;
/// let options = Options::new().write_buffer_size(16 << 20).wal_flush_delay(Duration::from_millis(50));
/// let db = options.open(dir.path().join("db"))?;
/// db.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Whether to create a database where there is none. Default true.
    pub create_if_missing: bool,
    /// Whether to open without writing a byte to the directory, even where writing is impossible, and to refuse every
    /// write with `ReadOnly`. Rows are those of the moment of opening: no process may have the database open then, and
    /// changes by later openings are not seen. The database must exist, whatever `create_if_missing` says. Default
    /// false.
    pub read_only: bool,
    /// Rows, and their LSM levels on disk.
    pub store: StoreOptions,
    /// The log.
    pub wal: WalOptions,
    /// Transactions.
    pub txn: TxnSettings,
}

/// The table `store`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Bytes of memory that rows and their versions may occupy; 0 chooses half of the memory beyond 256 MiB, and at
    /// least an eighth of it, where the memory is that of the machine or of its control group. At 90 % everything old
    /// is pruned and a warning is given, at 100 % writes that store a value fail with `OutOfMemory`. Default 0.
    pub memory_limit: u64,
    /// Threads that put rows into memory during an opening, at most 16; 0: as many as there are cores. Default 0.
    pub recovery_threads: usize,
    /// Bytes of unflushed rows at which a column family is flushed to its LSM levels, about. Default 64 MiB.
    pub write_buffer_size: u64,
    /// Time between two rounds of the garbage collector while it finds work, 1 ms to 1 s. Default 2 ms.
    pub gc_interval: Duration,
    /// Compression of tables that are written from now on; existing tables stay as they are. Default LZ4.
    pub compression: Compression,
    /// Number of parallel flushes, each with the merge that it makes due: 1 to 64, above four only as many as the
    /// process may have files open for. Default 4.
    pub compaction_threads: usize,
    /// Whether `close` leaves unlogged rows to be lost, instead of flushing their families. Default false.
    pub avoid_flush_at_close: bool,
    /// Whether to allow unlogged writes while a consumer follows the log, which does not get them. Default false.
    pub allow_replication_holes: bool,
}

/// The table `wal`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalOptions {
    /// Whether to keep a log. Without one every write is as with [`Durability::Unlogged`](crate::Durability::Unlogged):
    /// in memory until its family is flushed, by `flush_cf`, by the engine or by `close`. Writes with more durability,
    /// `flush_wal`, copies, and settings that need a log are refused. Default true.
    pub enabled: bool,
    /// The directory of the log, if it is not `wal` in the data directory, for instance on another device. A database
    /// stays with it. Default: none.
    pub wal_dir: Option<PathBuf>,
    /// The kind of memory for the log's ring, which determines whether it outlives the process. Default private.
    pub ring: RingKind,
    /// Directory of a shared ring, on a tmpfs. Default `/dev/shm`.
    pub ring_dir: PathBuf,
    /// Maximum bytes of the log in memory that are not on disk yet; a power of two. Default 16 MiB.
    pub ring_size: u64,
    /// Largest piece of a record; larger records are split. 4 KiB to 1 MiB, at most a quarter of the ring. Default 64
    /// KiB.
    pub chunk_size: u64,
    /// Threads that may append at the same time without taking turns, 1 to 1024. Default 64.
    pub slots: u32,
    /// Maximum log bytes in one write, at most 2 MiB. Default 1 MiB.
    pub frame_size: u64,
    /// Bytes of a log file, a multiple of 4096, at least twice ring + slots x chunk. Default 64 MiB.
    pub segment_size: u64,
    /// Log files prepared ahead, at least 1. Default 2.
    pub spares: u32,
    /// Maximum number of log files, at least 8; when all are in use, writes fail with `NoSpace`. Default 1024.
    pub max_segments: u32,
    /// Bytes of log at which the family that needs its oldest part is flushed, at least two segments; 0 chooses by the
    /// sizes of the families' buffers, within 1 and 16 GiB and a quarter of the file system. From one and a half times
    /// the limit on writers are slowed, at twice the limit they wait for flushes. Default 0.
    pub max_total_wal_size: u64,
    /// How long a write may stay in memory while no caller waits for it, 1 ms to 10 s. Default 10 ms.
    pub flush_delay: Duration,
    /// Bytes that may gather in memory while no caller waits for them. Default 1 MiB.
    pub flush_bytes: u64,
    /// Whether writes that no caller waits for stay in memory until `flush_wal`, a write that waits for the disk, a
    /// half-full ring, or `close`. Faster and less safe. Default false.
    pub manual_wal_flush: bool,
    /// How an opening treats an end of the log that is not clean. Default: it trims an unfinished flush and refuses
    /// damage.
    pub recovery_mode: RecoveryMode,
}

/// The table `txn`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnSettings {
    /// Maximum number of snapshots and transactions at one time, including those of running calls; beyond, `Busy`.
    /// Default 16,384.
    pub max_sessions: usize,
    /// Capacity of fast memory for transactions that have written and have not ended, and a few more; a power of two.
    /// Any number gives the same answers. Default 2^20, 24 bytes each.
    pub xid_slots: usize,
    /// Bytes that old versions may occupy before the oldest snapshots are cancelled. Default 1 GiB.
    pub old_version_memory: u64,
    /// Age above which a snapshot is cancelled if it keeps old versions; `None`: any age is allowed. Default `None`.
    pub max_snapshot_age: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self::from_engine(&collie_engine::Options::default())
    }
}

impl Options {
    /// Returns the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns settings for tests and examples: a small log, 64 sessions.
    pub fn small() -> Self {
        Self::from_engine(&collie_engine::Options::small())
    }

    fn from_engine(options: &collie_engine::Options) -> Self {
        let log = &options.log;
        Self {
            create_if_missing: options.create_if_missing,
            read_only: options.read_only,
            store: StoreOptions {
                memory_limit: options.memory_limit,
                recovery_threads: options.recovery_threads,
                write_buffer_size: options.write_buffer_size,
                gc_interval: options.gc_interval,
                compression: options.levels.compression,
                compaction_threads: options.compaction_threads,
                avoid_flush_at_close: options.avoid_flush_at_close,
                allow_replication_holes: options.allow_replication_holes,
            },
            wal: WalOptions {
                enabled: options.wal_enabled,
                wal_dir: options.wal_dir.clone(),
                ring: log.ring,
                ring_dir: log.ring_dir.clone(),
                ring_size: log.ring_bytes,
                chunk_size: log.chunk_bytes,
                slots: log.slots,
                frame_size: log.frame_bytes,
                segment_size: log.segment_bytes,
                spares: log.spares,
                max_segments: log.max_segments,
                max_total_wal_size: options.max_total_wal_size,
                flush_delay: log.flush_delay,
                flush_bytes: log.flush_bytes,
                manual_wal_flush: log.manual_wal_flush,
                recovery_mode: log.recovery_mode,
            },
            txn: TxnSettings {
                max_sessions: options.sessions_max,
                xid_slots: options.xid_slots,
                old_version_memory: options.old_version_memory,
                max_snapshot_age: options.max_snapshot_age,
            },
        }
    }

    /// Returns the engine's own settings.
    pub(crate) fn into_engine(self) -> collie_engine::Options {
        let Self { create_if_missing, read_only, store, wal, txn } = self;
        collie_engine::Options {
            create_if_missing,
            read_only,
            memory_limit: store.memory_limit,
            recovery_threads: store.recovery_threads,
            write_buffer_size: store.write_buffer_size,
            gc_interval: store.gc_interval,
            compaction_threads: store.compaction_threads,
            levels: LevelOptions { compression: store.compression, ..LevelOptions::default() },
            avoid_flush_at_close: store.avoid_flush_at_close,
            allow_replication_holes: store.allow_replication_holes,
            wal_dir: wal.wal_dir,
            wal_enabled: wal.enabled,
            max_total_wal_size: wal.max_total_wal_size,
            sessions_max: txn.max_sessions,
            xid_slots: txn.xid_slots,
            old_version_memory: txn.old_version_memory,
            max_snapshot_age: txn.max_snapshot_age,
            log: collie_wal::Options {
                ring: wal.ring,
                ring_dir: wal.ring_dir,
                ring_bytes: wal.ring_size,
                chunk_bytes: wal.chunk_size,
                slots: wal.slots,
                frame_bytes: wal.frame_size,
                segment_bytes: wal.segment_size,
                spares: wal.spares,
                max_segments: wal.max_segments,
                flush_delay: wal.flush_delay,
                flush_bytes: wal.flush_bytes,
                manual_wal_flush: wal.manual_wal_flush,
                recovery_mode: wal.recovery_mode,
                ..collie_wal::Options::default()
            },
            ..collie_engine::Options::default()
        }
    }
}
