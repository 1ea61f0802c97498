//! `Scan`: shows the progress of reading a log, on a terminal and after a second; otherwise nothing.
//!
//! It counts the bytes that are read through `Files`, so that the library below is unaware of it.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use collie_env::{Access, Clock, Env, File, FileLock, Files, LockError};
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

/// Time before anything is shown.
const QUIET: Duration = Duration::from_secs(1);

/// Reading in progress. Dropping it clears its line.
pub(super) struct Scan {
    meter: Arc<Meter>,
    env: Env,
}

#[derive(Debug)]
struct Meter {
    clock: Arc<dyn Clock>,
    bar: Option<ProgressBar>,
    begun_ns: AtomicU64,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Scan {
    /// Starts a scan of the log in `dir`, which the caller will read once in each phase.
    pub(super) fn start(dir: &Path, what: &'static str) -> Self {
        let real = Env::real();
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:20} {msg}");
            ProgressBar::hidden().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let meter = Arc::new(Meter {
            clock: real.clock.clone(),
            bar,
            begun_ns: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(segment_bytes(&*real.files, dir)),
        });
        let files = Arc::new(Metered { inner: real.files.clone(), meter: meter.clone() });
        let scan = Self { meter, env: Env { files, ..real } };
        scan.phase(what);
        scan
    }

    /// Begins the next pass over the log.
    pub(super) fn phase(&self, what: &'static str) {
        self.meter.begun_ns.store(self.meter.clock.now_ns(), Ordering::Relaxed);
        self.meter.done_bytes.store(0, Ordering::Relaxed);
        if let Some(bar) = &self.meter.bar {
            bar.set_prefix(what);
            bar.set_message("");
            bar.set_position(0);
        }
    }

    /// Returns the files, clock and random numbers to read with.
    pub(super) fn env(&self) -> &Env {
        &self.env
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(bar) = &self.meter.bar {
            bar.finish_and_clear();
        }
    }
}

impl Meter {
    /// Adds bytes that were read.
    fn add(&self, bytes: u64) {
        let done_bytes = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let Some(bar) = &self.bar else { return };
        let elapsed = Duration::from_nanos(self.clock.now_ns() - self.begun_ns.load(Ordering::Relaxed));
        if elapsed < QUIET {
            return;
        }
        // A log that grows while it is read has more bytes than at the start.
        let total_bytes = self.total_bytes.load(Ordering::Relaxed).max(done_bytes);
        if bar.is_hidden() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_length(total_bytes);
        bar.set_position(done_bytes);
        bar.set_message(message(done_bytes, total_bytes, elapsed));
    }
}

/// Returns percent, rate and time left.
fn message(done_bytes: u64, total_bytes: u64, elapsed: Duration) -> String {
    let (percent, bytes_per_s, left) = pace(done_bytes, total_bytes, elapsed);
    format!("{percent}% of {}, {}/s, {} left", HumanBytes(total_bytes), HumanBytes(bytes_per_s), HumanDuration(left))
}

fn pace(done_bytes: u64, total_bytes: u64, elapsed: Duration) -> (u64, u64, Duration) {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let bytes_per_s = done_bytes.saturating_mul(1000) / elapsed_ms;
    let left_s = (total_bytes - done_bytes) / bytes_per_s.max(1);
    (done_bytes.saturating_mul(100) / total_bytes.max(1), bytes_per_s, Duration::from_secs(left_s))
}

/// Returns the bytes of the segments in `dir`; 0 if they cannot be listed, which the reader will report.
fn segment_bytes(files: &dyn Files, dir: &Path) -> u64 {
    let names = files.list(dir).unwrap_or_default();
    let bytes = |name: &String| files.open(&dir.join(name), Access::Read).and_then(|file| file.len()).unwrap_or(0);
    names.iter().filter(|name| name.ends_with(".wal")).map(bytes).sum()
}

/// Files that count the bytes read.
#[derive(Debug)]
struct Metered {
    inner: Arc<dyn Files>,
    meter: Arc<Meter>,
}

#[derive(Debug)]
struct MeteredFile {
    inner: Arc<dyn File>,
    meter: Arc<Meter>,
}

impl File for MeteredFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read_at(offset, bytes)?;
        self.meter.add(count as u64);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

impl Files for Metered {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.create(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, access)?;
        Ok(Arc::new(MeteredFile { inner, meter: self.meter.clone() }))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.inner.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimClock;

    use super::*;

    /// Goal: rate, time and count are consistent, and the line shows them with units. Method: a third of the way, two
    /// seconds in; the rate times both times gives the total. Then the edges: nothing read, nothing to read.
    #[test]
    fn rate_times_time_is_the_count() {
        let (total, done, elapsed) = (300 << 20, 100 << 20, Duration::from_secs(2));
        let (percent, bytes_per_s, left) = pace(done, total, elapsed);
        assert_eq!(percent, 33);
        assert_eq!(bytes_per_s * (elapsed + left).as_secs(), total);
        assert_eq!(message(done, total, elapsed), "33% of 300.00 MiB, 50.00 MiB/s, 4 seconds left");
        assert_eq!(pace(0, 0, QUIET).0, 0);
        assert_eq!(pace(7, 7, Duration::ZERO).2, Duration::ZERO);
    }

    /// Goal: nothing is shown in the first second; then the line is, again for each phase. Method: a clock that is
    /// moved by hand and a bar that records what it would draw.
    #[test]
    fn line_comes_after_a_second_of_each_phase() {
        let clock = Arc::new(SimClock::new());
        let bar = ProgressBar::hidden();
        let words = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(4_000)];
        let [begun_ns, done_bytes, total_bytes] = words;
        let meter = Arc::new(Meter { clock: clock.clone(), bar: Some(bar.clone()), begun_ns, done_bytes, total_bytes });
        let scan = Scan { meter, env: Env::real() };
        for phase in ["checking", "counting"] {
            scan.phase(phase);
            assert_eq!((bar.prefix().as_str(), bar.message().as_str(), bar.position()), (phase, "", 0));
            clock.advance_ns(900_000_000);
            scan.meter.add(900);
            assert_eq!(bar.message(), "", "not yet");
            clock.advance_ns(1_100_000_000);
            scan.meter.add(1_100);
            assert_eq!(bar.message(), "50% of 3.91 KiB, 1000 B/s, 2 seconds left");
            assert_eq!((bar.position(), bar.length()), (2_000, Some(4_000)));
        }
    }

    /// Goal: bytes read through a scan are counted, per phase. Method: read a file of known size twice.
    #[test]
    fn scan_counts_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("00000000000000000001.wal"), [1; 5_000]).unwrap();
        let scan = Scan::start(dir.path(), "reading");
        assert_eq!(scan.meter.total_bytes.load(Ordering::Relaxed), 5_000);
        for _ in 0..2 {
            scan.phase("reading again");
            let file = scan.env().files.open(&dir.path().join("00000000000000000001.wal"), Access::Read).unwrap();
            let mut bytes = [0; 8_192];
            assert_eq!(file.read_at(1_000, &mut bytes).unwrap(), 4_000);
            assert_eq!(scan.meter.done_bytes.load(Ordering::Relaxed), 4_000);
        }
    }
}
