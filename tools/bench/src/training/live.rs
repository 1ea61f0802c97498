//! Changes settings of collection while a server runs, so that both runs of a pair use the same server with the same
//! rows.

use std::time::Duration;

use anyhow::Context;
use postgres::Client;

use crate::Plan;
use crate::replication::pair::Pair;

/// The time that a server may take to follow a request: its thread for samples looks every tenth of a second, and a
/// second after its start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Primary,
    Replica,
}

impl Node {
    /// Opens a session on it.
    ///
    /// # Errors
    /// Those of the driver; there is no replica.
    pub(crate) fn connect(self, pair: &Pair) -> anyhow::Result<Client> {
        match self {
            Self::Primary => pair.connect(),
            Self::Replica => pair.connect_replica(),
        }
    }
}

/// Sets an option of `collie_set_option` on a node of `pair`.
///
/// # Errors
/// Those of the driver; there is no such option.
pub(crate) fn set(pair: &Pair, node: Node, name: &str, value: &str) -> anyhow::Result<()> {
    let call = format!("CALL collie_set_option('{name}', '{value}')");
    node.connect(pair)?.batch_execute(&call).with_context(|| format!("{}: {call}", pair.name()))
}

/// Turns samples of a node on or off, and waits until that has taken effect.
///
/// # Errors
/// Those of the driver; it takes no effect within a minute: the disk is full, or no thread drains samples.
pub(crate) fn set_samples(plan: &Plan, pair: &Pair, node: Node, on: bool) -> anyhow::Result<()> {
    set(pair, node, "training.samples", if on { "on" } else { "off" })?;
    let wanted = if on { "collecting" } else { "off" };
    let mut session = node.connect(pair)?;
    plan.until(PATIENCE, &format!("{}: samples are not {wanted}", pair.name()), || {
        let state: String = session.query_one("SELECT samples FROM collie_training.policy", &[])?.get(0);
        Ok((state == wanted).then_some(()))
    })
}

/// The counters of a node's collection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Collected {
    /// Samples that were taken, and `lost` those that were dropped since they were not drained in time.
    pub(crate) samples: f64,
    pub(crate) lost: f64,
    /// The cost that the node reports for them, in microseconds.
    pub(crate) spent_us: f64,
}

impl Collected {
    /// Reads the counters of a node.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn of(pair: &Pair, node: Node) -> anyhow::Result<Self> {
        let mut session = node.connect(pair)?;
        let units =
            session.query_one("SELECT sum(samples)::float8, sum(dropped)::float8 FROM collie_training.units", &[])?;
        let policy = session.query_one("SELECT samples_spent_us::float8 FROM collie_training.policy", &[])?;
        Ok(Self { samples: units.get(0), lost: units.get(1), spent_us: policy.get(0) })
    }

    /// Returns the difference to `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            samples: self.samples - before.samples,
            lost: self.lost - before.lost,
            spent_us: self.spent_us - before.spent_us,
        }
    }
}
