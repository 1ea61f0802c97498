//! The key-value interface of Collie, for programs that embed a database.
//!
#![doc = include_str!("../README.md")]
//!
//! ## What is in which file
//!
//! | file | holds |
//! |---|---|
//! | `db.rs` | [`Db`]: open, write, read, close |
//! | `options` | [`Options`]: how a database is opened, settable by name |
//! | `cf.rs` | [`Cf`], [`CfOptions`]: column families |
//! | `batch.rs`, `write_options.rs`, `receipt.rs` | [`Batch`], [`WriteOptions`], [`Durability`], [`Receipt`] |
//! | `snapshot.rs`, `scan.rs` | [`Snapshot`], [`Scan`], [`Item`] |
//! | `txn.rs` | [`Txn`], [`TxnOptions`], [`Savepoint`] |
//! | `error.rs` | [`Error`] |
//! | `core.rs`, `sessions.rs` | the shared state; a cache of sessions for later calls |
//!
//! A call that has to wait blocks its thread; [`Db::write_async`] is the exception. The crate does not depend on SQL.
#![forbid(unsafe_code)]

mod batch;
mod cf;
mod core;
mod db;
mod error;
mod options;
mod receipt;
mod scan;
mod sessions;
mod snapshot;
mod txn;
mod write_options;

pub use batch::Batch;
pub use cf::{Cf, CfOptions};
pub use collie_base::{CfId, HistoryId, Lsn, Remedy};
pub use collie_engine::{
    Backup, CfStats, Compression, EngineStat, Env, ErrorKind, FamilyFlushStat, FamilyStat, FlushStat, Isolation,
    KeyRange, LevelStat, OpenPhase, OpenProgress, OpenReport, RowBytes, StallStat, Stats, Token, TreeStat,
    UnflushedStat,
};
pub use collie_wal::{RecoveryMode, RingKind, Stat as LogStat};
pub use db::{Db, FlushTo};
pub use error::Error;
pub use options::{Options, StoreOptions, TxnSettings, WalOptions};
pub use receipt::Receipt;
pub use scan::{Item, Scan};
pub use snapshot::Snapshot;
pub use txn::{Savepoint, Txn, TxnOptions};
pub use write_options::{Durability, WriteOptions};

/// Checks the types that a program moves or shares between its threads.
const _: () = {
    const fn assert_send<T: Send + 'static>() {}
    const fn assert_shared<T: Send + Sync + Clone + 'static>() {}
    assert_send::<Txn>();
    assert_send::<Snapshot>();
    assert_send::<Batch>();
    assert_shared::<Db>();
    assert_shared::<Cf>();
    assert_shared::<Error>();
};
