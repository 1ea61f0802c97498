//! `Bound`: by how much collection may raise the delay.

/// The promise about the delay in windows of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// b: the share by which the median delay of a window may grow, 0.1 for 10 %.
    pub share: f64,
    /// F: the amount by which it may always grow, in us. Otherwise a delay of 100 us could grow by 10 us only, less
    /// than timers resolve.
    pub floor_us: f64,
}

impl Bound {
    /// B: returns the highest delay of a window whose delay would be `without_us` without collection, in us.
    pub fn limit_us(&self, without_us: f64) -> f64 {
        ((1.0 + self.share) * without_us).max(without_us + self.floor_us)
    }

    /// Returns whether a window is out of bound. Both are delays of the window, measured in the same way, in us.
    pub fn is_out(&self, with_us: f64, without_us: f64) -> bool {
        with_us > self.limit_us(without_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the floor holds for short delays, the share for long ones. Method: one of each, on both sides of the
    /// limit.
    #[test]
    fn the_larger_of_share_and_floor_counts() {
        let bound = Bound { share: 0.1, floor_us: 1000.0 };
        assert!(!bound.is_out(1100.0, 100.0) && bound.is_out(1101.0, 100.0));
        assert!(!bound.is_out(109_000.0, 100_000.0) && bound.is_out(110_001.0, 100_000.0));
    }
}
