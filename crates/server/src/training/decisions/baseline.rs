//! [`Baseline`]: the figures of seconds under the old value, and how much two seconds differ by chance.

use collie_train::decision::{Watch, Window};

use super::gauge::Second;

/// The increase of the fraction of rolled-back transactions up to which clients are not failing.
const ABORTED_MORE_MAX: f64 = 0.1;

/// See the module's documentation. Without any seconds its windows are not numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Baseline {
    throughput: f64,
    p99_us: f64,
    aborted: f64,
    /// The variance of the relative difference of two seconds.
    throughput_variance: f64,
    p99_variance: f64,
}

/// Returns the mean, and the variance of the difference of two values, relative to it.
fn spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
    (mean, 2.0 * squares / (n - 1.0).max(1.0))
}

impl Baseline {
    /// Makes the baseline of these seconds, leaving out those in which nothing could be measured.
    pub(super) fn of(seconds: &[Second]) -> Self {
        let known: Vec<&Second> = seconds.iter().filter(|second| second.power().is_finite()).collect();
        let all = |of: fn(&Second) -> f64| known.iter().map(|second| of(second)).collect::<Vec<f64>>();
        let (throughput, throughput_variance) = spread(&all(|second| second.throughput));
        let (p99_us, p99_variance) = spread(&all(|second| second.p99_us));
        let (aborted, _) = spread(&all(|second| second.aborted));
        Self { throughput, p99_us, aborted, throughput_variance, p99_variance }
    }

    /// Starts to watch for losses against the baseline.
    pub(super) fn watch(&self) -> Watch {
        Watch::new(self.p99_variance, self.throughput_variance)
    }

    /// Compares a second with the baseline.
    pub(super) fn window(&self, second: &Second) -> Window {
        Window {
            latency_loss: second.p99_us / self.p99_us - 1.0,
            throughput_loss: 1.0 - second.throughput / self.throughput,
        }
    }

    /// Returns whether clients' transactions fail more often than usual.
    pub(super) fn is_failing(&self, second: &Second) -> bool {
        second.aborted > self.aborted + ABORTED_MORE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(throughput: f64, p99_us: f64) -> Second {
        Second { throughput, mean_us: 10.0, p99_us, aborted: 0.05, is_delay_held: true, guard: None }
    }

    /// Goal: losses are relative to the mean of the old value's seconds, and unmeasured seconds are left out. Method:
    /// seconds by hand; a better and a worse one; none at all.
    #[test]
    fn windows_are_relative_to_the_baseline() {
        let blind = Second { mean_us: f64::NAN, p99_us: f64::NAN, ..second(0.0, 0.0) };
        let baseline = Baseline::of(&[second(90.0, 1000.0), blind, second(110.0, 1000.0)]);
        let window = baseline.window(&second(80.0, 1100.0));
        assert!((window.throughput_loss - 0.2).abs() < 1e-9 && (window.latency_loss - 0.1).abs() < 1e-9);
        let window = baseline.window(&second(120.0, 900.0));
        assert!((window.throughput_loss + 0.2).abs() < 1e-9 && (window.latency_loss + 0.1).abs() < 1e-9);
        assert!((baseline.throughput_variance - 0.04).abs() < 1e-9 && baseline.p99_variance < 1e-12);
        assert!(!baseline.is_failing(&second(1.0, 1.0)));
        assert!(baseline.is_failing(&Second { aborted: 0.2, ..second(1.0, 1.0) }));
        let nothing = Baseline::of(&[blind]).window(&second(1.0, 1.0));
        assert!(nothing.throughput_loss.is_nan() && nothing.latency_loss.is_nan());
    }
}
