//! The log alone under SIGKILL: a real process on real files.
//!
//! The child appends from several threads and reports acknowledged records over a pipe. Its records are stamped
//! (`collie_wal::lab::Stamp`): each names its writer and number and holds a running hash over that writer's earlier
//! ones, so this process needs no copy of the records.
//!
//! # Oracles
//! - K1. Every acknowledged record is there, at `Level::Disk` and at `Level::Process`: SIGKILL takes nothing from the
//!   kernel, and nothing from a shared ring. Three of four children have a shared ring; the protocols take turns.
//! - K2. Each writer's records are a chain without a gap; every byte of each is as it was written.
//! - K3. No position and no incarnation is used twice.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use collie_env::Env;
use collie_wal::{
    Ending, Level, Log, Lsn, Options, Protocol, RingKind,
    lab::{STAMP_BYTES, Stamp},
};

use tempfile::TempDir;

use crate::{
    random::Random,
    report::{Figures, Report},
};

/// How long a child may take to open its log and report something, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The acknowledged records by writer: number and end of the last one.
type Acknowledged = BTreeMap<u64, (u64, Lsn)>;

/// The reports of one child.
#[derive(Default)]
struct Said {
    acknowledged: Acknowledged,
    /// The number of acknowledgements.
    count: u64,
    /// The position below which log may be freed.
    freed: Lsn,
}

fn options(rings: &Path) -> Options {
    Options { slots: 3, ring_dir: rings.to_owned(), ..Options::small() }
}

/// Makes the directory of the rings: a killed child leaves its ring behind, which must not outlive this program.
fn rings() -> anyhow::Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("collie-logkill-").tempdir_in("/dev/shm")?)
}

/// Returns the settings of the child of cycle `cycle`.
fn options_of(cycle: u64, rings: &Path) -> Options {
    let protocol = [Protocol::Mutex, Protocol::Base, Protocol::Help][usize::try_from(cycle % 3).unwrap_or(0)];
    let ring = if cycle % 4 == 3 { RingKind::Private } else { RingKind::Shared };
    Options { protocol, ring, ..options(rings) }
}

/// Runs `cycles` children; an error is a violation.
pub(crate) fn run(cycles: u64, seed: u64, writers: u64) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new().prefix("collie-logkill-").tempdir()?;
    let rings = rings()?;
    let mut random = Random::new(seed);
    let mut checks = Checks::default();
    for cycle in 1..=cycles {
        let outcome = checks.cycle([dir.path(), rings.path()], cycle, writers, &mut random);
        if let Err(error) = outcome {
            // Keep the evidence.
            let kept = dir.keep();
            return Err(error.context(format!("cycle {cycle}, log kept in {}", kept.display())));
        }
    }
    ensure!(checks.acknowledged > 0, "nothing was ever acknowledged: the kills come too early");
    ensure!(checks.from_ring > 0 || cycles < 8, "no opening took anything from a ring: they are not tested");
    let words = format!(
        "log-kill: {cycles} kills, {} records acknowledged, {} read back and compared, {} openings took records from a ring: all promises hold",
        checks.acknowledged, checks.records, checks.from_ring
    );
    Ok(Report::new(words, Figures { cycles, kills: cycles, ..Figures::default() }))
}

/// The state of the checks over all children.
#[derive(Default)]
struct Checks {
    acknowledged: u64,
    records: u64,
    /// Openings that recovered records that were only in a ring.
    from_ring: u64,
    highest: Lsn,
    incarnation: u64,
    freed: Lsn,
    last: BTreeMap<u64, Stamp>,
}

impl Checks {
    fn cycle(&mut self, [dir, rings]: [&Path; 2], cycle: u64, writers: u64, random: &mut Random) -> anyhow::Result<()> {
        // Every fourth child is killed while it opens the log, the others some time after their first report.
        let opens = cycle.is_multiple_of(4);
        let life_us = if opens { random.below(4_000) } else { random.below(120_000) };
        let said = live([dir, rings], cycle, random.next(), writers, (opens, Duration::from_micros(life_us)))?;
        self.acknowledged += said.count;
        self.freed = self.freed.max(said.freed);
        // Opened without threads, so that nothing but the opening itself writes.
        let (log, found) = Log::open(&Env::real(), dir, Options { threads: false, ..options(rings) })?;
        self.from_ring += u64::from(found.recovered_from_ring > 0);
        ensure!(found.incarnation > self.incarnation, "K3: incarnation {} is used again", found.incarnation);
        ensure!(
            found.start <= self.freed.max(Lsn::FIRST),
            "the log starts at {}, freed to {}",
            found.start,
            self.freed
        );
        self.incarnation = found.incarnation;
        // K2 and K3 for every record that reads back.
        let mut last: BTreeMap<u64, Stamp> = BTreeMap::new();
        let mut position = Lsn::ZERO;
        for record in log.read(found.start) {
            let record = record.context("reading after opening")?;
            self.records += 1;
            ensure!(record.lsn >= position, "K3: record {} stands behind {position}", record.lsn);
            position = record.end;
            let stamp =
                Stamp::of(&record.body).with_context(|| format!("K2: record {} is not as written", record.lsn))?;
            if let Some(before) = last.insert(stamp.writer, stamp) {
                let continued = before.is_continued_by(&stamp, record.body.len());
                ensure!(continued, "K2: writer {}: {before:?} is followed by {stamp:?}", stamp.writer);
            }
        }
        // K1 and K3 for the records that this child reported; those below the freed position may be gone.
        for (writer, (number, end)) in &said.acknowledged {
            ensure!(*end <= found.next, "K3: position {} is handed out again, {end} was acknowledged", found.next);
            if *end <= self.freed && !last.contains_key(writer) {
                continue;
            }
            let there = last.get(writer).map_or(0, |stamp| stamp.number);
            ensure!(
                there >= *number,
                "K1: writer {writer}: record {number} was acknowledged, {there} is the last there"
            );
        }
        ensure!(found.next >= self.highest, "K3: position {} is handed out again after {}", found.next, self.highest);
        self.highest = self.highest.max(found.next);
        self.last = last;
        // A third of the logs are closed in order, so that a clean end is tested too.
        if random.below(3) == 0 {
            log.close()?;
            let (log, found) = Log::open(&Env::real(), dir, Options { threads: false, ..options(rings) })?;
            ensure!(found.ending == Ending::Clean, "a closed log is not clean");
            self.incarnation = found.incarnation;
            log.abandon();
        } else {
            log.abandon();
        }
        Ok(())
    }
}

/// Runs a child for a while, counted from its start or from its first report, kills it, and returns its reports.
fn live(
    [dir, rings]: [&Path; 2],
    cycle: u64,
    seed: u64,
    writers: u64,
    (from_start, life): (bool, Duration),
) -> anyhow::Result<Said> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .args([
            "log-child",
            "--cycle",
            &cycle.to_string(),
            "--seed",
            &seed.to_string(),
            "--writers",
            &writers.to_string(),
            "--dir",
        ])
        .arg(dir)
        .arg("--rings")
        .arg(rings)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("no standard output")?;
    let (speaks, spoke) = mpsc::channel();
    let listener = thread::spawn(move || listen(BufReader::new(output), &speaks));
    // A child that has ended instead is detected below.
    let _its_first_word = if from_start { Ok(()) } else { spoke.recv_timeout(PATIENCE) };
    // The random moment of the kill is what the experiment varies; it waits for nothing.
    thread::sleep(life);
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    let said = listener.join().map_err(|_| anyhow::anyhow!("the listener panicked"))??;
    if let Some(status) = ended {
        bail!("the child ended by itself, {status}");
    }
    Ok(said)
}

/// Records the reports of a child, and sends to `speaks` for each of them.
fn listen(mut output: impl BufRead, speaks: &Sender<()>) -> anyhow::Result<Said> {
    let (mut said, mut line) = (Said::default(), String::new());
    loop {
        line.clear();
        output.read_line(&mut line)?;
        // The last line may be cut off by the kill; then it does not count.
        let Some(whole) = line.strip_suffix('\n') else { return Ok(said) };
        let _nobody_waits = speaks.send(());
        let numbers: Result<Vec<u64>, _> = whole[1..].split_whitespace().map(str::parse).collect();
        match (whole.as_bytes()[0], numbers?.as_slice()) {
            (b'A', [writer, number, end]) => {
                said.count += 1;
                let last = said.acknowledged.entry(*writer).or_default();
                *last = (*last).max((*number, Lsn::new(*end)));
            }
            (b'F', [lsn]) => said.freed = said.freed.max(Lsn::new(*lsn)),
            other => bail!("the child says {other:?}"),
        }
    }
}

/// Opens the log in `dir` and appends until it is killed.
pub(crate) fn child([dir, rings]: [&Path; 2], cycle: u64, seed: u64, writers: u64) -> anyhow::Result<String> {
    let (log, found) = Log::open(&Env::real(), dir, options_of(cycle, rings))?;
    let mut last: BTreeMap<u64, Stamp> = BTreeMap::new();
    for record in log.read(found.start) {
        let stamp = Stamp::of(&record?.body).context("a record without a stamp")?;
        last.insert(stamp.writer, stamp);
    }
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (log, random) = (log.clone(), Random::new(seed ^ writer << 32));
            let stamp = last.get(&writer).copied().unwrap_or(Stamp { writer, ..Stamp::default() });
            thread::spawn(move || write(&log, stamp, found.incarnation, random))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
    }
    Ok(String::new())
}

fn write(log: &Log, mut stamp: Stamp, incarnation: u64, mut random: Random) -> anyhow::Result<()> {
    let mut writer = log.writer();
    let level = if stamp.writer.is_multiple_of(2) { Level::Disk } else { Level::Process };
    let say = |line: String| std::io::stdout().lock().write_all(line.as_bytes());
    loop {
        let len = match random.below(40) {
            // Longer than a chunk, so it is written in several.
            0 => 16_000 + random.below(30_000),
            _ => STAMP_BYTES as u64 + random.below(600),
        };
        let len = usize::try_from(len)?;
        stamp = stamp.next(incarnation, log.boundary().get(), len);
        let appended = writer.commit(1, &stamp.body(len), level)?;
        say(format!("A {} {} {}\n", stamp.writer, stamp.number, appended.end.get()))?;
        if stamp.writer == 0 && random.below(200) == 0 {
            // The last half megabyte stays, so that there is something to compare.
            let lsn = Lsn::new(log.durable().get().saturating_sub(512 << 10));
            say(format!("F {}\n", lsn.get()))?;
            log.truncate_before(lsn)?;
        }
    }
}
