//! `record`: TPC-C on servers whose samples are kept.

use std::sync::Arc;

use super::live::{Node, set_samples};
use super::recorded::{Recorded, Window};
use crate::replication::ReplicationSettings;
use crate::replication::pair::Pair;
use crate::tpcc::Pacing;

/// Has a primary sample all of its calls, not a thousandth of them: else it would have too few samples to be compared with.
pub(crate) const SAMPLE_EVERYTHING: &str = "--sample-everything";
/// Has a server keep no samples until it is told to: those of loading would stand for most of what there is, and what is frequent is
/// thinned.
pub(crate) const NOT_YET: [&str; 2] = ["--set", "training.samples=off"];

/// Runs the load at so many transactions a second, begun by chance, on a loaded pair while its samples are kept, and stops it. Returns what
/// the primary recorded, and what its replica did, if it has one.
///
/// # Errors
/// The driver's; a server keeps no samples.
pub(crate) fn record(
    pair: Pair,
    with: &ReplicationSettings,
    per_s: f64,
) -> anyhow::Result<(Recorded, Option<Recorded>)> {
    let env = &with.plan.env;
    set_samples(&with.plan, &pair, Node::Primary, true)?;
    if !pair.is_alone() {
        set_samples(&with.plan, &pair, Node::Replica, true)?;
    }
    with.plan.say(&format!("{}: recording", pair.name()));
    let (window, ()) = Window::of(&*env.clock, || {
        pair.drive(with, 0, Pacing::Poisson(per_s))?;
        pair.until_even(with)
    })?;
    let (primary, replica) = pair.stop()?;
    let recorded = |scratch: Arc<crate::Scratch>| Recorded::in_scratch(env, scratch, window);
    Ok((recorded(primary), replica.map(recorded)))
}

/// Returns words as arguments of a server.
pub(crate) fn arguments(words: &[&[&str]]) -> Vec<String> {
    words.concat().into_iter().map(str::to_owned).collect()
}
