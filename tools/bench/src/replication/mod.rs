//! `collie-bench replication`: how far a replica is behind, what it costs, and how fast it catches up, compared with
//! PostgreSQL's streaming replication on the same machine.
//!
//! | file | noun |
//! |---|---|
//! | `pair_settings.rs` | how questions about a primary and its replica are asked |
//! | `pair.rs` | a primary and its replica, in separate processes |
//! | `relay.rs` | a network between them that can be held |
//! | `watch.rs` | how far the replica is behind, measured in two ways |
//! | `floors.rs` | lower bounds |
//! | `rate.rs`, `time.rs` | delay against arrival rate, and over time |
//! | `delay.rs` | the primary's measurement, compared with what a client sees |
//! | `sync.rs`, `small.rs` | the cost of the levels of `synchronous_commit`; their load |
//! | `capacity.rs` | replay at full rate, against the peak that wrote the log |
//! | `catchup.rs` | catching up, and being filled |
//! | `failover.rs` | kill, promotion, first write, return |
//! | `targets.rs` | the findings in a few lines |
//!
//! # What always holds
//! - B1. A figure of a pair is reported only if the replica showed the same rows as the primary afterwards, and all
//!   twelve conditions of TPC-C held on both.
//! - B2. Every duration is measured on one clock: the benchmark's, or the primary's.

pub(crate) mod capacity;
pub(crate) mod catchup;
pub(crate) mod delay;
pub(crate) mod failover;
pub(crate) mod floors;
pub(crate) mod pair;
mod pair_settings;
pub(crate) mod rate;
pub(crate) mod relay;
pub(crate) mod small;
pub(crate) mod sync;
mod targets;
pub(crate) mod time;
pub(crate) mod watch;

pub use pair_settings::PairSettings;
pub use targets::replication_targets;
