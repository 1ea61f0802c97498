//! `Ours`: Collie's database under a benchmark: opens it when needed, warms it up, runs the load, and reads its
//! counters.
//!
//! # Invariants
//! - K1. A benchmark that begins with an empty database gets a directory that was removed before, unless it must use
//!   the existing database.
//! - K2. The bytes written for a benchmark are reported only after the log has handed all of them from its memory to
//!   the system.
//! - K3. Before the clock starts, the log's next files are prepared. If writes wait for the disk, all its files have
//!   been written once, too: the first write to a file is slower, and happens once in the lifetime of a database.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_env::Env;
use collie_kv::{Cf, CfOptions, CfStats, Db, Durability, FlushTo, Options, WalOptions};
use collie_wal::RingKind;

use super::flags::KvFlags;
use super::line::Figures;
use super::transactions;
use super::volume::{Put, Space, Volume};
use super::watch::{Intervals, Over, Peaks, watch};
use super::workload::{Shared, Worker, Workload};

/// The largest value of the warm-up, and how often and at what interval it checks whether its files are free again.
const WARM_UP_VALUE_BYTES: u64 = 64 << 10;
const WARM_UP_LOOKS: u32 = 1_000;
const WARM_UP_LOOK: Duration = Duration::from_millis(10);

/// How the files of the log were prepared before the clock started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Warm {
    /// The next files are prepared.
    Prepared,
    /// Every file was written once.
    Turned,
}

/// An open database.
#[derive(Debug)]
struct Opened {
    db: Db,
    cfs: Vec<Cf>,
    /// Counters at the start of the last benchmark that wrote, the bytes that it wrote, and the peaks during it and
    /// since.
    since: Volume,
    user_bytes: u64,
    peaks: Peaks,
    /// How far K3 was fulfilled: for the next files, or for all.
    warm: Option<Warm>,
}

/// The result of one benchmark.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The figures, if it measures any.
    pub(super) figures: Option<Figures>,
    /// The bytes on disk for its writes.
    pub(super) put: Option<Put>,
    /// Further lines to print.
    pub(super) lines: Vec<String>,
}

impl Outcome {
    /// Returns all lines about the benchmark `name`.
    pub(super) fn text(&self, name: &str) -> Vec<String> {
        let mut text: Vec<String> = self.figures.iter().map(|figures| figures.line(name)).collect();
        text.extend(self.figures.iter().flat_map(|figures| figures.writes.lines()));
        text.extend(self.put.iter().flat_map(Put::lines));
        text.extend(self.lines.iter().cloned());
        text
    }
}

/// One database of Collie.
#[derive(Debug)]
pub(super) struct Ours<'a> {
    flags: KvFlags,
    env: &'a Env,
    dir: PathBuf,
    open: Option<Opened>,
    /// Whether the log's memory outlives the process.
    outlives: bool,
    /// The number of threads of earlier benchmarks. Each thread draws its own numbers, so that the keys of one
    /// benchmark say nothing about those of the next.
    threads: u32,
}

/// Fits the log into files of `segment_bytes`: twice its ring and the writers' buffers must fit into one.
fn fit(wal: &mut WalOptions, segment_bytes: u64) {
    wal.segment_size = segment_bytes;
    let buffers = |wal: &WalOptions| u64::from(wal.slots) * wal.chunk_size;
    if 2 * (wal.ring_size + buffers(wal)) <= segment_bytes {
        return;
    }
    wal.chunk_size = 4 << 10;
    let room = segment_bytes / 2 - buffers(wal);
    // The highest power of two that fits.
    wal.ring_size = wal.ring_size.min(1 << room.ilog2());
    wal.frame_size = wal.frame_size.min(wal.ring_size / 2);
    wal.flush_bytes = wal.flush_bytes.min(wal.ring_size / 2);
}

impl<'a> Ours<'a> {
    pub(super) fn new(flags: &KvFlags, env: &'a Env, dir: &Path) -> Self {
        Self { flags: flags.clone(), env, dir: dir.to_owned(), open: None, outlives: false, threads: 0 }
    }

    /// Returns the directory of the log, if it is not next to the tables.
    fn log_dir(&self) -> Option<PathBuf> {
        self.flags.wal_dir.as_ref().map(|dir| dir.join("collie-wal"))
    }

    fn options(&self) -> Options {
        let flags = &self.flags;
        let mut options = Options::default();
        options.wal.ring = RingKind::Auto;
        options.wal.enabled = !flags.no_log;
        options.wal.manual_wal_flush = flags.manual_wal_flush;
        if let Some(bytes) = flags.wal_segment_size {
            fit(&mut options.wal, bytes);
        }
        let store = &mut options.store;
        store.write_buffer_size = flags.write_buffer_size.unwrap_or(store.write_buffer_size);
        store.compression = flags.compression;
        store.compaction_threads = flags.background_jobs.unwrap_or(store.compaction_threads);
        options.wal.wal_dir = self.log_dir();
        options.wal.max_total_wal_size = flags.max_total_wal_size.unwrap_or(options.wal.max_total_wal_size);
        options
    }

    /// Opens the database if it is not open, a new one if `fresh` (K1); returns whether the log's memory outlives the
    /// process.
    ///
    /// # Errors
    /// Those of the engine and the operating system.
    pub(super) fn ensure_open(&mut self, fresh: bool) -> anyhow::Result<bool> {
        if fresh {
            self.close()?;
            remove(&self.dir)?;
            self.log_dir().map_or(Ok(()), |dir| remove(&dir))?;
        }
        if self.open.is_none() {
            self.open_timed()?;
        }
        Ok(self.outlives)
    }

    /// Opens the database; returns how long that took, and the report of the opening.
    fn open_timed(&mut self) -> anyhow::Result<(u64, collie_engine::OpenReport)> {
        let options = self.options();
        let began_ns = self.env.clock.now_ns();
        let (db, report) = options.open_in(&self.dir, self.env.clone(), &mut |_| ())?;
        let took_ns = self.env.clock.now_ns() - began_ns;
        self.outlives = report.ring_outlives_process;
        let mut cfs = Vec::new();
        for number in 0..self.flags.column_families {
            let name = if number == 0 { "default".to_owned() } else { format!("column_family_name_{number:06}") };
            cfs.push(db.open_cf(&name, CfOptions::new())?);
        }
        let since = Volume::of(&db);
        self.open = Some(Opened { db, cfs, since, user_bytes: 0, peaks: Peaks::default(), warm: None });
        Ok((took_ns, report))
    }

    fn opened(&self) -> anyhow::Result<&Opened> {
        self.open.as_ref().context("no database is open")
    }

    /// Closes the database, if it is open.
    ///
    /// # Errors
    /// Those of the log.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        if let Some(opened) = self.open.take() {
            opened.db.close()?;
        }
        Ok(())
    }

    /// Closes the database and removes it.
    ///
    /// # Errors
    /// Those of the log and the operating system.
    pub(super) fn remove(&mut self) -> anyhow::Result<()> {
        self.close()?;
        remove(&self.dir)
    }

    /// Runs one benchmark with all its threads.
    ///
    /// # Errors
    /// Those of the engine; sums of `randomtransaction` that differ.
    pub(super) fn run(&mut self, workload: Workload) -> anyhow::Result<Outcome> {
        let fresh = workload.is_fresh() && !self.flags.use_existing_db;
        self.ensure_open(fresh)?;
        match workload {
            Workload::Recover => self.recover(),
            Workload::Flush => self.write_tables(|db, cfs| Ok(db.flush_cf(&cfs.iter().collect::<Vec<_>>())?)),
            Workload::Compact => self.write_tables(|db, cfs| Ok(cfs.iter().try_for_each(|cf| db.compact(cf))?)),
            Workload::Stats => Ok(Outcome { lines: self.stats()?, ..Outcome::default() }),
            Workload::LevelStats => Ok(Outcome { lines: self.level_stats()?, ..Outcome::default() }),
            _ => self.load(workload),
        }
    }

    fn load(&mut self, workload: Workload) -> anyhow::Result<Outcome> {
        let flags = workload.flags(&self.flags);
        let mut lines = Vec::new();
        let wanted = if flags.sync { Warm::Turned } else { Warm::Prepared };
        if flags.warm_up && self.opened()?.warm < Some(wanted) {
            lines.extend(self.warm_up(flags.sync)?);
        }
        if workload == Workload::RandomTransaction {
            let opened = self.opened()?;
            transactions::prepare(&opened.db, &opened.cfs[0], &flags)?;
        }
        let writer = workload == Workload::ReadWhileWriting;
        let before = self.threads;
        self.threads += flags.threads + u32::from(writer);
        if workload.writes() {
            let opened = self.open.as_mut().context("no database is open")?;
            drain_log(&opened.db)?; // K2, of what was before
            (opened.since, opened.user_bytes, opened.peaks) = (Volume::of(&opened.db), 0, Peaks::default());
        }
        let (figures, peaks) = self.work(workload, &flags, before)?;
        let opened = self.open.as_mut().context("no database is open")?;
        opened.user_bytes += figures.written;
        opened.peaks.log_bytes = opened.peaks.log_bytes.max(peaks.log_bytes);
        opened.peaks.open_files = opened.peaks.open_files.max(peaks.open_files);
        if workload == Workload::RandomTransaction {
            let sums = transactions::sums(&opened.db, &opened.cfs[0], &flags)?;
            anyhow::ensure!(
                sums.windows(2).all(|pair| pair[0] == pair[1]),
                "randomtransaction lost an update: the sums of the sets are {sums:?}"
            );
        }
        let put = if workload.writes() { Some(self.put()?) } else { None };
        Ok(Outcome { figures: Some(figures), put, lines })
    }

    /// Runs the threads of a load.
    fn work(&self, workload: Workload, flags: &KvFlags, before: u32) -> anyhow::Result<(Figures, Peaks)> {
        let (opened, clock) = (self.opened()?, &self.env.clock);
        let writer = workload == Workload::ReadWhileWriting;
        let (over, done, watched) = (AtomicBool::new(false), AtomicU64::new(0), Over::default());
        let shared = Shared { db: &opened.db, cfs: &opened.cfs, flags, clock, done: &done, over: &over };
        let intervals = match flags.report_interval_seconds {
            0 => None,
            seconds => Some(Intervals::new(&flags.report_file, seconds, clock.now_ns())?),
        };
        let start = Barrier::new(usize::try_from(flags.threads)? + usize::from(writer));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&opened.db, &watched, clock, &done, intervals));
            let work = |thread: u32, writes: bool| {
                let (shared, start) = (&shared, &start);
                move || {
                    let worker = Worker::new(shared, before + thread);
                    start.wait();
                    let began = shared.clock.now_ns();
                    let figures = worker.run(workload, writes);
                    (began, shared.clock.now_ns(), figures)
                }
            };
            let beside = writer.then(|| scope.spawn(work(flags.threads, true)));
            let threads: Vec<_> = (0..flags.threads).map(|thread| scope.spawn(work(thread, false))).collect();
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            over.store(true, Relaxed);
            let beside = beside.map(std::thread::ScopedJoinHandle::join);
            watched.set();
            let peaks = watcher.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))??;
            let (mut all, mut first, mut last) = (Figures::default(), u64::MAX, 0);
            for thread in ended {
                let (began, end, figures) = thread.map_err(|_| anyhow::anyhow!("a thread panicked"))?;
                all.merge(&figures?);
                (first, last) = (first.min(began), last.max(end));
            }
            if let Some(beside) = beside {
                let written = beside.map_err(|_| anyhow::anyhow!("the writing thread panicked"))?.2?;
                // Its operations do not count for the benchmark, but its bytes are on the disk.
                all.written += written.written;
                all.writes.merge(&written.writes);
            }
            all.elapsed_ns = last - first;
            Ok((all, peaks))
        })
    }

    /// Returns the bytes on disk since the start of the last benchmark that wrote.
    fn put(&self) -> anyhow::Result<Put> {
        let opened = self.opened()?;
        let db = &opened.db;
        drain_log(db)?; // K2
        let segment_bytes = self.options().wal.segment_size;
        let space = Space::of(db, &opened.cfs, segment_bytes)?;
        Ok(Put {
            user_bytes: opened.user_bytes,
            volume: Volume::of(db).since(&opened.since),
            space,
            log_peak_bytes: opened.peaks.log_bytes.max(space.log_bytes),
            log_limit_bytes: db.engine().log_bytes_max(),
            segment_bytes,
            open_files_peak: opened.peaks.open_files,
            compression: self.flags.compression_name(),
        })
    }

    /// Waits for the log's next files. If `turn`, also writes through every file and frees it (K3), and returns a line
    /// about that.
    fn warm_up(&mut self, turn: bool) -> anyhow::Result<Option<String>> {
        let wal = self.options().wal;
        let opened = self.open.as_mut().context("no database is open")?;
        opened.warm = Some(if turn { Warm::Turned } else { Warm::Prepared });
        let db = &opened.db;
        let Some(log) = db.engine().log() else { return Ok(None) };
        wait_for_files(log, usize::MAX, wal.spares);
        if !turn {
            return Ok(None);
        }
        let cf = db.create_cf("warm up", CfOptions::default())?;
        let value = vec![b'w'; usize::try_from(WARM_UP_VALUE_BYTES.min(wal.segment_size / 16))?];
        let bytes = (u64::from(wal.spares) + 2) * wal.segment_size;
        for _ in 0..bytes / value.len() as u64 {
            db.put(&cf, b"k", &value, Durability::Async)?;
        }
        db.flush_wal(FlushTo::Disk)?;
        db.engine().flush_all()?;
        let is_back = wait_for_files(log, 2, wal.spares);
        db.drop_cf(&cf)?;
        let outcome = if is_back { "all are written over now" } else { "they did not come back in time" };
        Ok(Some(format!("  warm-up    : {} MB through the log's files before the clock: {outcome}", bytes >> 20)))
    }

    /// Closes the database and opens it again; the opening reads from the log the rows that are not in tables.
    fn recover(&mut self) -> anyhow::Result<Outcome> {
        self.close()?;
        let (took_ns, report) = self.open_timed()?;
        let figures = Figures {
            operations: 1,
            thread_ns: took_ns,
            elapsed_ns: took_ns,
            bytes: report.log_bytes,
            ..Figures::default()
        };
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let rows_per_s = report.rows as f64 * 1e9 / took_ns.max(1) as f64;
        let line = format!(
            "  recovered  : {} rows from {:.1} MB of log ({rows_per_s:.0} rows/s), {} rows from tables, after an orderly close",
            report.rows,
            mebibytes(report.log_bytes),
            report.level_rows
        );
        Ok(Outcome { figures: Some(figures), put: None, lines: vec![line] })
    }

    /// Runs `write` over every family and reports the bytes that it wrote to tables.
    fn write_tables(&self, write: impl FnOnce(&Db, &[Cf]) -> anyhow::Result<()>) -> anyhow::Result<Outcome> {
        let (opened, clock) = (self.opened()?, &self.env.clock);
        let before = Volume::of(&opened.db);
        let began_ns = clock.now_ns();
        write(&opened.db, &opened.cfs)?;
        let took_ns = clock.now_ns() - began_ns;
        let volume = Volume::of(&opened.db).since(&before);
        let bytes = volume.flush_bytes + volume.compaction_bytes;
        let figures = Figures { operations: 1, thread_ns: took_ns, elapsed_ns: took_ns, bytes, ..Figures::default() };
        Ok(Outcome { figures: Some(figures), put: Some(self.put()?), lines: Vec::new() })
    }

    /// Returns the counters since the opening, one per line.
    pub(super) fn stats(&self) -> anyhow::Result<Vec<String>> {
        let opened = self.opened()?;
        let (volume, stat) = (Volume::of(&opened.db), opened.db.engine().stat());
        let flush = opened.db.engine().flush_stat();
        let mut lines = vec![
            "** DB Stats **".to_owned(),
            format!(
                "log: {} bytes in {} frames, {} syncs, {} appends that found the ring full",
                volume.log_bytes, volume.frames, volume.syncs, volume.ring_full
            ),
            format!(
                "levels: {} flushes of {} rows and {} bytes, {} failed; {} compactions of {} bytes",
                volume.flushes,
                flush.rows,
                volume.flush_bytes,
                flush.failures,
                volume.compactions,
                volume.compaction_bytes
            ),
            format!(
                "memory: {} rows in {} families, {} bytes of old versions, {} rows wait to be cleaned",
                stat.rows, stat.families, stat.old_version_bytes, stat.garbage_rows
            ),
        ];
        let stats = opened.db.stats();
        for cf in &opened.cfs {
            let Some(CfStats { rows, flush, .. }) = stats.families.iter().find(|stat| stat.cf == cf.id()) else {
                continue;
            };
            lines.push(format!(
                "family {}: {} rows, {} inserts, {} writes, {} removals, {} bytes of keys and values written",
                cf.name(),
                rows.rows,
                rows.inserts,
                rows.writes,
                rows.removals,
                rows.user_bytes
            ));
            lines.push(format!(
                "family {}: {} flushes ({} for size, {} for the log, {} for memory, {} asked for), {} re-logs of {} bytes",
                cf.name(),
                flush.flushes(),
                flush.by_size,
                flush.by_log_limit,
                flush.by_memory,
                flush.by_call + flush.by_checkpoint + flush.by_close,
                flush.relogs,
                flush.relogged_bytes
            ));
        }
        Ok(lines)
    }

    /// Returns the tables per tree, one tree per line.
    fn level_stats(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = vec!["Tree Families Tables Runs Size(MB) Flushed(MB) Compacted(MB)".to_owned(), "-".repeat(62)];
        for tree in self.opened()?.db.engine().level_stat().trees {
            lines.push(format!(
                "{:>4} {:>8} {:>6} {:>4} {:>8.1} {:>11.1} {:>13.1}",
                tree.state.id.get(),
                tree.state.cfs.len(),
                tree.tables,
                tree.runs,
                mebibytes(tree.bytes),
                mebibytes(tree.written.flush_bytes),
                mebibytes(tree.written.compaction_bytes)
            ));
        }
        Ok(lines)
    }
}

/// Hands the bytes in the log's memory to the system, if there is a log.
fn drain_log(db: &Db) -> anyhow::Result<()> {
    if db.engine().log().is_some() {
        db.flush_wal(FlushTo::Kernel)?;
    }
    Ok(())
}

/// Waits until the log has at most `segments` files in use and at least `spares` prepared; returns whether it got
/// there.
fn wait_for_files(log: &collie_wal::Log, segments: usize, spares: u32) -> bool {
    (0..WARM_UP_LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(WARM_UP_LOOK);
        }
        let stat = log.stat();
        stat.segments <= segments && stat.spares as u64 >= u64::from(spares)
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Removes a directory, if it exists.
pub(super) fn remove(dir: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a log fits into files of every allowed size. Method: each power of two from the smallest on; the log's own
    /// check.
    #[test]
    fn log_fits_into_its_files() {
        for segment_bytes in (20..=28).map(|power| 1_u64 << power) {
            let mut wal = Options::default().wal;
            fit(&mut wal, segment_bytes);
            assert_eq!(wal.segment_size, segment_bytes);
            assert!(2 * (wal.ring_size + u64::from(wal.slots) * wal.chunk_size) <= segment_bytes, "{wal:?}");
            assert!(wal.ring_size.is_power_of_two() && wal.ring_size >= 4 * wal.chunk_size, "{wal:?}");
            assert!(wal.flush_bytes <= wal.ring_size / 2, "{wal:?}");
        }
        let (mut wal, before) = (Options::default().wal, Options::default().wal);
        fit(&mut wal, 64 << 20);
        assert_eq!(wal, before, "the default changes nothing");
    }
}
