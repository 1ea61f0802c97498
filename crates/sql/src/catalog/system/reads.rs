//! [`ReadsRow`]: the outcomes of sampled reads, as `collie_training.reads` shows them. The primary, which samples and
//! ships
//! reads, has one row, and a replica, which runs them again, has one.

use super::{SessionFacts, output::Output};
use crate::types::Value;

/// The outcomes of reads that were queued to be shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsShipped {
    /// Written to a socket, counted once for each replica.
    pub shipped: u64,
    /// Dropped because they were one second old.
    pub late: u64,
    /// Dropped because the queue was full.
    pub full: u64,
}

/// Sampled reads on one side, since the database was opened. A figure that does not apply to the side is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadsRow {
    /// `primary` or `replica`.
    pub side: &'static str,
    /// Taken from clients; on a replica, received.
    pub taken: u64,
    /// Written to a socket, counted once for each replica.
    pub shipped: Option<u64>,
    /// Run again to the end.
    pub run: Option<u64>,
    /// The rows that the reads returned: the sampled ones, or on a replica the repeated ones.
    pub rows: u64,
    /// The rows that the repeated reads had returned on the primary.
    pub primary_rows: Option<u64>,
    /// Processor time spent on repeating them, in microseconds.
    pub spent_us: Option<u64>,
    /// Dropped because they were late by one second.
    pub late: u64,
    /// Dropped because the queue was full.
    pub full: u64,
    /// Sampled, but not fit to run on another node.
    pub unfit: u64,
    /// Dropped because their text was not known.
    pub unknown: Option<u64>,
    /// Failed; among these are reads that ran too long or kept too much in memory.
    pub failed: Option<u64>,
}

/// Adds a row for each side that this node has been on.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let int = |number: u64| Value::Int8(i64::try_from(number).unwrap_or(i64::MAX));
    let some = |number: Option<u64>| number.map_or(Value::Null, int);
    for row in facts.replayed_reads() {
        out.push([
            ("side", Value::text(row.side)),
            ("taken", int(row.taken)),
            ("shipped", some(row.shipped)),
            ("run", some(row.run)),
            ("rows", int(row.rows)),
            ("primary_rows", some(row.primary_rows)),
            ("spent_us", some(row.spent_us)),
            ("late", int(row.late)),
            ("queue_full", int(row.full)),
            ("unfit", int(row.unfit)),
            ("unknown", some(row.unknown)),
            ("failed", some(row.failed)),
        ]);
    }
}
