//! `Clock`: a monotonic time and the calendar time, as integers.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

use collie_base::EPOCH_2000_US;

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Returns nanoseconds since some fixed moment; never decreases.
    fn now_ns(&self) -> u64;

    /// Returns microseconds since 1970-01-01 00:00 UTC; may jump when the machine's clock is set.
    fn wall_us(&self) -> i64;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now_ns(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let (sec, nsec) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
        sec * 1_000_000_000 + nsec
    }

    fn wall_us(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
    }
}

/// A clock that moves only when `advance_ns` is called. It starts at one second, on 2000-01-01.
#[derive(Debug)]
pub struct SimClock {
    now_ns: AtomicU64,
    wall_us: AtomicI64,
}

impl SimClock {
    /// Creates a clock at its fixed start.
    pub const fn new() -> Self {
        Self { now_ns: AtomicU64::new(1_000_000_000), wall_us: AtomicI64::new(EPOCH_2000_US) }
    }

    /// Advances both times by `ns` nanoseconds.
    pub fn advance_ns(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
        self.wall_us.fetch_add(i64::try_from(ns / 1_000).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the real clock runs and knows the year; the simulated one advances by exactly the given time. Method:
    /// read each twice.
    #[test]
    fn clocks_move_as_they_say() {
        let first = RealClock.now_ns();
        assert!(RealClock.now_ns() >= first);
        assert!(RealClock.wall_us() > 1_700_000_000_000_000);
        let clock = SimClock::new();
        let (now, wall) = (clock.now_ns(), clock.wall_us());
        clock.advance_ns(5_000);
        assert_eq!((clock.now_ns() - now, clock.wall_us() - wall), (5_000, 5));
    }
}
