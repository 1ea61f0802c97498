//! `Windows`: counts the windows of one second that were out of bound.

/// The ticks of a window.
const WINDOW_TICKS: usize = 10;

/// The delay of a tick, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TickDelay {
    /// The primary was silent, so the delay is unknown.
    Unknown,
    /// Nothing was committed.
    NoCommit,
    /// The median delay of the commits, in us, and the number of commits or a number in proportion to it.
    Measured {
        /// The median.
        us: f64,
        /// Its weight.
        commits: f64,
    },
}

/// Counts windows by comparing their median delay with the bound at their end.
///
/// The median is that of the ticks' medians, weighted by their commits. A window without commits, with a tick of
/// unknown delay, or without a bound at its end is not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    ticks: usize,
    /// The medians and weights of the ticks with commits, `measured_ticks` of them.
    measured: [(f64, f64); WINDOW_TICKS],
    measured_ticks: usize,
    is_unknown: bool,
    /// The number of judged windows.
    pub judged: u64,
    /// The number of those that were out of bound.
    pub out: u64,
    /// The number of windows that could not be judged.
    pub unknown: u64,
}

impl Windows {
    /// Adds the delay of a tick, with the bound at that time, in us.
    pub fn tick(&mut self, delay: TickDelay, bound_us: Option<f64>) {
        self.ticks += 1;
        match delay {
            TickDelay::Unknown => self.is_unknown = true,
            TickDelay::NoCommit => {}
            TickDelay::Measured { us, commits } => {
                self.measured[self.measured_ticks] = (us, commits);
                self.measured_ticks += 1;
            }
        }
        if self.ticks < WINDOW_TICKS {
            return;
        }
        let median_us = weighted_median(&mut self.measured[..self.measured_ticks]).filter(|_| !self.is_unknown);
        match median_us.zip(bound_us) {
            Some((median_us, bound_us)) => {
                self.judged += 1;
                // A median that is not a number is out of bound.
                self.out += u64::from(median_us.is_nan() || median_us > bound_us);
            }
            None => self.unknown += 1,
        }
        (self.ticks, self.measured_ticks, self.is_unknown) = (0, 0, false);
    }
}

/// Returns the smallest value up to which half of the weight lies; `None` without values.
fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let reaches = |(_, weight): &&(f64, f64)| {
        below += weight;
        below >= half
    };
    values.iter().find(reaches).or(values.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(windows: &Windows) -> (u64, u64, u64) {
        (windows.judged, windows.out, windows.unknown)
    }

    fn measured(us: f64) -> TickDelay {
        TickDelay::Measured { us, commits: 1.0 }
    }

    /// Goal: a window is ten ticks, its median counts, and a median equal to the bound is inside. Method: a window with
    /// spikes in four ticks, one at the bound, one above it, one whose delay is not a number.
    #[test]
    fn windows_are_judged_by_their_median() {
        let mut windows = Windows::default();
        for tick in 0..10 {
            windows.tick(measured(if tick < 4 { 50_000.0 } else { 100.0 }), Some(1000.0));
            assert_eq!(counts(&windows), (u64::from(tick == 9), 0, 0));
        }
        (0..10).for_each(|_| windows.tick(measured(1000.0), Some(1000.0)));
        assert_eq!(counts(&windows), (2, 0, 0));
        (0..10).for_each(|_| windows.tick(measured(1001.0), Some(1000.0)));
        assert_eq!(counts(&windows), (3, 1, 0));
        (0..10).for_each(|_| windows.tick(measured(f64::NAN), Some(1000.0)));
        assert_eq!(counts(&windows), (4, 2, 0));
    }

    /// Goal: the median is that of commits, not of ticks. Method: nine quick ticks of one commit, one slow tick of a
    /// hundred.
    #[test]
    fn ticks_count_for_their_commits() {
        let mut windows = Windows::default();
        (0..9).for_each(|_| windows.tick(measured(100.0), Some(1000.0)));
        windows.tick(TickDelay::Measured { us: 5000.0, commits: 100.0 }, Some(1000.0));
        assert_eq!(counts(&windows), (1, 1, 0));
    }

    /// Goal: a window is judged by its ticks with commits only, and is not judged without any, with a tick of unknown
    /// delay, or without a bound; such a window does not affect the next one. Method: each case by itself, with good
    /// windows between.
    #[test]
    fn windows_without_commits_and_with_silence_are_not_judged() {
        let mut windows = Windows::default();
        (0..10).for_each(|_| windows.tick(TickDelay::NoCommit, Some(1000.0)));
        assert_eq!(counts(&windows), (0, 0, 1));
        let late = |tick| if tick == 7 { measured(5000.0) } else { TickDelay::NoCommit };
        (0..10).for_each(|tick| windows.tick(late(tick), Some(1000.0)));
        assert_eq!(counts(&windows), (1, 1, 1), "ticks without commits count for nothing");
        (0..10).for_each(|tick| windows.tick(if tick == 5 { TickDelay::Unknown } else { measured(1.0) }, Some(1000.0)));
        (0..10).for_each(|_| windows.tick(measured(100.0), None));
        assert_eq!(counts(&windows), (1, 1, 3));
        (0..10).for_each(|_| windows.tick(measured(100.0), Some(1000.0)));
        assert_eq!(counts(&windows), (2, 1, 3));
    }
}
