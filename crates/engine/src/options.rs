//! `Options`: how a database is opened.

use std::path::PathBuf;
use std::time::Duration;

use collie_base::Xid;
use collie_store::LevelOptions;

use crate::EngineError;
use crate::jobs::{JOBS_DEFAULT, JOBS_MAX};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make a database where there is none. Default true.
    pub create_if_missing: bool,
    /// Open without writing a byte to the directory, also where nothing can be written, and refuse every write
    /// ([`EngineError::OpenedReadOnly`](crate::EngineError::OpenedReadOnly)). Rows are those of the moment of opening: nobody may
    /// have the database open then, who opens it later is not seen. It must be there, whatever `create_if_missing` says.
    /// Default false.
    pub read_only: bool,
    /// Where the log is, if not in `wal` of the data directory: on another device, say. Outside the data directory. A database stays
    /// with it: opened without, or with another directory, it is refused, until the directory with all its files is there.
    /// Default `None`.
    pub wal_dir: Option<PathBuf>,
    /// Keep a log. Without one the positions of commits come from memory alone and what survives the process is what was flushed:
    /// every write is an unlogged one. Settings, calls and transactions that need a log are refused
    /// ([`EngineError::InvalidArgument`](crate::EngineError::InvalidArgument)). Families are kept by their names. Each open may choose anew.
    /// Default true.
    pub wal_enabled: bool,
    /// The log's settings. `known_durable`, `known_start` and `first_record` are the engine's to set.
    pub log: collie_wal::Options,
    /// Sessions at one time. Default 16,384, at 128 bytes each.
    pub sessions_max: usize,
    /// The first transaction id of a database that is made; one that exists goes on from its own. Default 1.
    pub first_xid: Xid,
    /// Words in the ring of transaction ids, a power of two. Default 2^20, 24 bytes each.
    pub xid_slots: usize,
    /// Versions that a commit stamps itself, before others go on; beyond that the background thread stamps all of them.
    /// Default 64. Any number gives the same answers.
    pub stamped_at_commit_max: usize,
    /// Bytes of memory that old versions may take up before everything is pruned and then the oldest snapshots are cancelled.
    /// Default 1 GiB.
    pub old_version_memory: u64,
    /// Snapshots older than this are cancelled when they keep old versions; `None`: whatever their age. Default `None`.
    pub max_snapshot_age: Option<Duration>,
    /// Bytes of memory that rows and their versions may take up; 0 chooses: 60 % of the machine's, or of what its control group
    /// leaves. At 90 % everything old is pruned and a warning is given, at 100 % writes that store a value are refused. Default 0.
    pub memory_limit: u64,
    /// Bytes of unflushed rows at which a column family is flushed to its levels, about. Default 64 MiB.
    pub write_buffer_size: u64,
    /// Between two rounds of the garbage collector while it finds some: 1 ms to 1 s. Long after the last they are up to 64 ms apart, or
    /// as far as this says. Default 2 ms.
    pub gc_interval: Duration,
    /// Bytes of log at which the column family that needs its oldest part is flushed; 0 chooses: four times what all families
    /// may have unflushed, twice over, within 1 and 16 GiB and a quarter of the log's file system. Two segments at the least, and so
    /// little that twice as much fits into [`max_segments`](collie_wal::Options::max_segments). From one and a half times of it on
    /// writers are slowed, at twice they wait ([`Session::wait_for_room`](crate::Session::wait_for_room)). Default 0.
    pub max_total_wal_size: u64,
    /// Threads that put rows into memory while opening, beside the one that reads: at most 16, each with some megabytes
    /// of memory; 0: as many as there are cores. Default 0.
    pub recovery_threads: usize,
    /// Flushes and re-logs at one time, each with the merge that it makes due: 1 to 64. One family, or atomic group, has one at a time,
    /// whatever this says; above four only as many as the process may have files for. Each needs memory for the rows that it brings. Default 4.
    pub compaction_threads: usize,
    /// Bytes of table files of the levels that a thread reads in a second, to compare them with their checksums; 0: none does. One that is
    /// not as it was written has its tree written anew from the rows in memory. Default 4 MiB.
    pub scrub_rate: u64,
    /// Leave rows that were written unlogged to be lost at [`Db::close`](crate::Db::close), which else flushes their families.
    /// Default false.
    pub avoid_flush_at_close: bool,
    /// Allow unlogged writes while somebody follows the log, who does not get them. Default false.
    pub allow_replication_holes: bool,
    /// Whether a reply may wait for replicas ([`CommitLevel`](crate::CommitLevel)), as soon as
    /// [`Db::count_replicas`](crate::Db::count_replicas) says so. Read-only snapshots, flushes and garbage collection then keep to
    /// what they have confirmed. Default false.
    pub quorum: bool,
    /// Files that the program keeps open beside the database, such as its clients' connections: as many are set aside of those
    /// that the process may have open. Default 0.
    pub connections: usize,
    /// How the levels are kept.
    pub levels: LevelOptions,
    /// Whether threads of the engine collect garbage, flush column families and look for rot. Without them the owner calls
    /// [`Db::tick`](crate::Db::tick) and [`Db::flush_cf`](crate::Db::flush_cf). Default true.
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
    /// Returns settings for tests and examples: a small log, 64 sessions, 1,024 transaction ids in flight.
    pub fn small() -> Self {
        Self { log: collie_wal::Options::small(), sessions_max: 64, xid_slots: 1 << 10, ..Self::default() }
    }

    /// Refuses what no database can be opened with.
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
        let sessions_max = self.sessions_max.saturating_add(self.compaction_threads).min(1 << 20); // with the places of flushes
        collie_txn::Options { xid_slots: self.xid_slots, sessions_max, first_xid }
    }
}
