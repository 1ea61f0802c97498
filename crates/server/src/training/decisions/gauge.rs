//! [`Gauge`] and [`Second`]: what a second of the server was like.

use std::fmt::Debug;

use collie_train::decision::Guard;

/// A second, or as long as was measured. What was not measured is no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// Answers per second; on a replica commits that were applied.
    pub(crate) throughput: f64,
    /// How long one took in the mean, in us; on a replica the mean delay of what is shown.
    pub(crate) mean_us: f64,
    /// How long all but one in a hundred took at the most, in us.
    pub(crate) p99_us: f64,
    /// Which part of the transactions that wrote was rolled back.
    pub(crate) aborted: f64,
    /// Whether replicas, or this one, were as close behind as they have to be.
    pub(crate) is_delay_held: bool,
    /// Why no change may go on, if anything is.
    pub(crate) guard: Option<Guard>,
}

impl Second {
    /// Returns throughput divided by latency, which Kleinrock calls power (1979): more in either way is better. No number when nothing
    /// happened.
    pub(super) fn power(&self) -> f64 {
        self.throughput / self.mean_us
    }
}

/// Measures a server.
pub(crate) trait Gauge: Send + Debug {
    /// Returns what was since the last call.
    fn read(&mut self) -> Second;
}
