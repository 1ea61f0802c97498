//! `Options`: how a database is opened.

use std::path::PathBuf;
use std::time::Duration;

use collie_base::Xid;
use collie_store::LevelOptions;

use crate::EngineError;

/// Number of flushes and re-logs at a time, unless the options say otherwise. Jobs mostly wait for the disk; more
/// of them than the disk serves at once only occupy memory.
pub(crate) const JOBS_DEFAULT: usize = 4;
/// The largest number that options may ask for.
pub const JOBS_MAX: usize = 64;

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to create a database where there is none. Default true.
    pub create_if_missing: bool,
    /// Whether to open without writing a byte to the directory, even where writing is impossible, and to refuse
    /// every write ([`EngineError::OpenedReadOnly`](crate::EngineError::OpenedReadOnly)). Rows are those of the
    /// moment of opening: no process may have the database open then, and changes by later openings are not seen.
    /// The database must exist, whatever `create_if_missing` says. Default false.
    pub read_only: bool,
    /// Where the log is, if not in `wal` of the data directory: on another device, for instance. It must be outside
    /// the data directory. A database stays with it: an opening without it, or with another directory, is refused,
    /// until the directory with all its files is there. Default `None`.
    pub wal_dir: Option<PathBuf>,
    /// Whether to keep a log. Without one the positions of commits come from memory alone, only flushed writes
    /// survive the process, and every write is an unlogged one. Settings, calls and transactions that need a log
    /// are refused ([`EngineError::InvalidArgument`](crate::EngineError::InvalidArgument)). Only families with a
    /// name are kept. Each opening may choose again. Default true.
    pub wal_enabled: bool,
    /// The log's settings. The engine sets `known_durable`, `known_start` and `first_record`.
    pub log: collie_wal::Options,
    /// Sessions at one time. Default 16,384, at 128 bytes each.
    pub sessions_max: usize,
    /// The first transaction id of a new database; an existing one continues from its own. Default 1.
    pub first_xid: Xid,
    /// Words in the ring of transaction ids, a power of two. Default 2^20, 24 bytes each.
    pub xid_slots: usize,
    /// Number of versions up to which a commit stamps them itself before waiters continue; with more, the
    /// background thread stamps all of them. Default 64. Any number gives the same answers.
    pub stamped_at_commit_max: usize,
    /// Bytes of memory that old versions may occupy before everything is pruned and then the oldest snapshots are
    /// cancelled. Default 1 GiB.
    pub old_version_memory: u64,
    /// Age above which a session's snapshot is cancelled, unless new snapshots could still begin as low; `None`:
    /// any age is allowed. Default `None`.
    pub max_snapshot_age: Option<Duration>,
    /// Bytes of memory that rows and their versions may occupy; 0 chooses half of the memory beyond 256 MiB, and at
    /// least an eighth of it, where the memory is that of the machine or of its control group. At 90 % everything
    /// old is pruned and a warning is given, at 100 % writes that store a value are refused. Default 0.
    pub memory_limit: u64,
    /// Bytes of unflushed rows at which a column family is flushed to its levels, about. Default 64 MiB.
    pub write_buffer_size: u64,
    /// Time between two rounds of the garbage collector while it finds work: 1 ms to 1 s. Without work the time
    /// doubles up to 64 ms, or to this value if that is longer. Default 2 ms.
    pub gc_interval: Duration,
    /// Bytes of log at which the column family that needs its oldest part is flushed; 0 chooses eight times the
    /// bytes that all families may have unflushed, within 1 and 16 GiB and at most a quarter of the log's file
    /// system. The limit is at least two segments, and twice the limit fits into
    /// [`max_segments`](collie_wal::Options::max_segments). From one and a half times the limit on writers are
    /// slowed, at twice the limit they wait ([`Session::wait_for_room`](crate::Session::wait_for_room)). Default 0.
    pub max_total_wal_size: u64,
    /// Threads that put rows into memory during an opening, in addition to the reading thread: at most 16, each
    /// with some megabytes of memory; 0: as many as there are cores. Default 0.
    pub recovery_threads: usize,
    /// Flushes and re-logs at one time, each with the merge that it makes due: 1 to 64. One family or atomic group
    /// has one at a time in any case; above four there are only as many as the process may have files open for.
    /// Each needs memory for the rows that it writes. Default 4.
    pub compaction_threads: usize,
    /// Bytes of table files of the levels that a thread reads per second, to compare them with their checksums; 0:
    /// no thread does. The tree of a table that differs is rewritten from the rows in memory. Default 4 MiB.
    pub scrub_rate: u64,
    /// Whether [`Db::close`](crate::Db::close) leaves rows that were written unlogged to be lost, instead of
    /// flushing their families. Default false.
    pub avoid_flush_at_close: bool,
    /// Whether to allow unlogged writes while a consumer follows the log, which does not get them. Default false.
    pub allow_replication_holes: bool,
    /// Whether a reply may wait for replicas ([`CommitLevel`](crate::CommitLevel)), as soon as
    /// [`Db::count_replicas`](crate::Db::count_replicas) says so. Read-only snapshots, flushes and garbage
    /// collection then stay below the confirmed position. Default false.
    pub quorum: bool,
    /// Files that the program keeps open in addition to the database, such as its clients' connections: this number
    /// is set aside from the files that the process may have open. Default 0.
    pub connections: usize,
    /// Settings of the levels.
    pub levels: LevelOptions,
    /// Whether threads of the engine collect garbage, flush column families and look for rot. Without them the
    /// caller uses [`Db::tick`](crate::Db::tick) and [`Db::flush_cf`](crate::Db::flush_cf). Default true.
    pub background: bool,
}

/// Refuses an interval of the collector that is out of bounds.
pub(crate) fn check_gc_interval(interval: Duration) -> Result<(), EngineError> {
    if (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&interval) {
        return Ok(());
    }
    let value = format!("{}us", interval.as_micros());
    Err(EngineError::BadOption { name: "store.gc_interval".into(), value, wanted: "1ms to 1s".into() })
}

impl Default for Options {
    fn default() -> Self {
        let txn = collie_txn::Options::default();
        Self {
            create_if_missing: true,
            read_only: false,
            wal_dir: None,
            wal_enabled: true,
            log: collie_wal::Options::default(),
            sessions_max: txn.sessions_max,
            first_xid: txn.first_xid,
            xid_slots: txn.xid_slots,
            stamped_at_commit_max: 64,
            old_version_memory: 1 << 30,
            max_snapshot_age: None,
            memory_limit: 0,
            write_buffer_size: 64 << 20,
            gc_interval: Duration::from_millis(2),
            max_total_wal_size: 0,
            recovery_threads: 0,
            compaction_threads: JOBS_DEFAULT,
            scrub_rate: 4 << 20,
            avoid_flush_at_close: false,
            allow_replication_holes: false,
            quorum: false,
            connections: 0,
            levels: LevelOptions::default(),
            background: true,
        }
    }
}

impl Options {
    /// Returns settings for tests and examples: a small log, 64 sessions, a ring of 1,024 transaction ids.
    pub fn small() -> Self {
        Self { log: collie_wal::Options::small(), sessions_max: 64, xid_slots: 1 << 10, ..Self::default() }
    }

    /// Refuses settings with which no database can be opened.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if !(1..=JOBS_MAX).contains(&self.compaction_threads) {
            return Err(EngineError::BadOption {
                name: "store.compaction_threads".into(),
                value: self.compaction_threads.to_string(),
                wanted: format!("1 to {JOBS_MAX}"),
            });
        }
        check_gc_interval(self.gc_interval)?;
        Ok(())
    }

    pub(crate) fn txn(&self, first_xid: Xid) -> collie_txn::Options {
        // Includes the snapshot slots of flushes.
        let sessions_max = self.sessions_max.saturating_add(self.compaction_threads).min(1 << 20);
        collie_txn::Options { xid_slots: self.xid_slots, sessions_max, first_xid }
    }
}
