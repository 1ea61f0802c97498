//! `Figures`: the results of a benchmark, and the line that reports them in db_bench's format.

use collie_engine::LogTimes;

use crate::Latencies;

/// Sampled writes: how long each took, and how much of that the log took.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    pub(super) latencies: Latencies,
    /// Sum of their times.
    pub(super) all_ns: u64,
    pub(super) log: LogTimes,
}

impl Writes {
    pub(super) fn record(&mut self, ns: u64, log: LogTimes) {
        self.latencies.record(ns);
        self.all_ns += ns;
        self.add(log);
    }

    fn add(&mut self, log: LogTimes) {
        self.log.append_ns += log.append_ns;
        self.log.boundary_ns += log.boundary_ns;
        self.log.durable_ns += log.durable_ns;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.all_ns += other.all_ns;
        self.add(other.log);
    }

    /// Returns the share of the writes' time, in percent, that the log took: in total, and by append, wait for the
    /// boundary and wait for the disk.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn log_percent(&self) -> [f64; 4] {
        let LogTimes { append_ns, boundary_ns, durable_ns } = self.log;
        [self.log.total_ns(), append_ns, boundary_ns, durable_ns]
            .map(|part| part as f64 * 100.0 / self.all_ns.max(1) as f64)
    }

    /// Returns the lines about the sampled writes; none if there was no write.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn lines(&self) -> Vec<String> {
        if self.latencies.count() == 0 {
            return Vec::new();
        }
        let micros = |of: u64| self.latencies.at(of, 10_000) as f64 / 1e3;
        let [all, append, boundary, durable] = self.log_percent();
        vec![
            format!(
                "  commit     : P50 {:.2} P99 {:.2} P99.9 {:.2} P99.99 {:.2} max {:.2} us, of {} writes (one in {SAMPLED_ONE_IN})",
                micros(5_000),
                micros(9_900),
                micros(9_990),
                micros(9_999),
                self.latencies.max_ns() as f64 / 1e3,
                self.latencies.count()
            ),
            format!(
                "  log time   : {all:.1} % of a write: append {append:.1} %, wait for the boundary {boundary:.1} %, for the disk \
                 {durable:.1} %"
            ),
        ]
    }
}

/// One of so many writes is sampled. The number is odd, since allocators and logs take new pages and pieces every so
/// many writes, a power of two if all keys and values have one size; otherwise the sampled write could be the one that
/// pays each time.
pub(super) const SAMPLED_ONE_IN: u64 = 61;

/// The results of one thread, or of all of them, in one benchmark.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) operations: u64,
    /// Sum of the threads' times.
    pub(super) thread_ns: u64,
    /// From the start of the first thread to the end of the last one.
    pub(super) elapsed_ns: u64,
    /// Bytes of keys and values written or read.
    pub(super) bytes: u64,
    /// For lookups of a key: how many found it, out of how many.
    pub(super) found: Option<(u64, u64)>,
    pub(super) latencies: Option<Latencies>,
    /// Bytes of keys and values written by the user, the divisor of amplification.
    pub(super) written: u64,
    pub(super) writes: Writes,
    /// For transactions: how many committed, and how many failed without any effect.
    pub(super) transactions: Option<(u64, u64)>,
}

impl Figures {
    /// Adds the results of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.thread_ns += other.thread_ns;
        self.bytes += other.bytes;
        self.written += other.written;
        self.writes.merge(&other.writes);
        if let Some((committed, aborted)) = other.transactions {
            let (before, failed) = self.transactions.unwrap_or_default();
            self.transactions = Some((before + committed, failed + aborted));
        }
        if let Some((found, wanted)) = other.found {
            let (before, of) = self.found.unwrap_or_default();
            self.found = Some((before + found, of + wanted));
        }
        match (&mut self.latencies, &other.latencies) {
            (Some(mine), Some(others)) => mine.merge(others),
            (mine @ None, Some(others)) => *mine = Some(others.clone()),
            _ => {}
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn micros_per_operation(&self) -> f64 {
        self.thread_ns as f64 / 1e3 / self.operations.max(1) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn operations_per_second(&self) -> f64 {
        self.operations as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// Returns the line in db_bench's format.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn line(&self, name: &str) -> String {
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = if self.bytes > 0 {
            format!(" {:6.1} MB/s", self.bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9))
        } else {
            String::new()
        };
        let found = self.found.map_or_else(String::new, |(found, wanted)| format!(" ({found} of {wanted} found)"));
        let transactions = self.transactions.map_or_else(String::new, |(committed, aborted)| {
            format!(" ( transactions:{} aborts:{aborted})", committed + aborted)
        });
        let mut line = format!(
            "{name:<12} : {:11.3} micros/op {:.0} ops/sec {seconds:.3} seconds {} operations;{rate}{found}{transactions}",
            self.micros_per_operation(),
            self.operations_per_second(),
            self.operations
        );
        if let Some(latencies) = &self.latencies {
            let micros = |of| latencies.at(of, 10_000) as f64 / 1e3;
            line += &format!(
                "\nMicroseconds per write or read: Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2} \
                 Max: {:.2}",
                micros(5_000),
                micros(7_500),
                micros(9_900),
                micros(9_990),
                micros(9_999),
                latencies.max_ns() as f64 / 1e3
            );
        }
        line
    }
}
