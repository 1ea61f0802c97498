//! `Cells`: runs one setting of an experiment, run by run, alternately on Collie and on the peer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use collie_env::Env;

use super::super::drive::{places, unlike};
use super::super::flags::KvFlags;
use super::super::line::Figures;
use super::super::ours::{Ours, Outcome};
use super::super::peer::{Peer, PeerLine, limited, lines, tells};
use super::super::volume::{Amplification, Put, Volume};
use crate::{Row, Spread};

/// Time limit of the peer for a cell, since with a log limit of a few bytes it can take very long.
const PEER_LIMIT: Duration = Duration::from_secs(120);

/// A setting: its name in the report, and flags as `name=value`.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: String,
    pub(super) settings: Vec<String>,
    /// Whether the peer runs it too.
    pub(super) beside: bool,
}

impl Cell {
    pub(super) fn new(case: impl Into<String>, settings: &[String]) -> Self {
        Self { case: case.into(), settings: settings.to_vec(), beside: true }
    }
}

/// The results of a cell: the outcomes of its list of benchmarks, run by run.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) ours: Vec<Vec<Outcome>>,
    /// By benchmark of the list; `None`: db_bench reports no figure for it.
    pub(super) peer: Vec<Vec<Option<PeerLine>>>,
    /// Why outcomes are missing.
    pub(super) ours_failed: Option<String>,
    pub(super) peer_failed: Option<String>,
    /// How far a write of Collie waits.
    pub(super) level: &'static str,
    pub(super) ring: &'static str,
}

impl Samples {
    /// Returns a figure of the benchmark at `place`, run by run.
    pub(super) fn ours(&self, place: usize, figure: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.ours.iter().filter_map(|run| run.get(place)?.figures.as_ref().map(&figure)).collect()
    }

    pub(super) fn rates(&self, place: usize) -> Vec<f64> {
        self.ours(place, Figures::operations_per_second)
    }

    /// Returns a figure of the peer's benchmark at `place`, run by run.
    pub(super) fn peer(&self, place: usize, figure: impl Fn(&PeerLine) -> Option<f64>) -> Vec<f64> {
        self.peer.iter().filter_map(|run| run.get(place)?.as_ref().and_then(&figure)).collect()
    }

    pub(super) fn peer_rates(&self, place: usize) -> Vec<f64> {
        self.peer(place, |line| Some(line.operations_per_second))
    }

    /// Returns the bytes on disk for the benchmark at `place` and for those after it that did not write, run by run.
    pub(super) fn puts(&self, place: usize) -> Vec<Put> {
        let last = |run: &Vec<Outcome>| {
            let writes = |outcome: &Outcome| outcome.figures.as_ref().is_some_and(|figures| figures.written > 0);
            let end = (place + 1..run.len()).find(|at| writes(&run[*at])).unwrap_or(run.len());
            run.get(place..end)?.iter().rev().find_map(|outcome| outcome.put)
        };
        self.ours.iter().filter_map(last).collect()
    }

    /// Returns the bytes on disk for all benchmarks of the list together, run by run.
    pub(super) fn put_in_all(&self) -> Vec<Put> {
        self.ours.iter().map(|run| in_all(run)).collect()
    }
}

/// Adds up the bytes. A benchmark that does not write reports those of the one before it again, with its own added, so
/// it replaces them.
fn in_all(run: &[Outcome]) -> Put {
    let mut parts: Vec<Put> = Vec::new();
    for outcome in run {
        let Some(put) = outcome.put else { continue };
        if outcome.figures.as_ref().is_some_and(|figures| figures.written == 0) {
            parts.pop();
        }
        parts.push(put);
    }
    let last = parts.last().copied().unwrap_or_default();
    parts.iter().fold(Put { user_bytes: 0, volume: Volume::default(), ..last }, |mut sum, part| {
        sum.user_bytes += part.user_bytes;
        sum.volume.log_bytes += part.volume.log_bytes;
        sum.volume.flush_bytes += part.volume.flush_bytes;
        sum.volume.compaction_bytes += part.volume.compaction_bytes;
        sum
    })
}

/// The state that all cells share.
#[derive(Debug)]
pub(in super::super) struct Cells<'a> {
    flags: KvFlags,
    env: &'a Env,
    dir: PathBuf,
    program: Option<PathBuf>,
}

impl<'a> Cells<'a> {
    pub(in super::super) fn new(flags: &KvFlags, env: &'a Env, dir: &Path, program: Option<&Path>) -> Self {
        Self { flags: flags.clone(), env, dir: dir.to_owned(), program: program.map(Path::to_owned) }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the number of runs of a cell: that of the flags, or else `usual`.
    pub(super) fn runs(&self, usual: u32) -> u32 {
        if self.flags.runs_given { self.flags.runs } else { usual }
    }

    pub(super) fn num(&self) -> u64 {
        self.flags.num
    }

    fn peer(&self, descriptors: Option<u32>) -> Option<Peer> {
        let [_, dir] = places(&self.dir);
        let program = self.flags.peer.as_deref()?;
        Some(Peer::new(program, &dir, &self.env.clock).bounded(PEER_LIMIT, descriptors))
    }

    /// Returns the peer's description of itself, if there is a peer.
    ///
    /// # Errors
    /// If the peer cannot be run.
    pub(super) fn describe_peer(&self) -> anyhow::Result<Option<String>> {
        self.peer(None).map(|peer| peer.describe()).transpose()
    }

    /// Runs every cell once, and then all of them again, `runs` times in total. A cell that fails is not run again; its
    /// samples say why.
    ///
    /// # Errors
    /// Wrong settings; a directory that cannot be removed.
    pub(super) fn run(
        &self,
        name: &str,
        runs: u32,
        cells: &[Cell],
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<Samples>> {
        let mut all: Vec<Samples> = cells.iter().map(|_| Samples::default()).collect();
        for run in 0..runs {
            for (cell, samples) in cells.iter().zip(&mut all) {
                say(&format!("{name}: run {} of {runs}: {}", run + 1, cell.case));
                let flags = self.flags.with(&cell.settings)?;
                self.run_ours(&flags, samples)?;
                if cell.beside {
                    self.run_peer(&flags, samples)?;
                }
            }
        }
        Ok(all)
    }

    fn run_ours(&self, flags: &KvFlags, samples: &mut Samples) -> anyhow::Result<()> {
        if samples.ours_failed.is_some() {
            return Ok(());
        }
        let [dir, _] = places(&self.dir);
        let mut ours = Ours::new(flags, self.env, &dir);
        let outlives = ours.ensure_open(true)?;
        samples.ring = if outlives { "shared" } else { "private" };
        samples.level = match (flags.disable_wal, flags.sync, outlives) {
            (true, ..) => "none",
            (_, true, _) => "disk",
            (_, _, true) => "process",
            _ => "memory",
        };
        let done: anyhow::Result<Vec<Outcome>> = flags.workloads().into_iter().map(|one| ours.run(one)).collect();
        match done {
            Ok(outcomes) => samples.ours.push(outcomes),
            Err(error) => samples.ours_failed = Some(format!("{error:#}")),
        }
        ours.remove()
    }

    fn run_peer(&self, flags: &KvFlags, samples: &mut Samples) -> anyhow::Result<()> {
        let Some(peer) = self.peer(None).filter(|_| samples.peer_failed.is_none()) else { return Ok(()) };
        if let Some(why) = unlike(flags, samples.ring == "shared").filter(|_| !flags.allow_unlike) {
            samples.peer_failed = Some(why.to_owned());
            return Ok(());
        }
        match peer.run(flags) {
            Ok(lines) => {
                let mut lines = lines.into_iter();
                let by_place = flags.workloads().into_iter().map(|one| if tells(one) { lines.next() } else { None });
                samples.peer.push(by_place.collect());
            }
            Err(error) => samples.peer_failed = Some(format!("{error:#}")),
        }
        peer.remove()
    }

    /// Runs a cell of Collie in its own process, which may have `descriptors` files open. Returns its operations per
    /// second, or why there are none.
    ///
    /// # Errors
    /// If no process can be started.
    pub(super) fn run_process(&self, settings: &[String], descriptors: u32) -> anyhow::Result<Result<f64, String>> {
        let Some(program) = &self.program else { return Ok(Err("no program was named".to_owned())) };
        let [dir, _] = places(&self.dir);
        let mut command = limited(program, descriptors);
        command.arg("kv").args(settings.iter().map(|setting| format!("--{setting}")));
        command.arg(format!("--db={}", dir.display()));
        let output = command.stdin(std::process::Stdio::null()).output()?;
        super::super::ours::remove(&dir)?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Ok(Err(errors.lines().last().unwrap_or("no word").to_owned()));
        }
        let told = lines(&text).last().map(|line| line.operations_per_second);
        Ok(told.ok_or_else(|| "it told no figure".to_owned()))
    }

    /// Runs a cell of the peer with the same limit of open files.
    ///
    /// # Errors
    /// Wrong settings; a directory that cannot be removed.
    pub(super) fn run_peer_process(
        &self,
        settings: &[String],
        descriptors: u32,
    ) -> anyhow::Result<Option<Result<f64, String>>> {
        let Some(peer) = self.peer(Some(descriptors)) else { return Ok(None) };
        let flags = self.flags.with(settings)?;
        let told = match peer.run(&flags) {
            Ok(lines) => lines.last().map(|line| line.operations_per_second).ok_or_else(|| "no figure".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        };
        peer.remove()?;
        Ok(Some(told))
    }
}

/// Returns the median of some runs, if there are any.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| Spread::of(values).median)
}

/// Adds a figure of several runs, if there are any.
pub(super) fn with_runs(row: Row, key: &'static str, values: &[f64]) -> Row {
    if values.is_empty() { row } else { row.runs(key, values) }
}

/// Adds the figures of the bytes on disk.
pub(super) fn with_puts(row: Row, puts: &[Put]) -> Row {
    let told = |of: &dyn Fn(&Put) -> Option<f64>| puts.iter().filter_map(of).collect::<Vec<f64>>();
    let amplification = |put: &Put| Amplification::of(&put.volume, put.user_bytes);
    let row = with_runs(row, "waf_lsm", &told(&|put| amplification(put).lsm));
    let row = with_runs(row, "waf_total", &told(&|put| amplification(put).total));
    let row = with_runs(row, "waf_dev", &told(&|put| amplification(put).device));
    let row = with_runs(row, "saf", &told(&|put| put.space.amplification()[0]));
    with_runs(row, "saf_lsm", &told(&|put| put.space.amplification()[1]))
}

/// Adds the amplification for `user_bytes` according to the peer's statistics.
pub(super) fn with_peer_volumes(row: Row, samples: &Samples, place: usize, user_bytes: u64) -> Row {
    let told = |of: fn(Amplification) -> Option<f64>| {
        samples.peer(place, |line| line.volume.and_then(|volume| of(volume.amplification(user_bytes))))
    };
    let row = with_runs(row, "waf_lsm", &told(|one| one.lsm));
    with_runs(row, "waf_total", &told(|one| one.total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(written: u64, log_bytes: u64) -> Outcome {
        let volume = Volume { log_bytes, ..Volume::default() };
        let figures = Figures { written, ..Figures::default() };
        Outcome {
            figures: Some(figures),
            put: Some(Put { user_bytes: if written > 0 { written } else { 7 }, volume, ..Put::default() }),
            lines: Vec::new(),
        }
    }

    /// Goal: the bytes that a flush adds count for the benchmark before it, and only once. Method: a list with two
    /// writers, a reader and flushes, with invented counters.
    #[test]
    fn what_follows_a_benchmark_counts_for_it() {
        let mut read = outcome(0, 0);
        read.put = None;
        let run = vec![outcome(5, 10), outcome(0, 11), outcome(7, 20), read, outcome(0, 25)];
        let samples = Samples { ours: vec![run], ..Samples::default() };
        let log = |place: usize| samples.puts(place).iter().map(|put| put.volume.log_bytes).collect::<Vec<_>>();
        assert_eq!((log(0), log(2)), (vec![11], vec![25]));
        let all = samples.put_in_all();
        assert_eq!((all[0].volume.log_bytes, all[0].user_bytes), (36, 14));
        assert_eq!(samples.rates(0).len(), 1);
        assert!(samples.peer_rates(0).is_empty());
    }
}
