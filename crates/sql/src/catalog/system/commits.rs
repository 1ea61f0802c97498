//! [`CommitsRow`]: how commits end here and how long they wait, as `collie_commits` shows it.

use super::{SessionFacts, output::Output};
use crate::types::Value;

/// How long commits waited for the disk, and for replicas where they are asked, among those of the last ten to twenty seconds. Zero where
/// there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitsRow {
    /// Commits whose time was noted: not those with `synchronous_commit = off`, and not all of those that end at one moment.
    pub noted: u64,
    /// Half of them did not wait longer, in microseconds; at most 1/64 above the truth, as is the next.
    pub p50_us: u64,
    /// All but one in a hundred did not wait longer.
    pub p99_us: u64,
    /// The longest wait.
    pub max_us: u64,
}

/// One row.
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
