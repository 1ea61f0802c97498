//! `Figures`: the results of one benchmark.

use collie_engine::LogTimes;

use crate::Latencies;
use crate::measures::{float, per_s};

/// One of so many writes is sampled. The number is odd, since allocators and logs take new pages and pieces every so
/// many writes, a power of two if all keys and values have one size; otherwise the sampled write could be the one that
/// pays each time.
pub(super) const SAMPLED_ONE_IN: u64 = 61;

/// Sampled writes: the sum of their times, and of the log's part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    all_ns: u64,
    log_ns: u64,
}

impl Writes {
    pub(super) fn record(&mut self, ns: u64, log: LogTimes) {
        self.all_ns += ns;
        self.log_ns += log.total_ns();
    }

    /// Returns the share of the writes' time, in percent, that the log took.
    pub(super) fn log_percent(&self) -> f64 {
        float(self.log_ns) * 100.0 / float(self.all_ns.max(1))
    }
}

/// The results of one thread, or of all of them, in one benchmark.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) operations: u64,
    /// From the start of the first thread to the end of the last one.
    pub(super) elapsed_ns: u64,
    /// For lookups of a key: how many found it.
    pub(super) found: u64,
    pub(super) latencies: Option<Latencies>,
    /// Bytes of keys and values written by the user, the divisor of amplification.
    pub(super) written: u64,
    pub(super) writes: Writes,
}

impl Figures {
    /// Adds the results of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.found += other.found;
        self.written += other.written;
        self.writes.all_ns += other.writes.all_ns;
        self.writes.log_ns += other.writes.log_ns;
        if let Some(others) = &other.latencies {
            self.latencies.get_or_insert_default().merge(others);
        }
    }

    pub(super) fn operations_per_second(&self) -> f64 {
        per_s(self.operations, self.elapsed_ns)
    }
}
