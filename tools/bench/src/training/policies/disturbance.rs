//! `Disturbance`: the disturbances of a pair and their durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use collie_env::File;
use collie_workload::{Pacing, sleep_until};
use postgres::Client;

use super::stopped::{Stopped, Stutter};
use crate::replication::PairSettings;
use crate::replication::pair::Pair;
use crate::training::neighbour::Neighbour;
use crate::{Plan, Scratch};

/// A kind of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// Nothing.
    Steady,
    /// More clients write on the primary, as fast as they can.
    Burst,
    /// A growing amount of the same load, up to that of [`Disturbance::Peak`].
    Ramp,
    /// One transaction that changes many rows commits on the primary.
    LongTransaction,
    /// Another process competes for the replica's processor.
    Hog,
    /// The replica's process is stopped for a moment of every second, as if it waited for a disk that does not answer.
    SlowDisk,
    /// Traffic between primary and replica is held for a moment, then delivered.
    NetworkStall,
    /// More of the same load, so that the sum is nine tenths of what both nodes sustain.
    Peak,
    /// A session overwrites large values on the primary, one transaction after the other.
    BulkWrite,
    /// Another process repeatedly writes to the same disk and syncs.
    BusyDisk,
    /// The replica's process is stopped.
    Stall,
}

impl Disturbance {
    /// All of them, in their order: first those that the model also has.
    pub(super) const ALL: [Self; 11] = [
        Self::Steady,
        Self::Burst,
        Self::Ramp,
        Self::LongTransaction,
        Self::Hog,
        Self::SlowDisk,
        Self::NetworkStall,
        Self::Peak,
        Self::BulkWrite,
        Self::BusyDisk,
        Self::Stall,
    ];

    /// Returns the name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
            Self::Ramp => "ramp",
            Self::LongTransaction => "long transaction",
            Self::Hog => "CPU hog",
            Self::SlowDisk => "slow disk",
            Self::NetworkStall => "network stall",
            Self::Peak => "90 % load",
            Self::BulkWrite => "bulk write",
            Self::BusyDisk => "busy disk",
            Self::Stall => "stalled replica",
        }
    }

    /// Returns the additional load while it lasts; `more_per_s` more gives the load of [`Disturbance::Peak`].
    fn more(self, more_per_s: f64, on: Duration) -> Option<Pacing> {
        match self {
            Self::Ramp => Some(Pacing::Rising(more_per_s, on)),
            Self::Peak => Some(Pacing::Poisson(more_per_s)),
            _ => None,
        }
    }

    /// Returns a run number for its load, so that its random draws in a run differ from all others.
    fn run(self, run: u32) -> u32 {
        run + ((self as u32 + 1) << 16)
    }
}

/// Clients of a burst.
const BURST_CLIENTS: usize = 4;
/// Rows of a long transaction; `LONG_ROWS_SMALL` in short runs.
const LONG_ROWS: u32 = 20_000;
const LONG_ROWS_SMALL: u32 = 500;
/// The size of a value that is overwritten in bulk; `BULK_ROWS` is the number of them in a transaction.
const BULK_BYTES: u32 = 1_000;
const BULK_ROWS: u32 = 500;
/// Bytes written to the disk before each sync.
const DISK_BYTES: usize = 4 << 20;
/// As in the model (`collie_train::queue`).
const SLOW_DISK: Stutter = Stutter { still: Duration::from_millis(60), every: Duration::from_secs(1) };
const NETWORK_HELD_NS: u64 = 200_000_000;

/// Disturbs a pair. Its tables, files and connections, except those of additional load, are made before anything is
/// measured.
pub(super) struct Disturber<'a> {
    settings: &'a PairSettings,
    pair: &'a Pair,
    /// The replica's core, if it has its own.
    core: Option<usize>,
    more_per_s: f64,
    sessions: Vec<Client>,
    /// The file that keeps the disk busy.
    file: Arc<dyn File>,
    /// Dropped after the file.
    _scratch: Scratch,
}

impl<'a> Disturber<'a> {
    /// Makes the tables that it writes to. The base load and `more_per_s` more transactions per second together are
    /// the load of [`Disturbance::Peak`].
    ///
    /// # Errors
    /// Those of the driver and of the file system.
    pub(super) fn new(
        settings: &'a PairSettings,
        pair: &'a Pair,
        core: Option<usize>,
        more_per_s: f64,
    ) -> anyhow::Result<Self> {
        let plan = &settings.plan;
        let rows = if settings.small { LONG_ROWS_SMALL } else { LONG_ROWS };
        let mut sessions = (0..BURST_CLIENTS).map(|_| pair.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        sessions[0].batch_execute(&format!(
            "CREATE TABLE disturbed (id int PRIMARY KEY, n bigint NOT NULL); \
             INSERT INTO disturbed SELECT g, 0 FROM generate_series(1, {rows}) AS g; \
             CREATE TABLE bulk (id int PRIMARY KEY, value text NOT NULL); \
             INSERT INTO bulk SELECT g, repeat('x', {BULK_BYTES}) FROM generate_series(1, {BULK_ROWS}) AS g"
        ))?;
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let file = plan.env.files.create(&scratch.path().join("busy"))?;
        pair.until_even(settings)?;
        Ok(Self { settings, pair, core, more_per_s, sessions, file, _scratch: scratch })
    }

    fn plan(&self) -> &Plan {
        &self.settings.plan
    }

    fn rest_until(&self, due_ns: u64) {
        sleep_until(&*self.plan().env.clock, due_ns);
    }

    fn is_before(&self, due_ns: u64) -> bool {
        self.plan().now_ns() < due_ns
    }

    fn replica(&self) -> anyhow::Result<u32> {
        Ok(self.pair.processes()?[1])
    }

    /// Disturbs in run `run` until `due_ns`, or until a one-time disturbance is complete.
    ///
    /// # Errors
    /// Those of the driver and of the operating system.
    pub(super) fn disturb(&mut self, kind: Disturbance, run: u32, due_ns: u64) -> anyhow::Result<()> {
        match kind {
            Disturbance::Steady => self.rest_until(due_ns),
            Disturbance::Burst => self.burst(due_ns)?,
            Disturbance::Ramp | Disturbance::Peak => self.load_more(kind, run, due_ns)?,
            Disturbance::LongTransaction => self.sessions[0].batch_execute("UPDATE disturbed SET n = n + 1")?,
            Disturbance::BulkWrite => {
                let mut number = 0_u64;
                while self.is_before(due_ns) {
                    number += 1;
                    let filler = char::from(b'a' + u8::try_from(number % 26)?);
                    let text = format!("UPDATE bulk SET value = repeat('{filler}', {BULK_BYTES})");
                    self.sessions[0].batch_execute(&text)?;
                }
            }
            Disturbance::Hog => {
                let _hog = Neighbour::start(self.core)?;
                self.rest_until(due_ns);
            }
            Disturbance::SlowDisk => SLOW_DISK.disturb(&*self.plan().env.clock, self.replica()?, due_ns)?,
            Disturbance::NetworkStall => {
                let _held = self.pair.relay()?.hold();
                self.rest_until(due_ns.min(self.plan().now_ns() + NETWORK_HELD_NS));
            }
            Disturbance::BusyDisk => self.write_and_sync(due_ns)?,
            Disturbance::Stall => {
                let _stopped = Stopped::stop(self.replica()?)?;
                self.rest_until(due_ns);
            }
        }
        Ok(())
    }

    /// Runs more of TPC-C in parallel: two Poisson processes together are one with the sum of both rates.
    fn load_more(&self, kind: Disturbance, run: u32, due_ns: u64) -> anyhow::Result<()> {
        let time = Duration::from_nanos(due_ns.saturating_sub(self.plan().now_ns()));
        let pacing = kind.more(self.more_per_s, time).context("it is no load")?;
        let with = PairSettings { time, warm_up: Duration::ZERO, ..self.settings.clone() };
        let _counted_elsewhere = self.pair.drive(&with, kind.run(run), pacing)?;
        Ok(())
    }

    fn burst(&mut self, due_ns: u64) -> anyhow::Result<()> {
        let (plan, failed) = (&self.settings.plan, AtomicBool::new(false));
        let write = |session: &mut Client, id: usize| -> anyhow::Result<()> {
            let update = session.prepare("UPDATE disturbed SET n = n + 1 WHERE id = $1")?;
            let id = i32::try_from(id + 1)?;
            while plan.now_ns() < due_ns && !failed.load(Relaxed) {
                session.execute(&update, &[&id])?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let clients = self.sessions.iter_mut().enumerate().map(|(id, session)| {
                let (write, failed) = (&write, &failed);
                scope.spawn(move || write(session, id).inspect_err(|_| failed.store(true, Relaxed)))
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().try_for_each(|client| client.join().ok().context("a client panicked")?)
        })
    }

    fn write_and_sync(&self, due_ns: u64) -> anyhow::Result<()> {
        let bytes = vec![0x5A; DISK_BYTES];
        while self.is_before(due_ns) {
            self.file.write_at(0, &bytes)?;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// The durations of a disturbance, of the time after it, and of the judged windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) on: Duration,
    after: Duration,
    /// After a burst: long enough for the recovery to miss its target.
    after_burst: Duration,
    pub(super) window: Duration,
}

impl Lengths {
    pub(super) const FULL: Self = Self {
        on: Duration::from_secs(1),
        after: Duration::from_secs(2),
        after_burst: Duration::from_millis(2_600),
        window: Duration::from_secs(1),
    };
    /// Short durations for a test that it works.
    pub(super) const QUICK: Self = Self {
        on: Duration::from_millis(100),
        after: Duration::from_millis(200),
        after_burst: Duration::from_millis(200),
        window: Duration::from_millis(100),
    };

    /// Returns the time to wait after a disturbance.
    pub(super) fn after(&self, kind: Disturbance) -> Duration {
        if kind == Disturbance::Burst { self.after_burst } else { self.after }
    }

    /// Returns the duration of all of them, if none takes longer than planned.
    pub(super) fn all(&self) -> Duration {
        Disturbance::ALL.into_iter().map(|kind| self.on + self.after(kind)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::policies::judge::{SETTLED_STEPS, STEP_NS};
    use crate::training::policies::rows::RECOVERY_S_MAX;

    /// Goal: every disturbance has its own name, and no two of them draw the same in any two runs. Method: all of them.
    #[test]
    fn disturbances_are_told_apart() {
        let mut names: Vec<_> = Disturbance::ALL.map(Disturbance::name).to_vec();
        let mut runs: Vec<_> =
            Disturbance::ALL.iter().flat_map(|kind| [kind.run(0), kind.run(7)]).chain(0..10).collect();
        names.sort_unstable();
        names.dedup();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!((names.len(), runs.len()), (11, 32));
    }

    /// Goal: only ramp and peak add load, and they end with the same amount. Method: both, and all the others.
    #[test]
    fn more_load_is_that_of_ramp_and_peak() {
        let on = Duration::from_secs(1);
        let more: Vec<_> = Disturbance::ALL.iter().filter_map(|kind| kind.more(300.0, on)).collect();
        assert_eq!(more, [Pacing::Rising(300.0, on), Pacing::Poisson(300.0)]);
        assert_eq!(more[0].rate(), more[1].rate());
    }

    /// Goal: a recovery after a burst that takes as long as its target allows is detected, and each phase has whole
    /// windows. Method: the number of steps that fit after a burst, compared with the target plus the consecutive
    /// steps that prove it.
    #[test]
    fn a_phase_is_long_enough_for_its_target() {
        let after_ns = Lengths::FULL.after(Disturbance::Burst).as_nanos();
        let target_ns = (RECOVERY_S_MAX * 1e9).round();
        let needed_ns = target_ns + crate::measures::float(STEP_NS) * crate::txn::count_of(SETTLED_STEPS);
        assert!(
            crate::measures::float(u64::try_from(after_ns).unwrap()) >= needed_ns,
            "{after_ns} ns, not {needed_ns}"
        );
        for lengths in [Lengths::FULL, Lengths::QUICK] {
            for kind in Disturbance::ALL {
                assert!(lengths.on + lengths.after(kind) >= lengths.window * 3, "{kind:?}: {lengths:?}");
            }
        }
        assert_eq!(Lengths::FULL.all(), Duration::from_millis(33_600));
    }
}
