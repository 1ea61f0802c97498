//! Atomics, locks, padded words, epoch reclamation, wait buckets and futures on a thread: the building blocks of every
//! concurrent part of Collie.
//!
//! This crate knows nothing of logs, rows or transactions, opens no file and starts no thread. The same names refer to
//! the standard library's (or parking_lot's) types in a product build, to loom's under `--cfg loom` and to shuttle's
//! under `--cfg shuttle`, so that a model runs the product's own types. [`ord!`] marks orderings that a model must be
//! able to weaken, and [`mutant!`] steps that it must be able to leave out; both are constants in a product build.
//!
//! ```
//! use collie_sync::{Padded, atomic::{AtomicU64, Ordering}, ord};
//! let word = Padded::new(AtomicU64::new(0));
//! word.store(7, ord!("DOC_STORE", Release));
//! assert_eq!(word.load(ord!("DOC_LOAD", Acquire)), 7);
//! ```

mod block_on;
pub mod epoch;
mod lane;
#[cfg(all(test, loom))]
mod lane_loom;
#[cfg(any(loom, shuttle))]
pub mod model;
mod padded;
mod published;
mod shim;
mod striped;
mod ticks;
mod waiters;
#[cfg(all(shuttle, not(loom)))]
mod watched_cell;
mod weaken;

pub use block_on::{block_on, thread_waker};
pub use lane::{LaneReader, LaneWriter, lane};
pub use padded::Padded;
pub use published::Published;
pub use shim::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, UnsafeCell, WaitTimedOut, atomic, hint,
    thread,
};
pub use striped::{StripedCounter, StripedCounters, stripe_below};
pub use ticks::{has_invariant_ticks, ticks};
pub use waiters::{Ticket, Waiters};
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use weaken::{is_mutant, ordering_at};
#[cfg(all(feature = "planted-bugs", not(any(loom, shuttle))))]
#[doc(hidden)]
pub use weaken::{is_mutant, plant};
