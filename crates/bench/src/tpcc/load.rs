//! [`TpccLoad`]: TPC-C's mix at a steady rate on a server that runs, until somebody stops it. Something to look at: no measurement, whose
//! rules are `study.rs`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use collie_env::Clock;
use postgres::Config;

use super::drive::{Course, drive_until};
use super::pace::Pacing;
use super::population::Population;
use super::request::Kind;
use super::scale::Scale;
use super::tables::Wire;
use super::target::Target as _;
use crate::Latencies;

/// Longer than anybody looks: ten years.
const WITHOUT_END: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Of rows and requests.
const SEED: u64 = 1;

/// See the module's documentation.
pub struct TpccLoad {
    wire: Wire,
    scale: Scale,
    clock: Arc<dyn Clock>,
}

/// What a load has done.
#[derive(Clone, Debug)]
pub struct LoadDone {
    /// Transactions that ended.
    pub transactions: u64,
    /// Attempts that were refused with 40001 or 40P01, and made again.
    pub retried: u64,
    /// Transactions that were due and not begun when it ended.
    pub backlog: u64,
    /// How long it ran.
    pub time: Duration,
    /// How long each transaction took, from when it was due.
    pub latencies: Latencies,
}

impl TpccLoad {
    /// Makes the load of the server at `url`, with a hundredth of TPC-C's rows in each of `warehouses`.
    ///
    /// # Errors
    /// It is no URL of a server.
    pub fn small(url: &str, warehouses: u32, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let config: Config = url.parse().with_context(|| format!("{url} is no URL of a server"))?;
        let wire = Wire::new("collie", "-", config, "READ COMMITTED", true);
        Ok(Self { wire, scale: Scale::small(warehouses), clock })
    }

    /// Makes the tables, in place of any of these names, and fills them; calls `on_warehouse` as each begins.
    ///
    /// # Errors
    /// The server's, or that it cannot be reached.
    pub fn fill(&self, on_warehouse: &(dyn Fn() + Sync)) -> anyhow::Result<()> {
        let population = Population::new(self.scale, SEED, self.clock.wall_us());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        self.wire.load(&population, threads, &|_warehouse| on_warehouse())
    }

    /// Asks for `per_s` transactions a second by `clients` sessions until somebody sets `stop`. Blocks until then.
    ///
    /// # Errors
    /// The first of a transaction, but for those that are made again; then `stop` is set too.
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
