//! `Course`: one run of a policy: TPC-C at a rate, the disturbances one after the other, and the observations
//! meanwhile.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use collie_train::policy::PolicyKind;
use collie_workload::{Pacing, Run, sleep_until};

use super::disturbance::{Disturbance, Disturber, Lengths};
use crate::Pace;
use crate::replication::PairSettings;
use crate::replication::pair::{Pair, Totals};
use crate::training::kept::Kept;
use crate::training::recorded::Window;

/// The factor by which the load may last longer than all phases should; it is stopped after the last one.
const LOAD_LONGER: u32 = 20;
/// The interval of looks at the delay; `POLICY_EVERY` is that of looks at the policy's state.
const DELAY_EVERY: Duration = Duration::from_millis(20);
const POLICY_EVERY: Duration = Duration::from_millis(100);
/// The time that a change of the policy may take to be visible.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reads the replica's report about its policy.
const POLICY: &str = "SELECT policy, state, grant_us_per_s::float8, windows, out_windows, unknown_windows, \
                      (samples_spent_us + elastic_spent_us)::float8 FROM collie_training.policy";

/// The times of a disturbance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) begun_ns: u64,
    /// The end of the disturbance.
    pub(super) over_ns: u64,
    /// The begin of the next one.
    pub(super) ended_ns: u64,
}

/// The primary's report about its replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) at_ns: u64,
    pub(super) is_connected: bool,
    /// The delay of the commits since the previous look; `None` if there were none.
    pub(super) us: Option<f64>,
}

/// The replica's report about its policy. Counts are since its start.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) state: String,
    pub(super) grant_us_per_s: f64,
    /// Windows that were judged by the policy's own bound, those of them that were out, and those that could not be
    /// judged.
    pub(super) windows: [i64; 3],
    pub(super) spent_us: f64,
}

/// The observations of one run.
pub(super) struct Observed {
    /// In the order of [`Disturbance::ALL`].
    pub(super) phases: Vec<Phase>,
    pub(super) delays: Vec<Delay>,
    pub(super) readings: Vec<Reading>,
    /// The run of the base load.
    pub(super) run: Run,
    /// From the begin of the load until the replica had caught up.
    pub(super) during: Window,
    /// The samples that the replica kept of it, once its files were read.
    pub(super) kept: Kept,
    /// The length of a judged window.
    pub(super) window_ns: u64,
}

/// A pair with everything that watches it.
pub(super) struct Stage<'a> {
    settings: &'a PairSettings,
    pair: &'a Pair,
    lengths: Lengths,
}

impl<'a> Stage<'a> {
    /// Makes the stage.
    pub(super) fn new(pair: &'a Pair, settings: &'a PairSettings) -> Self {
        let lengths = match settings.plan.pace {
            Pace::Full => Lengths::FULL,
            Pace::Quick | Pace::Touch => Lengths::QUICK,
        };
        Self { settings, pair, lengths }
    }

    /// Makes the replica collect by `policy` from now on.
    ///
    /// # Errors
    /// Those of the driver; the policy does not change.
    pub(super) fn choose(&self, policy: PolicyKind) -> anyhow::Result<()> {
        let mut replica = self.pair.connect_replica()?;
        let call = format!("CALL collie_set_option('training.collection_policy', '{}')", policy.name());
        replica.batch_execute(&call)?;
        self.settings.plan.until(PATIENCE, "the policy does not change", || {
            let row = replica.query_one("SELECT policy, state FROM collie_training.policy", &[])?;
            let (chosen, state): (String, String) = (row.get(0), row.get(1));
            Ok((chosen == policy.name() && state != "starting").then_some(()))
        })
    }

    /// Runs TPC-C at `rate` transactions per second while `disturber` makes one disturbance after the other, and waits
    /// until the replica has caught up.
    ///
    /// # Errors
    /// Those of the driver and of the operating system.
    pub(super) fn course(&self, disturber: &mut Disturber<'_>, run: u32, rate: f64) -> anyhow::Result<Observed> {
        let with = PairSettings { time: self.lengths.all() * LOAD_LONGER, ..self.settings.clone() };
        let clock = &*self.settings.plan.env.clock;
        let (during, observed) = Window::of(clock, || {
            let observed = self.observe(disturber, run, rate, &with)?;
            self.pair.until_even(self.settings)?;
            Ok(observed)
        })?;
        Ok(Observed { during, ..observed })
    }

    fn observe(
        &self,
        disturber: &mut Disturber<'_>,
        run: u32,
        rate: f64,
        with: &PairSettings,
    ) -> anyhow::Result<Observed> {
        let (enough, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.pair.drive_until(with, run, Pacing::Poisson(rate), &enough));
            let delays = scope.spawn(|| self.delays(&stop));
            let readings = scope.spawn(|| self.readings(&stop));
            let phases = self.phases(disturber, run);
            enough.store(true, Relaxed);
            let run = load.join().ok().context("the load panicked");
            stop.store(true, Relaxed);
            let delays = delays.join().ok().context("the watcher of delays panicked")??;
            let readings = readings.join().ok().context("the watcher of the policy panicked")??;
            let window_ns = u64::try_from(self.lengths.window.as_nanos())?;
            let (during, kept) = (Window::default(), Kept::default());
            Ok(Observed { phases: phases?, delays, readings, run: run??, during, kept, window_ns })
        })
    }

    fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let clock = &*self.settings.plan.env.clock;
        sleep_until(clock, clock.now_ns() + u64::try_from(time.as_nanos())?);
        Ok(())
    }

    fn phases(&self, disturber: &mut Disturber<'_>, run: u32) -> anyhow::Result<Vec<Phase>> {
        let plan = &self.settings.plan;
        self.sleep(self.settings.warm_up)?;
        let mut phases = Vec::new();
        for kind in Disturbance::ALL {
            let begun_ns = plan.now_ns();
            let due_ns = begun_ns + u64::try_from(self.lengths.on.as_nanos())?;
            disturber.disturb(kind, run, due_ns).with_context(|| kind.name())?;
            let over_ns = plan.now_ns();
            // A disturbance that took longer than planned is followed by the same time.
            sleep_until(&*plan.env.clock, over_ns.max(due_ns));
            self.sleep(self.lengths.after(kind))?;
            phases.push(Phase { begun_ns, over_ns, ended_ns: plan.now_ns() });
        }
        Ok(phases)
    }

    fn delays(&self, stop: &AtomicBool) -> anyhow::Result<Vec<Delay>> {
        let (mut primary, mut all, mut totals) = (self.pair.connect()?, Vec::new(), Totals::default());
        // This discards what was measured before.
        self.pair.behind(&mut primary, &mut totals)?;
        while !stop.load(Relaxed) {
            let at_ns = self.settings.plan.now_ns();
            let behind = self.pair.behind(&mut primary, &mut totals)?;
            all.push(Delay { at_ns, is_connected: behind.is_some(), us: behind.and_then(|behind| behind.us) });
            self.sleep(DELAY_EVERY)?;
        }
        Ok(all)
    }

    fn readings(&self, stop: &AtomicBool) -> anyhow::Result<Vec<Reading>> {
        let mut replica = self.pair.connect_replica()?;
        let (policy, mut all) = (replica.prepare(POLICY)?, Vec::new());
        // At least one reading, and one after the end.
        loop {
            let is_last = stop.load(Relaxed);
            let row = replica.query_one(&policy, &[])?;
            let number = |column: usize| row.get::<_, Option<i64>>(column).unwrap_or(0);
            all.push(Reading {
                state: row.get(1),
                grant_us_per_s: row.get::<_, Option<f64>>(2).unwrap_or(0.0),
                windows: [3, 4, 5].map(number),
                spent_us: row.get::<_, Option<f64>>(6).unwrap_or(0.0),
            });
            if is_last {
                return Ok(all);
            }
            self.sleep(POLICY_EVERY)?;
        }
    }
}
