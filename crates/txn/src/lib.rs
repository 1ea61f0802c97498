//! Transactions without rows and without a log: ids, states, snapshots, commit, waiting, table locks, deadlocks.
//!
//! One number line orders everything. A commit's number (CSN) is the start LSN of its commit record, a snapshot is one
//! load of a boundary of the log, and a commit is visible if `csn < snapshot`, strictly. This crate keeps the state of
//! every writing transaction from its first write until its versions carry their CSN, hands out snapshots, determines
//! which old versions may be freed, and lets transactions wait for each other without a cycle.
//!
//! Limits: the crate never sees a row (it drives a transaction's versions through a [`WriteSet`]), writes no log (it
//! defines the [`CommitLog`] that it needs), starts no thread and reads no clock (a waiting transaction is a future,
//! with a blocking twin).
//!
//! # Types
//! - [`Txns`]: one per database. Sessions, live snapshots and the horizon, acknowledged floor, the tick.
//! - [`Session`]: one per connection. Owns a snapshot slot and never goes back in time.
//! - [`Transaction`]: isolation level, command number, lazily an [`Xid`](collie_base::Xid), table locks. Plain data
//!   that its session works on.
//! - [`Resolution`] of a [`Stamp`]: what readers ask for each version.
//! - [`Blocker`] and [`Wait`]: an obstacle, and the wait for its end.
//! - [`Advisory`]: locks of a session on numbers that only its application interprets.
//! - [`LockPicture`]: all locks and waits, for people to look at.
//! - [`XidSnapshot`], [`XidFate`]: a snapshot and an outcome in terms of xids, for applications that store those.
//!
//! The usual order of calls for a writing transaction: [`Session::begin`], then per statement [`Session::lock_table`],
//! [`Session::begin_statement`], [`Session::assign_xid`] before the first version is installed, [`Session::wait`]
//! whenever another transaction holds a row, [`Session::end_statement`]; at the end [`Session::commit`] or
//! [`Session::abort`].
//!
//! ```
//! use collie_base::Lsn;
//! use collie_txn::{Appended, CommitLog, CommitRecord, Ended, Isolation, Options, Resolution, Stamp, Txns};
//! use std::sync::{Mutex, atomic::{AtomicU64, Ordering}};
//!
//! /// A log that forgets its records: one mutex, one boundary, everything "durable" at once.
//! struct Null(Mutex<u64>);
//!
//! impl CommitLog for Null {
//!     type Writer = ();
//!     type Error = std::convert::Infallible;
//!     fn append(&self, w: &mut (), tag: u8, parts: &[&[u8]]) -> Result<Appended, Self::Error> {
//!         self.append_commit(w, tag, &parts.concat(), |_| ())
//!     }
//!     fn append_commit(
//!         &self, _: &mut (), _tag: u8, bytes: &[u8], publish: impl FnOnce(Lsn),
//!     ) -> Result<Appended, Self::Error> {
//!         let mut end = self.0.lock().unwrap();
//!         let start = Lsn::new(*end);
//!         publish(start);
//!         *end += bytes.len() as u64 + 2;
//!         Ok(Appended { start, end: Lsn::new(*end) })
//!     }
//!     fn boundary(&self) -> Lsn {
//!         Lsn::new(*self.0.lock().unwrap())
//!     }
//!     fn durable(&self) -> Lsn {
//!         self.boundary()
//!     }
//! }
//!
//! let txns = Txns::new(Null(Mutex::new(4096)), Options { xid_slots: 64, ..Options::default() });
//! let mut session = txns.session()?;
//! let mut t = session.begin(Isolation::ReadCommitted, false);
//! let xid = session.assign_xid(&mut t)?;
//! let version = AtomicU64::new(Stamp::unfinished(xid).raw()); // what a row version carries
//! assert_eq!(txns.resolve(&version), Resolution::InProgress(xid));
//!
//! let record = CommitRecord { tag: 1, bytes: b"what recovery needs" };
//! let Ended::Committed { at, .. } = session.commit(t, &mut (), Some(record), &mut ())? else { unreachable!() };
//! assert_eq!(txns.resolve(&version), Resolution::Committed(at.start));
//! assert!(at.start < txns.hold_newest()?.snapshot(), "visible to every snapshot from now on");
//! # version.store(Stamp::committed(at.start).raw(), Ordering::Release);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod desc;
mod error;
mod locks;
mod log;
mod serial;
mod session;
mod snapshots;
mod stamp;
mod stamper;
mod transaction;
mod txns;
mod write_set;
mod xid_map;
mod xids_at;

#[cfg(test)]
#[cfg(not(loom))]
mod first_write_tests;
#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod test_log;
#[cfg(test)]
#[cfg(not(loom))]
mod txn_tests;

pub use error::{SnapshotCancelled, TxnError};
pub use locks::advisory::{Advisory, AdvisoryScope};
pub use locks::cancel::{CancelHandle, CancelReason};
pub use locks::picture::{Awaited, InTheWay, LockHeld, LockOwner, LockPicture, LockWait};
pub use locks::share_table::RowShares;
pub use locks::table_lock::{LockTarget, TableLock, TableLockMode, TableLocksHeld};
pub use locks::wait::{Wait, WaitLimit};
pub use locks::waits::{Blocker, RowKey, RowLockRequest};
pub use log::{Appended, CommitLog};
pub use session::{Behind, CommitRecord, Ended, Session, Start};
pub use snapshots::{HeldSnapshot, Holder, Place, Placed};
pub use stamp::{Resolution, Stamp};
pub use stamper::Unstamped;
pub use transaction::{Isolation, StatementKind, Transaction};
pub use txns::{Gate, Options, Txns};
pub use write_set::{Mark, WriteSet};
pub use xids_at::{XidFate, XidSnapshot};
