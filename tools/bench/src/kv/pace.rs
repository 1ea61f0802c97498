//! `Pace`: limits a writer to its share of a rate.

use std::time::Duration;

use collie_env::Clock;

/// The shortest pause; shorter ones add up.
const PAUSE_NS_MIN: u64 = 1_000_000;

/// How fast one thread of several may write.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Nanoseconds per byte of this thread; `None`: no limit.
    ns_by_byte: Option<f64>,
    /// The time of its first write.
    began_ns: Option<u64>,
    bytes: u64,
}

impl Pace {
    /// Creates the pace of one of `threads` threads that together write `rate` bytes per second; 0: no limit.
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    pub(super) fn new(rate: u64, threads: u32) -> Self {
        let ns_by_byte = (rate > 0).then(|| 1e9 * f64::from(threads) / rate as f64);
        Self { ns_by_byte, began_ns: None, bytes: 0 }
    }

    /// Returns how long to pause before `bytes` are written at `now_ns`.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times")]
    fn pause_ns(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let Some(ns_by_byte) = self.ns_by_byte else { return 0 };
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let due_ns = began_ns + (self.bytes as f64 * ns_by_byte) as u64;
        self.bytes += bytes;
        Some(due_ns.saturating_sub(now_ns)).filter(|pause| *pause >= PAUSE_NS_MIN).unwrap_or(0)
    }

    /// Pauses as long as the rate requires before `bytes` are written. Without a rate it does not read the clock.
    pub(super) fn take(&mut self, bytes: u64, clock: &dyn Clock) {
        if self.ns_by_byte.is_some() {
            let pause_ns = self.pause_ns(bytes, clock.now_ns());
            if pause_ns > 0 {
                std::thread::sleep(Duration::from_nanos(pause_ns));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the threads together keep to the rate, and none waits without one. Method: invented times.
    #[test]
    fn rate_is_kept() {
        let mut pace = Pace::new(1_000_000, 2);
        // Half a megabyte per second and thread: 2 us per byte.
        assert_eq!(pace.pause_ns(1_000, 5_000_000), 0);
        assert_eq!(pace.pause_ns(1_000, 5_000_000), 2_000_000);
        assert_eq!(pace.pause_ns(1_000, 9_000_000), 0, "it is due");
        assert_eq!(pace.pause_ns(1, 10_500_001), 0, "half a millisecond is not worth a pause");
        assert_eq!(Pace::new(0, 2).pause_ns(1 << 40, 5), 0);
    }
}
