//! [`ReadsRow`]: what became of sampled reads, as `collie_training.reads` shows it: a row of the primary that takes and ships them, one of
//! the replica that runs them again.

use super::{SessionFacts, output::Output};
use crate::types::Value;

/// What became of reads that were given to be shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsShipped {
    /// Handed to a socket, once for each replica.
    pub shipped: u64,
    /// Dropped because they were a second old.
    pub late: u64,
    /// Dropped because too many waited.
    pub full: u64,
}

/// Sampled reads on one side, since the database was opened. What is nothing there is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadsRow {
    /// `primary` or `replica`.
    pub side: &'static str,
    /// Taken from clients; on a replica: received.
    pub taken: u64,
    /// Handed to a socket, once for each replica.
    pub shipped: Option<u64>,
    /// Run again, to their end.
    pub run: Option<u64>,
    /// Rows that they returned: those taken, or those run again.
    pub rows: u64,
    /// Rows that those run again had returned on the primary.
    pub primary_rows: Option<u64>,
    /// Processor time that running them again took, in microseconds.
    pub spent_us: Option<u64>,
    /// Dropped because they were a second late.
    pub late: u64,
    /// Dropped because too many waited.
    pub full: u64,
    /// Chosen, and not fit to be run elsewhere.
    pub unfit: u64,
    /// Dropped because their text was not known.
    pub unknown: Option<u64>,
    /// Those that failed, of which some ran too long or kept too much in memory.
    pub failed: Option<u64>,
}

/// The rows, of whichever sides this node has been.
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
