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
//! use collie_wal::{Env, Level, Log, Mark, Options};
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
//! Rooms, from the lowest: each one uses only those above it in this list.
//!
//! | room | holds |
//! |---|---|
//! | `error`, `report`, `options` | why a call failed; what an operator hears; settings |
//! | `format` | the byte tables, the writers of the bytes, and the only decoder |
//! | `segment` | the files of a running log, and the positions that keep them |
//! | `append` | the ring, and the protocols that reserve positions |
//! | `consumers` | named readers, whose cursors survive a crash |
//! | `read` | frames and records of files |
//! | `scan` | what the files of a directory are: a chain of frames, or why there is none |
//! | `copies` | the same log in several directories |
//! | `flush` | the election of leaders, the flush in flight, the place of the next frame |
//! | `recovery` | what a dead process left, and the opening; salvage and truncation |
//! | `core` | the state that the handles of an open log share |
//! | `stream` | readers that follow the log, and shipping to a replica |
//! | `log` | the handles: queries, waits, appends, a log that follows another |
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
mod consumers;
mod copies;
mod core;
mod error;
mod flush;
pub mod format;
#[cfg(any(test, feature = "lab"))]
pub mod lab;
mod log;
mod options;
mod read;
mod recovery;
mod report;
mod scan;
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

pub use append::Appended;
#[cfg(loom)]
#[doc(hidden)]
pub use append::{ModelLog, ModelSink, ModelWriter};
pub use collie_base::{Lsn, Remedy};
pub use collie_env::Env;
pub use consumers::ConsumerStat;
#[cfg(any(test, feature = "fuzz"))]
pub use consumers::cursor_file::fuzz_cursors;
pub use consumers::tail_options::TailOptions;
pub use copies::{CopyRepair, CopyStat, CopyState, inspect_copies, repair_copies};
pub use error::{CutRefusal, WalError};
pub use format::decode::RecordKind;
pub use log::duplicate::{Duplicate, LogPin, give_new_id};
pub use log::follow::Follower;
pub use log::lead::Lead;
pub use log::reached::Reached;
pub use log::stat::Stat;
pub use log::write_options::WriteOptions;
pub use log::writer::Writer;
pub use log::{LentSpare, Log};
pub use options::{CopiesRequired, Level, Mark, Options, Protocol, RecoveryMode, RingKind};
#[cfg(any(test, feature = "fuzz"))]
pub use read::source::fuzz::fuzz_reader;
pub use read::unpack::Unpacker;
pub use read::{ReadMode, Record, RecordRef, Records};
pub use recovery::Recovered;
pub use recovery::last_incarnation::Ending;
pub use recovery::salvage::{Hole, Salvage, Salvaged, salvage, salvage_locked};
pub use recovery::truncate::{Removed, TruncateOptions, Truncated, Truncation, truncate_at};
pub use recovery::view::{LogView, ReadLock};
pub use report::checked::Checked;
pub use report::warning::Warnings;
pub use scan::figures::Figures;
pub use scan::inspect::{Inspection, SegmentInfo, inspect};
pub use segment::Freed;
pub use segment::retention_pins::{LagLimit, LagPolicy};
pub use stream::ship::{NextShipment, ShipOptions, Shipment, Shipper};
pub use stream::tail::{NextRecord, Tail};
pub use stream::tail_check::{TAIL_CHECK_BYTES, TailCheck};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
