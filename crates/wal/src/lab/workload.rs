//! A workload: several incarnations of one log on one simulated disk, all decided by a seed, with the crash points on
//! the way.
//!
//! It has records of many sizes, waits for each mark, ticks, empty frames, freed files, long records in pieces, markers
//! of unlogged writes, a consumer that moves on, orderly closes, kills, power cuts, failing calls, power cuts that the
//! running log sees, and cuts of the closed log. Files are so small that segments turn every few records. Each
//! incarnation has its own settings: sizes, spares, and the protocol of reservation. The log runs without threads, so
//! that one seed is one run.
//!
//! Every third log lies in two directories, or in three of which a majority counts. Between incarnations one of them
//! may lose its files, and an incarnation may run without the second of two, which is stale then.

use std::{
    cell::Cell,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use collie_env::{CrashPoint, Env, Fault, Files as _, SimFiles, SimRandom};

use crate::{
    CopiesRequired, LagPolicy, Level, Log, Lsn, Mark, Options, Protocol, Tail, TailOptions, TruncateOptions, WalError,
    lab::model::{Expectation, Model},
    truncate_at,
};

/// The log's directory on the simulated disk.
pub(crate) const DIR: &str = "/wal";
/// The directories of its copies.
const COPIES: [&str; 2] = ["/copy", "/third"];
/// The name of the consumer.
pub(crate) const CONSUMER: &str = "feed";

/// The directories of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    copies: usize,
    /// Whether the log may open with the content of a single directory, because another was lost.
    one_will_do: bool,
}

impl Layout {
    /// Returns one directory for two seeds of three, else two or three.
    fn of(seed: u64) -> Self {
        Self { copies: [0, 0, 1, 0, 0, 2][usize::try_from(seed % 6).expect("below 6")], one_will_do: false }
    }

    /// Returns `options` for this layout.
    pub(crate) fn apply(self, options: Options) -> Options {
        let copies = COPIES[..self.copies].iter().map(Into::into).collect();
        // Of two directories both must have everything that counts, of three a majority.
        let copies_required = if self.copies == 2 { CopiesRequired::Quorum } else { CopiesRequired::All };
        Options { copies, copies_required, open_with: self.one_will_do.then_some(1), ..options }
    }
}

/// Returns the settings of lab logs: files of 40 KiB, frames of about a block, no threads.
pub fn lab_options() -> Options {
    Options {
        ring_bytes: 16 << 10,
        chunk_bytes: 4 << 10,
        slots: 1,
        segment_bytes: 40 << 10,
        spares: 1,
        frame_bytes: 4 << 10,
        flush_bytes: 4 << 10,
        max_record_bytes: 64 << 10,
        threads: false,
        ..Options::default()
    }
}

/// Returns the settings of one incarnation: those of `lab_options` with some changed.
pub(crate) fn settings_of_a_life(random: &SimRandom) -> Options {
    let usual = lab_options();
    let ring_bytes = usual.ring_bytes << random.below(2);
    let blocks = random.below(3);
    // If two incarnations in a row have the larger ring, the opening of the second finds spares that are large enough.
    let segment_bytes =
        if ring_bytes == usual.ring_bytes { 2 * (ring_bytes + usual.chunk_bytes) + blocks * 4_096 } else { 96 << 10 };
    Options {
        protocol: [Protocol::Mutex, Protocol::Base, Protocol::Help][index(random, 3)],
        ring_bytes,
        segment_bytes,
        spares: [1, 1, 2, 3][index(random, 4)],
        frame_bytes: usual.frame_bytes << random.below(3),
        recent_bytes: [usual.recent_bytes, usual.recent_bytes, 0, 8 << 10][index(random, 4)],
        sync_every: random.below(4),
        ..usual
    }
}

/// Draws an index below `count`.
pub(crate) fn index(random: &SimRandom, count: u64) -> usize {
    usize::try_from(random.below(count)).expect("small")
}

/// The faults of a workload's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lies {
    /// No sync does anything.
    pub(crate) syncs: bool,
    /// No sync of a directory does anything.
    pub(crate) names: bool,
}

/// A moment of a workload, and the conditions that must hold if the power is cut then.
pub(crate) struct Moment {
    pub(crate) point: CrashPoint,
    pub(crate) expectation: Expectation,
    /// The layout with which to open it then.
    pub(crate) layout: Layout,
}

/// Events of the workloads, to check that they occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of openings after a power cut or a kill.
    pub crashes: u64,
    /// Logs closed in order.
    pub closes: u64,
    /// Calls that freed at least one file, which is recycled.
    pub frees: u64,
    /// Times that a log left a failed file and continued in the next one.
    pub rewrites: u64,
    /// Incarnations that a failing call ended.
    pub failures: u64,
    /// Incarnations in which the running log saw a power cut.
    pub power_losses: u64,
    /// Logs cut short between two incarnations.
    pub cuts: u64,
    /// Incarnations of logs in several directories.
    pub copied: u64,
    /// Directories that lost their files between two incarnations.
    pub lost_copies: u64,
    /// Incarnations without a copy that is there again afterwards.
    pub stale_copies: u64,
    /// Times that a consumer moved on.
    pub advances: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.closes += other.closes;
        self.frees += other.frees;
        self.rewrites += other.rewrites;
        self.failures += other.failures;
        self.power_losses += other.power_losses;
        self.cuts += other.cuts;
        self.copied += other.copied;
        self.lost_copies += other.lost_copies;
        self.stale_copies += other.stale_copies;
        self.advances += other.advances;
    }
}

/// A running workload.
struct Run {
    random: SimRandom,
    /// Whether incarnations are long and free files often, so that files are recycled again and again.
    recycles: bool,
    layout: Cell<Layout>,
    /// Whether every directory has the whole log: then one may be lost.
    whole: Cell<bool>,
    model: Arc<Mutex<Model>>,
    moments: Arc<Mutex<Vec<Moment>>>,
    coverage: Cell<Coverage>,
    /// Whether the power may be cut while a log runs in this incarnation; the log then sees every call fail.
    loses_power: Cell<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in between has failed the test already.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the workload of `seed`; returns its moments in order. An error is a violation that showed without a crash.
pub(crate) fn run(seed: u64, lies: Lies) -> Result<(Vec<Moment>, Coverage), String> {
    let random = SimRandom::new(seed);
    let recycles = random.below(3) == 0;
    let (model, moments, coverage, loses_power) = Default::default();
    let (layout, whole) = (Layout::of(seed).into(), false.into());
    let run = Run { random, recycles, layout, whole, model, moments, coverage, loses_power };
    let mut disk = SimFiles::new();
    let lives = 2 + run.random.below(3);
    for life in 0..lives {
        disk.set_lying_names(lies.names);
        if lies.syncs {
            disk.set_lying_sync(true);
        }
        let outcome = run.live(&disk, seed ^ life << 32);
        lock(&run.model).ended();
        run.note(disk.crash_point());
        outcome.map_err(|error| format!("life {life}: {error}"))?;
        if run.random.below(5) == 0 && !run.loses_power.get() {
            run.whole.set(false);
            run.cut(&disk, seed ^ life << 16).map_err(|error| format!("after life {life}: {error}"))?;
            run.note(disk.crash_point());
        }
        run.harm(&disk);
        run.count(|seen| seen.crashes += 1);
        disk = match run.random.below(4) {
            0 => disk.process_kill(),
            way if way == 1 || run.loses_power.get() => {
                lock(&run.model).power_lost();
                disk.power_cut(run.random.below(u64::MAX))
            }
            // The next incarnation uses the same disk: bytes that the last one left unsynced may still be lost.
            _ => disk,
        };
    }
    let moments = std::mem::take(&mut *lock(&run.moments));
    Ok((moments, run.coverage.get()))
}

impl Run {
    fn count(&self, add: impl FnOnce(&mut Coverage)) {
        let mut seen = self.coverage.get();
        add(&mut seen);
        self.coverage.set(seen);
    }

    fn note(&self, point: CrashPoint) {
        let (expectation, layout) = (lock(&self.model).expectation(), self.layout.get());
        lock(&self.moments).push(Moment { point, expectation, layout });
    }

    /// Sometimes lets one of several directories lose its files.
    fn harm(&self, disk: &SimFiles) {
        let layout = self.layout.get();
        if layout.copies == 0 || !self.whole.get() || self.random.below(3) > 0 {
            return;
        }
        disk.clear_faults();
        // Half of a loss is not a moment of the log.
        disk.watch(|_| {});
        let dirs: Vec<&str> = std::iter::once(DIR).chain(COPIES.into_iter().take(layout.copies)).collect();
        let dir = Path::new(dirs[index(&self.random, dirs.len() as u64)]);
        for name in disk.list(dir).expect("it is there").iter().filter(|name| name.ends_with(".wal")) {
            disk.remove(&dir.join(name)).expect("it is there");
        }
        disk.sync_dir(dir).expect("a healthy disk");
        self.whole.set(false);
        self.layout.set(Layout { one_will_do: layout.copies == 1, ..layout });
        self.count(|seen| seen.lost_copies += 1);
        self.note(disk.crash_point());
    }

    /// Cuts the closed log at the end of some record.
    fn cut(&self, disk: &SimFiles, seed: u64) -> Result<(), String> {
        disk.clear_faults();
        let Some(lsn) = lock(&self.model).some_end(&self.random) else { return Ok(()) };
        let before = lock(&self.model).cuts(lsn);
        let options = TruncateOptions { backup: self.random.below(2) == 0, ..TruncateOptions::default() };
        match truncate_at(&Env::over(disk.clone(), seed), Path::new(DIR), lsn, options) {
            Ok(_) => {
                lock(&self.model).was_cut(lsn);
                self.count(|seen| seen.cuts += 1);
            }
            Err(WalError::Cut { .. }) => lock(&self.model).was_not_cut(before),
            Err(error) => return Err(format!("cutting at {lsn}: {error}")),
        }
        Ok(())
    }

    /// Opens the log, works, and ends in one of several ways.
    fn live(&self, disk: &SimFiles, seed: u64) -> Result<(), String> {
        let random = &self.random;
        let (model, moments, layout) = (self.model.clone(), self.moments.clone(), self.layout.get());
        disk.watch(move |point| {
            let expectation = lock(&model).expectation();
            lock(&moments).push(Moment { point, expectation, layout });
        });
        disk.clear_faults();
        let failing = random.below(4) == 0;
        self.loses_power.set(failing && random.below(3) == 0);
        let after = 1 + random.below(40);
        if failing && !self.loses_power.get() {
            match random.below(2) {
                0 => disk.fail_call(disk.calls() + after, Fault::Eio),
                _ => disk.fail_write_or_sync(disk.writes_and_syncs() + after, Fault::Eio),
            }
        }
        lock(&self.model).opens();
        // The second of two directories has at most what the first has; without it the first continues alone.
        let alone = layout.copies == 1 && self.whole.get() && random.below(4) > 0;
        self.whole.set(false);
        let settings = settings_of_a_life(random);
        let options = if alone { settings } else { layout.apply(settings) };
        let (log, found) = match Log::open(&Env::over(disk.clone(), seed), Path::new(DIR), options) {
            Ok(both) => both,
            Err(WalError::Io { .. }) if failing => return Ok(()),
            Err(error) => return Err(format!("opening is refused: {error}")),
        };
        lock(&self.model).opened(&log, &found)?;
        self.layout.set(Layout { one_will_do: false, ..layout });
        self.count(|seen| {
            seen.copied += u64::from(layout.copies > 0);
            seen.stale_copies += u64::from(alone);
        });
        self.whole.set(!failing && !alone);
        if self.loses_power.get() {
            disk.fail_call(disk.calls() + after, Fault::PowerCut);
        }
        match self.work(&log) {
            Err(WalError::Io { .. } | WalError::Poisoned { .. } | WalError::Full { .. }) if failing => {
                let lost = u64::from(self.loses_power.get());
                self.count(|seen| {
                    (seen.failures, seen.power_losses) = (seen.failures + 1 - lost, seen.power_losses + lost)
                });
            }
            other => other.map_err(|error| format!("a call fails on a healthy disk: {error}"))?,
        }
        self.count(|seen| seen.rewrites += log.stat().rewrites);
        lock(&self.model).ended();
        log.abandon();
        Ok(())
    }

    fn work(&self, log: &Log) -> Result<(), WalError> {
        let random = &self.random;
        let mut consumer = match random.below(3) {
            0 => Some(self.consumer(log)?),
            _ => None,
        };
        let (steps, kinds) = if self.recycles { (20 + random.below(40), 16) } else { (random.below(24), 12) };
        for _ in 0..steps {
            let end = self.append(log)?;
            if let Some(tail) = consumer.as_mut().filter(|_| random.below(4) == 0) {
                self.consume(tail)?;
            }
            match random.below(kinds) {
                0..=3 => log.wait(Mark::Durable, end)?,
                4 => log.flush_wal(false)?,
                5 => log.sync_wal()?,
                6 => log.tick()?,
                7 => log.wait(Mark::Written, end)?,
                8 => log.heartbeat()?,
                9 | 12.. => {
                    let durable = log.durable();
                    lock(&self.model).frees(durable);
                    let (start, before) = (log.truncate_before(durable)?.start, lock(&self.model).started_at());
                    self.count(|seen| seen.frees += u64::from(start > before));
                    lock(&self.model).starts_at(start);
                    if self.recycles {
                        log.tick()?;
                    }
                }
                10 if log.commit_level(Level::Process) == Level::Disk => log.wait(Mark::Durable, end)?,
                10 => log.wait(Mark::Written, end)?,
                _ => {}
            }
        }
        if random.below(3) == 0 {
            log.close()?;
            lock(&self.model).closed();
            self.count(|seen| seen.closes += 1);
        }
        Ok(())
    }

    /// Follows the log from the position of its consumer, or from its start.
    fn consumer(&self, log: &Log) -> Result<Tail, WalError> {
        let options = TailOptions::resume().policy(LagPolicy::Hold).bound_segments(200);
        let tail = log.tail(CONSUMER, options)?;
        lock(&self.model).consumes_to(tail.position());
        Ok(tail)
    }

    /// Takes a few records and advances past them.
    fn consume(&self, tail: &mut Tail) -> Result<(), WalError> {
        for _ in 0..self.random.below(6) {
            if tail.try_next()?.is_none() {
                break;
            }
        }
        lock(&self.model).consumes_to(tail.position());
        self.count(|seen| seen.advances += 1);
        tail.advance(tail.position())
    }

    fn append(&self, log: &Log) -> Result<Lsn, WalError> {
        let random = &self.random;
        let len = match random.below(16) {
            0 | 15 => 0,
            1 => 4_060 + random.below(60),
            2 => 4_096 + random.below(9_000),
            3..=7 => 40 + random.below(100),
            _ => 40 + random.below(2_500),
        };
        let first_piece = log.glsn();
        let (stamp, mut body) = lock(&self.model).next_body(first_piece, usize::try_from(len).expect("at most 64 KiB"));
        let unlogged = body.is_empty() && random.below(2) == 0;
        if unlogged {
            body.extend_from_slice(b"hole");
        }
        lock(&self.model).intends(first_piece, stamp, &body);
        let mut writer = log.writer();
        let appended = if unlogged { writer.append_unlogged(3, &body, |_| ()) } else { writer.append(3, &[&body]) }?;
        lock(&self.model).appended(appended);
        Ok(appended.end)
    }
}
