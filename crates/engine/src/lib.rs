//! The transactional key-value engine: joins the log (`wal`), transactions (`txn`) and rows (`store`).
//!
//! A database is a directory with a log, the levels of an LSM tree, and a control file; its rows live in memory, in
//! column families of ordered keys. A flush of a family adds its changes to the levels, so that the log can be cut.
//! Openings, merges, the scrub and copies read the levels; no transaction does. Keys and values are opaque bytes.
//! Transactions are READ COMMITTED, REPEATABLE READ (snapshot isolation) or SERIALIZABLE, with savepoints, row
//! locks, table locks and deadlock detection; commits become durable in groups.
//!
//! This crate is internal: its interface may change with any version. Programs embed the crate `collie-kv`.
//!
//! The engine knows no SQL, no types and no network. It starts up to four threads (garbage collection, flushing,
//! freeing, scrubbing) in addition to those of the log.
//!
//! | room, lowest first | holds |
//! |---|---|
//! | `error`, `utc`, `options`, `calls`, `planted` | errors, settings, the values of calls, mistakes for tests |
//! | `redo` | the bytes of log records, and gathering them |
//! | `dir` | the directory: its identity, its small files, its permissions |
//! | `families` | column families by id and by name, and the groups that are flushed together |
//! | `gc` | rows with old versions, the limit of memory, dropped families |
//! | `follow` | following the log of another database: lanes, the watermark, the read horizon |
//! | `log` | the log as transactions see it: writers, the quorum-durable position, room, times; a database without one |
//! | `flush` | flushing families to levels, re-logging, rewriting trees, the search for rot |
//! | `serial` | what SERIALIZABLE transactions read and wrote |
//! | `live_options`, `measured`, `background` | options that change, samples of calls, a thread that works in rounds |
//! | `shared` | the state that all handles share: its mode, its threads and their rounds |
//! | `session` | [`Session`]: the transactions of one client, their waits, and how they end |
//! | `backup` | checkpoints, backups and restores |
//! | `open` | opening a directory: loading the levels, replaying the log, also without writing a byte |
//! | `db` | [`Db`]: one open database |
//! | `replica` | databases that follow the log of another one, and their promotion |
//! | `traced` | a session that records what it did, for a checker |
//! | `option_names`, `log_checks`, `stats`, `token` | names of settings; refusals known in advance; figures; the position of a commit, as text |
//!
//! ```
//! use collie_engine::{Basis, Db, Env, Insert, Isolation, Options, Outcome, StatementKind, Write};
//!
//! let dir = tempfile::tempdir()?;
//! let (db, _report) = Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ())?;
//! let family = db.family(db.create_family());
//!
//! let mut session = db.session()?;
//! session.begin(Isolation::ReadCommitted, false)?;
//! session.begin_statement(StatementKind::Write)?;
//! assert_eq!(session.insert(&family, b"key", b"value")?, Insert::Done);
//! session.commit(true)?.block()?; // on disk
//!
//! session.begin(Isolation::RepeatableRead, false)?;
//! session.begin_statement(StatementKind::Write)?;
//! assert_eq!(session.write(&family, b"key", Basis::Snapshot, Write::Put(b"other"))?, Outcome::Done);
//! session.rollback();
//!
//! session.begin(Isolation::ReadCommitted, true)?;
//! session.begin_statement(StatementKind::ReadOnly)?;
//! assert_eq!(session.get(&family, b"key")?.as_deref(), Some(&b"value"[..]));
//! session.rollback();
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod background;
mod backup;
mod calls;
mod db;
mod dir;
mod error;
mod error_kind;
mod families;
mod flush;
mod follow;
mod gc;
mod live_options;
mod log;
mod log_checks;
#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
mod measured;
mod open;
mod option_names;
mod options;
mod planted;
mod redo;
mod replica;
mod serial;
mod session;
mod shared;
#[cfg(test)]
#[cfg(all(shuttle, not(loom)))]
mod shuttle_tests;
mod stats;
mod token;
#[cfg(feature = "trace-oracle")]
mod traced;
mod utc;

pub use backup::{
    Backup, BackupFault, CheckpointOptions, CopyPhase, CopyProgress, CopyWatch, LevelsCopy, RestoreTo, Restored,
    check_backup_manifest, restore, sample_backup_manifest, verify_backup,
};
pub use calls::{Basis, Existing, Insert, Mark, Outcome, Receipt, RowBytes, ScanEnd, Sees, Write};
pub use collie_base::LockStrength;
pub use collie_env::Env;
pub use collie_store::{
    Compression, Family, FamilyStat, LevelOptions, LevelStat, LevelsError, Origin, TreeStat, UnflushedStat, Visit,
};
#[cfg(feature = "trace-oracle")]
pub use collie_store::{RowRead, Seen};
pub use collie_txn::{
    AdvisoryScope, Awaited, Blocker, CancelHandle, CancelReason, HeldSnapshot, InTheWay, Isolation, LockHeld,
    LockOwner, LockPicture, LockTarget, LockWait, RowKey, StatementKind, TableLock, TableLockMode, TableLocksHeld,
    WaitLimit, XidFate, XidSnapshot,
};
pub use db::{Db, EngineStat, HeldState};
pub use dir::directory_identity::{DirectoryIdentity, forget_histories_from};
pub use dir::histories::{HistoryStart, HistoryState};
pub use dir::log_place::{data_dir_of, log_dir_of};
pub use dir::promise::Promise;
pub use dir::witness_state::{DegradedLeader, WitnessState};
pub use error::EngineError;
pub use error_kind::ErrorKind;
pub use families::key_range::KeyRange;
pub use families::names::{foreign_rows, is_sql_name, sql_name_row};
pub use flush::FlushStat;
pub use flush::figures::FamilyFlushStat;
pub use flush::scrub::{Rot, ScrubStat};
pub use follow::{ApplyStat, CatalogChange, CatalogHook, CatalogRows};
pub use log::drawn::DrawnCommit;
pub use log::room::{StallStat, Stalls};
pub use log::settled::{CommitLevel, Confirmed};
pub use log::shown_wait::ShownWait;
#[cfg(feature = "bench-hooks")]
pub use log::times::LogTimes;
pub use open::progress::{OpenPhase, OpenProgress};
pub use open::{CHECKPOINT, OpenReport, checkpoint_of};
pub use option_names::{OPTION_NAMES, nearest_option};
pub use options::{JOBS_MAX, Options};
pub use redo::describe::{describe_record, is_commit_record};
pub use redo::quorum_record::QuorumNote;
pub use redo::records::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use replica::{Replica, ReplicaOptions, Seed};
pub use session::Session;
pub use session::advisory::Advisory;
pub use session::named_families::NamedFamily;
pub use session::room_wait::RoomWait;
pub use session::upsert::{Upsert, UpsertStep};
pub use session::wait::{Ack, WaitFuture};
pub use stats::{CfStats, Stats};
pub use token::Token;
#[cfg(feature = "trace-oracle")]
pub use traced::{Based, Event, TracedSession, commits_in_log, lapped_lookups};

/// Checks the types that a server moves between its threads.
const _: () = {
    const fn assert_send<T: Send + 'static>() {}
    const fn assert_shared<T: Send + Sync + Clone + 'static>() {}
    assert_send::<Session>();
    assert_send::<WaitFuture>();
    assert_send::<RoomWait>();
    assert_send::<Ack>();
    assert_shared::<Db>();
    assert_shared::<CancelHandle>();
    assert_shared::<EngineError>();
};

#[cfg(test)]
#[cfg(not(loom))]
mod serial_tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
