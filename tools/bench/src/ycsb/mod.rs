//! YCSB's workloads A and B (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), written from
//! their description, not from other code: clients that read and update single rows by key, some rows far more often
//! than others.
//!
//! | file | noun |
//! |---|---|
//! | `zipfian.rs` | the choice of the requested row |
//! | `workload.rs` | the requests and their proportions |
//! | `table.rs` | the rows |
//! | `clients.rs` | sessions that send requests |
//!
//! The core properties of YCSB are implemented: ten fields of 100 bytes in a row; a read returns all of them, an
//! update writes one; keys follow a scrambled zipfian distribution with constant 0.99. Differences: letters and digits
//! instead of any printable characters; keys are numbered in order (`insertorder=ordered`, all of one length), since
//! frequent keys are scattered anyway; probabilities are those of the actual number of rows, not of ten thousand
//! million. Not implemented: workloads C to F, and latencies by arrival (clients are a closed loop).
//!
//! # What always holds
//! - Y1. Runs with the same seed and number send the same requests, client by client, regardless of the server.
//! - Y2. A request for a row that does not exist, or that changes other than one row, ends the run.

mod clients;
mod table;
mod workload;
mod zipfian;

pub(crate) use clients::run;
pub(crate) use table::{FIELD_BYTES, FIELDS, UserTable};
pub(crate) use workload::Workload;
pub(crate) use zipfian::{ScrambledZipfian, THETA};
