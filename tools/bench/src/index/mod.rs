//! The sections of `collie-bench index`: which ordered index should hold the rows?
//!
//! | file | holds |
//! |---|---|
//! | `shards` | a candidate to compare with the store's own, behind its `OrderedIndex` |
//! | `rows` | the rows that are inserted, and the orders in which they are used |
//! | `fill` | inserts into a new index, in order and at random |
//! | `look` | lookups by key, scans of a hundred rows both ways, alone and with a concurrent writer |
//! | `churn` | inserts and removals for a while: all over a full index, or all in one leaf |
//! | `memory` | bytes per key, before and after that, in a separate process |
//!
//! Rows are made before the clock starts, so only the index is timed. In each run the candidates take turns.

pub(crate) mod churn;
pub(crate) mod fill;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod rows;
pub(crate) mod shards;

use crate::{Plan, Section, measures::median, report::Row, together::Load, txn::count_of};

/// The candidate with which every other is compared: one B-tree behind one lock.
pub(crate) const FLOOR: &str = "one lock (floor)";

/// Calls `$function` for each candidate as its type argument: an array of names and functions.
macro_rules! candidates {
    ($function:ident) => {
        [
            ($crate::index::FLOOR, $function::<collie_store::BTreeIndex> as fn(_, _) -> _),
            ("partitions", $function::<collie_store::PartitionedIndex>),
            ("64 locks", $function::<$crate::index::shards::Shards>),
        ]
    };
}
pub(crate) use candidates;

/// One case: the operation, the length of its keys, and the threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The operation, as named in the table.
    pub(crate) what: &'static str,
    pub(crate) key_bytes: usize,
    pub(crate) threads: usize,
}

impl Case {
    fn name(&self) -> String {
        format!("{}, {} B, {}", self.what, self.key_bytes, crate::txn::counted(self.threads, "thread"))
    }
}

/// Numbers of threads.
pub(crate) const THREADS: [usize; 3] = [1, 2, 8];
/// Key lengths: one that a `Key` stores inline, and one that it does not.
pub(crate) const KEY_BYTES: [usize; 2] = [16, 100];

/// Measures all `cases` with each candidate, run by run, and adds the rows to the section. `answer` gets the index of a
/// candidate and the number of a run, and returns a load for each case. `rate`: the key of the rate figure.
///
/// # Errors
/// The first of `answer`.
pub(crate) fn in_turn(
    plan: &Plan,
    section: &mut Section,
    cases: &[Case],
    rate: &'static str,
    mut answer: impl FnMut(usize, u64) -> anyhow::Result<Vec<Load>>,
) -> anyhow::Result<()> {
    let mut answers: Vec<Vec<Vec<Load>>> = NAMES.iter().map(|_| Vec::new()).collect();
    for (run, _) in (0..).zip(0..plan.runs()) {
        for (candidate, name) in NAMES.iter().enumerate() {
            let bytes = cases.first().map_or(0, |case| case.key_bytes);
            plan.say(&format!("{}: {bytes} B, {name}, run {}", section.name, run + 1));
            answers[candidate].push(answer(candidate, run)?);
        }
    }
    for (at, case) in cases.iter().enumerate() {
        let mut floor = None;
        for (name, runs) in NAMES.iter().zip(&answers) {
            let loads = || runs.iter().map(|loads| &loads[at]);
            let rates: Vec<f64> = loads().map(Load::rate).collect();
            let slowest = |per_mille| -> Vec<f64> {
                loads().map(|load| crate::measures::float(load.latencies.at_per_mille(per_mille))).collect()
            };
            let row = Row::new(*name, case.name(), "memory", "none")
                .at(count_of(case.threads))
                .runs(rate, &rates)
                .runs("p50_ns", &slowest(500))
                .runs("p999_ns", &slowest(999));
            let floor = *floor.get_or_insert(median(&rates));
            section.rows.push(if *name == FLOOR { row } else { row.beside(FLOOR, median(&rates) / floor) });
        }
    }
    Ok(())
}

/// Returns each of `what` with every number of threads.
pub(crate) fn cases(what: &[&'static str], key_bytes: usize) -> Vec<Case> {
    what.iter().flat_map(|what| THREADS.map(|threads| Case { what, key_bytes, threads })).collect()
}

/// The names of the [`candidates!`], in the same order.
const NAMES: [&str; 3] = [FLOOR, "partitions", "64 locks"];

#[cfg(test)]
mod tests;
