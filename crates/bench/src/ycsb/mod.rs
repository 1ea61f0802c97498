//! YCSB's workloads A and B (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), written from their description, not from
//! other code: clients that read and update single rows by key, some rows far more often than others.
//!
//! | file | noun |
//! |---|---|
//! | `zipfian.rs` | which row is asked for |
//! | `workload.rs` | what is asked of it, in which proportion |
//! | `table.rs` | the rows |
//! | `clients.rs` | sessions that ask |
//!
//! Here are the core properties of YCSB: ten fields of 100 bytes in a row, a read takes all of them, an update writes one; keys by a scrambled
//! zipfian distribution with constant 0.99. What differs: letters and digits in place of any printable characters; keys are numbered in order
//! (`insertorder=ordered`, of one length), since what is asked for often is scattered anyhow; probabilities are those of as many rows as there
//! are, not of ten thousand millions. What is not here: workloads C to F, and latencies by arrival (clients are a closed loop).
//!
//! # What always holds
//! - Y1. Runs of the same seed and number ask for the same, client by client, whatever the server does.
//! - Y2. A request for a row that there is not, or that changes another number of rows than one, ends the run.

mod clients;
mod table;
mod workload;
mod zipfian;

pub(crate) use clients::run;
pub(crate) use table::{FIELD_BYTES, FIELDS, UserTable};
pub(crate) use workload::Workload;
pub(crate) use zipfian::{ScrambledZipfian, THETA};
