//! Sampled reads: from the sessions of a primary to the replicas that asked for them
//! ([`FLAG_READS`](crate::packet::FLAG_READS)), which run them again.
//!
//! | file | noun |
//! |---|---|
//! | `feed.rs` | [`ReadFeed`]: passes reads from a primary's sessions to its connections |
//! | `queue.rs` | [`ReadQueue`]: the reads that wait for one connection, and which are sent next; no I/O |
//! | `bucket.rs` | [`TokenBucket`]: limits bytes per second |
//! | `templates.rs` | [`Templates`]: the texts that both ends of a connection know |
//! | `inbox.rs` | [`ReadInbox`]: received reads, until they are run |
//! | `pacing.rs` | [`Pacing`]: when a read is due here; no I/O |
//!
//! # Invariants
//! - Q1. Reads are dropped before anything else, and every dropped read is counted. No session, no stream and no
//!   replay waits for one.
//! - Q2. A connection keeps at most [`QUEUE_BYTES_MAX`] of them, and sends at most [`BYTES_PER_S`] per second once
//!   [`BURST_BYTES`] are used up.
//! - Q3. Reads are due as far apart as they arrived on the primary: a read that is late by more than [`LATE_US`]
//!   is dropped, on either side.
//! - Q4. Texts and parameters are kept in memory only, and appear in no message (TRAIN-3).
//!
//! Checked by `reads_tests` and, over connections, by `stream_tests`.

mod bucket;
mod feed;
mod inbox;
mod pacing;
mod queue;
#[cfg(test)]
mod reads_tests;
mod templates;

pub(crate) use self::feed::Subscription;
pub use self::{
    bucket::TokenBucket,
    feed::{ReadFeed, ReadsSent},
    inbox::{DueRead, Next, ReadInbox, ReadsCame},
    pacing::Pacing,
    queue::{Read, ReadQueue},
    templates::Templates,
};

/// Bytes per second on one connection.
pub const BYTES_PER_S: u64 = 64 << 10;

/// Bytes that may be sent at once after a pause.
pub const BURST_BYTES: u64 = 64 << 10;

/// The most bytes that wait for one connection, and the most that wait on a replica.
pub const QUEUE_BYTES_MAX: usize = 256 << 10;

/// A read that is later than this, plus its own latency, is useless: it was part of another load.
pub const LATE_US: u64 = 1_000_000;

/// The approximate size of one batch in bytes: the most that delays the log's next bytes if these become durable
/// at the same moment.
pub(crate) const BATCH_BYTES: usize = 16 << 10;
