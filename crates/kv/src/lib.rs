//! The key-value interface of Collie, for programs that embed it: named column families, writes with RocksDB's options,
//! snapshots, transactions. A call that has to wait blocks its thread; `write_async` is the exception.
//!
//! The crate does not depend on SQL. A table or index of SQL is a family named `sql:` and its OID, whose encoded rows
//! can be read here.
//!
//! | file | noun |
//! |---|---|
//! | `db.rs` | [`Db`]: open, write, read, close |
//! | `options.rs` | [`Options`]: how a database is opened, settable by name |
//! | `cf.rs` | [`Cf`], [`CfOptions`]: column families |
//! | `batch.rs`, `write_options.rs`, `receipt.rs` | [`Batch`], [`WriteOptions`], [`Receipt`] |
//! | `snapshot.rs`, `scan.rs` | [`Snapshot`], [`Scan`], [`Item`] |
//! | `txn.rs` | [`Txn`], [`TxnOptions`], [`Savepoint`] |
//! | `core.rs`, `sessions.rs` | the shared state; a cache of sessions for later calls |
//!
//! ```
//! use collie_kv::{Batch, CfOptions, Db, Options, TxnOptions, WriteOptions};
//!
//! let dir = tempfile::tempdir()?;
//! let db = Db::open(dir.path(), Options::small())?;
//! let users = db.create_cf("users", CfOptions::default())?;
//! let orders = db.create_cf("orders", CfOptions::default())?;
//!
//! db.put(&users, "alice", "100", &WriteOptions::sync())?; // on disk
//! let mut batch = Batch::new();
//! batch.put(&users, "bob", "50");
//! batch.put(&orders, "1", "bob");
//! db.write(batch, &WriteOptions::default())?; // both or none, on disk soon
//!
//! let snapshot = db.snapshot()?;
//! let mut txn = db.begin(TxnOptions::default())?;
//! let balance = txn.get_for_update(&users, "alice")?.expect("she is there");
//! assert_eq!(&*balance, b"100");
//! txn.put(&users, "alice", "90")?;
//! txn.commit(&WriteOptions::sync())?;
//!
//! let keys: Vec<_> = snapshot.scan(&users, "a".."c").rev().map(|item| item.map(|item| item.to_pair())).collect::<Result<_, _>>()?;
//! assert_eq!(keys, [(b"bob".to_vec(), b"50".to_vec()), (b"alice".to_vec(), b"100".to_vec())]);
//! drop(snapshot);
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod cf;
mod core;
mod db;
mod options;
mod receipt;
mod scan;
mod sessions;
mod snapshot;
mod txn;
mod write_options;

pub use batch::Batch;
pub use cf::{Cf, CfOptions};
pub use collie_engine::{CfStats, Stats, Token};
pub use db::Db;
pub use options::{Options, StoreOptions, TxnSettings, WalOptions};
pub use receipt::Receipt;
pub use scan::{Item, Scan};
pub use snapshot::Snapshot;
pub use txn::{Savepoint, Txn, TxnOptions};
pub use write_options::WriteOptions;

/// Checks the types that a program moves or shares between its threads.
const _: () = {
    const fn assert_send<T: Send + 'static>() {}
    const fn assert_shared<T: Send + Sync + Clone + 'static>() {}
    assert_send::<Txn>();
    assert_send::<Snapshot>();
    assert_send::<Batch>();
    assert_shared::<Db>();
    assert_shared::<Cf>();
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
