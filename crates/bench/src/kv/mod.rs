//! `collie bench kv`: the embedded key-value engine under db_bench's workloads, beside db_bench itself if asked for.
//!
//! Flags, names of benchmarks, keys, values and report lines are those of RocksDB's db_bench, so that a line of ours can be
//! put beside a line of theirs. What db_bench calls a thread's work is a thread's work here; `micros/op` is the sum of the
//! threads' time by operation, `ops/sec` counts all threads. Behind db_bench's line stand ours: how long commits take and how much
//! of that is the log's, and how many bytes were written and lie on the disk for each of the user's.
//!
//! | file | what |
//! |---|---|
//! | `flags.rs`, `peer_flags.rs` | the flags: what they mean here, which mean nothing, which are refused |
//! | `draw.rs` | keys, values and random numbers |
//! | `workload.rs`, `transactions.rs`, `pace.rs` | one benchmark, as one thread runs it |
//! | `ours.rs`, `watch.rs` | the database: opening, warming up, threads, what is seen meanwhile |
//! | `drive.rs` | the list of benchmarks, run by run, beside the peer |
//! | `line.rs`, `volume.rs` | figures of one benchmark, and the lines that say them |
//! | `peer.rs` | db_bench with the same flags |
//! | `matrix/` | several experiments in one call, as a report |

pub(crate) mod draw;
mod drive;
mod flags;
mod line;
mod matrix;
mod ours;
mod pace;
mod peer;
mod peer_flags;
mod transactions;
mod volume;
mod watch;
mod workload;

#[cfg(test)]
mod kv_tests;

pub use drive::kv_bench;
pub use flags::{KvFlags, UsageError};
