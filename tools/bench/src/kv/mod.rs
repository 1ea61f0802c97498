//! `collie-bench kv`: the embedded key-value engine under workloads of RocksDB's db_bench, compared with db_bench
//! itself if it is named.
//!
//! Keys, values and benchmarks are db_bench's, and a thread does the same work here as there. The cells of a question
//! run in turn, each on both databases, so that a change in the machine's speed affects all of them.
//!
//! | file | holds |
//! |---|---|
//! | `settings.rs`, `load.rs` | what is asked; the settings of one load, and the same as db_bench's flags |
//! | `draw.rs`, `workload.rs` | keys and values; one benchmark, as one thread runs it |
//! | `ours.rs` | the database: opening, warm-up, threads |
//! | `figures.rs`, `volume.rs` | the results of one benchmark, and the bytes that it wrote |
//! | `peer.rs`, `peer_text.rs` | db_bench with the same settings, and the figures in its output |
//! | `cells.rs` | loads run by run, alternately on both databases, and their rows |
//! | `loads.rs`, `study.rs` | the questions: loads for which figures are promised; experiments on the log |

mod cells;
mod draw;
mod figures;
mod load;
pub(crate) mod loads;
mod ours;
mod peer;
mod peer_text;
mod settings;
pub(crate) mod study;
mod volume;
mod workload;

#[cfg(test)]
mod kv_tests;

pub use settings::KvSettings;
