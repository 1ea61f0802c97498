//! [`Gauge`] and [`Second`]: the measurement of one second of a server.

use std::fmt::Debug;

use collie_train::decision::Guard;

/// A second, or the time since the last measurement. Unmeasured figures are not numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// Answers per second; on a replica, applied commits.
    pub(crate) throughput: f64,
    /// The mean time of an answer, in us; on a replica, the mean delay of visible commits.
    pub(crate) mean_us: f64,
    /// The 99th percentile of these times, in us.
    pub(crate) p99_us: f64,
    /// The fraction of writing transactions that were rolled back.
    pub(crate) aborted: f64,
    /// Whether the replicas, or this one, held the required delay.
    pub(crate) is_delay_held: bool,
    /// The reason why no change may continue, if there is one.
    pub(crate) guard: Option<Guard>,
}

impl Second {
    /// Returns throughput divided by latency, which Kleinrock calls power (1979): more is better in either respect. Not
    /// a number if nothing happened.
    pub(super) fn power(&self) -> f64 {
        self.throughput / self.mean_us
    }
}

/// Measures a server.
pub(crate) trait Gauge: Send + Debug {
    /// Returns the figures since the last call.
    fn read(&mut self) -> Second;
}
