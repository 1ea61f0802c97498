//! `Cells`: runs loads run by run, alternately on Collie and on the peer, and makes rows of the results.

use std::path::PathBuf;

use collie_env::Env;

use super::KvSettings;
use super::figures::Figures;
use super::load::Load;
use super::ours::{Ours, Outcome};
use super::peer::Peer;
use super::peer_text::PeerLine;
use super::volume::{Put, Volume};
use super::workload::Workload;
use crate::{Plan, Row, Section, Spread};

/// A load with its name in the report.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: String,
    pub(super) load: Load,
    /// Whether the peer runs it too.
    pub(super) beside: bool,
}

impl Cell {
    pub(super) fn new(case: impl Into<String>, load: Load) -> Self {
        Self { case: case.into(), load, beside: true }
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
        self.ours.iter().filter_map(|run| run.get(place)).map(|outcome| figure(&outcome.figures)).collect()
    }

    pub(super) fn rates(&self, place: usize) -> Vec<f64> {
        self.ours(place, Figures::operations_per_second)
    }

    pub(super) fn log_percent(&self, place: usize) -> Vec<f64> {
        self.ours(place, |figures| figures.writes.log_percent())
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
            let end = (place + 1..run.len()).find(|at| run[*at].figures.written > 0).unwrap_or(run.len());
            run.get(place..end)?.iter().rev().find_map(|outcome| outcome.put)
        };
        self.ours.iter().filter_map(last).collect()
    }

    /// Returns the bytes on disk for all benchmarks of the list together, run by run.
    pub(super) fn put_in_all(&self) -> Vec<Put> {
        self.ours.iter().map(|run| in_all(run)).collect()
    }

    /// Starts a row of Collie, and one of the peer if it ran, each with the rate of the benchmark at `place`.
    pub(super) fn rows(&self, subject: &str, case: &str, place: usize) -> (Row, Option<Row>) {
        let named = |who: &str, ring| Row::new(who.to_owned() + subject, case, self.level, ring);
        let mut ours = with_runs(named("collie", self.ring), "ops_per_s", &self.rates(place));
        if let Some(why) = &self.ours_failed {
            ours = ours.absent("ops_per_s", "failed").target(format!("runs ({why})"), false);
        }
        let peer = (!self.peer.is_empty()).then(|| named("RocksDB", "-"));
        (ours, peer.map(|row| with_runs(row, "ops_per_s", &self.peer_rates(place))))
    }
}

/// Adds up the bytes. A benchmark that does not write reports those of the one before it again, with its own added, so
/// it replaces them.
fn in_all(run: &[Outcome]) -> Put {
    let mut parts: Vec<Put> = Vec::new();
    for outcome in run {
        let Some(put) = outcome.put else { continue };
        if outcome.figures.written == 0 {
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
pub(super) struct Cells<'a> {
    settings: &'a KvSettings,
    dir: PathBuf,
    peer: Option<Peer>,
    /// The peer's description of itself.
    described: Option<String>,
}

impl<'a> Cells<'a> {
    /// Sets the cells up, in the directory of the plan.
    ///
    /// # Errors
    /// If the peer cannot be run.
    pub(super) fn new(settings: &'a KvSettings) -> anyhow::Result<Self> {
        let Plan { env, dir, .. } = &settings.plan;
        let peer = settings.peer.as_deref().map(|program| Peer::new(program, &dir.join("rocksdb"), &env.clock));
        let described = peer.as_ref().map(Peer::describe).transpose()?;
        Ok(Self { settings, dir: dir.join("collie-kv"), peer, described })
    }

    /// Returns a load of so many keys.
    pub(super) fn load(&self, benchmarks: &[Workload], num: u64) -> Load {
        let segment_bytes = self.settings.segment_bytes;
        Load { segment_bytes, ..Load::new(benchmarks, num, self.settings.seed) }
    }

    pub(super) fn num(&self) -> u64 {
        self.settings.num
    }

    /// Runs every cell once, and then all of them again, as often as the settings say. A cell that fails is not run
    /// again; a note of `section` says why.
    ///
    /// # Errors
    /// A directory that cannot be removed.
    pub(super) fn run(&self, section: &mut Section, cells: &[Cell]) -> anyhow::Result<Vec<Samples>> {
        section.notes.extend(self.described.as_ref().map(|text| format!("peer: {text}")));
        let mut all: Vec<Samples> = cells.iter().map(|_| Samples::default()).collect();
        let KvSettings { plan, runs, .. } = self.settings;
        for run in 0..*runs {
            for (cell, samples) in cells.iter().zip(&mut all) {
                plan.say(&format!("{}: run {} of {runs}: {}", section.name, run + 1, cell.case));
                self.run_ours(&plan.env, &cell.load, samples)?;
                if cell.beside {
                    self.run_peer(&cell.load, samples);
                }
            }
        }
        for (cell, samples) in cells.iter().zip(&all) {
            for (who, why) in [("collie", &samples.ours_failed), ("RocksDB", &samples.peer_failed)] {
                section.notes.extend(why.iter().map(|why| format!("{}: {who}: {why}", cell.case)));
            }
        }
        Ok(all)
    }

    fn run_ours(&self, env: &Env, load: &Load, samples: &mut Samples) -> anyhow::Result<()> {
        if samples.ours_failed.is_some() {
            return Ok(());
        }
        let mut ours = Ours::new(load, env, &self.dir)?;
        samples.ring = if ours.outlives { "shared" } else { "private" };
        samples.level = load.level(ours.outlives);
        match load.benchmarks.iter().map(|one| ours.run(*one)).collect() {
            Ok(outcomes) => samples.ours.push(outcomes),
            Err(error) => samples.ours_failed = Some(format!("{error:#}")),
        }
        ours.remove()
    }

    fn run_peer(&self, load: &Load, samples: &mut Samples) {
        let Some(peer) = self.peer.as_ref().filter(|_| samples.peer_failed.is_none()) else { return };
        let done = match load.unlike(samples.ring == "shared") {
            Some(why) => Err(anyhow::anyhow!(why)),
            None => peer.run(load),
        };
        match done {
            Ok(lines) => samples.peer.push(lines),
            Err(error) => samples.peer_failed = Some(format!("{error:#}")),
        }
    }
}

/// Returns the median of some runs, if there are any.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| Spread::of(values).median)
}

/// Returns the ratio of the medians.
pub(super) fn by(ours: &[f64], other: &[f64]) -> Option<f64> {
    Some(median(ours)? / median(other)?)
}

/// Adds a figure of several runs, if there are any.
pub(super) fn with_runs(row: Row, key: &'static str, values: &[f64]) -> Row {
    if values.is_empty() { row } else { row.runs(key, values) }
}

/// Adds the figures of the bytes on disk.
pub(super) fn with_puts(row: Row, puts: &[Put]) -> Row {
    let told = |of: fn(&Put) -> Option<f64>| puts.iter().filter_map(of).collect::<Vec<_>>();
    let row = with_runs(row, "waf_lsm", &told(Put::waf_lsm));
    let row = with_runs(row, "waf_total", &told(Put::waf_total));
    let row = with_runs(row, "waf_dev", &told(Put::waf_dev));
    let row = with_runs(row, "saf", &told(Put::saf));
    with_runs(row, "saf_lsm", &told(Put::saf_lsm))
}

/// Adds the amplification of the benchmark at `place` for the bytes of `puts`, by the peer's statistics.
pub(super) fn with_peer_volumes(row: Row, samples: &Samples, place: usize, puts: &[Put]) -> Row {
    let user_bytes = puts.last().map_or(0, |put| put.user_bytes);
    let row = with_runs(row, "waf_lsm", &samples.peer(place, |line| line.volume?.waf_lsm()));
    with_runs(row, "waf_total", &samples.peer(place, |line| line.volume?.waf_total(user_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(written: u64, log_bytes: u64) -> Outcome {
        let volume = Volume { log_bytes, ..Volume::default() };
        let user_bytes = if written > 0 { written } else { 7 };
        let put = Some(Put { user_bytes, volume, ..Put::default() });
        Outcome { figures: Figures { written, ..Figures::default() }, put }
    }

    /// Goal: the bytes that a flush adds count for the benchmark before it, and only once. Method: a list with two
    /// writers, a reader and flushes, with invented counters.
    #[test]
    fn what_follows_a_benchmark_counts_for_it() {
        let read = Outcome { put: None, ..outcome(0, 0) };
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
