//! `collie-bench kv`: the embedded key-value engine under db_bench's workloads, optionally compared with db_bench
//! itself.
//!
//! Flags, names of benchmarks, keys, values and report lines are those of RocksDB's db_bench, so that the lines can be
//! compared directly. A thread does the same work here as in db_bench; `micros/op` is the sum of the threads' time per
//! operation, and `ops/sec` counts all threads. Collie's own lines follow db_bench's line: how long commits take, how
//! much of that the log takes, and how many bytes were written and are on disk per byte of the user.
//!
//! | file | holds |
//! |---|---|
//! | `flags.rs`, `peer_flags.rs` | the flags: those with a meaning here, those without effect, those that are refused |
//! | `draw.rs` | keys and values |
//! | `workload.rs`, `transactions.rs`, `pace.rs` | one benchmark, as one thread runs it |
//! | `ours.rs`, `watch.rs` | the database: opening, warm-up, threads, what is observed meanwhile |
//! | `drive.rs` | the list of benchmarks, run by run, alternating with the peer |
//! | `line.rs`, `volume.rs` | the figures of one benchmark, and the lines that report them |
//! | `peer.rs` | db_bench with the same flags |
//! | `matrix/` | several experiments in one call, as a report |

mod draw;
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
