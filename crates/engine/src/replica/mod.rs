//! Replicas: a database that follows the log of another one and shows a prefix of it.
//!
//! Records come in the order of the log, which is the order of commits; row writes are applied by several workers, each with keys
//! of its own, and sessions see every commit below a watermark, whole, and nothing above it (replication.md section 6).
//!
//! | file | noun |
//! |---|---|
//! | `live.rs` | [`Live`](live::Live): the dispatcher, which takes records |
//! | `unfinished.rs` | [`Unfinished`](unfinished::Unfinished): transactions with chunks that have not ended |
//! | `lanes.rs` | [`Lanes`](lanes::Lanes): queues and workers |
//! | `watermark.rs` | [`Watermark`](watermark::Watermark): below which position everything is applied |
//! | `hash.rs` | the state hash, by which two databases are compared |

#![cfg_attr(not(test), expect(dead_code, reason = "opening a replica's directory comes next"))]

pub(crate) mod hash;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod unfinished;
pub(crate) mod watermark;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
