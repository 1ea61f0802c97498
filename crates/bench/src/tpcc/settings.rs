//! `TpccSettings`: what `collie bench tpcc` is to do.

use std::path::Path;
use std::time::Duration;

use super::pace::Pacing;
use super::scale::Scale;
use crate::{Pace, Plan};

/// A database to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TpccTarget {
    /// The engine in this process.
    Embedded,
    /// The same with commits answered before they are on disk, whatever the settings say of others.
    EmbeddedAsync,
    /// Collie's SQL in this process, with no server between.
    EmbeddedSql,
    /// Collie's server and PostgreSQL's, started for it.
    Servers,
    /// A server that runs.
    Url(String),
}

/// What is run, and how.
#[derive(Clone)]
pub struct TpccSettings {
    /// Clock, files, the program that serves, where files are made, and who is told what is being done.
    pub plan: Plan,
    /// They take turns, run by run.
    pub targets: Vec<TpccTarget>,
    /// Warehouses.
    pub warehouses: u32,
    /// A hundredth of the rows of each warehouse.
    pub small: bool,
    /// Sessions, beside those that deliver; `None`: ten for each warehouse with terminals, else 8 on servers; in the engine 64 where
    /// commits wait for the disk, and one for each core where they do not.
    pub clients: Option<u32>,
    /// Before each run, not counted.
    pub warm_up: Duration,
    /// Of each run.
    pub time: Duration,
    /// Runs on each target.
    pub runs: u32,
    /// When transactions begin.
    pub pacing: Pacing,
    /// Level of transactions that write, on servers, as SQL names it.
    pub isolation: String,
    /// Whether commits wait for the disk.
    pub sync: bool,
    /// Whether deliveries wait in a queue, for sessions of their own.
    pub deferred: bool,
    /// Of all that is drawn.
    pub seed: u64,
    /// Whether tables that are on a server of a URL already go.
    pub reload: bool,
}

impl TpccSettings {
    /// The defaults, with files in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self {
            plan: Plan::new(dir, Pace::Full),
            targets: vec![TpccTarget::Embedded],
            warehouses: 4,
            small: false,
            clients: None,
            warm_up: Duration::from_secs(5),
            time: Duration::from_secs(30),
            runs: 3,
            pacing: Pacing::FlatOut,
            isolation: "READ COMMITTED".to_owned(),
            sync: true,
            deferred: true,
            seed: 1,
            reload: false,
        }
    }

    pub(super) fn scale(&self) -> Scale {
        if self.small { Scale::small(self.warehouses) } else { Scale::standard(self.warehouses) }
    }

    /// Says what is wrong with them.
    ///
    /// # Errors
    /// It says so.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!((1..=100_000).contains(&self.warehouses), "warehouses are between 1 and 100000");
        anyhow::ensure!(self.clients != Some(0) && self.runs > 0, "at least one client and one run");
        anyhow::ensure!(!self.time.is_zero(), "a run takes time");
        if let Some(per_s) = self.pacing.rate() {
            anyhow::ensure!(per_s.is_finite() && per_s > 0.0, "a rate is above 0");
        }
        anyhow::ensure!(!self.targets.is_empty(), "nothing to run on");
        Ok(())
    }
}
