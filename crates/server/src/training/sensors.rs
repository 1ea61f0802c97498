//! [`Sensors`]: the measurements on a replica since the last tick, from existing counters of its replay and its stream.

use std::{sync::Arc, time::Duration};

use collie_engine::{ApplyStat, Replica};
use collie_env::Env;
use collie_replica::database::{DelaysHeard, EngineTarget};
use collie_train::policy::{Signals, TICK_US};

use super::{run_queue::RunQueue, state::Training};
use crate::reads::ReadRunner;

/// The upper limit of what sampled reads can use, in us per second: one core.
const READS_US_PER_S_MAX: f64 = 1e6;

/// The lower limit of the offered work, in us per second: the call rate of a unit is known only once it is sampled, and
/// with a grant of 0 it would never be.
const OFFERED_US_PER_S_MIN: f64 = 10_000.0;

/// One reading of all counters.
#[derive(Clone, Debug, Default)]
struct Look {
    at_ns: u64,
    apply: ApplyStat,
    /// The delays that the primary has reported since the last reading, and the number of its reports by now.
    delays: DelaysHeard,
    delays_seen: u64,
    oldest_ns: u64,
    /// The time at which the primary was last heard.
    heard_ns: Option<u64>,
    /// `None`: not known.
    run_queue_us: Option<f64>,
    /// The cost of samples on apply threads.
    spent_us: f64,
    /// The cost if every call were sampled, in us per second.
    wanted_us_per_s: f64,
    /// The number of sampled reads received.
    reads: u64,
    /// The time of one of them, in us.
    read_us: f64,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn us_of(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the value after `before` when `now` is measured: it rises at once, and falls by a tenth of the difference.
fn peak(before: f64, now: f64) -> f64 {
    now.max(0.9 * before + 0.1 * now)
}

impl Look {
    /// Returns the time that the reads received since `before` would take if all of them ran, in us per second.
    fn reads_us_per_s(&self, before: &Self, elapsed_us: f64) -> f64 {
        let came = self.reads.saturating_sub(before.reads);
        (came as f64 * self.read_us * 1e6 / elapsed_us).min(READS_US_PER_S_MAX)
    }

    /// Returns the measurements since `before`, scaled to the length of a tick.
    fn signals_since(&self, before: &Self) -> Signals {
        let elapsed_us = us(self.at_ns.saturating_sub(before.at_ns)).max(1.0);
        let commits = self.apply.commits.saturating_sub(before.apply.commits);
        let busy_us = us_of(self.apply.busy.saturating_sub(before.apply.busy));
        Signals {
            delay_us: self.delays.p50_ns().map(us),
            age_us: us(self.oldest_ns),
            commits_per_s: commits as f64 * 1e6 / elapsed_us,
            busy_us: busy_us * TICK_US / elapsed_us,
            spent_us: (self.spent_us - before.spent_us).max(0.0) * TICK_US / elapsed_us,
            offered_us_per_s: (self.wanted_us_per_s + self.reads_us_per_s(before, elapsed_us))
                .max(OFFERED_US_PER_S_MIN),
            heartbeat_us: self.heard_ns.map_or(f64::INFINITY, |heard_ns| us(self.at_ns.saturating_sub(heard_ns))),
            // A value that is not a number counts as the one that grants least.
            run_queue_us_p99: self.run_queue_us.unwrap_or(f64::NAN),
            workers: u32::try_from(self.apply.workers).unwrap_or(u32::MAX),
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Sensors {
    replica: Replica,
    target: Arc<EngineTarget>,
    training: Arc<Training>,
    reads: Arc<ReadRunner>,
    env: Env,
    run_queue: RunQueue,
    before: Look,
    /// The offered work, in us per second: it rises at once and falls slowly, since reads arrive one by one.
    offered_us_per_s: f64,
}

impl Sensors {
    /// Starts to measure a replica.
    pub(crate) fn new(
        replica: Replica,
        target: Arc<EngineTarget>,
        training: Arc<Training>,
        reads: Arc<ReadRunner>,
        env: Env,
    ) -> Self {
        let (run_queue, before) = (RunQueue::of(&env), Look::default());
        let mut sensors = Self { replica, target, training, reads, env, run_queue, before, offered_us_per_s: 0.0 };
        sensors.before = sensors.look();
        sensors
    }

    fn look(&mut self) -> Look {
        let at_ns = self.env.clock.now_ns();
        let (reads, read_us) = self.reads.offered();
        let (delays, delays_seen) = self.target.delays_since(self.before.delays_seen);
        Look {
            at_ns,
            apply: self.replica.apply_stat(),
            delays,
            delays_seen,
            oldest_ns: self.target.oldest_unapplied_ns(at_ns),
            heard_ns: self.target.last_heard().map(|(_, heard_ns)| heard_ns),
            run_queue_us: self.run_queue.longest_us(),
            spent_us: self.training.collection().apply_spent_us(),
            wanted_us_per_s: self.training.collection().wanted_us_per_s(),
            reads,
            read_us,
        }
    }

    /// Returns the measurements since the last call.
    pub(super) fn read(&mut self) -> Signals {
        let now = self.look();
        let signals = now.signals_since(&self.before);
        self.before = now;
        self.offered_us_per_s = peak(self.offered_us_per_s, signals.offered_us_per_s);
        Signals { offered_us_per_s: self.offered_us_per_s, ..signals }
    }
}

#[cfg(test)]
mod tests {
    use collie_replica::packet::DelayWindow;

    use super::*;

    fn look(at_ms: u64, commits: u64, busy_ms: u64) -> Look {
        let mut apply = ApplyStat::default();
        (apply.workers, apply.commits, apply.busy) = (2, commits, Duration::from_millis(busy_ms));
        Look {
            at_ns: at_ms * 1_000_000,
            apply,
            heard_ns: Some(at_ms * 1_000_000),
            run_queue_us: Some(7.0),
            ..Look::default()
        }
    }

    /// Goal: rates do not depend on the length of a tick. Method: the same rate over a tick, and over one that came
    /// late.
    #[test]
    fn rates_are_of_a_tick_however_long_it_was() {
        let before = look(1000, 100, 50);
        for (after, ticks) in [(look(1100, 150, 70), 1), (look(1300, 250, 110), 3)] {
            let signals = after.signals_since(&before);
            assert_eq!((signals.commits_per_s, signals.workers), (500.0, 2), "{ticks} ticks");
            assert!((signals.busy_us - 20_000.0).abs() < 1e-6, "{ticks} ticks: {}", signals.busy_us);
            assert_eq!((signals.run_queue_us_p99, signals.heartbeat_us), (7.0, 0.0));
        }
    }

    /// Goal: the cost of samples on apply threads is separate from their work; the cost of all samples and of all
    /// received reads is offered, for reads a core at the most, and is not forgotten between two reads; a minimum is
    /// offered while nothing is known. Method: 300 us in three ticks; six reads of 2 ms in them; as many of a second
    /// each; nothing.
    #[test]
    fn what_collection_costs_and_would_cost_is_told() {
        let (mut before, mut after) = (look(1000, 0, 0), look(1300, 0, 50));
        (after.spent_us, after.wanted_us_per_s) = (300.0, 2500.0);
        (before.reads, after.reads, after.read_us) = (4, 10, 2000.0);
        let signals = after.signals_since(&before);
        assert!((signals.spent_us - 100.0).abs() < 1e-6, "{}", signals.spent_us);
        assert!((signals.offered_us_per_s - 42_500.0).abs() < 1e-6, "{}", signals.offered_us_per_s);
        after.read_us = 1e6;
        assert_eq!(after.signals_since(&before).offered_us_per_s, READS_US_PER_S_MAX + 2500.0);
        assert_eq!(before.signals_since(&look(900, 0, 0)).offered_us_per_s, OFFERED_US_PER_S_MIN);
        assert_eq!([peak(0.0, 500.0), peak(1000.0, 0.0), peak(1000.0, 2000.0)], [500.0, 900.0, 2000.0]);
    }

    /// Goal: D is the median of the delays reported in the tick, and absent if no commit was reported; a primary that
    /// was never heard is infinitely far, and an unknown run queue is not a number. Method: each by hand.
    #[test]
    fn delays_and_silence_are_told() {
        let before = look(1000, 0, 0);
        let mut after = look(1100, 0, 0);
        let window = |commits, p50_ns| DelayWindow { commits, p50_ns, ..DelayWindow::default() };
        after.delays = DelaysHeard(vec![window(1, 900_000), window(5, 4000), window(2, 5000)]);
        after.oldest_ns = 3_000_000;
        let signals = after.signals_since(&before);
        assert_eq!((signals.delay_us, signals.age_us), (Some(4.0), 3000.0));
        let mut later = look(3200, 0, 0);
        (later.heard_ns, later.run_queue_us) = (after.heard_ns, None);
        let signals = later.signals_since(&after);
        assert_eq!((signals.delay_us, signals.heartbeat_us), (None, 2_100_000.0));
        assert!(signals.is_stale() && signals.run_queue_us_p99.is_nan());
        later.heard_ns = None;
        assert_eq!(later.signals_since(&after).heartbeat_us, f64::INFINITY);
    }

    /// Goal: a reopened replica, whose counters start again, does not count as one that works backwards. Method:
    /// counters that fall.
    #[test]
    fn counters_that_fall_count_as_nothing() {
        let signals = look(1100, 0, 0).signals_since(&look(1000, 100, 50));
        assert_eq!((signals.commits_per_s, signals.busy_us), (0.0, 0.0));
    }
}
