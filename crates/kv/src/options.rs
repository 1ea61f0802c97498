//! `Options`: how a program that embeds a database opens it, with one struct per table of settings.
//!
//! A setting has the same name everywhere, `table.field`: the field here, the key of [`Options::set`] and of a file,
//! and the key of the server's configuration if the server has it. An unknown name is an error that suggests the
//! nearest known one.

use std::path::PathBuf;
use std::time::Duration;

use collie_base::{parse_bytes, parse_time};
use collie_engine::{Compression, EngineError, JOBS_MAX, LevelOptions, nearest_option};
use collie_wal::{RecoveryMode, RingKind};

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Whether `close` leaves rows written with `disable_wal` to be lost, instead of flushing their families. Default
    /// false.
    pub avoid_flush_at_close: bool,
    /// Whether to allow `disable_wal` while a consumer follows the log, which does not get such writes. Default false.
    pub allow_replication_holes: bool,
}

/// The table `wal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalOptions {
    /// Whether to keep a log. Without one every write is as with `disable_wal`: in memory until its family is flushed,
    /// by `flush_cf`, by the engine or by `close`. Writes with `sync`, `flush_wal`, copies, and settings that need a
    /// log are refused. Default true.
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
    /// Whether writes that no caller waits for stay in memory until `flush_wal`, a write with `sync`, a half-full ring,
    /// or `close`. Faster and less safe. Default false.
    pub manual_wal_flush: bool,
    /// How an opening treats an end of the log that is not clean. Default: it trims an unfinished flush and refuses
    /// damage.
    pub recovery_mode: RecoveryMode,
}

/// The table `txn`.
#[derive(Clone, Debug, PartialEq, Eq)]
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

const RINGS: [(&str, RingKind); 3] =
    [("private", RingKind::Private), ("shared", RingKind::Shared), ("auto", RingKind::Auto)];

const MODES: [(&str, RecoveryMode); 4] = [
    ("tolerate_corrupted_tail_records", RecoveryMode::TolerateCorruptedTailRecords),
    ("absolute_consistency", RecoveryMode::AbsoluteConsistency),
    ("point_in_time", RecoveryMode::PointInTime),
    ("skip_any_corrupted_records", RecoveryMode::SkipAnyCorruptedRecords),
];

impl Options {
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

    /// Sets one option by its name, from text: `true` and `false`; counts; bytes as `1024`, `64KiB`, `1MiB`, `2GiB`;
    /// times as `10ms`, `500us`, `2s`, or a number of milliseconds; words in lower case.
    ///
    /// # Errors
    /// [`EngineError::UnknownOption`], which names the nearest option; [`EngineError::BadOption`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), EngineError> {
        let bad =
            |wanted: &str| EngineError::BadOption { name: name.into(), value: value.into(), wanted: wanted.into() };
        let flag = || value.parse().map_err(|_| bad("true or false"));
        let count = || value.parse::<usize>().map_err(|_| bad("a count"));
        let number = || value.parse::<u32>().map_err(|_| bad("a count"));
        let bytes = || parse_bytes(value).ok_or_else(|| bad("bytes, such as 64MiB"));
        let time = || parse_time(value).ok_or_else(|| bad("a time, such as 10ms"));
        match name {
            "create_if_missing" => self.create_if_missing = flag()?,
            "read_only" => self.read_only = flag()?,
            "store.allow_replication_holes" => self.store.allow_replication_holes = flag()?,
            "store.avoid_flush_at_close" => self.store.avoid_flush_at_close = flag()?,
            "store.compaction_threads" => {
                let given = count()?;
                let wanted = || bad(&format!("1 to {JOBS_MAX}"));
                self.store.compaction_threads =
                    Some(given).filter(|given| (1..=JOBS_MAX).contains(given)).ok_or_else(wanted)?;
            }
            "store.compression" => {
                self.store.compression = word(&Compression::NAMES, value).map_err(|wanted| bad(&wanted))?;
            }
            "store.gc_interval" => self.store.gc_interval = time()?,
            "store.memory_limit" => self.store.memory_limit = bytes()?,
            "store.recovery_threads" => self.store.recovery_threads = count()?,
            "store.write_buffer_size" => self.store.write_buffer_size = bytes()?,
            "txn.max_sessions" => self.txn.max_sessions = count()?,
            "txn.max_snapshot_age" => self.txn.max_snapshot_age = Some(time()?).filter(|age| !age.is_zero()),
            "txn.old_version_memory" => self.txn.old_version_memory = bytes()?,
            "txn.xid_slots" => self.txn.xid_slots = count()?,
            "wal.chunk_size" => self.wal.chunk_size = bytes()?,
            "wal.enabled" => self.wal.enabled = flag()?,
            "wal.flush_bytes" => self.wal.flush_bytes = bytes()?,
            "wal.flush_delay" => self.wal.flush_delay = time()?,
            "wal.frame_size" => self.wal.frame_size = bytes()?,
            "wal.manual_wal_flush" => self.wal.manual_wal_flush = flag()?,
            "wal.max_segments" => self.wal.max_segments = number()?,
            "wal.max_total_wal_size" => self.wal.max_total_wal_size = bytes()?,
            "wal.recovery_mode" => self.wal.recovery_mode = word(&MODES, value).map_err(|wanted| bad(&wanted))?,
            "wal.ring" => self.wal.ring = word(&RINGS, value).map_err(|wanted| bad(&wanted))?,
            "wal.ring_dir" => self.wal.ring_dir = value.into(),
            "wal.ring_size" => self.wal.ring_size = bytes()?,
            "wal.segment_size" => self.wal.segment_size = bytes()?,
            "wal.slots" => self.wal.slots = number()?,
            "wal.spares" => self.wal.spares = number()?,
            "wal.wal_dir" => self.wal.wal_dir = Some(value.into()).filter(|_| !value.is_empty()),
            _ => return Err(EngineError::UnknownOption { name: name.into(), nearest: nearest_option(name).into() }),
        }
        Ok(())
    }

    /// Sets the options in a text, such as the content of a file: lines `wal.flush_delay = 20ms`, or `flush_delay =
    /// "20ms"` below a line `[wal]`; `#` begins a comment.
    ///
    /// # Errors
    /// As of [`Options::set`]; [`EngineError::BadOption`] for a line of no such form. The lines before it have taken
    /// effect.
    pub fn set_all(&mut self, text: &str) -> Result<(), EngineError> {
        let mut table = String::new();
        for line in text.lines().map(without_comment).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = format!("{}.", name.trim());
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(EngineError::BadOption {
                    name: line.into(),
                    value: String::new(),
                    wanted: "name = value".into(),
                });
            };
            let (name, value) = (name.trim(), value.trim());
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            self.set(&format!("{table}{name}"), value)?;
        }
        Ok(())
    }
}

/// Strips a comment that does not begin inside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|letter| {
        quoted ^= letter == '"';
        letter == '#' && !quoted
    });
    line[..end.unwrap_or(line.len())].trim()
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(known)
}

#[cfg(test)]
mod tests {
    use collie_engine::OPTION_NAMES;

    use super::*;

    /// Goal: every name sets its own field and no other, in every notation, and the engine gets the value. Method: each
    /// name with a value that is not its default, in a file with and without tables.
    #[test]
    fn options_are_set_by_their_names() {
        let values = [
            "false",
            "true",
            "true",
            "true",
            "9",
            "none",
            "7ms",
            "3GiB",
            "3",
            "32MiB",
            "100",
            "3s",
            "5MiB",
            "2048",
            "32KiB",
            "false",
            "64KiB",
            "500us",
            "128KiB",
            "true",
            "9",
            "2GiB",
            "point_in_time",
            "shared",
            "/run",
            "1048576",
            "8MiB",
            "4",
            "1",
            "/wal",
        ];
        let mut all = Options::default();
        for (name, value) in OPTION_NAMES.into_iter().zip(values) {
            let before = all.clone();
            all.set(name, value).unwrap();
            assert_ne!(all, before, "{name} = {value} changes nothing");
        }
        assert_eq!((all.txn.max_sessions, all.wal.max_segments), (100, 9));
        assert_eq!(all.txn.max_snapshot_age, Some(Duration::from_secs(3)));
        assert_eq!((all.wal.flush_delay, all.wal.flush_bytes), (Duration::from_micros(500), 64 << 10));
        let mut file = String::new();
        for (name, value) in OPTION_NAMES.into_iter().zip(values) {
            file += &format!("{name} = \"{value}\" # \"quoted\" = [so]\n\n");
        }
        let mut read = Options::default();
        read.set_all(&file).unwrap();
        assert_eq!(read, all);
        let mut tables = Options::default();
        tables.set_all("# a comment\n[wal]\nring = shared\n ring_dir = \"/tmp/#1\"\n[txn]\nmax_sessions=7").unwrap();
        assert_eq!((tables.wal.ring, tables.wal.ring_dir.to_str()), (RingKind::Shared, Some("/tmp/#1")));
        assert_eq!(tables.txn.max_sessions, 7);
        let engine = all.clone().into_engine();
        assert_eq!(Options::from_engine(&engine), all);
        assert_eq!(Options::from_engine(&Options::small().into_engine()), Options::small());
        assert_eq!((engine.log.ring_bytes, engine.log.slots, engine.xid_slots), (1 << 20, 4, 2048));
    }

    /// Goal: unknown names and values are never ignored, and the message helps. Method: wrong names and values.
    #[test]
    fn wrong_options_are_refused_by_name() {
        let refused = |name: &str, value: &str| Options::default().set(name, value).unwrap_err().to_string();
        for (wrong, near) in [
            ("wal.flush_dely", "wal.flush_delay"),
            ("flush_delay", "wal.flush_delay"),
            ("wal.segmentsize", "wal.segment_size"),
            ("txn.max_session", "txn.max_sessions"),
            ("create_if_mising", "create_if_missing"),
        ] {
            let said = refused(wrong, "1");
            assert!(said.contains(wrong) && said.contains(&format!("{near}?")), "{said}");
        }
        for (name, value) in [
            ("store.compaction_threads", "0"),
            ("store.compaction_threads", "65"),
            ("store.compression", "snappy"),
            ("wal.ring", "Shared"),
            ("wal.flush_delay", "10 minutes"),
            ("wal.segment_size", "64MB"),
            ("wal.segment_size", "99999999999GiB"),
            ("wal.manual_wal_flush", "yes"),
            ("txn.max_sessions", "-1"),
        ] {
            let said = refused(name, value);
            assert!(said.contains(name) && said.contains(value), "{said}");
        }
        assert!(Options::default().set_all("[wal]\nring").is_err());
    }
}
