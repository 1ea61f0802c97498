//! `Watch`: the primary under the new value, second by second.

use std::{collections::VecDeque, fmt};

use super::Mixture;

/// A mean loss above this over [`LOSS_WINDOWS`] ends the canary without waiting for the test.
const LOSS_MAX: f64 = 0.03;

/// Windows of one second over which a plain loss is looked at.
const LOSS_WINDOWS: usize = 5;

/// Windows after which the value is kept: 10 min.
const KEEP_WINDOWS: u32 = 600;

/// Windows in a row that may have no number.
const BLIND_WINDOWS_MAX: u32 = 5;

/// One second of the primary, relative to the switchback baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// By which part the 99th percentile of latency is above the baseline's.
    pub latency_loss: f64,
    /// By which part throughput is below the baseline's.
    pub throughput_loss: f64,
}

/// A reason to roll back at once, whatever the windows say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Errors to clients above the usual.
    Errors,
    /// A replica's delay out of bound.
    ReplicaDelay,
    /// Memory near its limit.
    Memory,
    /// The disk near full.
    Disk,
    /// Somebody set the setting by hand meanwhile.
    SetByHand,
    /// A measurement is not there.
    Blind,
    /// The server did not take the value.
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

/// What the windows say so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WatchVerdict {
    /// Nothing yet.
    Open,
    /// Ten minutes without harm; the mean gain in throughput.
    Keep(f64),
    /// Worse by the sequential test.
    Worse,
    /// A mean loss above 3 % over five windows.
    Loss,
    /// Measurements are missing.
    Blind,
}

/// A canary under watch.
#[derive(Clone, Debug)]
pub struct Watch {
    latency: Mixture,
    throughput: Mixture,
    newest: VecDeque<Window>,
    windows: u32,
    blind_windows: u32,
}

impl Watch {
    /// Starts watching. The variances are those of the relative difference of two windows of the baseline.
    pub fn new(latency_variance: f64, throughput_variance: f64) -> Self {
        Self {
            latency: Mixture::new(latency_variance),
            throughput: Mixture::new(throughput_variance),
            newest: VecDeque::with_capacity(LOSS_WINDOWS),
            windows: 0,
            blind_windows: 0,
        }
    }

    /// Takes a window.
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
    use super::*;

    fn watch(window: impl Fn(u32) -> Window) -> (u32, WatchVerdict) {
        let mut watch = Watch::new(0.0009, 0.0009);
        (1..)
            .map(|n| (n, watch.add(window(n))))
            .find(|(_, verdict)| *verdict != WatchVerdict::Open)
            .expect("a watch ends")
    }

    /// Goal: harm is found in either measure, and soon where it is great; what does none is kept after ten minutes. Method: steady
    /// windows of each.
    #[test]
    fn harm_is_found_and_the_rest_is_kept() {
        let of = |latency_loss, throughput_loss| watch(|_| Window { latency_loss, throughput_loss });
        assert_eq!(of(0.5, 0.0), (1, WatchVerdict::Worse), "what noise of 3 % cannot explain needs no second window");
        assert_eq!(of(-0.5, 0.031), (5, WatchVerdict::Loss));
        assert!(matches!(of(0.0, 0.02), (5..60, WatchVerdict::Worse)));
        assert!(matches!(of(0.02, -0.1), (5..60, WatchVerdict::Worse)));
        assert!(matches!(of(0.0, -0.1), (600, WatchVerdict::Keep(gain)) if (gain - 0.1).abs() < 1e-9));
    }

    /// Goal: one bad window is not a loss, blindness is. Method: a spike amid gains; five windows in a row that are none, and four.
    #[test]
    fn a_spike_is_not_a_loss_and_blindness_is() {
        let gain = Window { latency_loss: 0.0, throughput_loss: -0.1 };
        let spike = watch(|n| if n == 3 { Window { throughput_loss: 0.4, ..gain } } else { gain });
        assert!(matches!(spike, (600, WatchVerdict::Keep(_))), "{spike:?}");
        let none = Window { latency_loss: f64::NAN, ..gain };
        assert_eq!(watch(|n| if n > 10 { none } else { gain }), (15, WatchVerdict::Blind));
        assert!(matches!(watch(|n| if n % 5 == 0 { gain } else { none }), (_, WatchVerdict::Keep(_))));
    }
}
