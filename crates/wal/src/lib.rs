//! A write-ahead log that any program can embed: bytes in, positions out, durable in groups, honest after a crash.
//!
//! # What it is
//! Writers append records to a ring in memory and get their position ([`Lsn`]) at once. A caller that needs a record on
//! disk waits for it; the first caller to wait writes everything gathered so far as one frame and syncs it for all
//! (group commit without a timer). After a crash the log opens at the last whole frame. An unfinished flush at the end
//! is trimmed; damage below the durable end is refused, because acknowledged records would be lost.
//!
//! # What it is not
//! It knows nothing of transactions, rows or replicas: a payload is bytes and a 5-bit tag.
//!
//! # The marks
//! `durable <= written <= boundary <= end of the last append`; each is a record boundary, and each only grows.
//!
//! # Example
//! ```
//! use collie_wal::{Level, Log, Mark, Options};
//! use collie_env::Env;
//!
//! let dir = tempfile::tempdir().unwrap();
//! let (log, _found) = Log::open(&Env::real(), dir.path(), Options::small())?;
//! let mut writer = log.writer();
//! let first = writer.append(1, &[b"hello ", b"world"])?; // in memory
//! log.wait(Mark::Durable, first.end)?; // on disk
//! writer.commit(2, b"both in one call", Level::Disk)?;
//! log.close()?;
//!
//! let (log, found) = Log::open(&Env::real(), dir.path(), Options::small())?;
//! let bodies: Result<Vec<_>, _> = log.read(found.start).map(|record| record.map(|r| r.body)).collect();
//! assert_eq!(bodies?, [&b"hello world"[..], b"both in one call"]);
//! # Ok::<(), collie_wal::WalError>(())
//! ```
//!
//! | room | holds |
//! |---|---|
//! | `format` | the byte tables, the writers of the bytes, and the only decoder |
//! | `segment` | the files of a running log |
//! | `append` | writers, the ring, and the protocols that reserve positions |
//! | `flush` | the election of leaders, the flush in flight, the place of the next frame |
//! | `copies` | the same log in several directories |
//! | `recovery` | what a dead process left, and the opening; salvage and truncation |
//! | `read` | frames and records of files |
//! | `stream` | readers that follow the log, shipping to a replica, a log that follows another |
//! | `log` | the handle of an open log, and the state that handles share |
//! | `lab` | the crash laboratory (for tests) |

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(
    all(test, any(loom, shuttle)),
    allow(dead_code, reason = "what tests of the log use, which models are built without")
)]

/// Whether this mistake is planted in the running test (`mistakes`) or in a process of the lab (`collie_sync::plant`);
/// `false` in a product build.
macro_rules! mistake {
    ($name:literal) => {{
        #[cfg(test)]
        let made = crate::mistakes::is_made($name);
        #[cfg(not(test))]
        let made = collie_sync::mutant!($name);
        made
    }};
}

mod append;
mod copies;
mod error;
mod flush;
pub mod format;
#[cfg(any(test, feature = "lab"))]
pub mod lab;
mod log;
mod options;
mod read;
mod recovery;
mod segment;
mod stream;

#[cfg(test)]
mod mistakes;
#[cfg(test)]
#[cfg(not(loom))]
mod mix_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

pub use append::write_options::WriteOptions;
pub use append::writer::{Appended, Writer};
#[cfg(loom)]
#[doc(hidden)]
pub use append::{ModelLog, ModelSink, ModelWriter};
pub use collie_base::Lsn;
pub use copies::{CopyRepair, CopyStat, CopyState, inspect_copies, repair_copies};
pub use error::WalError;
pub use format::decode::RecordKind;
pub use log::lead::Lead;
pub use log::reached::Reached;
pub use log::stat::Stat;
pub use log::warning::Warnings;
pub use log::{LentSpare, Log};
pub use options::{CopiesRequired, Level, Mark, Options, Protocol, RecoveryMode, RingKind};
pub use read::figures::Figures;
pub use read::source::fuzz_reader;
pub use read::view::{LogView, ReadLock};
pub use read::{Inspection, ReadMode, Record, RecordRef, Records, SegmentInfo, inspect};
pub use recovery::Recovered;
pub use recovery::checked::Checked;
pub use recovery::last_incarnation::Ending;
pub use recovery::salvage::{Hole, Salvage, Salvaged, salvage, salvage_locked};
pub use recovery::truncate::{CutRefusal, Removed, TruncateOptions, Truncated, Truncation, truncate_at};
pub use segment::Freed;
pub use segment::retention_pins::LagLimit;
pub use stream::consumers::ConsumerStat;
pub use stream::cursor_file::fuzz_cursors;
pub use stream::duplicate::{Duplicate, LogPin, give_new_id};
pub use stream::follow::Follower;
pub use stream::ship::{NextShipment, ShipOptions, Shipment, Shipper};
pub use stream::tail::{LagPolicy, NextRecord, Tail, TailOptions};
pub use stream::tail_check::{TAIL_CHECK_BYTES, TailCheck};
pub use stream::unpack::Unpacker;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
