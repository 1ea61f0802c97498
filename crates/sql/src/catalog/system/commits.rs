//! [`CommitsRow`]: the outcomes of commits on this node and the durations of their waits, as `collie_commits` shows
//! them.

use super::{SessionFacts, output::Output};
use crate::types::Value;

/// The durations for which commits waited for the disk, and for replicas if there is a quorum, over the last ten to
/// twenty seconds. Zero if there were no commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitsRow {
    /// The number of commits whose wait was measured. Commits with `synchronous_commit = off` are not measured, and not
    /// all
    /// of those that end at one moment are.
    pub noted: u64,
    /// The median wait, in microseconds; it is at most 1/64 too high, and so is the next.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The longest wait.
    pub max_us: u64,
}

/// Adds the one row.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let int = |number: u64| Value::Int8(i64::try_from(number).unwrap_or(i64::MAX));
    let (node, times) = (facts.node(), facts.commit_times());
    let time = |us: u64| if times.noted == 0 { Value::Null } else { int(us) };
    out.push([
        ("commits", int(node.commits)),
        ("aborts", int(node.aborts)),
        ("noted", int(times.noted)),
        ("p50_us", time(times.p50_us)),
        ("p99_us", time(times.p99_us)),
        ("max_us", time(times.max_us)),
    ]);
}
