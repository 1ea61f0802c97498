//! [`LiveGauge`]: the seconds of a server, from existing counters of its database.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use collie_base::Latencies;
use collie_engine::Replica;
use collie_env::Env;
use collie_replica::database::{DelaysHeard, EngineTarget};
use collie_sql::{catalog::system::Standby, session::Database};
use collie_train::decision::Guard;

use super::gauge::{Gauge, Second};

/// Memory use above this fraction of its limit ends a change.
const MEMORY_MAX: f64 = 0.9;
/// The least number of ended transactions from which the fraction of rollbacks is computed.
const ENDED_MIN: u64 = 20;

/// One reading of all counters.
#[derive(Clone, Debug, Default)]
struct Look {
    at_ns: u64,
    answered: Latencies,
    /// Transactions that committed, and that were rolled back.
    ended: (u64, u64),
    applied: u64,
    /// The delays that the primary has reported since the last reading, and the number of its reports by now.
    delays: DelaysHeard,
    delays_seen: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LiveGauge {
    database: Weak<Database>,
    /// `Some` for a node that was opened as a replica.
    following: Option<(Replica, Arc<EngineTarget>)>,
    /// `replication.ready_delay`.
    delay_max: Option<Duration>,
    env: Env,
    before: Look,
}

/// The result if nothing can be measured.
const BLIND: Second = Second {
    throughput: f64::NAN,
    mean_us: f64::NAN,
    p99_us: f64::NAN,
    aborted: 0.0,
    is_delay_held: false,
    guard: Some(Guard::Blind),
};

impl LiveGauge {
    /// Starts to measure a database, and the stream that it follows, if it does.
    pub(crate) fn new(
        database: &Arc<Database>,
        following: Option<(Replica, Arc<EngineTarget>)>,
        delay_max: Option<Duration>,
        env: Env,
    ) -> Self {
        let mut gauge = Self { database: Arc::downgrade(database), following, delay_max, env, before: Look::default() };
        gauge.before = gauge.look(database);
        gauge
    }

    fn look(&self, database: &Database) -> Look {
        let node = database.node();
        let following = self.following.as_ref();
        let seen = self.before.delays_seen;
        let (delays, delays_seen) = following.map(|(_, target)| target.delays_since(seen)).unwrap_or_default();
        Look {
            at_ns: self.env.clock.now_ns(),
            answered: database.answered(),
            ended: (node.commits, node.aborts),
            applied: following.map_or(0, |(replica, _)| replica.apply_stat().commits),
            delays,
            delays_seen,
        }
    }

    /// Returns whether the required delay is held: by this node if it is a replica, by its replicas if it is a primary.
    fn is_delay_held(&self, database: &Database) -> bool {
        if database.engine().is_replica() {
            let Some(policy) = database.training().map(|training| training.policy()) else { return true };
            return match (policy.behind_us, policy.bound_us) {
                (Some(behind_us), Some(bound_us)) => behind_us <= bound_us,
                _ => true, // there is no bound yet
            };
        }
        let most = self.delay_max.map_or(i64::MAX, |most| i64::try_from(most.as_micros()).unwrap_or(i64::MAX));
        let behind_us = |standby: &Standby| standby.oldest_us.max(standby.delay.map_or(0, |delay| delay.mean_us));
        database.standbys().iter().all(|standby| !standby.is_connected || behind_us(standby) <= most)
    }
}

/// Returns the reason why no change may continue, if there is one.
fn guard(database: &Database) -> Option<Guard> {
    let stat = database.engine().stat();
    let is_short = |limit: u64| stat.memory_bytes as f64 >= MEMORY_MAX * limit as f64;
    if stat.memory_limit_bytes.is_some_and(is_short) {
        return Some(Guard::Memory);
    }
    let log = database.engine().log().map(|log| log.stat());
    log.filter(|log| log.full.is_some() || log.alarm.is_some() || log.poisoned).map(|_| Guard::Disk)
}

/// Returns the figures of the time between two readings, without the guards.
fn second(before: &Look, now: &Look, is_replica: bool) -> Second {
    let seconds = now.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
    let (committed, aborted) = (now.ended.0.saturating_sub(before.ended.0), now.ended.1.saturating_sub(before.ended.1));
    let ended = committed.saturating_add(aborted);
    let aborted = if ended < ENDED_MIN { 0.0 } else { aborted as f64 / ended as f64 };
    let (count, mean_us, p99_us) = if is_replica {
        let delay_us = now.delays.mean_ns().map_or(f64::NAN, |ns| ns / 1e3);
        (now.applied.saturating_sub(before.applied), delay_us, delay_us)
    } else {
        let answered = now.answered.since(&before.answered);
        let us = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e3);
        let p99_ns = (answered.count() > 0).then(|| answered.at_per_mille(990) as f64);
        (answered.count(), us(answered.mean_ns()), us(p99_ns))
    };
    Second { throughput: count as f64 / seconds, mean_us, p99_us, aborted, is_delay_held: true, guard: None }
}

impl Gauge for LiveGauge {
    fn read(&mut self) -> Second {
        let Some(database) = self.database.upgrade() else { return BLIND };
        let now = self.look(&database);
        let second = second(&self.before, &now, database.engine().is_replica());
        self.before = now;
        Second { is_delay_held: self.is_delay_held(&database), guard: guard(&database), ..second }
    }
}

#[cfg(test)]
mod tests {
    use collie_replica::packet::DelayWindow;

    use super::*;

    /// Goal: a replica's seconds are those of its applied commits, a primary's of its answers; rates do not depend on
    /// the time between readings, and too few transactions give no fraction of rollbacks. Method: readings by hand.
    #[test]
    fn seconds_are_rates_of_the_role() {
        let before = Look { at_ns: 1_000_000_000, ended: (100, 10), applied: 40, ..Look::default() };
        let window = |commits, mean_ns| DelayWindow { commits, mean_ns, ..DelayWindow::default() };
        let delays = DelaysHeard(vec![window(3, 10_000), window(1, 30_000)]);
        let now = Look { at_ns: 3_000_000_000, ended: (130, 20), applied: 240, delays, ..Look::default() };
        let on_replica = second(&before, &now, true);
        assert_eq!((on_replica.throughput, on_replica.mean_us, on_replica.aborted), (100.0, 15.0, 0.25));
        assert!((on_replica.power() - 100.0 / 15.0).abs() < 1e-9);
        let on_primary = second(&before, &now, false);
        assert_eq!(on_primary.throughput, 0.0);
        assert!(on_primary.mean_us.is_nan() && on_primary.p99_us.is_nan() && on_primary.power().is_nan());
        let few = Look { ended: (100, 20), ..now };
        assert_eq!(second(&before, &few, true).aborted, 0.0);
        let idle = Look { delays: DelaysHeard::default(), ..few };
        assert!(second(&before, &idle, true).mean_us.is_nan(), "nothing was committed");
    }
}
