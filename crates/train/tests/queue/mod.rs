//! A replica's apply queue as a fluid in steps of 1 ms, under eight disturbances, with and without collection.
//!
//! A model, not the product: one apply worker, 71.4 us of work per commit on average, 4 % of the commits ten times as heavy, and
//! collection work that comes with each commit. A policy sees what it sees in the product, once per 100 ms. Runs are paired: one
//! seed gives the same arrivals with every policy. Shared by `bound.rs` and the example `policies`.
#![allow(dead_code, reason = "each of its users reads another part")]

use collie_env::{Random as _, SimRandom};
use collie_train::policy::{Bound, Grant, Signals, TICK_US};

/// Length of a run.
const RUN_MS: usize = 120_000;

/// Length of a window.
const WINDOW_MS: usize = 1000;

/// Mean work of a commit, in us.
const COMMIT_US: f64 = 71.4;

/// Heavy commits: their part of all, and how much more work they are.
const HEAVY_SHARE: f64 = 0.04;
const HEAVY_FACTOR: f64 = 10.0;

/// Delay of an empty queue: the way through the network.
const TRANSPORT_MS: f64 = 0.1;

/// What happens to the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    Steady,
    /// 13,000 commits per second instead of 10,000 for 15 s.
    Burst,
    /// Between 6,000 and 12,000 commits per second, once a minute.
    Ramp,
    /// A transaction of 300 ms of work every 30 s.
    LongTransaction,
    /// A third of the processor is gone for 30 s.
    CpuHog,
    /// The worker stands still for 60 ms of every second for 30 s.
    SlowDisk,
    /// Nothing arrives for 200 ms every 20 s, then all of it.
    NetworkStall,
    /// 12,600 commits per second: nine tenths of what the worker can do.
    Peak,
}

impl Disturbance {
    pub(crate) const ALL: [Self; 8] = [
        Self::Steady,
        Self::Burst,
        Self::Ramp,
        Self::LongTransaction,
        Self::CpuHog,
        Self::SlowDisk,
        Self::NetworkStall,
        Self::Peak,
    ];

    fn commits_per_ms(self, at_s: f64) -> f64 {
        match self {
            Self::Burst if (30.0..45.0).contains(&at_s) => 13.0,
            Self::Ramp => 6.0 + 6.0 * (0.5 - 0.5 * (2.0 * std::f64::consts::PI * at_s / 60.0).cos()),
            Self::Peak => 12.6,
            Self::CpuHog => 7.0,
            _ => 10.0,
        }
    }

    /// Work that the worker does in this millisecond, in us.
    fn capacity_us(self, at_ms: usize) -> f64 {
        let is_bad = (40_000..70_000).contains(&at_ms);
        match self {
            Self::CpuHog if is_bad => 650.0,
            Self::SlowDisk if is_bad && at_ms % 1000 < 60 => 0.0,
            _ => 1000.0,
        }
    }
}

/// Commits that arrive in one millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    commits: f64,
    work_us: f64,
}

/// Draws what the runs of a pair have in common.
struct Load(SimRandom);

impl Load {
    fn unit(&self) -> f64 {
        (self.0.u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal deviate (Box and Muller, 1958).
    fn normal(&self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }

    fn arrivals(&self, kind: Disturbance) -> Vec<Arrivals> {
        let light_us = COMMIT_US / (1.0 - HEAVY_SHARE + HEAVY_SHARE * HEAVY_FACTOR);
        let (mut held, mut held_heavy) = (0.0, 0.0);
        let mut all = Vec::with_capacity(RUN_MS);
        for at_ms in 0..RUN_MS {
            let rate = kind.commits_per_ms(at_ms as f64 / 1000.0);
            let mut commits = self.normal(rate, rate.sqrt()).round().max(0.0);
            let mut heavy = 0.0;
            let mut left = commits;
            while left > 0.0 {
                heavy += f64::from(u8::from(self.unit() < HEAVY_SHARE));
                left -= 1.0;
            }
            if kind == Disturbance::NetworkStall && at_ms % 20_000 < 200 {
                (held, held_heavy) = (held + commits, held_heavy + heavy);
                (commits, heavy) = (0.0, 0.0);
            } else {
                (commits, heavy) = (commits + held, heavy + held_heavy);
                (held, held_heavy) = (0.0, 0.0);
            }
            let is_long = kind == Disturbance::LongTransaction && at_ms % 30_000 == 15_000;
            let long_us = if is_long { 300_000.0 } else { 0.0 };
            let work_us = (commits + heavy * (HEAVY_FACTOR - 1.0)) * light_us + long_us;
            all.push(Arrivals { commits, work_us });
        }
        all
    }
}

/// What one run showed.
struct Run {
    /// Mean delay of each window, in us.
    windows_us: Vec<f64>,
    /// Part of the offered collection that was done.
    kept_share: f64,
}

fn run(kind: Disturbance, arrivals: &[Arrivals], offered_us: f64, tick: &mut dyn FnMut(&Signals) -> Grant) -> Run {
    let (mut queue_us, mut share, mut peak_per_s) = (0.0_f64, 0.0, 0.0_f64);
    let (mut busy_us, mut spent_us, mut delay_sum_ms, mut commits) = (0.0, 0.0, 0.0, 0.0);
    let (mut window_sum_ms, mut kept_us, mut all_us) = (0.0, 0.0, 0.0);
    let mut windows_us = Vec::with_capacity(RUN_MS / WINDOW_MS);
    for (at_ms, arrived) in arrivals.iter().enumerate() {
        let capacity_us = kind.capacity_us(at_ms);
        let collecting_us = share * offered_us * arrived.commits;
        queue_us += arrived.work_us + collecting_us;
        let done_us = queue_us.min(capacity_us);
        queue_us -= done_us;
        let delay_ms = queue_us / 1000.0 + TRANSPORT_MS;
        // A throttled or stalled worker is busy by the wall clock for as long as there is work.
        busy_us += if capacity_us > 0.0 {
            done_us * 1000.0 / capacity_us
        } else {
            1000.0 * f64::from(u8::from(queue_us > 0.0))
        };
        spent_us += collecting_us;
        kept_us += collecting_us;
        all_us += offered_us * arrived.commits;
        commits += arrived.commits;
        delay_sum_ms += delay_ms;
        window_sum_ms += delay_ms;
        if at_ms % 100 == 99 {
            let commits_per_s = commits * 1e6 / TICK_US;
            // Sources know their rate as P6 does: up at once, down slowly.
            peak_per_s = commits_per_s.max(0.9 * peak_per_s + 0.1 * commits_per_s);
            let offered_us_per_s = peak_per_s * offered_us;
            let signals = Signals {
                delay_us: delay_sum_ms * 10.0,
                age_us: delay_ms * 1000.0,
                commits_per_s,
                busy_us,
                spent_us,
                offered_us_per_s,
                ..Signals::default()
            };
            share = tick(&signals).share(offered_us_per_s);
            (busy_us, spent_us, delay_sum_ms, commits) = (0.0, 0.0, 0.0, 0.0);
        }
        if at_ms % WINDOW_MS == WINDOW_MS - 1 {
            windows_us.push(window_sum_ms * 1000.0 / WINDOW_MS as f64);
            window_sum_ms = 0.0;
        }
    }
    Run { windows_us, kept_share: kept_us / all_us }
}

/// One policy under one disturbance, over all seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// Part of the windows that were out of bound.
    pub(crate) out_share: f64,
    /// Part of the offered collection that was done.
    pub(crate) kept_share: f64,
    /// Mean delay without collection, in us.
    pub(crate) without_us: f64,
}

/// A policy that is ticked with signals.
pub(crate) type Tick = Box<dyn FnMut(&Signals) -> Grant>;

/// Runs every policy under every disturbance with every seed; rows are policies, columns [`Disturbance::ALL`].
///
/// `start` makes a policy by its number in its first state. `offered_us` is the collection work that a commit could give rise to.
pub(crate) fn table(seeds: &[u64], offered_us: f64, policies: usize, start: &dyn Fn(usize) -> Tick) -> Vec<Vec<Cell>> {
    let bound = Bound { share: 0.10, floor_us: 1000.0 };
    let empty = Cell { out_share: 0.0, kept_share: 0.0, without_us: 0.0 };
    let mut cells = vec![vec![empty; Disturbance::ALL.len()]; policies];
    for (column, kind) in Disturbance::ALL.into_iter().enumerate() {
        for seed in seeds {
            let arrivals = Load(SimRandom::new(*seed)).arrivals(kind);
            let without = run(kind, &arrivals, offered_us, &mut |_| Grant::NONE);
            for (row, cells) in cells.iter_mut().enumerate() {
                let mut policy = start(row);
                let with = run(kind, &arrivals, offered_us, &mut *policy);
                let pairs = with.windows_us.iter().zip(&without.windows_us);
                let out = pairs.filter(|(with, without)| bound.is_out(**with, **without)).count();
                let (windows, runs) = (with.windows_us.len() as f64, seeds.len() as f64);
                cells[column].out_share += out as f64 / windows / runs;
                cells[column].kept_share += with.kept_share / runs;
                cells[column].without_us += without.windows_us.iter().sum::<f64>() / windows / runs;
            }
        }
    }
    cells
}
