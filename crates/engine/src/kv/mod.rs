//! The key-value API of the engine, for programs that embed it: named column families, writes with RocksDB's options,
//! snapshots, transactions. A call that has to wait blocks its thread; `write_async` is the exception.
//!
//! The module does not depend on SQL. A table or index of SQL is a family named `sql:` and its OID, whose encoded rows
//! can be read here.
//!
//! | file | noun |
//! |---|---|
//! | `db.rs` | [`Db`]: open, write, read, close |
//! | `options.rs` | [`Options`]: how a database is opened, settable by name |
//! | `cf.rs`, `registry.rs` | [`Cf`]; creating, finding and dropping families by name |
//! | `batch.rs`, `write_options.rs`, `receipt.rs` | [`Batch`], [`WriteOptions`], [`Receipt`], [`Token`] |
//! | `snapshot.rs`, `scan.rs` | [`Snapshot`], [`Scan`], [`Item`] |
//! | `stats.rs` | [`Stats`], [`CfStats`]: figures |
//! | `txn.rs` | [`Txn`], [`TxnOptions`], [`Savepoint`] |
//! | `write.rs` | one write in steps that do not block |
//! | `sessions.rs` | a cache of sessions for later calls |
//!
//! ```
//! use collie_engine::kv::{Batch, CfOptions, Db, Options, TxnOptions, WriteOptions};
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

mod batch;
mod cf;
mod db;
mod options;
mod receipt;
mod registry;
mod scan;
mod sessions;
mod snapshot;
mod stats;
mod txn;
mod write;
mod write_options;

pub use batch::Batch;
pub use cf::{Cf, CfOptions};
pub use db::Db;
pub use options::{Options, StoreOptions, TxnSettings, WalOptions};
pub use receipt::{Receipt, Token};
pub use scan::{Item, Scan};
pub use snapshot::Snapshot;
pub use stats::{CfStats, Stats};
pub use txn::{Savepoint, Txn, TxnOptions};
pub use write_options::WriteOptions;

/// Returns the names and ids of all families that have a name.
pub(crate) fn named(engine: &crate::Db) -> Result<Vec<(String, collie_base::CfId)>, crate::EngineError> {
    registry::list(engine, &mut engine.session()?)
}

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
