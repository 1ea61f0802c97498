//! [`ElasticBudget`]: processor time for work that can wait, taken in slices by the threads that do it, at a rate that
//! P7 sets.
//!
//! The task that ticks the policy (`set_rate`) and the working threads (`take`, then `spend`) share it. It reads no
//! clock: a call of `take` passes the time of any clock that does not go back.
//!
//! # Invariants
//! - E1. Spending follows the rate: over any time with a constant rate it is at most the income, plus the savings of
//!   one tick (or one slice, if that is more), plus for each worker the piece of work that it had begun.
//! - E2. At a rate of 0 no work may begin, whatever was saved.
//!
//! Work that took longer than its slice leaves a debt: no work may begin until the income has paid it.

use parking_lot::Mutex;

use super::TICK_US;

#[derive(Debug, Default)]
struct Inner {
    us_per_s: u64,
    /// The content of the bucket, in us; below 0 it is a debt.
    bucket_us: f64,
    /// The time up to which the bucket was filled; `None`: it is filled from the next `take` on.
    filled_us: Option<u64>,
    spent_us: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct ElasticBudget {
    inner: Mutex<Inner>,
}

impl ElasticBudget {
    /// Returns a budget that allows no work until it has a rate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the income to `us_per_s` microseconds per second from now on; at 0 the savings are lost (E2) and a debt
    /// stays.
    pub fn set_rate(&self, us_per_s: u64) {
        let mut inner = self.inner.lock();
        inner.us_per_s = us_per_s;
        if us_per_s == 0 {
            inner.bucket_us = inner.bucket_us.min(0.0);
            inner.filled_us = None;
        }
    }

    /// Returns the rate, in microseconds per second.
    pub fn rate_us_per_s(&self) -> u64 {
        self.inner.lock().us_per_s
    }

    /// Returns whether work of about `slice_us` may begin at the time `now_us`. This pays for nothing: the caller must
    /// report afterwards how long the work took ([`ElasticBudget::spend`]).
    ///
    /// Progress: a lock that is held for a few instructions.
    pub fn take(&self, now_us: u64, slice_us: u64) -> bool {
        let mut inner = self.inner.lock();
        if inner.us_per_s == 0 {
            return false;
        }
        let elapsed_us = now_us.saturating_sub(*inner.filled_us.get_or_insert(now_us));
        inner.filled_us = inner.filled_us.max(Some(now_us));
        let (slice, rate) = (slice_us as f64, inner.us_per_s as f64 / 1e6);
        let bucket_us_max = (rate * TICK_US).max(slice);
        inner.bucket_us = (inner.bucket_us + rate * elapsed_us as f64).min(bucket_us_max);
        inner.bucket_us >= slice
    }

    /// Pays for work that took `us` of processor time.
    pub fn spend(&self, us: u64) {
        let mut inner = self.inner.lock();
        inner.bucket_us -= us as f64;
        inner.spent_us = inner.spent_us.saturating_add(us);
    }

    /// Returns the time that was spent since the budget was made, in microseconds.
    pub fn spent_us(&self) -> u64 {
        self.inner.lock().spent_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a slice of 1 ms every 100 us for `seconds`, and spends `used_us` on each one that it gets; returns the
    /// time spent.
    fn spent(budget: &ElasticBudget, from_us: u64, seconds: u64, used_us: u64) -> u64 {
        let before = budget.spent_us();
        for step in 0..seconds * 10_000 {
            if budget.take(from_us + step * 100, 1000) {
                budget.spend(used_us);
            }
        }
        budget.spent_us() - before
    }

    /// Goal: E1: the time spent is that of the rate, also for work that is shorter or longer than its slice. Method:
    /// ten seconds at three rates, with work of a twentieth of a slice, of a slice, and of fifty.
    #[test]
    fn work_follows_the_rate_however_long_its_pieces_are() {
        for rate in [2000, 10_000, 400_000] {
            for used_us in [50, 1000, 50_000] {
                let budget = ElasticBudget::new();
                budget.set_rate(rate);
                let spent = spent(&budget, 7_000_000, 10, used_us);
                let saved = (rate / 10).max(1000);
                // A piece of 50 us is done at most every 100 us, so it takes at most half of a processor.
                let most = rate * 10 + saved + used_us;
                // At a call every 100 us the bucket has been full for a part of that time, and lost income.
                let least = (rate * 99 / 10).saturating_sub(saved + used_us);
                assert!((least..=most).contains(&spent), "{spent} us of {} at pieces of {used_us}", rate * 10);
            }
        }
    }

    /// Goal: savings are at most those of one tick. Method: an hour of rest at a fifth of a processor, then as much
    /// work as possible.
    #[test]
    fn rest_saves_one_tick() {
        let budget = ElasticBudget::new();
        budget.set_rate(200_000);
        assert!(!budget.take(0, 1000), "it fills from the first time that somebody asks");
        while budget.take(3_600_000_000, 1000) {
            budget.spend(1000);
        }
        assert_eq!(budget.spent_us(), 20_000);
    }

    /// Goal: E2: a rate of 0 stops work at once, and earlier savings do not come back with the rate. Method: a full
    /// bucket, off, on.
    #[test]
    fn a_rate_of_zero_gives_nothing() {
        let budget = ElasticBudget::new();
        assert!(!budget.take(5, 1), "no rate yet");
        budget.set_rate(1_000_000);
        assert!(!budget.take(5, 1000) && budget.take(100_005, 1000));
        budget.set_rate(0);
        assert!(!budget.take(200_005, 1000));
        budget.set_rate(1_000_000);
        assert!(!budget.take(300_005, 1000), "the time without a rate counts for nothing");
        assert!(budget.take(301_005, 1000));
        assert_eq!(budget.rate_us_per_s(), 1_000_000);
    }

    /// Goal: a debt is paid back, also through a rate of 0. Method: a piece of work of a second at a tenth of a
    /// processor.
    #[test]
    fn what_is_owed_is_paid_back() {
        let budget = ElasticBudget::new();
        budget.set_rate(100_000);
        budget.take(0, 1000);
        budget.spend(1_000_000);
        budget.set_rate(0);
        budget.set_rate(100_000);
        assert!(!budget.take(0, 1000) && !budget.take(10_009_000, 1000));
        assert!(budget.take(10_011_000, 1000));
        assert!(budget.spent_us() == 1_000_000);
    }

    /// Goal: a clock that goes back fills nothing twice. Method: calls at a later time, at an earlier one, and at the
    /// later one again.
    #[test]
    fn a_clock_that_goes_back_fills_nothing_twice() {
        let budget = ElasticBudget::new();
        budget.set_rate(10_000);
        assert!(!budget.take(0, 1000) && budget.take(100_000, 1000));
        budget.spend(1000);
        assert!(!budget.take(0, 1000) && !budget.take(100_000, 1000));
    }
}
