//! `Windows`: how many windows of one second were out of bound.

/// Ticks of a window.
const WINDOW_TICKS: usize = 10;

/// What is known of the delay in a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TickDelay {
    /// The primary was not heard: nothing is.
    Unknown,
    /// Nothing was committed.
    NoCommit,
    /// The median delay of commits, in us, and how many there were, or a number in proportion.
    Measured {
        /// The median.
        us: f64,
        /// Its weight.
        commits: f64,
    },
}

/// Counts windows by their median delay against the bound that stood at their end.
///
/// The median is that of the ticks' medians, by their commits. A window in which nothing was committed, one with a tick of which nothing is
/// known, and one at whose end there is no bound yet, is neither in nor out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    ticks: usize,
    /// Medians and weights, of the first so many ticks that had commits.
    measured: [(f64, f64); WINDOW_TICKS],
    measured_ticks: usize,
    is_unknown: bool,
    /// Windows that were judged.
    pub judged: u64,
    /// Those among them that were out of bound.
    pub out: u64,
    /// Windows that could not be judged.
    pub unknown: u64,
}

impl Windows {
    /// Takes the delay of a tick, and the bound as it stands, in us.
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
                // A median that is no number is out.
                self.out += u64::from(median_us.is_nan() || median_us > bound_us);
            }
            None => self.unknown += 1,
        }
        (self.ticks, self.measured_ticks, self.is_unknown) = (0, 0, false);
    }
}

/// Returns the value that half of the weight does not exceed; `None` of none.
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

    /// Goal: a window is ten ticks, its median counts, and the bound itself is in. Method: one with spikes in four ticks, one at the bound,
    /// one above it, one with a number that is none.
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

    /// Goal: the median is one of commits, not of ticks. Method: nine quick ticks of one commit, one slow tick of a hundred.
    #[test]
    fn ticks_count_for_their_commits() {
        let mut windows = Windows::default();
        (0..9).for_each(|_| windows.tick(measured(100.0), Some(1000.0)));
        windows.tick(TickDelay::Measured { us: 5000.0, commits: 100.0 }, Some(1000.0));
        assert_eq!(counts(&windows), (1, 1, 0));
    }

    /// Goal: a window is judged by ticks with commits alone, and not at all if it has none, a tick of which nothing is known, or no bound; none
    /// spoils the next one. Method: each by itself, and good ones between.
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
