//! Measures the parts of Collie; each figure is compared with its floor or its peers in the same run on the same
//! machine.
//!
//! # What it is
//! `collie-bench log` calls [`log_bench`] with a [`Plan`], `collie-bench txn` [`txn_bench`], `collie-bench index`
//! [`index_bench`], `collie-bench kv` [`kv_bench`], `collie-bench tpcc` [`tpcc_bench`], `collie-bench replication`
//! [`replication_bench`] and `collie-bench training` [`training_bench`]; all print the [`Report`]. Transactions are
//! measured in the embedded engine, and over the wire against PostgreSQL on the same machine (`txn`, `servers`). The
//! log is measured in memory: Collie's own log and the protocols of similar systems (`protocols`) carry the same
//! records through the same ring into a sink that drops them (`harness`, `collie`). `benches` lists all questions. The
//! README says how each figure is made.
//!
//! # What it is not
//! No test depends on a figure: the tests of this crate check that the protocols carry every record, and that the
//! tables are correct. Peers from other projects are in `bench/compare`, outside the workspace.
//!
//! # How to read a row
//! Every row names its level, its ring and its comparison. Figures are medians with the lowest and highest run. A
//! target that is missed is marked `LOST` and stays in the table. Ratios can be compared across machines, figures
//! cannot.

mod benches;
mod closed_loop;
mod collie;
mod disk_floor;
mod files;
mod harness;
mod http;
mod index;
mod kv;
mod machine;
mod measures;
mod null_files;
mod page;
mod plan;
mod plots;
mod protocols;
mod questions;
mod record;
mod replication;
mod report;
mod ring;
mod servers;
mod spread;
mod subject;
mod subjects;
mod thread_time;
mod together;
mod tpcc;
mod training;
mod txn;
mod write_each;
mod ycsb;

#[cfg(test)]
mod bench_tests;
#[cfg(test)]
mod index_bench_tests;
#[cfg(test)]
mod protocols_tests;
#[cfg(test)]
mod txn_bench_tests;

pub use benches::{index_bench, kv_bench, log_bench, replication_bench, training_bench, training_questions, txn_bench};
pub use collie_base::Latencies;
pub use collie_workload::Pacing;
pub use disk_floor::{DiskFloor, FloorSlice};
pub use files::Scratch;
pub use index::memory::index_memory;
pub use kv::KvSettings;
pub use machine::Machine;
pub use page::{markdown_table, protocols_table, sections_in_markdown, write_between};
pub use plan::{Pace, Plan};
pub use plots::draw;
pub use replication::{PairSettings, replication_targets};
pub use report::{Beside, Figure, Report, Row, Section, Target};
pub use spread::Spread;
pub use tpcc::{TpccSettings, TpccTarget, tpcc_bench};
pub use training::beside::six_calls_with_samples;
