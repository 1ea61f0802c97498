//! The transactional key-value engine: joins the log (`wal`), transactions (`txn`) and rows (`store`).
//!
//! A database is a directory with a log, the levels of an LSM tree, and a control file; its rows live in memory, in
//! column families of ordered keys. A flush of a family adds its changes to the levels, so that the log can be cut.
//! Openings, merges, the scrub and copies read the levels; no transaction does. Keys and values are opaque bytes.
//! Transactions are READ COMMITTED, REPEATABLE READ (snapshot isolation) or SERIALIZABLE, with savepoints, row
//! locks, table locks and deadlock detection; commits become durable in groups.
//!
//! The engine knows no SQL, no types and no network. It starts up to four threads (garbage collection, flushing,
//! freeing, scrubbing) in addition to those of the log.
//!
//! | file | content |
//! |---|---|
//! | `kv/` | the key-value interface for programs that embed a database: [`kv::Db`] |
//! | `names.rs` | families by name, as rows of the catalog |
//! | `db.rs`, `open.rs`, `shared.rs` | [`Db`]: open, close, the state that all handles share |
//! | `time_marks.rs` | when which part of the log was written |
//! | `log_place.rs` | where the log is, and which data directory owns it |
//! | `descriptors.rs` | how many files the levels may have open |
//! | `read_only.rs`, `salvaged.rs` | opening without writing a byte; opening the readable rest of a damaged log |
//! | `session.rs`, `session/ending.rs` | [`Session`]: transactions, and how they end |
//! | `calls.rs` | arguments and results of calls |
//! | `write_retries.rs` | how often a row was tried |
//! | `traced.rs` | sessions that record their calls and results (feature `trace-oracle`) |
//! | `wait.rs`, `ack_condition.rs` | waits; conditions of an acknowledgement |
//! | `redo.rs`, `redo_buffer.rs`, `replay.rs` | bytes of log records, gathering them, applying them at an opening |
//! | `replica/` | databases that follow the log of another one |
//! | `read_set.rs` | the read set of a SERIALIZABLE transaction |
//! | `session/validated.rs` | its validation in parts before the commit |
//! | `serial_writes.rs` | commits of others in that time |
//! | `families.rs`, `writes.rs` | families by id, versions of a transaction |
//! | `garbage.rs`, `old_versions.rs` | rows with old versions; the memory of these and its limit |
//! | `background.rs` | the background threads |
//! | `memory.rs` | the limit of the memory that all rows occupy |
//! | `flush.rs`, `flusher.rs`, `flush_troubles.rs` | flushing families to levels, and failures of it |
//! | `tree_rewrite.rs` | rewriting a tree that failed or rotted |
//! | `relog.rs`, `large.rs`, `carry.rs` | re-logging small families, and releasing the log below |
//! | `scrub.rs` | rot of the levels: finding it, and having the tree rewritten |
//! | `hand_over.rs`, `write_pause.rs` | switchover on the primary: writers wait, the log takes no more records |
//! | `log_limit.rs`, `log_room.rs` | how long the log may get; writers wait while flushes are behind |
//! | `backup/` | checkpoints and backups, and restoring from them |
//! | `log.rs`, `log_times.rs` | the log as transactions see it; how long a thread worked in it |
//! | `control.rs`, `history_list.rs`, `frame.rs` | the control file; its newest histories; the frame of such files |
//! | `directory_identity.rs`, `promise.rs` | the identity of a directory; the promised term |
//! | `owner.rs` | the check that only its owner can change a directory |
//! | `describe.rs` | records as text |
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

mod ack_condition;
mod advisory;
mod apply;
mod background;
mod backup;
mod calls;
mod carry;
mod commit_times;
mod control;
mod db;
mod describe;
mod descriptors;
mod directory_identity;
mod drawn;
mod dropped;
mod error;
mod error_kind;
mod families;
mod flush;
mod flush_figures;
mod flush_troubles;
mod flusher;
mod frame;
mod garbage;
mod gather;
mod groups;
mod hand_over;
mod histories;
mod history_list;
mod jobs;
pub mod kv;
mod large;
mod live_options;
mod load;
mod log;
mod log_limit;
mod log_place;
mod log_room;
mod log_times;
#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
mod measured;
mod memory;
mod names;
mod no_log;
mod old_versions;
mod open;
mod options;
mod owner;
mod planted;
mod progress;
mod promise;
mod quorum_note;
mod read_only;
mod read_set;
mod redo;
mod redo_buffer;
mod relog;
mod replay;
mod replica;
mod salvaged;
mod scrub;
mod serial_writes;
mod session;
mod settled;
mod shared;
#[cfg(test)]
#[cfg(all(shuttle, not(loom)))]
mod shuttle_tests;
mod time_marks;
#[cfg(feature = "trace-oracle")]
mod traced;
mod tree_rewrite;
mod txn_chunks;
mod wait;
mod witness_state;
mod write_pause;
mod write_retries;
mod writes;

pub use advisory::Advisory;
pub use backup::{
    Backup, BackupFault, CheckpointOptions, CopyPhase, CopyProgress, CopyWatch, LevelsCopy, RestoreTo, Restored,
    check_backup_manifest, restore, sample_backup_manifest, verify_backup,
};
pub use calls::{Basis, Existing, Insert, KeyRange, Mark, Outcome, Receipt, RowBytes, ScanEnd, Sees, Write};
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
#[doc(hidden)]
pub use commit_times::Logged;
pub use db::{Db, EngineStat};
pub use describe::{describe_record, is_commit_record};
pub use directory_identity::{DirectoryIdentity, forget_histories_from};
pub use drawn::DrawnCommit;
pub use error::EngineError;
pub use error_kind::ErrorKind;
pub use flush::FlushStat;
pub use flush_figures::FamilyFlushStat;
pub use histories::HistoryState;
pub use log_place::{data_dir_of, log_dir_of};
pub use log_room::{RoomWait, StallStat, Stalls};
pub use log_times::LogTimes;
pub use names::{foreign_rows, sql_name_row};
pub use open::{CHECKPOINT, OpenReport, checkpoint_of};
pub use options::Options;
pub use progress::{OpenPhase, OpenProgress};
pub use promise::Promise;
pub use quorum_note::QuorumNote;
pub use replica::{
    ApplyStat, CatalogChange, CatalogHook, CatalogRows, HeldState, HistoryStart, Replica, ReplicaOptions, Seed,
    ShownWait,
};
pub use scrub::{Rot, ScrubStat};
pub use session::Session;
pub use settled::{CommitLevel, Confirmed};
#[cfg(feature = "trace-oracle")]
pub use traced::{Based, Event, TracedSession, commits_in_log, lapped_lookups};
pub use wait::{Ack, WaitFuture};
pub use witness_state::{DegradedLeader, WitnessState};

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
