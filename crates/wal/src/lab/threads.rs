//! Threads: a log with its background flusher, its preparer and several writers in parallel, and the crash states of
//! their common work.
//!
//! The moments depend on the threads, so a seed does not repeat a run. The comparison needs no repetition:
//! - T1. Everything that the log reports durable at a moment is in every state of that moment: each writer's records up
//!   to the last that ended at or below that position.
//! - T2. Each writer's records are a chain without a gap (`payload`), whatever the others did between them.
//! - T3. No position that was handed out before the moment is handed out again.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use collie_env::{CrashPoint, Env, Limits, SimFiles, SimRandom};

use crate::{
    Level, Log, Lsn, Mark, Options, WalError,
    lab::{
        Stamp, Violation,
        model::Yield,
        workload::{DIR, Lies, lab_options, settings_of_a_life},
    },
};

const WRITERS: u64 = 4;
/// Number of moments that are all kept in a round; of the later ones only some are, see `Seen::note`.
const MOMENTS: usize = 120;

/// Counts of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadsReport {
    /// Rounds, each with a separate log.
    pub rounds: u64,
    /// Moments whose states were visited.
    pub moments: u64,
    /// States in which the log was opened and compared.
    pub states: u64,
    /// Records that were read back and compared.
    pub records: u64,
}

/// Results that the writers got from the log, shared with the watcher that notes moments.
#[derive(Default)]
struct Told {
    /// For each writer the ends of its records, in order.
    ends: BTreeMap<u64, Vec<Lsn>>,
    freed: Lsn,
}

struct Moment {
    point: CrashPoint,
    /// For each writer the number of its records that must be there.
    needed: BTreeMap<u64, u64>,
    highest: Lsn,
    freed: Lsn,
}

/// The moments of a round.
#[derive(Default)]
struct Seen {
    count: usize,
    moments: Vec<Moment>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in another thread has failed the test already.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `rounds` rounds of threads and visits the states of their moments; calls `progress` after every round.
///
/// # Errors
/// The first broken promise. The seed fixes the settings, not the order of the threads.
pub fn check_threads(
    rounds: u64,
    seed: u64,
    progress: &mut dyn FnMut(&ThreadsReport),
) -> Result<ThreadsReport, Violation> {
    explore_threads(rounds, seed, Lies::default(), progress)
}

/// As [`check_threads`], on a disk that may lie.
pub(crate) fn explore_threads(
    rounds: u64,
    seed: u64,
    lies: Lies,
    progress: &mut dyn FnMut(&ThreadsReport),
) -> Result<ThreadsReport, Violation> {
    let mut report = ThreadsReport::default();
    for seed in seed..seed + rounds {
        let violation = |message: String| Violation { seed, states: 0, message };
        let moments =
            round(seed, lies).map_err(|error| violation(format!("a call fails on a healthy disk: {error}")))?;
        report.rounds += 1;
        for moment in &moments {
            report.moments += 1;
            for picks in moment.point.states(Limits { exhaustive: 32, sampled: 8, structured: 2 }, seed) {
                report.states += 1;
                moment
                    .check(&moment.point.state(&picks), &mut report)
                    .map_err(|message| violation(format!("{message}; {}", moment.point.describe(&picks))))?;
            }
        }
        progress(&report);
    }
    Ok(report)
}

/// Runs one log under its threads; returns the moments.
fn round(seed: u64, lies: Lies) -> Result<Vec<Moment>, WalError> {
    let random = SimRandom::new(seed);
    let disk = SimFiles::new();
    disk.set_lying_sync(lies.syncs);
    let (told, seen, running) =
        (Arc::<Mutex<Told>>::default(), Arc::<Mutex<Seen>>::default(), Arc::new(OnceLock::new()));
    let sinks = (told.clone(), seen.clone(), running.clone());
    disk.watch(move |point| {
        let (told, seen, running) = &sinks;
        lock(seen).note(point, running.get().map_or(Lsn::ZERO, Log::durable), told);
    });
    let options = Options { threads: true, slots: 3, ..settings_of_a_life(&random) };
    // Three slots need larger files than one.
    let segment_bytes = options.segment_bytes + 4 * options.chunk_bytes;
    let env = Env::over(disk.clone(), seed);
    let (log, found) = Log::open(&env, Path::new(DIR), Options { segment_bytes, ..options })?;
    // Set once, here; the watcher only reads it.
    let _first = running.set(log.clone());
    let outcome = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (log, told, seed) = (&log, &told, random.below(u64::MAX));
                scope.spawn(move || write(log, writer, found.incarnation, told, &SimRandom::new(seed)))
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap_or(Err(WalError::Closed))).collect::<Vec<_>>()
    });
    outcome.into_iter().collect::<Result<(), _>>()?;
    // The watcher has a handle of the log, and the log one of the disk: break the cycle.
    disk.watch(|_| ());
    lock(&seen).count = 0;
    lock(&seen).note(disk.crash_point(), log.durable(), &told);
    log.abandon();
    Ok(std::mem::take(&mut lock(&seen).moments))
}

fn write(log: &Log, writer: u64, incarnation: u64, told: &Mutex<Told>, random: &SimRandom) -> Result<(), WalError> {
    let mut appender = log.writer();
    let mut stamp = Stamp { writer, ..Stamp::default() };
    for number in 0..60 {
        let len = if random.below(10) == 0 { 4_200 + random.below(5_000) } else { 40 + random.below(700) };
        let len = usize::try_from(len).expect("small");
        stamp = stamp.next(incarnation, log.glsn().get(), len);
        let appended = appender.append(1, &[&stamp.body(len)])?;
        lock(told).ends.entry(writer).or_default().push(appended.end);
        let level = log.commit_level(
            [Level::Memory, Level::Process, Level::Disk][usize::try_from(random.below(3)).expect("below 3")],
        );
        match level {
            Level::Disk => log.wait(Mark::Durable, appended.end)?,
            Level::Process => log.wait(Mark::Written, appended.end)?,
            _ => log.flush_soon(),
        }
        if writer == 0 && number % 16 == 15 {
            let durable = log.durable();
            {
                let mut told = lock(told);
                told.freed = told.freed.max(durable);
            }
            log.truncate_before(durable)?;
        }
    }
    Ok(())
}

impl Seen {
    /// Keeps the moment; once `MOMENTS` are kept, only every fourth.
    fn note(&mut self, point: CrashPoint, durable: Lsn, told: &Mutex<Told>) {
        self.count += 1;
        if self.moments.len() >= MOMENTS && !self.count.is_multiple_of(4) {
            return;
        }
        let told = lock(told);
        let needed = |ends: &Vec<Lsn>| ends.iter().filter(|end| **end <= durable).count() as u64;
        let highest = told.ends.values().flatten().copied().max().unwrap_or(Lsn::ZERO);
        let needed = told.ends.iter().map(|(writer, ends)| (*writer, needed(ends))).collect();
        self.moments.push(Moment { point, needed, highest, freed: told.freed });
    }
}

impl Moment {
    fn check(&self, disk: &SimFiles, report: &mut ThreadsReport) -> Result<(), String> {
        let opened = Log::open(&Env::over(disk.clone(), 1), Path::new(DIR), lab_options());
        let (log, found) = opened.map_err(|error| format!("opening is refused: {error}"))?;
        let yielded = Yield::of(&log, &found)?;
        log.abandon();
        if yielded.start > self.freed.max(Lsn::FIRST) {
            return Err(format!("the log starts at {}, freed to {}", yielded.start, self.freed));
        }
        let mut last: BTreeMap<u64, Stamp> = BTreeMap::new();
        for (lsn, _, body) in &yielded.records {
            report.records += 1;
            let stamp = Stamp::of(body).ok_or_else(|| format!("the record at {lsn} has no stamp that fits"))?;
            let before = last.insert(stamp.writer, stamp);
            if before.is_some_and(|before| !before.is_continued_by(&stamp, body.len())) {
                return Err(format!("writer {}: {before:?} is followed by {stamp:?}", stamp.writer));
            }
        }
        for (writer, needed) in &self.needed {
            let there = last.get(writer).map_or(0, |stamp| stamp.number);
            // All records of a writer may have been freed.
            let freed = self.freed > Lsn::ZERO && !last.contains_key(writer);
            if there < *needed && !freed {
                return Err(format!("acknowledged record {needed} of writer {writer} is lost, {there} is the last"));
            }
        }
        if yielded.next < self.highest {
            return Err(format!("position {} is handed out again, up to {} was used", yielded.next, self.highest));
        }
        Ok(())
    }
}
