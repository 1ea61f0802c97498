//! `Signals`: the measurements of a tick that a policy gets.

use crate::numbers::bounded;

/// The length of a tick.
pub const TICK_US: f64 = 100_000.0;

/// A primary that was silent for longer counts as infinitely far ahead.
pub const HEARTBEAT_US_MAX: f64 = 1_000_000.0;

/// The largest measured time; a larger value, or one that is not a number, counts as this.
const MEASURED_US_MAX: f64 = 1e10;

/// The largest rate.
const PER_S_MAX: f64 = 1e12;

/// The measurements of one tick on a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signals {
    /// D: the median delay of the commits measured in the tick, in us on the primary's clock; `None` if none was
    /// measured.
    pub delay_us: Option<f64>,
    /// A: the age of the oldest commit that is not applied, in us; 0 if there is none.
    pub age_us: f64,
    /// Commits applied, per second.
    pub commits_per_s: f64,
    /// The time for which all apply workers together were busy in the tick, collection included, in us.
    pub busy_us: f64,
    /// The part of `busy_us` that was spent on collection.
    pub spent_us: f64,
    /// The collection work that the sources would do if all were granted, in us per second.
    pub offered_us_per_s: f64,
    /// The time since the primary was last heard, in us.
    pub heartbeat_us: f64,
    /// The time that runnable apply threads waited for a processor, 99th percentile in the tick, in us.
    pub run_queue_us_p99: f64,
    /// The number of apply workers.
    pub workers: u32,
}

impl Default for Signals {
    /// Returns the signals of one idle worker, with a primary that was heard just now and commits nothing.
    fn default() -> Self {
        Self {
            delay_us: None,
            age_us: 0.0,
            commits_per_s: 0.0,
            busy_us: 0.0,
            spent_us: 0.0,
            offered_us_per_s: 0.0,
            heartbeat_us: 0.0,
            run_queue_us_p99: 0.0,
            workers: 1,
        }
    }
}

impl Signals {
    /// Returns the signals with every field in its range. A value that is not a number becomes the longest time or a
    /// rate of 0.
    pub fn sanitized(&self) -> Self {
        let measured = |value| bounded(value, 0.0, MEASURED_US_MAX, MEASURED_US_MAX);
        let busy_us = measured(self.busy_us);
        Self {
            delay_us: self.delay_us.map(measured),
            age_us: measured(self.age_us),
            commits_per_s: bounded(self.commits_per_s, 0.0, PER_S_MAX, 0.0),
            busy_us,
            spent_us: bounded(self.spent_us, 0.0, busy_us, 0.0),
            offered_us_per_s: bounded(self.offered_us_per_s, 0.0, PER_S_MAX, 0.0),
            heartbeat_us: measured(self.heartbeat_us),
            run_queue_us_p99: measured(self.run_queue_us_p99),
            workers: self.workers.max(1),
        }
    }

    /// Returns whether the primary was silent for too long, so that the delay is unknown.
    pub fn is_stale(&self) -> bool {
        self.heartbeat_us.is_nan() || self.heartbeat_us > HEARTBEAT_US_MAX
    }

    /// x: returns how far behind the replica is at worst, in us; infinite if that is unknown, and 0 if nothing was
    /// committed and no commit is waiting.
    pub fn behind_us(&self) -> f64 {
        if self.is_stale() { f64::INFINITY } else { self.delay_us.map_or(self.age_us, |delay| delay.max(self.age_us)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no wrong measurement reaches a policy. Method: every field not a number, then infinite, negative or too
    /// large.
    #[test]
    fn sanitized_signals_are_in_range() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
            let signals = Signals {
                delay_us: Some(bad),
                age_us: bad,
                commits_per_s: bad,
                busy_us: bad,
                spent_us: bad,
                offered_us_per_s: bad,
                heartbeat_us: bad,
                run_queue_us_p99: bad,
                workers: 0,
            }
            .sanitized();
            let delay_us = signals.delay_us.expect("a wrong delay is no missing one");
            let fields = [delay_us, signals.age_us, signals.busy_us, signals.heartbeat_us];
            assert!(fields.iter().all(|field| (0.0..=MEASURED_US_MAX).contains(field)), "{bad}: {signals:?}");
            assert!((0.0..=PER_S_MAX).contains(&signals.commits_per_s) && signals.spent_us <= signals.busy_us);
            assert_eq!(signals.workers, 1);
        }
        assert!(Signals { heartbeat_us: f64::NAN, ..Signals::default() }.sanitized().is_stale());
    }

    /// Goal: a silent primary is infinitely far ahead. Method: a heartbeat on either side of its limit.
    #[test]
    fn a_stale_heartbeat_is_infinite_delay() {
        let fresh = Signals { delay_us: Some(5.0), age_us: 9.0, heartbeat_us: HEARTBEAT_US_MAX, ..Signals::default() };
        assert_eq!(fresh.behind_us(), 9.0);
        assert_eq!(Signals { delay_us: None, ..fresh }.behind_us(), 9.0);
        let stale = Signals { heartbeat_us: HEARTBEAT_US_MAX + 1.0, ..fresh };
        assert_eq!(stale.behind_us(), f64::INFINITY);
    }
}
