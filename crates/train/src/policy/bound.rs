//! `Bound`: what "the delay grows by at most so much" means.

/// The promise about the delay of windows of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// b: by which part the median delay of a window may grow, 0.1 for 10 %.
    pub share: f64,
    /// F: by how much it may grow in any case, in us. Without it a delay of 100 us may grow by 10, less than timers resolve.
    pub floor_us: f64,
}

impl Bound {
    /// B: the highest delay of a window, in us, where it would be `without_us` without collection.
    pub fn limit_us(&self, without_us: f64) -> f64 {
        ((1.0 + self.share) * without_us).max(without_us + self.floor_us)
    }

    /// Returns whether a window is out of bound. Both are delays of the window, measured in one way, in us.
    pub fn is_out(&self, with_us: f64, without_us: f64) -> bool {
        with_us > self.limit_us(without_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the floor holds for short delays, the share for long ones. Method: one of each, on both sides of the limit.
    #[test]
    fn the_larger_of_share_and_floor_counts() {
        let bound = Bound { share: 0.1, floor_us: 1000.0 };
        assert!(!bound.is_out(1100.0, 100.0) && bound.is_out(1101.0, 100.0));
        assert!(!bound.is_out(109_000.0, 100_000.0) && bound.is_out(110_001.0, 100_000.0));
    }
}
