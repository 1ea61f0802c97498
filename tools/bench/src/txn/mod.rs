//! The questions of `collie-bench txn`, one file each, and their shared parts.
//!
//! | file | holds |
//! |---|---|
//! | `embedded` | the engine without a server: on a disk that keeps nothing, or on a real one |
//! | `wire` | rows of loads that pgbench ran |
//! | the others | a section each |
//!
//! Sections over the wire run on [`crate::servers`].

pub(crate) mod commit_latency;
pub(crate) mod commits;
pub(crate) mod deadlock;
pub(crate) mod embedded;
pub(crate) mod hot_row;
pub(crate) mod long_statements;
pub(crate) mod mixes;
pub(crate) mod old_snapshot;
pub(crate) mod read_only;
pub(crate) mod savepoints;
pub(crate) mod snapshot;
pub(crate) mod visibility;
pub(crate) mod wire;

/// Rows of the embedded engine.
pub(crate) const ENGINE: &str = "collie engine";

/// Returns for example "1 thread" or "2 threads".
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns a count as a figure of the tables.
pub(crate) fn count_of(count: usize) -> f64 {
    crate::measures::float(u64::try_from(count).unwrap_or(u64::MAX))
}
