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
//! Files: `log` and `writer` are the handles, `core` is their shared state; [`mod@format`] has the byte tables,
//! `decode` the only decoder, `ring` the memory, `reserve` the commit protocol, `flush` the leaders and waiters,
//! `segments` and `spare` the files, `recover` the opening. `source`, `window` and `frame_reader` read frames,
//! `assemble` makes records of them, `read`, `recent`, `watch`, `frame_tail` and `tail` yield them. `ship` yields the
//! stream as bytes, `follow` writes such bytes to another log, `unpack` makes records of them, `record_count` counts
//! them. `truncate` cuts the end off, `duplicate` copies a running log.

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

mod assemble;
mod checked;
mod consumers;
mod copies;
mod core;
mod cursor_file;
mod dead_ring;
mod dead_rings;
mod decode;
mod duplicate;
mod error;
mod figures;
mod flush;
mod follow;
pub mod format;
mod frame_reader;
mod frame_tail;
mod frame_writer;
#[cfg(any(test, feature = "lab"))]
pub mod lab;
mod last_incarnation;
mod lead;
mod log;
mod misplaced;
mod options;
mod owner;
mod reached;
mod read;
mod recent;
mod record_count;
mod recover;
mod reserve;
mod retention_pins;
mod ring;
mod ring_file;
mod salvage;
mod scan;
mod segments;
mod ship;
mod source;
mod spare;
mod stall;
mod stat;
mod tail;
mod tail_check;
mod truncate;
mod unpack;
mod view;
mod walk;
mod warning;
mod watch;
mod window;
mod write_options;
mod writer;

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

pub use checked::Checked;
pub use collie_base::Lsn;
pub use consumers::ConsumerStat;
pub use copies::{CopyRepair, CopyStat, CopyState, inspect_copies, repair_copies};
pub use cursor_file::fuzz_cursors;
pub use decode::RecordKind;
pub use duplicate::{Duplicate, LogPin, give_new_id};
pub use error::WalError;
pub use figures::Figures;
pub use follow::Follower;
pub use last_incarnation::Ending;
pub use lead::Lead;
pub use log::{LentSpare, Log};
pub use options::{CopiesRequired, Level, Mark, Options, Protocol, RecoveryMode, RingKind};
pub use reached::Reached;
pub use read::{Inspection, ReadMode, Record, RecordRef, Records, SegmentInfo, inspect};
pub use recover::Recovered;
#[cfg(loom)]
#[doc(hidden)]
pub use reserve::{ModelLog, ModelSink, ModelWriter};
pub use retention_pins::LagLimit;
pub use salvage::{Hole, Salvage, Salvaged, salvage, salvage_locked};
pub use segments::Freed;
pub use ship::{NextShipment, ShipOptions, Shipment, Shipper};
pub use source::fuzz_reader;
pub use stat::Stat;
pub use tail::{LagPolicy, NextRecord, Tail, TailOptions};
pub use tail_check::{TAIL_CHECK_BYTES, TailCheck};
pub use truncate::{CutRefusal, Removed, TruncateOptions, Truncated, Truncation, truncate_at};
pub use unpack::Unpacker;
pub use view::{LogView, ReadLock};
pub use warning::Warnings;
pub use write_options::WriteOptions;
pub use writer::{Appended, Writer};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
