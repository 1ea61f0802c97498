//! TPC-C's transactions on SQL databases, written from its rules (revision 5.11) and not from other code: the load of
//! `collie demo`, and the workload of several benchmarks.
//!
//! # What it is
//! [`TpccLoad`] fills the tables of a server and requests transactions at a steady rate until it is stopped. It is made
//! of parts that run on any [`Target`](target::Target): initial rows ([`Population`]), requests in the proportions of
//! the specification ([`request`]), the times at which they are due ([`Pacing`]), and clients that run and count them
//! ([`drive()`]). [`Tables`] is the target for SQL: any server that speaks PostgreSQL's protocol ([`Wire`]), or what
//! else opens a [`Line`](line::Line).
//!
//! # What it is not
//! An audited TPC-C: there are no priced systems, no terminals with screens and no eight-hour runs. Schema, population,
//! the five transactions, their mix and their input follow the specification; the clause numbers were not checked
//! against its text again. The consistency conditions and the figures are `collie-bench`'s, and so is the target that
//! is an engine without SQL. `docs/bench/tpcc.md` lists the differences.
//!
//! | file | noun |
//! |---|---|
//! | `scale.rs`, `random.rs`, `chance.rs` | row counts; random numbers; the random values of the specification |
//! | `population.rs` | the initial rows |
//! | `request.rs` | the requests of a terminal and their proportions |
//! | `pace.rs`, `drive.rs`, `tally.rs` | arrival times; clients that run requests; counters |
//! | `target.rs` | a database: [`target::Target`], its sessions |
//! | `tables.rs`, `schema.rs`, `numeric.rs` | an SQL database: its tables and statements |
//! | `line.rs` | a session of an SQL database |
//! | `load.rs` | the mix at a steady rate, for demonstration |
#![forbid(unsafe_code)]

mod chance;
mod drive;
pub mod line;
mod load;
mod numeric;
mod pace;
pub mod population;
mod random;
pub mod request;
mod scale;
mod schema;
mod tables;
mod tally;
pub mod target;

#[cfg(test)]
mod drive_tests;

pub use chance::{Chance, Constants};
pub use drive::{Course, Run, drive, drive_until};
pub use load::{LoadDone, TpccLoad};
pub use numeric::Money;
pub use pace::{Pacing, sleep_until};
pub use population::Population;
pub use random::Random;
pub use request::Kind;
pub use scale::{DISTRICTS, Scale};
pub use tables::{BEGIN_READING, Tables, Wire};
pub use tally::{KindTally, Tally};
