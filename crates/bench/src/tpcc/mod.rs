//! `collie bench tpcc`: the workload of TPC-C, written from its rules (revision 5.11), not from other code, on the engine in this process and on
//! any server that speaks PostgreSQL's protocol.
//!
//! Not an audited TPC-C: there are no priced systems, no terminals with screens and no eight-hour runs. Schema, population, the five
//! transactions, their mix, their input and the consistency conditions are the specification's, by clause numbers that were
//! not compared with its text again; what differs is said in `docs/bench/tpcc.md`.
//!
//! | file | noun |
//! |---|---|
//! | `scale.rs`, `chance.rs` | how many rows; random values |
//! | `population.rs` | the rows there are at first |
//! | `request.rs` | what a terminal asks for, in which proportion |
//! | `pace.rs`, `drive.rs`, `tally.rs` | when; clients that run requests; what is counted |
//! | `target.rs` | a database: [`target::Target`], its sessions and readers |
//! | `embedded.rs`, `layout.rs` | the engine in this process, its keys and values |
//! | `wire.rs`, `schema.rs`, `numeric.rs` | a server, its tables and statements |
//! | `books.rs` | the consistency conditions |
//! | `settings.rs`, `study.rs` | what is asked for; the runs and their report |
//!
//! `drive`, `target` and `pace` know no report: another benchmark can run the workload on a target of its own.

mod books;
mod chance;
mod drive;
mod embedded;
mod layout;
mod numeric;
mod pace;
mod population;
mod request;
mod scale;
mod schema;
mod settings;
mod study;
mod tally;
mod target;
mod wire;

#[cfg(test)]
mod tpcc_tests;

pub use pace::Pacing;
pub use settings::{TpccSettings, TpccTarget};
pub use study::tpcc_bench;
