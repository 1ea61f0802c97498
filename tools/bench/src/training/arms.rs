//! `Collecting`: the collection policies that a pair is measured under, one after the other, while it runs.

use std::time::Duration;

use collie_train::policy::PolicyKind;

use super::live::{Collected, Node, set, set_samples};
use crate::Section;
use crate::replication::PairSettings;
use crate::replication::pair::{self, Arm, Launch, Pair};
use crate::replication::watch;

/// Returns the name of a policy in tables.
pub(crate) fn policy_name(policy: PolicyKind) -> String {
    let number = PolicyKind::ALL.iter().position(|kind| *kind == policy).unwrap_or(0);
    format!("P{number} {}", policy.name())
}

/// A policy starts from its initial state when it is set: some ticks, and a control window that measures the delay
/// without collection.
const SETTLE: Duration = Duration::from_millis(500);

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// P0.
    Nothing,
    /// P1: everything that is offered, up to `training.collection_cpu`.
    Always,
    /// P6, the default.
    Headroom,
}

impl Collecting {
    /// The first is the baseline of the others.
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Always, Self::Headroom];

    /// Returns its name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "collection off (P0)",
            Self::Always => "always (P1)",
            Self::Headroom => "headroom (P6)",
        }
    }

    /// Makes the replica of `pair` collect under this policy from now on.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn begin(self, settings: &PairSettings, pair: &Pair) -> anyhow::Result<()> {
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

/// Starts a pair with TPC-C and the watched row, whose replica may take samples. Each process has its own core if
/// there are two.
///
/// # Errors
/// It does not start; the errors of the driver.
pub(crate) fn loaded_pair(
    settings: &PairSettings,
    cores: Option<[usize; 2]>,
    section: &mut Section,
) -> anyhow::Result<Pair> {
    super::cores::note_cores(section, cores);
    let pair = pair::launch(settings, Arm::Collie, Launch { cores, ..Launch::default() })?;
    pair.load(settings)?;
    let _look_us = watch::prepare(&pair, settings)?;
    // A replica that takes no samples would be equally fast under each policy.
    set_samples(&settings.plan, &pair, Node::Replica, true)?;
    Ok(pair)
}

/// Returns the result of `run`, and the number of samples that the replica of `pair` took meanwhile.
///
/// # Errors
/// Those of `run` and of the driver.
pub(crate) fn with_samples<T>(pair: &Pair, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let before = Collected::of(pair, Node::Replica)?;
    let done = run()?;
    Ok((done, Collected::of(pair, Node::Replica)?.since(before).samples))
}
