//! `TrainingSettings`: the settings of `collie-bench training`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::replication::ReplicationSettings;
use crate::{Pace, Plan};

/// The questions and how they are answered.
#[derive(Clone)]
pub struct TrainingSettings {
    /// The clock, the files, the questions, the server program, the directory for files, and the progress callback.
    pub plan: Plan,
    /// Warehouses of TPC-C.
    pub warehouses: u32,
    /// Whether each warehouse has a hundredth of its rows, and cases are short: tests that it works.
    pub small: bool,
    /// Sessions of TPC-C.
    pub clients: u32,
    /// The time before each run that is not counted.
    pub warm_up: Duration,
    /// The time of each run.
    pub time: Duration,
    /// Runs of each arm, which is the number of pairs of runs.
    pub runs: u32,
    /// A data directory whose sample files question `active` draws from, in addition to its synthetic units.
    pub samples: Option<PathBuf>,
    /// The seed of all random values.
    pub seed: u64,
}

impl TrainingSettings {
    /// The defaults, with files in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self {
            plan: Plan::new(dir, Pace::Full),
            warehouses: 2,
            small: false,
            clients: 8,
            warm_up: Duration::from_millis(500),
            time: Duration::from_secs(2),
            runs: 10,
            samples: None,
            seed: 1,
        }
    }

    /// Fewer and shorter runs on fewer warehouses: intervals get wider.
    #[must_use]
    pub fn short(self) -> Self {
        Self { warehouses: 1, time: self.time.min(Duration::from_secs(1)), runs: 6, ..self }
    }

    /// Makes every case as short as possible, on a hundredth of the rows, to test that it works. Figures mean nothing.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            plan: Plan { pace: Pace::Quick, ..self.plan },
            warehouses: 1,
            small: true,
            clients: self.clients.min(4),
            warm_up: Duration::from_millis(100),
            time: Duration::from_millis(500),
            runs: 2,
            ..self
        }
    }

    /// Returns the settings for a primary and its replica; a question may use another `time`.
    pub(crate) fn replication(&self) -> ReplicationSettings {
        ReplicationSettings {
            plan: self.plan.clone(),
            questions: Vec::new(),
            warehouses: self.warehouses,
            small: self.small,
            clients: self.clients,
            warm_up: self.warm_up,
            time: self.time,
            runs: self.runs,
            seed: self.seed,
            ..ReplicationSettings::new(&self.plan.dir)
        }
    }

    /// Checks that the settings make sense.
    ///
    /// # Errors
    /// The first setting that does not.
    pub(crate) fn check(&self, questions: &[&str]) -> anyhow::Result<()> {
        for only in &self.plan.only {
            anyhow::ensure!(questions.contains(&only.as_str()), "no question {only}: use {}", questions.join(", "));
        }
        anyhow::ensure!((1..=1_000).contains(&self.warehouses), "warehouses are between 1 and 1000");
        anyhow::ensure!(self.clients > 0 && self.runs > 0, "at least one client and one run");
        anyhow::ensure!(!self.time.is_zero(), "a run takes time");
        Ok(())
    }
}
