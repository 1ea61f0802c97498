//! Runs the benchmarks in order, alternately on Collie and on the peer, and prints the results.

use std::path::{Path, PathBuf};

use anyhow::Context;
use collie_env::Env;
use serde_json::json;

use super::flags::KvFlags;
use super::line::Figures;
use super::matrix::{Cells, measure};
use super::ours::{Ours, Outcome};
use super::peer::{Peer, PeerLine, tells};
use super::volume::{Amplification, Put, shown};
use super::workload::Workload;
use crate::{Machine, Report, Scratch, Spread};

/// Figures of one benchmark of the list, run by run.
#[derive(Debug, Default)]
struct Runs {
    ours: Vec<Outcome>,
    peer: Vec<PeerLine>,
}

impl Runs {
    fn figures(&self) -> impl Iterator<Item = &Figures> {
        self.ours.iter().filter_map(|outcome| outcome.figures.as_ref())
    }

    fn rates(&self) -> Vec<f64> {
        self.figures().map(Figures::operations_per_second).collect()
    }

    fn peer_rates(&self) -> Vec<f64> {
        self.peer.iter().map(|line| line.operations_per_second).collect()
    }

    fn puts(&self) -> impl Iterator<Item = &Put> {
        self.ours.iter().filter_map(|outcome| outcome.put.as_ref())
    }
}

/// Runs the benchmarks that the flags ask for and passes each line of output to `say`. Returns the report of a matrix.
/// `program` is started, with `kv` and flags, for parts that need a separate process.
///
/// # Errors
/// Those of the engine, the operating system and the peer; also if the peer's writes would survive less or more than
/// Collie's.
pub fn kv_bench(
    flags: &KvFlags,
    env: &Env,
    program: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Option<Report>> {
    let scratch = if flags.db.is_some() { None } else { Some(Scratch::new(env, Path::new("."))?) };
    let dir = match (&flags.db, &scratch) {
        (Some(db), _) => db.clone(),
        (None, Some(scratch)) => scratch.path().to_owned(),
        (None, None) => unreachable!("one of the two is there"),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    if let Some(matrix) = flags.matrix {
        return measure(matrix, &Cells::new(flags, env, &dir, program), say).map(Some);
    }
    list(flags, env, &dir, say).map(|()| None)
}

/// Returns the directories of the databases: Collie's, and the peer's.
pub(super) fn places(dir: &Path) -> [PathBuf; 2] {
    ["collie-kv", "rocksdb"].map(|name| dir.join(name))
}

/// Returns why the writes of the two would not survive the same faults, if so.
pub(super) fn unlike(flags: &KvFlags, outlives: bool) -> Option<&'static str> {
    let waits = flags.sync || flags.manual_wal_flush || flags.disable_wal;
    (!waits && !outlives).then_some(
        "a kill would lose our last writes and not RocksDB's, since there is no tmpfs for a shared ring: use --sync=1, or \
         --allow_unlike=1 to compare all the same",
    )
}

/// Runs the list of benchmarks.
fn list(flags: &KvFlags, env: &Env, dir: &Path, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let [ours_dir, peer_dir] = places(dir);
    let mut ours = Ours::new(flags, env, &ours_dir);
    let peer = flags.peer.as_deref().map(|program| Peer::new(program, &peer_dir, &env.clock));
    let is_first_fresh = flags.benchmarks.first().is_some_and(|(first, _)| first.is_fresh()) && !flags.use_existing_db;
    let outlives = ours.ensure_open(is_first_fresh)?;
    let machine = Machine::of(dir);
    header(flags, &machine, outlives, say);
    if let Some(peer) = &peer {
        if let Some(why) = unlike(flags, outlives).filter(|_| !flags.allow_unlike) {
            anyhow::bail!("{why}");
        }
        say(&peer.describe()?);
    }
    let workloads = flags.workloads();
    let mut all: Vec<(Workload, Runs)> = workloads.iter().map(|one| (*one, Runs::default())).collect();
    for run in 0..flags.runs {
        let mut place = 0;
        for (workload, times) in &flags.benchmarks {
            let mut rates = Vec::new();
            for _ in 0..*times {
                let outcome = ours.run(*workload).with_context(|| workload.name().to_owned())?;
                outcome.text(workload.name()).iter().for_each(|line| say(line));
                rates.extend(outcome.figures.as_ref().map(Figures::operations_per_second));
                all[place].1.ours.push(outcome);
                place += 1;
            }
            if rates.len() > 1 {
                say(&average(workload.name(), &rates));
            }
        }
        if let Some(peer) = &peer {
            let told = all.iter_mut().filter(|(workload, _)| tells(*workload));
            for (line, (_, runs)) in peer.run(flags)?.into_iter().zip(told) {
                say(&format!("RocksDB {}", line.text));
                let user_bytes = runs.puts().last().map_or(0, |put| put.user_bytes);
                if let Some(volume) = line.volume {
                    let Amplification { lsm, total, .. } = volume.amplification(user_bytes);
                    say(&format!(
                        "  written    : WAF_lsm {} WAF_total {} (by its statistics)",
                        shown(lsm),
                        shown(total)
                    ));
                }
                runs.peer.push(line);
            }
        }
        if run + 1 < flags.runs {
            say("");
        }
    }
    if flags.statistics {
        ours.stats()?.iter().for_each(|line| say(line));
    }
    ours.close()?;
    if flags.runs > 1 || peer.is_some() {
        table(&all, say);
    }
    if let Some(path) = &flags.json {
        let text = format!("{:#}\n", as_json(flags, &machine, &all));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints what is measured, in db_bench's words, and what its writes survive.
fn header(flags: &KvFlags, machine: &Machine, outlives: bool, say: &mut dyn FnMut(&str)) {
    say(&format!("Collie {}; {machine}", env!("CARGO_PKG_VERSION")));
    say(&format!("Keys:       {} bytes each", flags.key_size));
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let compressed = flags.value_size as f64 * flags.compression_ratio;
    say(&format!("Values:     {} bytes each ({compressed:.0} bytes after compression)", flags.value_size));
    say(&format!("Entries:    {}", flags.num));
    say(&format!("Threads:    {}", flags.threads));
    say(&format!("Compression: {}", flags.compression_name()));
    say(&format!("A write survives {}", survives(flags, outlives)));
    for note in &flags.notes {
        say(&format!("note: {note}"));
    }
    say("------------------------------------------------");
}

/// Returns the faults that a write survives.
pub(super) fn survives(flags: &KvFlags, outlives: bool) -> &'static str {
    match (flags.disable_wal, flags.sync, flags.manual_wal_flush, outlives) {
        (true, ..) => "nothing before its family is flushed: it is not in the log",
        (false, true, ..) => "a power cut: each write waits for the disk",
        (false, false, _, true) => "the end of the process (shared ring); a power cut takes the last writes",
        (false, false, false, false) => "nothing for at most 10 ms; then, once flushed, a power cut",
        (false, false, true, false) => "nothing until half a ring is full",
    }
}

/// Returns the line for a repeated benchmark: the mean with the half-width of its 95 % confidence interval.
fn average(name: &str, rates: &[f64]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = 1.96 * (variance / count).sqrt();
    format!("{name} [AVG    {} runs] : {mean:.0} (+/- {half:.0}) ops/sec", rates.len())
}

/// Prints the medians of the runs and their ratio to the peer's.
fn table(all: &[(Workload, Runs)], say: &mut dyn FnMut(&str)) {
    say("");
    say(&format!(
        "{:<22} {:>12} {:>25} {:>12} {:>25} {:>7}",
        "ops/sec, medians", "collie", "lowest to highest", "rocksdb", "lowest to highest", "ratio"
    ));
    let range = |spread: &Spread| format!("{:.0} to {:.0}", spread.low, spread.high);
    for (workload, runs) in all {
        let (ours, peer) = (runs.rates(), runs.peer_rates());
        if ours.is_empty() {
            continue;
        }
        let spread = Spread::of(&ours);
        let (theirs, their_range, ratio) = if peer.is_empty() {
            ("-".to_owned(), "-".to_owned(), "-".to_owned())
        } else {
            let theirs = Spread::of(&peer);
            let ratio = format!("{:.2}", spread.median / theirs.median);
            (format!("{:.0}", theirs.median), range(&theirs), ratio)
        };
        say(&format!(
            "{:<22} {:>12.0} {:>25} {theirs:>12} {their_range:>25} {ratio:>7}",
            workload.name(),
            spread.median,
            range(&spread)
        ));
    }
}

fn as_json(flags: &KvFlags, machine: &Machine, all: &[(Workload, Runs)]) -> serde_json::Value {
    let rows = all.iter().filter(|(_, runs)| runs.figures().next().is_some()).map(|(workload, runs)| {
        let amplification: Vec<Amplification> =
            runs.puts().map(|put| Amplification::of(&put.volume, put.user_bytes)).collect();
        let space: Vec<[Option<f64>; 2]> = runs.puts().map(|put| put.space.amplification()).collect();
        json!({
            "benchmark": workload.name(),
            "collie_ops_per_second": runs.rates(),
            "rocksdb_ops_per_second": runs.peer_rates(),
            "log_time_percent": runs.figures().map(|figures| figures.writes.log_percent()[0]).collect::<Vec<_>>(),
            "waf_lsm": amplification.iter().map(|one| one.lsm).collect::<Vec<_>>(),
            "waf_total": amplification.iter().map(|one| one.total).collect::<Vec<_>>(),
            "waf_dev": amplification.iter().map(|one| one.device).collect::<Vec<_>>(),
            "saf": space.iter().map(|one| one[0]).collect::<Vec<_>>(),
            "saf_lsm": space.iter().map(|one| one[1]).collect::<Vec<_>>(),
            "log_peak_bytes": runs.puts().map(|put| put.log_peak_bytes).collect::<Vec<_>>(),
        })
    });
    json!({
        "machine": machine.to_string(),
        "key_bytes": flags.key_size,
        "value_bytes": flags.value_size,
        "num": flags.num,
        "threads": flags.threads,
        "sync": flags.sync,
        "manual_wal_flush": flags.manual_wal_flush,
        "disable_wal": flags.disable_wal,
        "results": rows.collect::<Vec<_>>(),
    })
}
