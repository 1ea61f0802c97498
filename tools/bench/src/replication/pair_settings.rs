//! `PairSettings`: how questions about a primary and its replica are asked, by `collie-bench replication` and
//! `collie-bench training`.

use std::path::Path;
use std::time::Duration;

use collie_workload::Scale;

use crate::closed_loop::ClosedLoop;
use crate::{Pace, Plan};

/// The questions, and how they are asked.
#[derive(Clone)]
pub struct PairSettings {
    /// Clock, files, the serving program, the directory for files, and the receiver of progress.
    pub plan: Plan,
    /// Warehouses of TPC-C.
    pub warehouses: u32,
    /// Whether to use a hundredth of the rows of each warehouse, and short cases: shows that it works.
    pub small: bool,
    /// Sessions of TPC-C.
    pub clients: u32,
    /// The time before each run that is not counted.
    pub warm_up: Duration,
    /// The measured time of each run.
    pub time: Duration,
    /// Runs of each case.
    pub runs: u32,
    /// Rates of question `rate`, in percent of the primary's full rate.
    pub percents: Vec<u32>,
    /// Further numbers of workers in question `rate`, in addition to the default.
    pub workers: Vec<usize>,
    /// Runs of question `time`.
    pub courses: u32,
    /// Clients of question `sync`.
    pub small_clients: Vec<u32>,
    /// Bytes of log that the replica of question `catchup` lacks.
    pub behind_bytes: u64,
    /// Bytes in the table that a base backup of question `catchup` copies, in addition to TPC-C's.
    pub backup_bytes: u64,
    /// The highest rate of a base backup, in bytes per second.
    pub backup_bytes_per_s: u64,
    /// How often question `failover` kills a primary.
    pub cycles: u32,
    /// The seed of all random draws.
    pub seed: u64,
    /// Whether to compare with PostgreSQL and a streaming standby, if it is installed.
    pub peer: bool,
}

impl PairSettings {
    /// The defaults of `collie-bench training`, with files in `dir`: many short runs, which make pairs.
    pub fn training(dir: &Path) -> Self {
        Self {
            warehouses: 2,
            warm_up: Duration::from_millis(500),
            time: Duration::from_secs(2),
            runs: 10,
            ..Self::replication(dir)
        }
    }

    /// Fewer and shorter runs on fewer warehouses: intervals get wider.
    #[must_use]
    pub fn short_training(self) -> Self {
        Self { warehouses: 1, time: self.time.min(Duration::from_secs(1)), runs: 6, ..self }
    }

    /// Does the same as [`Self::quick`], with runs that make pairs.
    #[must_use]
    pub fn quick_training(self) -> Self {
        let plan = Plan { pace: Pace::Quick, ..self.plan.clone() };
        Self { plan, runs: 2, ..self.quick() }
    }

    /// The defaults of `collie-bench replication`, with files in `dir`.
    pub fn replication(dir: &Path) -> Self {
        Self {
            plan: Plan::new(dir, Pace::Full),
            warehouses: 4,
            small: false,
            clients: 8,
            warm_up: Duration::from_secs(2),
            time: Duration::from_secs(10),
            runs: 3,
            percents: vec![10, 30, 50, 70, 80, 90, 100, 110],
            workers: Self::fewer_workers(),
            courses: 10,
            small_clients: vec![1, 8, 32, 64],
            behind_bytes: 1 << 30,
            backup_bytes: 1 << 30,
            backup_bytes_per_s: 100 << 20,
            cycles: 20,
            seed: 1,
            peer: true,
        }
    }

    /// Returns numbers of workers below the default, doubled from 1 on.
    fn fewer_workers() -> Vec<usize> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let doubled = std::iter::successors(Some(1), |workers| Some(workers * 2));
        doubled.take_while(|workers| *workers < cores.min(8)).collect()
    }

    /// Uses fewer rates, clients and runs of the usual length: fits into 25 minutes on two otherwise idle cores.
    #[must_use]
    pub fn short(self) -> Self {
        Self {
            warm_up: Duration::from_secs(1),
            runs: 1,
            percents: vec![50, 80, 100],
            workers: vec![1],
            courses: 2,
            small_clients: vec![1, 32],
            cycles: 5,
            ..self
        }
    }

    /// Makes every case as short as possible, on a hundredth of the rows: shows that it works. The figures mean
    /// nothing.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            warehouses: 1,
            small: true,
            clients: self.clients.min(4),
            warm_up: Duration::from_millis(100),
            time: Duration::from_millis(500),
            runs: 1,
            percents: vec![50, 110],
            courses: 2,
            small_clients: vec![4],
            behind_bytes: 4 << 20,
            backup_bytes: 4 << 20,
            cycles: 2,
            ..self
        }
    }

    pub(crate) fn scale(&self) -> Scale {
        if self.small { Scale::small(self.warehouses) } else { Scale::standard(self.warehouses) }
    }

    /// Returns `clients` closed-loop clients with the warm-up and time of these settings.
    pub(crate) fn closed_loop(&self, clients: u32) -> ClosedLoop<'_> {
        ClosedLoop { clock: &*self.plan.env.clock, clients, warm_up: self.warm_up, time: self.time }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid setting.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!((1..=1_000).contains(&self.warehouses), "warehouses are between 1 and 1000");
        anyhow::ensure!(self.clients > 0 && self.runs > 0, "at least one client and one run");
        anyhow::ensure!(!self.time.is_zero(), "a run takes time");
        Ok(())
    }
}
