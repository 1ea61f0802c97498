//! `TpccSettings`: the settings of `collie-bench tpcc`.

use std::path::Path;
use std::time::Duration;

use collie_workload::{Pacing, Scale};

use crate::{Pace, Plan};

/// A database to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TpccTarget {
    /// The engine in this process.
    Embedded,
    /// The engine, with commits answered before they are on disk.
    EmbeddedAsync,
    /// Collie's SQL layer in this process, without a server.
    EmbeddedSql,
    /// Collie's server and PostgreSQL's, started for the benchmark.
    Servers,
    /// A running server.
    Url(String),
}

/// The workload, its targets and how it is run.
#[derive(Clone)]
pub struct TpccSettings {
    /// The clock, the files, the server program, the directory for files, and the progress callback.
    pub plan: Plan,
    /// The targets; they take turns, run by run.
    pub targets: Vec<TpccTarget>,
    /// Warehouses.
    pub warehouses: u32,
    /// Whether each warehouse has a hundredth of its rows.
    pub small: bool,
    /// Sessions, in addition to those that deliver. `None` means ten per warehouse with terminals; otherwise 8 with
    /// SQL, and on the engine 64 if commits wait for the disk, or one per core if they do not.
    pub clients: Option<u32>,
    /// The time before each run that is not counted.
    pub warm_up: Duration,
    /// The time of each run.
    pub time: Duration,
    /// Runs on each target.
    pub runs: u32,
    /// When transactions begin.
    pub pacing: Pacing,
    /// The seed of all random values.
    pub seed: u64,
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
            seed: 1,
        }
    }

    pub(super) fn scale(&self) -> Scale {
        if self.small { Scale::small(self.warehouses) } else { Scale::standard(self.warehouses) }
    }

    /// Checks that the settings make sense.
    ///
    /// # Errors
    /// The first setting that does not.
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
