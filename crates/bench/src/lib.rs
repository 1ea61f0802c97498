//! Measures Collie's parts, each figure beside its floor or its peers, taken in the same run on the same machine.
//!
//! # What it is
//! `collie bench log` calls [`log_bench`] with a [`Plan`], `collie bench txn` calls [`txn_bench`],
//! `collie bench index` [`index_bench`], `collie bench kv` [`kv_bench`], `collie bench tpcc` [`tpcc_bench`], `collie bench replication`
//! [`replication_bench`], `collie bench training` [`training_bench`], and all print the [`Report`]. Transactions are measured in the embedded engine, and over the wire beside PostgreSQL on the same machine
//! (`txn`, `servers`). Of the log: in memory, Collie's own log and the
//! protocols of its relatives (`protocols`) carry the same records through the same ring into a sink that drops them
//! (`harness`, `collie`); on disk, commits stand beside a loop that writes 4 KiB and syncs. What an append executes, and what
//! its stops do to others, is found out from outside (`trace`). How each figure is made is in the README.
//!
//! # What it is not
//! No test depends on a figure: the tests of this crate check that the protocols carry every record, and that the tables
//! are right. Peers from other projects are in `bench/compare`, outside the workspace.
//!
//! # How to read a row
//! Every row names its level and ring and what it stands beside; figures are medians with the lowest and highest run;
//! a target that is missed is marked `LOST` and stays in. Ratios travel between machines, figures do not.

mod clients;
mod closed_loop;
mod collie;
mod counters;
mod curves;
mod disk_floor;
mod failing_files;
mod files;
mod harness;
mod hog;
mod http;
mod index;
mod index_bench;
#[cfg(test)]
mod index_bench_tests;
mod kv;
mod log_bench;
mod machine;
mod measures;
mod null_files;
mod plan;
mod plots;
mod protocols;
mod readme;
mod record;
mod replication;
mod report;
mod ring;
mod servers;
mod spread;
mod subject;
mod subjects;
mod thread_time;
mod tpcc;
mod trace;
mod training;
mod training_bench;
mod txn;
mod txn_bench;
mod write_each;
mod ycsb;

#[cfg(test)]
mod bench_tests;
#[cfg(test)]
mod protocols_tests;
#[cfg(test)]
mod txn_bench_tests;

pub use collie_base::Latencies;
pub use disk_floor::{DiskFloor, FloorSlice};
pub use files::Scratch;
pub use index::memory::index_memory;
pub use index_bench::index_bench;
pub use kv::{KvFlags, UsageError, kv_bench};
pub use log_bench::{log_bench, section_names};
pub use machine::Machine;
pub use plan::{Pace, Plan};
pub use plots::draw;
pub use readme::{markdown_table, protocols_table, sections_in_markdown, write_between};
pub use replication::{
    ReplayScheme, ReplicationSettings, replication_bench, replication_estimate, replication_targets,
};
pub use report::{Beside, Figure, Report, Row, Section, Series, Target};
pub use spread::Spread;
pub use tpcc::{LoadDone, Pacing, TpccLoad, TpccSettings, TpccTarget, tpcc_bench};
pub use trace::{TracerProgram, trace_thread};
pub use training::{beside::beside_samples, settings::TrainingSettings};
pub use training_bench::{TRAINING_QUESTIONS, training_bench};
pub use txn_bench::txn_bench;
