//! `Grant`: the collection work that is allowed until the next tick.

use crate::numbers::bounded;

/// C: the collection work that all sources together may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant {
    /// Microseconds of work per second.
    pub collect_us_per_s: f64,
}

impl Grant {
    /// No collection.
    pub const NONE: Self = Self { collect_us_per_s: 0.0 };

    /// Returns the grant clamped to 0 and `limit_us_per_s`; a grant that is not a number becomes 0.
    #[must_use]
    pub fn clamped(self, limit_us_per_s: f64) -> Self {
        Self { collect_us_per_s: bounded(self.collect_us_per_s, 0.0, limit_us_per_s.max(0.0), 0.0) }
    }

    /// s: returns the granted share of the offered work, 0 to 1.
    pub fn share(self, offered_us_per_s: f64) -> f64 {
        bounded(self.collect_us_per_s / offered_us_per_s.max(1e-9), 0.0, 1.0, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a policy with a bug cannot grant more than its limit. Method: impossible grants.
    #[test]
    fn clamped_grants_stay_in_range() {
        for (asked, given) in [(f64::NAN, 0.0), (-1.0, 0.0), (f64::INFINITY, 50.0), (1e300, 50.0), (20.0, 20.0)] {
            assert_eq!(Grant { collect_us_per_s: asked }.clamped(50.0).collect_us_per_s, given);
        }
        assert_eq!(Grant { collect_us_per_s: 5.0 }.share(10.0), 0.5);
        assert_eq!(Grant { collect_us_per_s: 5.0 }.share(0.0), 1.0);
        assert_eq!(Grant::NONE.share(0.0), 0.0);
    }
}
