//! Execution: runs a plan, row by row, as a state machine that can stop at a lock or at a full sink and continue later.
//!
//! It is not a future, and nothing of it holds a pin or a latch across a return (SQL-8). It decides nothing about the
//! shape of a query; `plan` has done that.
//!
//! # Invariants
//! - E1. Only writes and row locks wait. Scans, joins and sorts stop after about a millisecond, or when an input waits,
//!   and then continue where they were. Subqueries of expressions run to their end; those that may wait are computed
//!   before anything else runs (`cte` W3).
//! - E2. A statement never sees its own writes (the engine's command id), so operators need no check for them.
//! - E3. A table and all its indexes change in one transaction: a row and its entries are written by one statement,
//!   whatever it waits for in between (SQL-6).
//!
//! Checked by `tests`: SQL in, rows out; two sessions in conflict; the content of indexes after random statements.

mod aggregate;
mod computed;
mod conflict;
mod context;
mod cte;
mod delete;
mod dml;
mod entry;
mod error;
mod eval;
mod execution;
mod families;
pub mod foreign;
mod hash_join;
mod held;
pub mod index_build;
mod insert;
mod keyspan;
mod lock;
mod machine;
mod nest_loop;
mod op;
mod query_memory;
mod row_ids;
mod row_update;
mod rowkey;
mod scan;
mod set_operation;
mod sort;
mod source;
mod subquery;
mod target_row;
mod update;

pub use context::{Aside, EvalParts, ExecContext, RowSink, Step, VirtualTables};
pub(crate) use context::{cancelled, check_cancel};
pub use error::from_engine;
pub use execution::Execution;
pub(crate) use held::{Held, Kept};
pub use query_memory::QueryMemory;
pub use row_ids::RowIds;

#[cfg(test)]
mod tests;
