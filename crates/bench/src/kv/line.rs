//! `Figures`: what a benchmark measured, and the line that says it, in db_bench's words.

use crate::Latencies;

/// What one thread, or all of them, did in one benchmark.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) operations: u64,
    /// Sum of the threads' time.
    pub(super) thread_ns: u64,
    /// From the first thread's start to the last one's end.
    pub(super) elapsed_ns: u64,
    /// Bytes of keys and values written or read.
    pub(super) bytes: u64,
    /// Of reads that looked for a key: how many found it, of how many.
    pub(super) found: Option<(u64, u64)>,
    pub(super) latencies: Option<Latencies>,
}

impl Figures {
    /// Adds another thread's.
    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.thread_ns += other.thread_ns;
        self.bytes += other.bytes;
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

    /// Returns db_bench's line.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn line(&self, name: &str) -> String {
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = if self.bytes > 0 {
            format!(" {:6.1} MB/s", self.bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9))
        } else {
            String::new()
        };
        let found = self.found.map_or_else(String::new, |(found, wanted)| format!(" ({found} of {wanted} found)"));
        let mut line = format!(
            "{name:<12} : {:11.3} micros/op {:.0} ops/sec {seconds:.3} seconds {} operations;{rate}{found}",
            self.micros_per_operation(),
            self.operations_per_second(),
            self.operations
        );
        if let Some(latencies) = &self.latencies {
            let micros = |per_mille| latencies.at_per_mille(per_mille) as f64 / 1e3;
            line += &format!(
                "\nMicroseconds per write or read: Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} Max: {:.2}",
                micros(500),
                micros(750),
                micros(990),
                micros(999),
                latencies.max_ns() as f64 / 1e3
            );
        }
        line
    }
}
