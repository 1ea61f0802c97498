//! [`TpccLoad`]: TPC-C's mix at a steady rate against a running server until it is stopped. It is a demonstration, not
//! a measurement: no consistency condition is checked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use collie_base::Latencies;
use collie_env::Clock;
use postgres::Config;

use crate::drive::{Course, drive_until};
use crate::pace::Pacing;
use crate::population::Population;
use crate::request::Kind;
use crate::scale::Scale;
use crate::tables::Wire;
use crate::target::Target as _;

/// Longer than any demonstration: ten years.
const WITHOUT_END: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The seed of rows and requests.
const SEED: u64 = 1;

/// A load on one server. See the module's documentation.
pub struct TpccLoad {
    wire: Wire,
    scale: Scale,
    clock: Arc<dyn Clock>,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct LoadDone {
    /// Transactions that ended.
    pub transactions: u64,
    /// Attempts that failed with 40001 or 40P01 and were repeated.
    pub retried: u64,
    /// Transactions that were due but had not begun at the end.
    pub backlog: u64,
    /// The duration of the load.
    pub time: Duration,
    /// The latency of each transaction, counted from when it was due.
    pub latencies: Latencies,
}

impl TpccLoad {
    /// Makes the load of the server at `url`, with a hundredth of TPC-C's rows in each of `warehouses`.
    ///
    /// # Errors
    /// `url` is not the URL of a server.
    pub fn small(url: &str, warehouses: u32, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let config: Config = url.parse().with_context(|| format!("{url} is no URL of a server"))?;
        let wire = Wire::new("collie", "-", config, "READ COMMITTED", true);
        Ok(Self { wire, scale: Scale::small(warehouses), clock })
    }

    /// Creates the tables, replacing any with the same names, and fills them. Calls `on_warehouse` as each warehouse
    /// begins.
    ///
    /// # Errors
    /// Those of the server, or the server cannot be reached.
    pub fn fill(&self, on_warehouse: &(dyn Fn() + Sync)) -> anyhow::Result<()> {
        let population = Population::new(self.scale, SEED, self.clock.wall_us());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        self.wire.load(&population, threads, &|_warehouse| on_warehouse())
    }

    /// Requests `per_s` transactions a second through `clients` sessions until `stop` is set. Blocks until then.
    ///
    /// # Errors
    /// The first error of a transaction, except conflicts, which are repeated; then `stop` is set too.
    pub fn run(&self, clients: u32, per_s: f64, stop: &AtomicBool) -> anyhow::Result<LoadDone> {
        let course = Course {
            scale: self.scale,
            seed: SEED,
            run: 0,
            clients,
            warm_up: Duration::ZERO,
            time: WITHOUT_END,
            pacing: Pacing::Rate(per_s),
            deferred: false,
        };
        let run = drive_until(&self.wire, course, &self.clock, stop)?;
        let mut latencies = Latencies::default();
        Kind::ALL.into_iter().for_each(|kind| latencies.merge(&run.tally.of(kind).latencies));
        Ok(LoadDone {
            transactions: run.tally.ended(),
            retried: run.tally.retried(),
            backlog: run.backlog,
            time: Duration::from_nanos(run.ns),
            latencies,
        })
    }
}
