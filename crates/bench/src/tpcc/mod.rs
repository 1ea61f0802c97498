//! `collie bench tpcc`: the workload of TPC-C, written from its rules (revision 5.11), not from other code, on the engine in this process, on its
//! SQL without a server between, and on any server that speaks PostgreSQL's protocol.
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
//! | `tables.rs`, `schema.rs`, `numeric.rs` | a database of SQL: its tables and statements |
//! | `line.rs`, `own.rs` | a session of it: at a server, or of the SQL layer in this process |
//! | `load.rs` | the mix at a steady rate, to look at: no measurement |
//! | `books.rs` | the consistency conditions |
//! | `settings.rs`, `study.rs` | what is asked for; the runs and their report |
//!
//! `drive`, `target` and `pace` know no report: another benchmark can run the workload on a target of its own.

pub(crate) mod books;
mod chance;
mod drive;
mod embedded;
mod layout;
mod line;
mod load;
mod numeric;
mod own;
mod pace;
mod population;
mod request;
mod scale;
mod schema;
mod settings;
mod study;
mod tables;
mod tally;
mod target;

#[cfg(test)]
mod tpcc_tests;

pub(crate) use chance::Chance;
pub(crate) use drive::{Course, Run, drive, drive_until};
pub(crate) use embedded::Embedded;
pub(crate) use line::{Cells, Line, Lines};
pub use load::{LoadDone, TpccLoad};
pub(crate) use own::{OwnLine, OwnLines, OwnStatement};
pub use pace::Pacing;
pub(crate) use pace::sleep_until;
pub(crate) use population::Population;
pub(crate) use request::Kind;
pub(crate) use scale::Scale;
pub use settings::{TpccSettings, TpccTarget};
pub use study::tpcc_bench;
pub(crate) use tables::{Tables, Wire};
pub(crate) use target::Target;
