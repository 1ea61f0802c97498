//! Rows of column families in memory, as version chains behind an ordered index, and their LSM trees on disk.
//!
//! A row is a chain of immutable full-row versions, newest first. A version carries a *stamp*: its writer's id
//! while that transaction is unfinished, its commit position afterwards. Readers walk the chain to the first
//! version they may see; writers put a new version at the head with one compare-exchange; old versions that no
//! live snapshot sees are unlinked.
//!
//! This crate never sees a transaction, a log or a clock. A [`Resolve`] knows the meaning of an unfinished stamp,
//! a [`ShareLocks`] keeps the holders of rows in shared strength, the caller passes the list of live snapshots
//! that may still read versions, and the caller does all waiting. Rows in memory and LSM trees know nothing of
//! each other. Keys and values are opaque bytes, compared bytewise.
//!
//! | file | noun |
//! |---|---|
//! | `row.rs`, `row/` | [`Row`], [`Pending`], [`ShareLock`]: the chain, all unsafe code of this crate |
//! | `row/calls.rs` | [`View`], [`Change`], [`WriteOutcome`]: what writes take and give |
//! | `share_locks.rs` | [`ShareLocks`], [`RowHolders`]: the table of share locks, as rows see it |
//! | `stamp.rs` | [`TxnStatus`], [`Resolve`], the stamp's encoding |
//! | `index.rs`, `index/` | [`OrderedIndex`], its floor implementation, and partitions, which families stand on |
//! | `index_checks.rs` | what every index is put through, with feature `index-checks` |
//! | `family.rs` | [`Family`]: the rows of one column family |
//! | `unflushed.rs` | [`Unflushed`]: rows that levels on disk lack |
//! | `key.rs`, `epoch.rs` | a small key, reclamation |
//! | `levels.rs`, `levels/` | [`Levels`]: sorted tables on disk, by lsm-tree behind a trait |
//! | `levels/manifest.rs` | MANIFEST: the record of trees and flushes |
//!
//! ```
//! use collie_base::{CfId, LockStrength, Lsn, Xid};
//! use collie_store::{Family, TxnStatus, InsertOutcome, Resolve, RowHolders, ShareLocks, View, WriteRules, Word, pin};
//!
//! /// Every unfinished stamp belongs to somebody at work.
//! struct Open;
//! impl Resolve for Open {
//!     fn resolve(&self, stamp: &Word) -> TxnStatus {
//!         TxnStatus::of_final(stamp).unwrap_or_else(|xid| TxnStatus::InProgress(xid))
//!     }
//! }
//!
//! /// Nobody holds a row in shared strength here.
//! struct Nobody;
//! impl RowHolders for Nobody {
//!     fn in_the_way(&self, _me: Xid, _wanted: LockStrength) -> Option<Xid> {
//!         None
//!     }
//!     fn held_by(&self, _holder: Xid) -> Option<LockStrength> {
//!         None
//!     }
//!     fn set(&mut self, _holder: Xid, _strength: Option<LockStrength>) {}
//!     fn is_empty(&self) -> bool {
//!         true
//!     }
//! }
//! impl ShareLocks for Open {
//!     fn with_holders<R>(&self, _: CfId, _: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
//!         act(&mut Nobody)
//!     }
//! }
//!
//! let family = Family::new(CfId::new(1));
//! let view = View { snapshot: Lsn::new(5000), me: Some(Xid::new(7)), command: 1 };
//! let rules = WriteRules { xid: Xid::new(7), repeatable: false };
//! let InsertOutcome::Done(pending) = family.insert(b"key", b"value", &view, &rules, &Open) else { panic!() };
//! assert!(family.read(b"key", &View { me: None, ..view }, &Open, &pin()).is_none(), "not committed");
//! pending.commit(Lsn::new(4096));
//! let value = family.read(b"key", &View { me: None, ..view }, &Open, &pin()).map(|bytes| bytes.to_vec());
//! assert_eq!(value.as_deref(), Some(&b"value"[..]));
//! ```

mod epoch;
mod family;
#[cfg(test)]
mod held;
mod index;
#[cfg(any(test, feature = "index-checks"))]
#[cfg(not(any(loom, shuttle)))]
pub mod index_checks;
mod key;
mod levels;
#[cfg(all(test, loom))]
mod loom_commits;
mod row;
mod share_locks;
mod stamp;
mod unflushed;

pub use epoch::{Pin, pin};
pub use family::{
    Family, FamilyStat, Loaded, LoggedWrite, Ordered, ScanRequest, ScanStop, Staged, State, Superseded, Visit, WARMED,
};
pub use index::{BTreeIndex, OrderedIndex, PartitionedIndex, RowIndex, Span};
pub use key::Key;
pub use levels::manifest::{check_manifest, sample_manifest};
pub use levels::{
    AddRows, Compacted, Compression, Edit, Entry, FLUSH_FLOOR_BYTES, Flushed, LevelOptions, LevelStat, LevelSums,
    Levels, LevelsError, LevelsFound, LevelsNoted, Replaced, TableCheck, TreeId, TreeStat, TreeState, TreeWritten,
};
#[cfg(feature = "trace-oracle")]
pub use row::Seen;
pub use row::calls::{
    Basis, Change, InsertOutcome, Kept, Origin, Pruned, PutOutcome, Removal, View, WriteOutcome, WriteRules,
};
#[cfg(feature = "trace-oracle")]
pub use row::trace::{RowRead, digest, watch};
pub use row::{FlushAt, FlushEntry, Pending, Row, ShareLock};
pub use share_locks::{RowHolders, ShareLocks};
pub use stamp::{Resolve, TxnStatus, Word};
pub use unflushed::{Unflushed, UnflushedStat};
