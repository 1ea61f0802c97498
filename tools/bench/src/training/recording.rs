//! `record`: TPC-C on servers whose samples are kept.

use std::sync::Arc;

use collie_workload::Pacing;

use super::live::{Node, set_samples};
use super::recorded::{Recorded, Window};
use crate::replication::PairSettings;
use crate::replication::pair::Pair;

/// Makes a server keep no samples until they are requested: those of loading would be most of all samples, and
/// frequent calls are thinned.
pub(crate) const NOT_YET: [&str; 2] = ["--set", "training.samples=off"];

/// Runs the load with `per_s` Poisson arrivals per second on a loaded pair while its samples are kept, and stops the
/// pair. Returns the samples of the primary, and those of its replica, if it has one.
///
/// # Errors
/// Those of the driver; a server keeps no samples.
pub(crate) fn record(pair: Pair, with: &PairSettings, per_s: f64) -> anyhow::Result<(Recorded, Option<Recorded>)> {
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
    let (primary, replica) = pair.stop();
    let recorded = |scratch: Arc<crate::Scratch>| Recorded::in_scratch(env, scratch, window);
    Ok((recorded(primary), replica.map(recorded)))
}

/// Returns `words` as arguments of a server.
pub(crate) fn arguments(words: &[&[&str]]) -> Vec<String> {
    words.concat().into_iter().map(str::to_owned).collect()
}
