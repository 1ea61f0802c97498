//! `Watch`: checks a database at intervals while a benchmark runs: the most log kept, the most files open, and the
//! operations per second for `--report_file`.
//!
//! # Invariants
//! - B1. It checks once at the beginning and once at the end, however short the benchmark is.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_env::Clock;
use collie_kv::Db;
use parking_lot::{Condvar, Mutex};

use super::volume::kept_log_bytes;

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// The highest values observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peaks {
    pub(super) log_bytes: u64,
    /// 0 if the system does not report it.
    pub(super) open_files: u64,
}

/// Signals a watch that the benchmark is over.
#[derive(Debug, Default)]
pub(super) struct Over {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    pub(super) fn set(&self) {
        *self.over.lock() = true;
        self.changed.notify_all();
    }

    /// Pauses; returns whether the benchmark is over.
    fn wait(&self) -> bool {
        let mut over = self.over.lock();
        if !*over {
            self.changed.wait_for(&mut over, LOOK);
        }
        *over
    }
}

/// Rows of operations per second for a file, in db_bench's format.
#[derive(Debug)]
pub(super) struct Intervals {
    file: std::fs::File,
    every_ns: u64,
    began_ns: u64,
    next_ns: u64,
    told: u64,
}

impl Intervals {
    /// Appends to `path`; a new file gets its headings.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(super) fn new(path: &Path, seconds: u64, now_ns: u64) -> anyhow::Result<Self> {
        let fresh = !path.exists();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
        if fresh {
            writeln!(file, "secs_elapsed,interval_qps")?;
        }
        let every_ns = seconds * 1_000_000_000;
        Ok(Self { file, every_ns, began_ns: now_ns, next_ns: now_ns + every_ns, told: 0 })
    }

    /// Writes a row if the current interval is over.
    fn look(&mut self, now_ns: u64, done: u64) -> std::io::Result<()> {
        if now_ns < self.next_ns {
            return Ok(());
        }
        let seconds = (now_ns - self.began_ns) / 1_000_000_000;
        let by_second = (done - self.told) * 1_000_000_000 / (now_ns - (self.next_ns - self.every_ns)).max(1);
        writeln!(self.file, "{seconds},{by_second}")?;
        self.told = done;
        self.next_ns = now_ns + self.every_ns;
        Ok(())
    }
}

/// Checks the database until the benchmark is over.
///
/// # Errors
/// Those of the file of `intervals`.
pub(super) fn watch(
    db: &Db,
    over: &Over,
    clock: &Arc<dyn Clock>,
    done: &AtomicU64,
    mut intervals: Option<Intervals>,
) -> anyhow::Result<Peaks> {
    let mut peaks = Peaks::default();
    loop {
        peaks.log_bytes = peaks.log_bytes.max(kept_log_bytes(db));
        peaks.open_files = peaks.open_files.max(open_files());
        if let Some(intervals) = &mut intervals {
            intervals.look(clock.now_ns(), done.load(Relaxed))?;
        }
        if over.wait() {
            // B1: the log that was kept after the last check.
            peaks.log_bytes = peaks.log_bytes.max(kept_log_bytes(db));
            return Ok(peaks);
        }
    }
}

/// Returns the number of files that this process has open; 0 if the system does not report it.
fn open_files() -> u64 {
    // One of them is the directory listing's.
    std::fs::read_dir("/proc/self/fd").map_or(0, |all| (all.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rows of operations per second match their intervals. Method: invented times and counts, in two benchmarks
    /// that write one file.
    #[test]
    fn intervals_are_told_by_second() {
        const SECOND: u64 = 1_000_000_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.csv");
        let mut intervals = Intervals::new(&path, 2, 10 * SECOND).unwrap();
        for (now, done) in [(11, 500), (12, 1_000), (13, 1_400), (15, 4_000)] {
            intervals.look(now * SECOND, done).unwrap();
        }
        Intervals::new(&path, 1, 0).unwrap().look(SECOND, 7).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "secs_elapsed,interval_qps\n2,500\n5,1000\n1,7\n");
    }
}
