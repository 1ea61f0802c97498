//! `collie bench tpcc`: the TPC-C workload, written from its rules (revision 5.11) and not from other code. It runs on
//! the engine in this process, on its SQL layer without a server, and on any server that speaks PostgreSQL's protocol.
//!
//! This is not an audited TPC-C: there are no priced systems, no terminals with screens and no eight-hour runs. Schema,
//! population, the five transactions, their mix, their input and the consistency conditions follow the specification;
//! the clause numbers were not checked against its text again. `docs/bench/tpcc.md` lists the differences.
//!
//! | file | noun |
//! |---|---|
//! | `scale.rs`, `chance.rs` | row counts; random values |
//! | `population.rs` | the initial rows |
//! | `request.rs` | the requests of a terminal and their proportions |
//! | `pace.rs`, `drive.rs`, `tally.rs` | arrival times; clients that run requests; counters |
//! | `target.rs` | a database: [`target::Target`], its sessions |
//! | `embedded.rs`, `layout.rs` | the engine in this process, its keys and values |
//! | `tables.rs`, `schema.rs`, `numeric.rs` | an SQL database: its tables and statements |
//! | `line.rs`, `own.rs` | a session of an SQL database: on a server, or of the SQL layer in this process |
//! | `load.rs` | the mix at a steady rate, for demonstration, not measurement |
//! | `audit.rs`, `snapshot.rs`, `books.rs` | a database whose rows are read; those of an SQL database; the consistency conditions |
//! | `settings.rs`, `study.rs` | the settings; the runs and their report |
//!
//! `drive`, `target` and `pace` do not depend on the report, so another benchmark can run the workload on its own
//! target.

mod audit;
pub(crate) mod books;
#[path = "../../../workload/src/chance.rs"]
mod chance;
#[path = "../../../workload/src/drive.rs"]
mod drive;
mod embedded;
mod layout;
#[path = "../../../workload/src/line.rs"]
mod line;
#[path = "../../../workload/src/load.rs"]
mod load;
#[path = "../../../workload/src/numeric.rs"]
mod numeric;
mod own;
#[path = "../../../workload/src/pace.rs"]
mod pace;
#[path = "../../../workload/src/population.rs"]
mod population;
#[path = "../../../workload/src/request.rs"]
mod request;
#[path = "../../../workload/src/scale.rs"]
mod scale;
#[path = "../../../workload/src/schema.rs"]
mod schema;
mod settings;
mod snapshot;
mod study;
#[path = "../../../workload/src/tables.rs"]
mod tables;
#[path = "../../../workload/src/tally.rs"]
mod tally;
#[path = "../../../workload/src/target.rs"]
mod target;

#[cfg(test)]
#[path = "../../../workload/src/drive_tests.rs"]
mod drive_tests;
#[cfg(test)]
mod tpcc_tests;

pub(crate) use audit::Audited;
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
