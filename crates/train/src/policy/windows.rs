//! `Windows`: how many windows of one second were out of bound.

/// Ticks of a window.
const WINDOW_TICKS: u32 = 10;

/// Counts windows by their mean delay against the bound that stood at their end.
///
/// A window with a tick of which nothing is known, or at whose end there is no bound yet, is neither in nor out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    ticks: u32,
    sum_us: f64,
    is_unknown: bool,
    /// Windows that were judged.
    pub judged: u64,
    /// Those among them that were out of bound.
    pub out: u64,
    /// Windows that could not be judged.
    pub unknown: u64,
}

impl Windows {
    /// Takes the delay of a tick, in us, unless it is not known, and the bound as it stands, in us.
    pub fn tick(&mut self, delay_us: Option<f64>, bound_us: Option<f64>) {
        self.ticks += 1;
        match delay_us {
            Some(delay_us) => self.sum_us += delay_us,
            None => self.is_unknown = true,
        }
        if self.ticks < WINDOW_TICKS {
            return;
        }
        let mean_us = self.sum_us / f64::from(WINDOW_TICKS);
        match bound_us.filter(|_| !self.is_unknown) {
            Some(bound_us) => {
                self.judged += 1;
                // A mean that is no number is out.
                self.out += u64::from(mean_us.is_nan() || mean_us > bound_us);
            }
            None => self.unknown += 1,
        }
        (self.ticks, self.sum_us, self.is_unknown) = (0, 0.0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(windows: &Windows) -> (u64, u64, u64) {
        (windows.judged, windows.out, windows.unknown)
    }

    /// Goal: a window is ten ticks, its mean counts, and the bound itself is in. Method: one with a spike, one at the bound, one above it.
    #[test]
    fn windows_are_judged_by_their_mean() {
        let mut windows = Windows::default();
        for tick in 0..10 {
            windows.tick(Some(if tick == 3 { 5000.0 } else { 100.0 }), Some(1000.0));
            assert_eq!(counts(&windows), (u64::from(tick == 9), 0, 0));
        }
        (0..10).for_each(|_| windows.tick(Some(1000.0), Some(1000.0)));
        assert_eq!(counts(&windows), (2, 0, 0));
        (0..10).for_each(|_| windows.tick(Some(1001.0), Some(1000.0)));
        assert_eq!(counts(&windows), (3, 1, 0));
        (0..10).for_each(|_| windows.tick(Some(f64::NAN), Some(1000.0)));
        assert_eq!(counts(&windows), (4, 2, 0));
    }

    /// Goal: a window of which something is not known is not judged, and spoils no other. Method: one silent tick, then one without a
    /// bound, then a good one.
    #[test]
    fn windows_with_silence_are_not_judged() {
        let mut windows = Windows::default();
        (0..10).for_each(|tick| windows.tick((tick != 5).then_some(100.0), Some(1000.0)));
        (0..10).for_each(|_| windows.tick(Some(100.0), None));
        assert_eq!(counts(&windows), (0, 0, 2));
        (0..10).for_each(|_| windows.tick(Some(100.0), Some(1000.0)));
        assert_eq!(counts(&windows), (1, 0, 2));
    }
}
