//! `collie-bench tpcc`: TPC-C's workload ([`collie_workload`]) on the engine in this process, on its SQL layer without
//! a server, and on any server that speaks PostgreSQL's protocol, with the consistency conditions of the specification.
//! `docs/bench/tpcc.md` lists the differences to TPC-C.
//!
//! | file | noun |
//! |---|---|
//! | `embedded.rs`, `layout.rs` | the engine in this process, its keys and values |
//! | `own.rs` | a session of the SQL layer in this process |
//! | `audit.rs`, `snapshot.rs` | a database whose rows are read; those of an SQL database |
//! | `books.rs` | the consistency conditions |
//! | `settings.rs`, `study.rs` | the settings; the runs and their report |

mod audit;
pub(crate) mod books;
mod embedded;
mod layout;
mod own;
mod settings;
mod snapshot;
mod study;

#[cfg(test)]
mod tpcc_tests;

pub(crate) use audit::Audited;
pub(crate) use embedded::Embedded;
pub use settings::{TpccSettings, TpccTarget};
pub use study::tpcc_bench;
