//! `collie bench kv`: the embedded key-value engine under db_bench's workloads, beside db_bench itself if asked for.
//!
//! Flags, names of benchmarks, keys, values and report lines are those of RocksDB's db_bench, so that a line of ours can be
//! put beside a line of theirs. What db_bench calls a thread's work is a thread's work here; `micros/op` is the sum of the
//! threads' time by operation, `ops/sec` counts all threads.
//!
//! | file | what |
//! |---|---|
//! | `flags.rs` | the flags: what they mean here, which mean nothing, which are refused |
//! | `draw.rs` | keys, values and random numbers |
//! | `workload.rs` | one benchmark, as one thread runs it |
//! | `drive.rs` | opening, threads, repetition |
//! | `line.rs` | figures of one benchmark, and the line that says them |
//! | `peer.rs` | db_bench with the same flags |

mod draw;
mod drive;
mod flags;
mod line;
mod peer;
mod workload;

#[cfg(test)]
mod kv_tests;

pub use drive::kv_bench;
pub use flags::{KvFlags, UsageError};
