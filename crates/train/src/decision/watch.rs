//! `Watch`: the node under the new value, second by second.

use std::{collections::VecDeque, fmt};

use super::Mixture;

/// A mean loss above this over [`LOSS_WINDOWS`] ends the canary without waiting for the sequential test.
const LOSS_MAX: f64 = 0.03;

/// The one-second windows over which a plain loss is computed.
const LOSS_WINDOWS: usize = 5;

/// The windows after which the value is kept: 10 min.
const KEEP_WINDOWS: u32 = 600;

/// The consecutive windows without a measurement that end a canary.
const BLIND_WINDOWS_MAX: u32 = 5;

/// One second of the node, relative to the baseline of the trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// The share by which the 99th percentile of latency is above the baseline's.
    pub latency_loss: f64,
    /// The share by which throughput is below the baseline's.
    pub throughput_loss: f64,
}

/// A reason to roll back at once, independent of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// More errors to clients than usual.
    Errors,
    /// A delay out of bound.
    ReplicaDelay,
    /// Memory near its limit.
    Memory,
    /// The disk near full.
    Disk,
    /// A person has set the setting in the meantime.
    SetByHand,
    /// A measurement is missing.
    Blind,
    /// The server did not accept the value.
    Refused,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errors => "errors to clients",
            Self::ReplicaDelay => "a replica's delay",
            Self::Memory => "memory near its limit",
            Self::Disk => "the disk near full",
            Self::SetByHand => "the setting was set by hand",
            Self::Blind => "nothing could be measured",
            Self::Refused => "the server did not take the value",
        })
    }
}

/// The result of the windows so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WatchVerdict {
    /// None yet.
    Open,
    /// Ten minutes without harm, with the mean gain in throughput.
    Keep(f64),
    /// Worse by the sequential test.
    Worse,
    /// A mean loss above 3 % over five windows.
    Loss,
    /// Measurements are missing.
    Blind,
}

/// The watch over a canary.
#[derive(Clone, Debug)]
pub struct Watch {
    latency: Mixture,
    throughput: Mixture,
    newest: VecDeque<Window>,
    windows: u32,
    blind_windows: u32,
}

impl Watch {
    /// Returns a watch without windows. The variances are those of the relative difference of two windows of the
    /// baseline.
    pub fn new(latency_variance: f64, throughput_variance: f64) -> Self {
        Self {
            latency: Mixture::new(latency_variance),
            throughput: Mixture::new(throughput_variance),
            newest: VecDeque::with_capacity(LOSS_WINDOWS),
            windows: 0,
            blind_windows: 0,
        }
    }

    /// Adds a window.
    #[must_use]
    pub fn add(&mut self, window: Window) -> WatchVerdict {
        if !window.latency_loss.is_finite() || !window.throughput_loss.is_finite() {
            self.blind_windows += 1;
            return if self.blind_windows >= BLIND_WINDOWS_MAX { WatchVerdict::Blind } else { WatchVerdict::Open };
        }
        self.blind_windows = 0;
        self.windows += 1;
        self.latency.add(window.latency_loss);
        self.throughput.add(window.throughput_loss);
        if self.newest.len() == LOSS_WINDOWS {
            self.newest.pop_front();
        }
        self.newest.push_back(window);
        let mean = |of: fn(&Window) -> f64| self.newest.iter().map(of).sum::<f64>() / LOSS_WINDOWS as f64;
        let is_loss = mean(|window| window.latency_loss).max(mean(|window| window.throughput_loss)) > LOSS_MAX;
        if self.newest.len() == LOSS_WINDOWS && is_loss {
            WatchVerdict::Loss
        } else if self.latency.is_worse() || self.throughput.is_worse() {
            WatchVerdict::Worse
        } else if self.windows >= KEEP_WINDOWS {
            WatchVerdict::Keep(-self.throughput.mean())
        } else {
            WatchVerdict::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;

    use super::*;
    use crate::numbers::unit_interval;

    fn watch(window: impl Fn(u32) -> Window) -> (u32, WatchVerdict) {
        let mut watch = Watch::new(0.0009, 0.0009);
        (1..)
            .map(|n| (n, watch.add(window(n))))
            .find(|(_, verdict)| *verdict != WatchVerdict::Open)
            .expect("a watch ends")
    }

    /// Goal: harm is found in either measure, and soon if it is great; a harmless value is kept after ten minutes.
    /// Method: steady windows of each.
    #[test]
    fn harm_is_found_and_the_rest_is_kept() {
        let of = |latency_loss, throughput_loss| watch(|_| Window { latency_loss, throughput_loss });
        assert_eq!(of(0.5, 0.0), (1, WatchVerdict::Worse), "what noise of 3 % cannot explain needs no second window");
        assert_eq!(of(-0.5, 0.031), (5, WatchVerdict::Loss));
        assert!(matches!(of(0.0, 0.02), (5..60, WatchVerdict::Worse)));
        assert!(matches!(of(0.02, -0.1), (5..60, WatchVerdict::Worse)));
        assert!(matches!(of(0.0, -0.1), (600, WatchVerdict::Keep(gain)) if (gain - 0.1).abs() < 1e-9));
    }

    /// Goal: one bad window is not a loss, and missing measurements end the watch. Method: a spike amid gains; five
    /// consecutive windows without a number, and four.
    #[test]
    fn a_spike_is_not_a_loss_and_blindness_is() {
        let gain = Window { latency_loss: 0.0, throughput_loss: -0.1 };
        let spike = watch(|n| if n == 3 { Window { throughput_loss: 0.4, ..gain } } else { gain });
        assert!(matches!(spike, (600, WatchVerdict::Keep(_))), "{spike:?}");
        let none = Window { latency_loss: f64::NAN, ..gain };
        assert_eq!(watch(|n| if n > 10 { none } else { gain }), (15, WatchVerdict::Blind));
        assert!(matches!(watch(|n| if n % 5 == 0 { gain } else { none }), (_, WatchVerdict::Keep(_))));
    }

    /// Returns after how many windows and how a watch ends, for a change that is worth `gain` in both measures, where
    /// the 99th percentile varies between seconds by `noise` and throughput by a third of it. The baseline is twenty
    /// seconds, as in a trial.
    fn noisy(seed: u64, noise: f64, gain: f64) -> (u32, WatchVerdict) {
        let chance = SimRandom::new(seed);
        // A sum of twelve uniform numbers has a deviation of 1.
        let normal = || (0..12).map(|_| unit_interval(&chance)).sum::<f64>() - 6.0;
        let second =
            |gain: f64| ((noise * normal()).exp() / (1.0 + gain), (noise / 3.0 * normal()).exp() * (1.0 + gain));
        let usual: Vec<(f64, f64)> = (0..20).map(|_| second(0.0)).collect();
        let spread = |of: fn(&(f64, f64)) -> f64| {
            let mean = usual.iter().map(of).sum::<f64>() / 20.0;
            (mean, 2.0 * usual.iter().map(|second| (of(second) / mean - 1.0).powi(2)).sum::<f64>() / 19.0)
        };
        let ((p99, p99_variance), (throughput, throughput_variance)) = (spread(|all| all.0), spread(|all| all.1));
        let mut watch = Watch::new(p99_variance, throughput_variance);
        let window = |(now_p99, now): (f64, f64)| Window {
            latency_loss: now_p99 / p99 - 1.0,
            throughput_loss: 1.0 - now / throughput,
        };
        (1..)
            .map(|n| (n, watch.add(window(second(gain)))))
            .find(|(_, verdict)| *verdict != WatchVerdict::Open)
            .expect("a watch ends")
    }

    /// Goal: harm is never kept, however noisy the server, and seldom lasts for more than ten seconds; a gain is kept
    /// if it is larger than the noise, and otherwise mostly not (decision 0123). Method: a hundred watches of each
    /// kind.
    #[test]
    fn noise_costs_gains_and_keeps_no_harm() {
        let ends = |noise, gain| (1..=100).map(|seed| noisy(seed, noise, gain)).collect::<Vec<_>>();
        let kept = |noise, gain| {
            let is_kept = |(_, verdict): &(u32, WatchVerdict)| matches!(verdict, WatchVerdict::Keep(_));
            ends(noise, gain).iter().filter(|end| is_kept(end)).count()
        };
        for noise in [0.01, 0.03, 0.1, 0.2] {
            assert_eq!(kept(noise, -0.05), 0, "{noise}");
            let slow = ends(noise, -0.05).iter().filter(|(windows, _)| *windows > 10).count();
            assert!(slow <= 10, "{noise}: {slow} last for more than ten seconds");
        }
        let gains = [(0.03, 0.15), (0.1, 0.15), (0.2, 0.15), (0.1, 0.05)].map(|(noise, gain)| kept(noise, gain));
        assert!(gains[0] == 100 && gains[1] >= 70 && gains[2] <= 30 && gains[3] <= 20, "{gains:?}");
    }
}
