//! `Collecting`: the policies of collection that a pair is measured under, one after the other, while it runs.

use std::time::Duration;

use collie_train::policy::PolicyKind;

use super::live::{Collected, Node, set, set_samples};
use super::settings::TrainingSettings;
use crate::Section;
use crate::replication::ReplicationSettings;
use crate::replication::pair::{self, Arm, Launch, Pair};
use crate::replication::watch;

/// Returns the name of a policy in tables.
pub(crate) fn policy_name(policy: PolicyKind) -> String {
    let number = PolicyKind::ALL.iter().position(|kind| *kind == policy).unwrap_or(0);
    format!("P{number} {}", policy.name())
}

/// A policy begins anew when it is set: some ticks, and a control window, which says what the delay is without collection.
const SETTLE: Duration = Duration::from_millis(500);

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// P0.
    Nothing,
    /// P1: whatever is offered, up to `training.collection_cpu`.
    Always,
    /// P6, the default.
    Headroom,
}

impl Collecting {
    /// The first is what the others stand beside.
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Always, Self::Headroom];

    /// Returns its name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "collection off (P0)",
            Self::Always => "always (P1)",
            Self::Headroom => "headroom (P6)",
        }
    }

    /// Has the replica of `pair` collect so from now on.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn begin(self, settings: &TrainingSettings, pair: &Pair) -> anyhow::Result<()> {
        let policy = match self {
            Self::Nothing => "none",
            Self::Always => "always",
            Self::Headroom => "headroom",
        };
        set(pair, Node::Replica, "training.collection_policy", policy)?;
        std::thread::sleep(SETTLE.min(settings.time));
        Ok(())
    }
}

/// Starts a pair that has TPC-C and the row that is watched, and whose replica may take samples, each process on a core of its own if there
/// are two.
///
/// # Errors
/// It does not start; the driver's.
pub(crate) fn loaded_pair(
    replication: &ReplicationSettings,
    cores: Option<[usize; 2]>,
    section: &mut Section,
) -> anyhow::Result<Pair> {
    super::cores::note_cores(section, cores);
    let pair = pair::launch(replication, Arm::Collie, Launch { cores, ..Launch::default() })?;
    pair.load(replication)?;
    let _look_us = watch::prepare(&pair, replication)?;
    // A replica that takes no samples would be as fast under each policy.
    set_samples(&replication.plan, &pair, Node::Replica, true)?;
    Ok(pair)
}

/// Returns what `run` returned, and how many samples the replica of `pair` took meanwhile.
///
/// # Errors
/// Those of `run`; the driver's.
pub(crate) fn with_samples<T>(pair: &Pair, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let before = Collected::of(pair, Node::Replica)?;
    let done = run()?;
    Ok((done, Collected::of(pair, Node::Replica)?.since(before).samples))
}
