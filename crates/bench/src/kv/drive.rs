//! Runs the benchmarks in order, on a database of ours and on the peer's in turn, and says what came of it.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;
use collie_engine::EngineError;
use collie_engine::kv::{Cf, CfOptions, Db, Options};
use collie_env::Env;
use collie_wal::RingKind;
use serde_json::json;

use super::flags::KvFlags;
use super::line::Figures;
use super::peer::Peer;
use super::workload::{Shared, Worker, Workload};
use crate::{Machine, Scratch, Spread};

/// One database of ours, opened when it is needed.
struct Ours<'a> {
    flags: &'a KvFlags,
    env: &'a Env,
    dir: PathBuf,
    open: Option<(Db, Vec<Cf>)>,
    /// Whether the log's memory outlives the process.
    outlives: bool,
    /// Threads of the benchmarks before: each thread draws numbers of its own, so that what one benchmark read or wrote says
    /// nothing of what the next one will.
    threads: u32,
}

impl Ours<'_> {
    /// Opens the database, a new one if `fresh`.
    fn open(&mut self, fresh: bool) -> anyhow::Result<&(Db, Vec<Cf>)> {
        if fresh && let Some((db, _)) = self.open.take() {
            db.close()?;
        }
        if self.open.is_none() {
            if fresh {
                match std::fs::remove_dir_all(&self.dir) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error).with_context(|| format!("cannot remove {}", self.dir.display()));
                    }
                    _ => {}
                }
            }
            let mut options = Options::default();
            options.wal.ring = RingKind::Auto;
            options.wal.manual_wal_flush = self.flags.manual_wal_flush;
            options.wal.segment_size = self.flags.wal_segment_size.unwrap_or(options.wal.segment_size);
            let store = &mut options.store;
            store.write_buffer_size = self.flags.write_buffer_size.unwrap_or(store.write_buffer_size);
            options.wal.max_total_wal_size = self.flags.max_total_wal_size.unwrap_or(options.wal.max_total_wal_size);
            let (db, report) = Db::open_with(&self.dir, options, self.env.clone(), &mut |_| ())?;
            self.outlives = report.ring_outlives_process;
            let mut cfs = Vec::new();
            for number in 0..self.flags.column_families {
                let name = if number == 0 { "default".to_owned() } else { format!("column_family_name_{number:06}") };
                cfs.push(match db.create_cf(&name, CfOptions::default()) {
                    Err(EngineError::FamilyExists { .. }) => db.cf(&name)?,
                    made => made?,
                });
            }
            self.open = Some((db, cfs));
        }
        self.open.as_ref().context("it was opened")
    }

    /// Runs one benchmark with all its threads.
    fn run(&mut self, workload: Workload) -> anyhow::Result<Figures> {
        let (flags, env) = (workload.flags(self.flags), self.env.clone());
        let fresh = workload.is_fresh() && !flags.use_existing_db;
        let writer = workload == Workload::ReadWhileWriting;
        let before = self.threads;
        self.threads += flags.threads + u32::from(writer);
        let (db, cfs) = self.open(fresh)?;
        let (over, clock) = (AtomicBool::new(false), &*env.clock);
        let shared = Shared { db, cfs, flags: &flags, clock, over: &over };
        let start = Barrier::new(usize::try_from(flags.threads)? + usize::from(writer));
        std::thread::scope(|scope| {
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
            let (mut all, mut first, mut last) = (Figures::default(), u64::MAX, 0);
            for thread in ended {
                let (began, end, figures) = thread.map_err(|_| anyhow::anyhow!("a thread panicked"))?;
                all.merge(&figures?);
                (first, last) = (first.min(began), last.max(end));
            }
            if let Some(beside) = beside {
                beside.map_err(|_| anyhow::anyhow!("the writing thread panicked"))?.2?;
            }
            all.elapsed_ns = last - first;
            Ok(all)
        })
    }
}

/// Rates of one benchmark, run by run.
#[derive(Debug, Default)]
struct Rates {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

/// Runs what the flags ask for; gives each line to `say`.
///
/// # Errors
/// The engine's and the operating system's; the peer's, and when its writes would survive less or more than ours.
pub fn kv_bench(flags: &KvFlags, env: &Env, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let scratch = if flags.db.is_some() { None } else { Some(Scratch::new(env, Path::new("."))?) };
    let dir = match (&flags.db, &scratch) {
        (Some(db), _) => db.clone(),
        (None, Some(scratch)) => scratch.path().to_owned(),
        (None, None) => unreachable!("one of the two is there"),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let (ours_dir, peer_dir) = (dir.join("collie-kv"), dir.join("rocksdb"));
    let mut ours = Ours { flags, env, dir: ours_dir, open: None, outlives: false, threads: 0 };
    let peer = flags.peer.as_deref().map(|program| Peer::new(program, &peer_dir));
    let is_first_fresh = flags.benchmarks.first().is_some_and(|(first, _)| first.is_fresh()) && !flags.use_existing_db;
    ours.open(is_first_fresh)?;
    let machine = Machine::of(&dir);
    header(flags, &machine, ours.outlives, say);
    if peer.is_some() && !flags.sync && !flags.manual_wal_flush && !ours.outlives && !flags.unlike_durability {
        anyhow::bail!(
            "a kill would lose our last writes and not RocksDB's, since there is no tmpfs for a shared ring: use --sync=1, or \
             --unlike_durability=1 to compare all the same"
        );
    }
    let mut rates: Vec<(String, Rates)> = Vec::new();
    for run in 0..flags.runs {
        let mut place = 0;
        let mut note = |name: &str, ours: Option<f64>, peer: Option<f64>| {
            if rates.len() == place {
                rates.push((name.to_owned(), Rates::default()));
            }
            rates[place].1.ours.extend(ours);
            rates[place].1.peer.extend(peer);
            place += 1;
        };
        for (workload, times) in &flags.benchmarks {
            let mut all = Vec::new();
            for _ in 0..*times {
                let figures = ours.run(*workload).with_context(|| workload.name().to_owned())?;
                say(&figures.line(workload.name()));
                note(workload.name(), Some(figures.operations_per_second()), None);
                all.push(figures.operations_per_second());
            }
            if *times > 1 {
                say(&average(workload.name(), &all));
            }
        }
        if let Some(peer) = &peer {
            place = 0;
            let mut note = |ours: f64| {
                rates[place].1.peer.push(ours);
                place += 1;
            };
            for line in peer.run(flags)? {
                say(&format!("RocksDB {}", line.text));
                note(line.operations_per_second);
            }
        }
        if run + 1 < flags.runs {
            say("");
        }
    }
    if let Some((db, _)) = ours.open.take() {
        db.close()?;
    }
    if flags.runs > 1 || peer.is_some() {
        table(&rates, say);
    }
    if let Some(path) = &flags.json {
        let text = format!("{:#}\n", as_json(flags, &machine, &rates));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Says what is measured, in db_bench's words, and what its writes survive.
fn header(flags: &KvFlags, machine: &Machine, outlives: bool, say: &mut dyn FnMut(&str)) {
    say(&format!("Collie {}; {machine}", env!("CARGO_PKG_VERSION")));
    say(&format!("Keys:       {} bytes each", flags.key_size));
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let compressed = flags.value_size as f64 * flags.compression_ratio;
    say(&format!("Values:     {} bytes each ({compressed:.0} bytes after compression)", flags.value_size));
    say(&format!("Entries:    {}", flags.num));
    say(&format!("Threads:    {}", flags.threads));
    let survives = match (flags.sync, flags.manual_wal_flush, outlives) {
        (true, _, _) => "a power cut: each write waits for the disk",
        (false, _, true) => "the end of the process (shared ring); a power cut takes the last writes",
        (false, false, false) => "nothing for at most 10 ms; then, once flushed, a power cut",
        (false, true, false) => "nothing until half a ring is full",
    };
    say(&format!("A write survives {survives}"));
    for note in &flags.notes {
        say(&format!("note: {note}"));
    }
    say("------------------------------------------------");
}

/// The line of a benchmark that was repeated: the mean, with the half-width of its 95 % interval.
fn average(name: &str, rates: &[f64]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = 1.96 * (variance / count).sqrt();
    format!("{name} [AVG    {} runs] : {mean:.0} (+/- {half:.0}) ops/sec", rates.len())
}

/// Medians of the runs, and the ratio to the peer's.
fn table(rates: &[(String, Rates)], say: &mut dyn FnMut(&str)) {
    say("");
    say(&format!(
        "{:<22} {:>12} {:>25} {:>12} {:>7}",
        "ops/sec, medians", "collie", "lowest to highest", "rocksdb", "ratio"
    ));
    for (name, Rates { ours, peer }) in rates {
        let spread = Spread::of(ours);
        let range = format!("{:.0} to {:.0}", spread.low, spread.high);
        let (theirs, ratio) = if peer.is_empty() {
            ("-".to_owned(), "-".to_owned())
        } else {
            let theirs = Spread::of(peer).median;
            (format!("{theirs:.0}"), format!("{:.2}", spread.median / theirs))
        };
        say(&format!("{name:<22} {:>12.0} {range:>25} {theirs:>12} {ratio:>7}", spread.median));
    }
}

fn as_json(flags: &KvFlags, machine: &Machine, rates: &[(String, Rates)]) -> serde_json::Value {
    let rows: Vec<_> = rates
        .iter()
        .map(|(name, rates)| {
            json!({ "benchmark": name, "collie_ops_per_second": rates.ours, "rocksdb_ops_per_second": rates.peer })
        })
        .collect();
    json!({
        "machine": machine.to_string(),
        "key_bytes": flags.key_size,
        "value_bytes": flags.value_size,
        "num": flags.num,
        "threads": flags.threads,
        "sync": flags.sync,
        "manual_wal_flush": flags.manual_wal_flush,
        "results": rows,
    })
}
