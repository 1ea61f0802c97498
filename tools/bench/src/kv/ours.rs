//! `Ours`: Collie's database under a load: opens it, warms it up, runs the benchmarks, and reads its counters.
//!
//! # Invariants
//! - K1. A load begins with an empty directory.
//! - K2. The bytes written for a benchmark are reported only after the log has handed all of them from its memory to
//!   the system.
//! - K3. Before the clock starts, the log's next files are prepared. If writes wait for the disk, all its files have
//!   been written once, too: the first write to a file is slower, and happens once in the lifetime of a database.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_env::Env;
use collie_kv::{Cf, CfOptions, Db, Durability, FlushTo, Options, WalOptions};
use collie_wal::RingKind;

use super::figures::Figures;
use super::load::Load;
use super::volume::{Put, Volume, kept_log_bytes, table_and_live_bytes};
use super::workload::{Shared, Worker, Workload};

/// The largest value of the warm-up, and how often and at what interval it checks whether its files are free again.
const WARM_UP_VALUE_BYTES: u64 = 64 << 10;
const WARM_UP_LOOKS: u32 = 1_000;
const WARM_UP_LOOK: Duration = Duration::from_millis(10);
/// Time between two looks at the kept log while a benchmark runs.
const LOOK: Duration = Duration::from_millis(20);
/// Flushes at one time, with their merges.
const BACKGROUND_JOBS: usize = 4;

/// An open database.
#[derive(Debug)]
struct Opened {
    db: Db,
    cfs: Vec<Cf>,
    /// Counters at the start of the last benchmark that wrote, the bytes that it wrote, and the most log since.
    since: Volume,
    user_bytes: u64,
    log_peak_bytes: u64,
}

/// The result of one benchmark.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
    /// The bytes on disk for its writes.
    pub(super) put: Option<Put>,
}

/// One database of Collie.
#[derive(Debug)]
pub(super) struct Ours<'a> {
    load: &'a Load,
    env: &'a Env,
    dir: PathBuf,
    opened: Option<Opened>,
    /// Whether the log's memory outlives the process.
    pub(super) outlives: bool,
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

fn options(load: &Load) -> Options {
    let mut options = Options::default();
    options.wal.ring = RingKind::Auto;
    options.wal.manual_wal_flush = load.manual_wal_flush;
    if let Some(bytes) = load.segment_bytes {
        fit(&mut options.wal, bytes);
    }
    options.wal.max_total_wal_size = load.max_total_wal_size.unwrap_or(options.wal.max_total_wal_size);
    let store = &mut options.store;
    store.write_buffer_size = load.write_buffer_size.unwrap_or(store.write_buffer_size);
    store.compaction_threads = BACKGROUND_JOBS;
    options
}

/// Opens the database; also returns how long that took, and whether the log's memory outlives the process.
fn open(load: &Load, env: &Env, dir: &Path) -> anyhow::Result<(Opened, u64, bool)> {
    let began_ns = env.clock.now_ns();
    let (db, report) = options(load).open_in(dir, env.clone(), &mut |_| ())?;
    let took_ns = env.clock.now_ns() - began_ns;
    let mut cfs = Vec::new();
    for number in 0..load.families {
        let name = if number == 0 { "default".to_owned() } else { format!("column_family_name_{number:06}") };
        cfs.push(db.open_cf(&name, CfOptions::new())?);
    }
    let since = Volume::of(&db);
    Ok((Opened { db, cfs, since, user_bytes: 0, log_peak_bytes: 0 }, took_ns, report.ring_outlives_process))
}

impl<'a> Ours<'a> {
    /// Opens a new database in `dir` (K1) and warms it up (K3).
    ///
    /// # Errors
    /// Those of the engine and the operating system.
    pub(super) fn new(load: &'a Load, env: &'a Env, dir: &Path) -> anyhow::Result<Self> {
        remove(dir)?;
        let (opened, _took_ns, outlives) = open(load, env, dir)?;
        let ours = Self { load, env, dir: dir.to_owned(), opened: Some(opened), outlives, threads: 0 };
        ours.warm_up()?;
        Ok(ours)
    }

    /// Closes the database and removes it.
    ///
    /// # Errors
    /// Those of the log and the operating system.
    pub(super) fn remove(mut self) -> anyhow::Result<()> {
        self.close()?;
        remove(&self.dir)
    }

    fn close(&mut self) -> anyhow::Result<()> {
        Ok(self.opened.take().map_or(Ok(()), |opened| opened.db.close())?)
    }

    fn opened(&self) -> anyhow::Result<&Opened> {
        self.opened.as_ref().context("no database is open")
    }

    /// Runs one benchmark with all its threads.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn run(&mut self, workload: Workload) -> anyhow::Result<Outcome> {
        match workload {
            Workload::Recover => self.recover(),
            Workload::Flush => self.write_tables(|db, cfs| Ok(db.flush_cf(&cfs.iter().collect::<Vec<_>>())?)),
            Workload::Compact => self.write_tables(|db, cfs| Ok(cfs.iter().try_for_each(|cf| db.compact(cf))?)),
            _ => self.work(workload),
        }
    }

    /// Runs the threads of a load.
    fn work(&mut self, workload: Workload) -> anyhow::Result<Outcome> {
        let before = self.threads;
        self.threads += self.load.threads;
        let mut opened = self.opened.take().context("no database is open")?;
        if workload.writes() {
            drain_log(&opened.db)?; // K2, of what was before
            (opened.since, opened.user_bytes, opened.log_peak_bytes) = (Volume::of(&opened.db), 0, 0);
        }
        let (load, clock, db) = (self.load, &self.env.clock, &opened.db);
        let shared = Shared { db, cfs: &opened.cfs, load, clock };
        let (start, over) = (Barrier::new(usize::try_from(load.threads)?), AtomicBool::new(false));
        let (figures, log_peak_bytes) = std::thread::scope(|scope| -> anyhow::Result<_> {
            let watcher = scope.spawn(|| log_peak_bytes(db, &over));
            let work = |thread: u32| {
                let (shared, start) = (&shared, &start);
                move || {
                    let worker = Worker::new(shared, before + thread);
                    start.wait();
                    let began = shared.clock.now_ns();
                    let figures = worker.run(workload);
                    (began, shared.clock.now_ns(), figures)
                }
            };
            let threads: Vec<_> = (0..load.threads).map(|thread| scope.spawn(work(thread))).collect();
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            over.store(true, Relaxed);
            watcher.thread().unpark();
            let peak = watcher.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))?;
            let (mut all, mut first, mut last) = (Figures::default(), u64::MAX, 0);
            for thread in ended {
                let (began, end, figures) = thread.map_err(|_| anyhow::anyhow!("a thread panicked"))?;
                all.merge(&figures?);
                (first, last) = (first.min(began), last.max(end));
            }
            all.elapsed_ns = last - first;
            Ok((all, peak))
        })?;
        opened.user_bytes += figures.written;
        opened.log_peak_bytes = opened.log_peak_bytes.max(log_peak_bytes);
        self.opened = Some(opened);
        let put = if workload.writes() { Some(self.put()?) } else { None };
        Ok(Outcome { figures, put })
    }

    /// Returns the bytes on disk since the start of the last benchmark that wrote.
    fn put(&self) -> anyhow::Result<Put> {
        let Opened { db, cfs, since, user_bytes, log_peak_bytes } = self.opened()?;
        drain_log(db)?; // K2
        let (table_bytes, live_bytes) = table_and_live_bytes(db, cfs)?;
        let log_bytes = kept_log_bytes(db);
        Ok(Put {
            user_bytes: *user_bytes,
            volume: Volume::of(db).since(since),
            table_bytes,
            log_bytes,
            live_bytes,
            log_peak_bytes: (*log_peak_bytes).max(log_bytes),
            log_limit_bytes: db.engine().log_bytes_max(),
            segment_bytes: options(self.load).wal.segment_size,
        })
    }

    /// Waits for the log's next files. If writes wait for the disk, also writes through every file and frees it (K3).
    fn warm_up(&self) -> anyhow::Result<()> {
        let (wal, db) = (options(self.load).wal, &self.opened()?.db);
        let Some(log) = db.engine().log() else { return Ok(()) };
        wait_for_files(log, usize::MAX, wal.spares);
        if !self.load.sync {
            return Ok(());
        }
        let cf = db.create_cf("warm up", CfOptions::new())?;
        let value = vec![b'w'; usize::try_from(WARM_UP_VALUE_BYTES.min(wal.segment_size / 16))?];
        let bytes = (u64::from(wal.spares) + 2) * wal.segment_size;
        for _ in 0..bytes / value.len() as u64 {
            db.put(&cf, b"k", &value, Durability::Async)?;
        }
        db.flush_wal(FlushTo::Disk)?;
        db.engine().flush_all()?;
        wait_for_files(log, 2, wal.spares);
        db.drop_cf(&cf)?;
        Ok(())
    }

    /// Closes the database and opens it again; the opening reads from the log the rows that are not in tables.
    fn recover(&mut self) -> anyhow::Result<Outcome> {
        self.close()?;
        let (opened, elapsed_ns, _outlives) = open(self.load, self.env, &self.dir)?;
        self.opened = Some(opened);
        Ok(Outcome { figures: Figures { operations: 1, elapsed_ns, ..Figures::default() }, put: None })
    }

    /// Runs `write` over every family and reports the bytes that it wrote to tables.
    fn write_tables(&self, write: impl FnOnce(&Db, &[Cf]) -> anyhow::Result<()>) -> anyhow::Result<Outcome> {
        let opened = self.opened()?;
        let began_ns = self.env.clock.now_ns();
        write(&opened.db, &opened.cfs)?;
        let elapsed_ns = self.env.clock.now_ns() - began_ns;
        let figures = Figures { operations: 1, elapsed_ns, ..Figures::default() };
        Ok(Outcome { figures, put: Some(self.put()?) })
    }
}

/// Looks at the kept log until the benchmark is over; returns the most.
fn log_peak_bytes(db: &Db, over: &AtomicBool) -> u64 {
    let mut peak = 0;
    loop {
        let is_over = over.load(Relaxed);
        peak = peak.max(kept_log_bytes(db));
        if is_over {
            return peak;
        }
        std::thread::park_timeout(LOOK);
    }
}

/// Hands the bytes in the log's memory to the system, if there is a log.
fn drain_log(db: &Db) -> anyhow::Result<()> {
    if db.engine().log().is_some() {
        db.flush_wal(FlushTo::Kernel)?;
    }
    Ok(())
}

/// Waits until the log has at most `segments` files in use and at least `spares` prepared, for a while.
fn wait_for_files(log: &collie_wal::Log, segments: usize, spares: u32) {
    for _ in 0..WARM_UP_LOOKS {
        let stat = log.stat();
        if stat.segments <= segments && stat.spares as u64 >= u64::from(spares) {
            return;
        }
        std::thread::sleep(WARM_UP_LOOK);
    }
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
