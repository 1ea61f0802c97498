//! `Pacing`: when transactions begin.
//!
//! # Invariants
//! - P1. With a rate, the moments are set before the run: number n is due n intervals after the start, whether the database keeps up
//!   or not, and latency counts from there. Nothing that is slow makes fewer transactions be asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use collie_env::Clock;

use super::chance::Chance;
use super::request::Kind;

/// When transactions begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Each client begins the next once the last has ended.
    FlatOut,
    /// So many a second of all clients together, evenly (P1). Whichever client is free takes the next.
    Rate(f64),
    /// Each client is a terminal with the keying and think times of clause 5.2.5.
    Terminals,
}

/// Hands out the moments of a rate.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    next: AtomicU64,
}

impl Arrivals {
    /// Returns when the next one is due, in nanoseconds since the start.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times")]
    pub(crate) fn next_ns(&self, per_s: f64) -> u64 {
        (self.next.fetch_add(1, Relaxed) as f64 * 1e9 / per_s) as u64
    }

    /// Returns how many of those due within `ns` were not handed out.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    pub(crate) fn left(&self, per_s: f64, ns: u64) -> u64 {
        ((ns as f64 * per_s / 1e9) as u64).saturating_sub(self.next.load(Relaxed))
    }
}

/// Returns keying and think time for a transaction: fixed, and exponential cut at ten times its mean.
pub(crate) fn terminal_times(kind: Kind, chance: &mut Chance) -> [Duration; 2] {
    let (keying, think) = kind.times_s();
    let think = (-chance.share().ln()).min(10.0) * f64::from(think);
    [Duration::from_secs(keying.into()), Duration::from_secs_f64(think)]
}

/// Sleeps until `due_ns`, if it is not over.
pub(crate) fn sleep_until(clock: &dyn Clock, due_ns: u64) {
    let now = clock.now_ns();
    if due_ns > now {
        std::thread::sleep(Duration::from_nanos(due_ns - now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: moments are those of the rate whoever takes them, and what is left is counted. Method: numbers.
    #[test]
    fn arrivals_are_even() {
        let arrivals = Arrivals::default();
        let due: Vec<_> = (0..4).map(|_| arrivals.next_ns(1_000.0)).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000]);
        assert_eq!((arrivals.left(1_000.0, 10_000_000), arrivals.left(1_000.0, 1)), (6, 0));
    }

    /// Goal: think times have their mean and bound. Method: 20,000 of them.
    #[test]
    fn think_times_are_exponential() {
        let mut chance = Chance::new(1, 1);
        let all: Vec<_> = (0..20_000).map(|_| terminal_times(Kind::NewOrder, &mut chance)).collect();
        let mean = all.iter().map(|[_, think]| think.as_secs_f64()).sum::<f64>() / 20_000.0;
        assert!((11.5..12.5).contains(&mean), "{mean}");
        assert!(all.iter().all(|[keying, think]| keying.as_secs() == 18 && think.as_secs_f64() <= 120.0));
    }
}
