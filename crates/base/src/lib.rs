//! Ids, log positions, byte codec, checksums, lock strengths and remedies: the vocabulary of all other crates.
//!
//! It contains no files, threads, clocks or unsafe code: every item is a plain value or counts plain values.
//!
//! ```
//! use collie_base::{Lsn, codec::Reader};
//! let lsn = Lsn::new(0x1_0000_2000);
//! assert_eq!(lsn.to_string(), "1/2000");
//! assert_eq!("1/2000".parse::<Lsn>(), Ok(lsn));
//!
//! let mut bytes = Vec::new();
//! collie_base::codec::put_varint(&mut bytes, 300);
//! assert_eq!(Reader::new(&bytes).varint(), Ok(300));
//! ```
#![forbid(unsafe_code)]

pub mod checksum;
pub mod codec;
mod epoch;
mod ids;
mod latencies;
mod live_snapshots;
mod lock_strength;
mod lsn;
mod map;
mod one_line;
mod quantity;
mod remedy;

pub use epoch::EPOCH_2000_US;
pub use ids::{CfId, HistoryId, Term, Xid};
pub use latencies::{Latencies, SharedLatencies};
pub use live_snapshots::LiveSnapshots;
pub use lock_strength::LockStrength;
pub use lsn::{Lsn, ParseLsnError};
pub use map::{KeyHash, Map, Set};
pub use one_line::one_line;
pub use quantity::{bytes_text, parse_bytes, parse_time, time_text};
pub use remedy::Remedy;
