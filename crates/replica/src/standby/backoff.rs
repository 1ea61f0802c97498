//! `Backoff`: how long to wait before the next try to connect.

use std::time::Duration;

/// The first wait.
const FIRST_MS: u64 = 100;
/// The longest wait.
const MOST_MS: u64 = 5_000;
/// The wait after an error that only a person can resolve.
const FATAL_MS: u64 = 60_000;

/// Waits that double, with jitter, so that the replicas of one primary do not reconnect all at once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next_ms: FIRST_MS }
    }
}

impl Backoff {
    /// Returns how long to wait now: between half and the whole of the step, by `chance`.
    pub fn next(&mut self, fatal: bool, chance: u64) -> Duration {
        let step = if fatal { FATAL_MS } else { self.next_ms };
        if !fatal {
            self.next_ms = (self.next_ms * 2).min(MOST_MS);
        }
        Duration::from_millis(step / 2 + chance % (step / 2 + 1))
    }

    /// Starts over, because a connection has served.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: waits grow to their bound and never beyond, and start over. Method: both ends of chance, twenty
    /// times.
    #[test]
    fn waits_grow_to_five_seconds_and_begin_again() {
        let (mut low, mut high) = (Backoff::default(), Backoff::default());
        let ms = Duration::from_millis;
        assert_eq!((low.next(false, 0), high.next(false, 50)), (ms(50), ms(100)));
        for _ in 0..20 {
            assert!(low.next(false, 0) <= ms(2500) && high.next(false, u64::MAX) <= ms(5000));
        }
        assert_eq!((low.next(false, 0), high.next(false, 2500)), (ms(2500), ms(5000)));
        assert_eq!(low.next(true, 0), ms(30_000));
        low.reset();
        assert_eq!(low.next(false, 0), ms(50));
    }
}
