//! [`Granted`]: the current grant for collection.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use collie_train::policy::ElasticBudget;

/// Written by the tick, read by the collecting threads. The numbers are independent, so no order is needed between
/// them.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    collect_us_per_s: AtomicU64,
    elastic: Arc<ElasticBudget>,
}

impl Granted {
    /// Returns C: microseconds of collection work per second, for all sources together.
    pub(crate) fn collect_us_per_s(&self) -> u64 {
        self.collect_us_per_s.load(Relaxed)
    }

    /// Returns the part of it for elastic work.
    pub(crate) fn elastic(&self) -> &Arc<ElasticBudget> {
        &self.elastic
    }

    /// Grants these rates from now on, rounded down.
    pub(super) fn publish(&self, collect_us_per_s: f64, elastic_us_per_s: f64) {
        self.collect_us_per_s.store(whole(collect_us_per_s), Relaxed);
        self.elastic.set_rate(whole(elastic_us_per_s));
    }

    /// Grants nothing from now on.
    pub(super) fn take_back(&self) {
        self.publish(0.0, 0.0);
    }
}

/// Returns a number without its fraction; 0 for a negative one, or for one that is not a number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates")]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: readers get the published values, and never absurd ones. Method: grants of both kinds, then none, then
    /// values that are no numbers.
    #[test]
    fn granted_is_what_was_published() {
        let granted = Granted::default();
        let now = || (granted.collect_us_per_s(), granted.elastic().rate_us_per_s());
        assert_eq!(now(), (0, 0));
        granted.publish(250_000.9, 10_000.0);
        assert_eq!(now(), (250_000, 10_000));
        granted.publish(f64::NAN, -1.0);
        assert_eq!(now(), (0, 0));
        granted.publish(5.0, 5.0);
        granted.take_back();
        assert_eq!(now(), (0, 0));
    }
}
