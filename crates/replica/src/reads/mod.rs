//! Sampled reads on their way: from the sessions of a primary to those replicas that asked for them
//! ([`FLAG_READS`](crate::packet::FLAG_READS)), and there to whoever runs them again.
//!
//! | file | noun |
//! |---|---|
//! | `feed.rs` | [`ReadFeed`]: what a primary's sessions give reads to, and its connections take them from |
//! | `queue.rs` | [`ReadQueue`]: what waits for one connection, and what of it is sent next; no I/O |
//! | `bucket.rs` | [`TokenBucket`]: bytes for a second |
//! | `templates.rs` | [`Templates`]: the texts that both ends of a connection know |
//! | `inbox.rs` | [`ReadInbox`]: what came, until somebody runs it |
//! | `pacing.rs` | [`Pacing`]: when a read is due here; no I/O |
//!
//! # Invariants
//! - Q1. Reads are the first to be dropped, and whatever is dropped is counted. No session, no stream and no replay waits for one.
//! - Q2. A connection holds at most [`QUEUE_BYTES_MAX`] of them, and sends [`BYTES_PER_S`] in a second, at most, once
//!   [`BURST_BYTES`] are used up.
//! - Q3. They are due as far apart as they came: what is late by more than [`LATE_US`] is dropped, on either side.
//! - Q4. Texts and parameters are kept in memory only, and in no message (training.md RT3).
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

/// Bytes a second on one connection.
pub const BYTES_PER_S: u64 = 64 << 10;

/// Bytes that may go at once after a rest.
pub const BURST_BYTES: u64 = 64 << 10;

/// Most bytes that wait for one connection, and most that wait on a replica.
pub const QUEUE_BYTES_MAX: usize = 256 << 10;

/// Beyond this, and the time that it took itself, a read is of no use: it was part of another load.
pub const LATE_US: u64 = 1_000_000;

/// Most bytes of one batch, about: what stands in front of the log's next bytes if these come in the same moment.
pub(crate) const BATCH_BYTES: usize = 16 << 10;
