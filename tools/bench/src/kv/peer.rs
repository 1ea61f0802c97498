//! `Peer`: RocksDB's db_bench with the same flags, in the same run.
//!
//! # Invariants
//! - D1. A benchmark finds the state that the same list leaves in Collie, although db_bench needs a separate process
//!   for some: `recover`, which is a start; `randomtransaction`, which needs another kind of database; `fillsync` and
//!   `fill100K`, which do a thousandth of the others' operations by their description and in Collie, but in db_bench's
//!   code only with `--writes`.
//! - D2. Every figure is found or the run fails: a missing line is not ignored.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use collie_env::Clock;

use super::flags::KvFlags;
use super::volume::Amplification;
use super::workload::Workload;

/// Time between two checks whether the process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// The program, and the directory of its database.
#[derive(Debug)]
pub(super) struct Peer {
    program: PathBuf,
    db: PathBuf,
    clock: Arc<dyn Clock>,
    /// Time limit of one process.
    limit: Duration,
    /// The number of files that it may have open, if fewer than the system allows.
    descriptors: Option<u32>,
}

/// The content of a line of db_bench, and of the lines about the same benchmark after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PeerLine {
    pub(super) name: String,
    pub(super) operations_per_second: f64,
    /// The line itself.
    pub(super) text: String,
    /// With `--histogram`: percentiles, and their microseconds.
    pub(super) percentiles: Vec<(f64, f64)>,
    pub(super) max_us: Option<f64>,
    /// The bytes that a writing benchmark wrote, according to its statistics.
    pub(super) volume: Option<PeerVolume>,
}

/// Bytes that RocksDB wrote, from the rows for the last interval of its statistics; a sum over intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PeerVolume {
    pub(super) log_bytes: f64,
    pub(super) flush_bytes: f64,
    /// Bytes of flushes and compactions: `W-Amp` of the row for all levels, times the flushed bytes.
    pub(super) level_bytes: f64,
}

impl PeerVolume {
    /// Returns the amplification for `user_bytes` bytes of keys and values.
    #[expect(clippy::cast_precision_loss, reason = "ratios for people")]
    pub(super) fn amplification(&self, user_bytes: u64) -> Amplification {
        let lsm = (self.flush_bytes > 0.0).then(|| self.level_bytes / self.flush_bytes);
        let total = (user_bytes > 0).then(|| (self.log_bytes + self.level_bytes) / user_bytes as f64);
        Amplification { lsm, total, device: None }
    }
}

/// Benchmarks of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    workloads: Vec<Workload>,
    /// Whether the existing database is kept (D1).
    keep: bool,
}

/// Splits the list where db_bench needs a separate process (D1).
fn groups(list: &[Workload], use_existing_db: bool) -> Vec<Group> {
    let alone = |one: Workload| {
        matches!(one, Workload::Recover | Workload::RandomTransaction | Workload::FillSync | Workload::Fill100K)
    };
    let mut groups: Vec<Group> = Vec::new();
    for one in list {
        match groups.last_mut() {
            Some(last)
                if !alone(*one)
                    && !last.workloads.iter().any(|before| alone(*before))
                    && (use_existing_db || !last.keep || !one.is_fresh()) =>
            {
                last.workloads.push(*one);
            }
            last => {
                let keep = use_existing_db || (last.is_some() && !one.is_fresh());
                groups.push(Group { workloads: vec![*one], keep });
            }
        }
    }
    groups
}

impl Group {
    /// Returns the names for `--benchmarks`. `stats` follows each benchmark that wrote and the ones after it that did
    /// not write.
    fn names(&self) -> Vec<&'static str> {
        let (mut names, mut wrote) = (Vec::new(), false);
        for one in &self.workloads {
            if one.writes() && std::mem::replace(&mut wrote, true) {
                names.push(Workload::Stats.name());
            }
            names.push(one.name());
        }
        if wrote {
            names.push(Workload::Stats.name());
        }
        names
    }
}

/// Returns whether db_bench reports a figure for a benchmark.
pub(super) const fn tells(one: Workload) -> bool {
    !matches!(one, Workload::Flush | Workload::Stats | Workload::LevelStats)
}

impl Peer {
    pub(super) fn new(program: &Path, db: &Path, clock: &Arc<dyn Clock>) -> Self {
        let limit = Duration::from_secs(3_600);
        Self { program: program.to_owned(), db: db.to_owned(), clock: Arc::clone(clock), limit, descriptors: None }
    }

    /// Returns the peer with a time limit per process, and with a limit on the files that it may have open.
    pub(super) fn bounded(mut self, limit: Duration, descriptors: Option<u32>) -> Self {
        (self.limit, self.descriptors) = (limit, descriptors);
        self
    }

    /// Runs the benchmarks once; returns a line for each that db_bench reports ([`tells`]). Unless the flags say
    /// otherwise, tables are compressed as Collie's are.
    ///
    /// # Errors
    /// If the program does not exist, fails, or takes too long.
    pub(super) fn run(&self, flags: &KvFlags) -> anyhow::Result<Vec<PeerLine>> {
        let mut all = Vec::new();
        for group in groups(&flags.workloads(), flags.use_existing_db) {
            let mut arguments = flags.for_peer.clone();
            if !arguments.iter().any(|flag| flag.starts_with("--compression_type=")) {
                arguments.push(format!("--compression_type={}", flags.compression_name()));
            }
            if group.keep {
                arguments.push("--use_existing_db=1".to_owned());
            }
            let mut names = group.names().join(",");
            match group.workloads[..] {
                [Workload::RandomTransaction] => arguments.push("--transaction_db=1".to_owned()),
                [one @ (Workload::FillSync | Workload::Fill100K)] if flags.writes.is_none() => {
                    arguments.push(format!("--writes={}", one.flags(flags).num));
                }
                [Workload::Recover] => names = Workload::LevelStats.name().to_owned(),
                _ => {}
            }
            arguments.insert(0, format!("--benchmarks={names}"));
            let began_ns = self.clock.now_ns();
            let text = self.process(&arguments)?;
            if group.workloads == [Workload::Recover] {
                all.push(recovered(self.clock.now_ns() - began_ns));
                continue;
            }
            let found = lines(&text);
            let wanted = group.workloads.iter().filter(|one| tells(**one));
            let (told, wanted) = (found.iter().map(|line| &line.name[..]), wanted.map(|one| one.name()));
            anyhow::ensure!(
                told.clone().eq(wanted.clone()),
                "{} told of {} and was asked for {}",
                self.program.display(),
                told.collect::<Vec<_>>().join(","),
                wanted.collect::<Vec<_>>().join(",")
            ); // D2
            all.extend(found);
        }
        Ok(all)
    }

    /// Removes its database.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        super::ours::remove(&self.db)
    }

    /// Returns the program's description of itself: its version, and what slows it down.
    ///
    /// # Errors
    /// Those of [`Peer::run`].
    pub(super) fn describe(&self) -> anyhow::Result<String> {
        let text = self.process(&["--benchmarks=levelstats".to_owned(), "--num=1".to_owned()])?;
        let version =
            text.lines().find_map(|line| line.split_once("version")).map_or("", |(_, version)| version.trim());
        let slowed = text.lines().find(|line| line.starts_with("WARNING:")).unwrap_or_default();
        Ok(format!("RocksDB {version} {slowed}").trim_end().to_owned())
    }

    fn process(&self, arguments: &[String]) -> anyhow::Result<String> {
        let parent = self.db.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let [out, err] = ["rocksdb.out", "rocksdb.err"].map(|name| parent.join(name));
        let make = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let mut command = match self.descriptors {
            None => Command::new(&self.program),
            Some(count) => limited(&self.program, count),
        };
        command.arg(format!("--db={}", self.db.display())).args(arguments).stdin(Stdio::null());
        let status = self.wait(command.stdout(make(&out)?).stderr(make(&err)?))?;
        let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (text, errors) = (read(&out)?, read(&err)?);
        for path in [out, err] {
            // Best effort: the next process overwrites it.
            let _best_effort = std::fs::remove_file(path);
        }
        let last = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        anyhow::ensure!(
            status.success(),
            "{} failed: {}; {}",
            self.program.display(),
            last(errors.rsplit('\r').next().unwrap_or_default()),
            last(&text)
        );
        Ok(format!("{errors}\n{text}"))
    }

    /// Runs the program until it ends or reaches the time limit.
    fn wait(&self, command: &mut Command) -> anyhow::Result<ExitStatus> {
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot run {}: install the package rocksdb-tools, or name it by --peer=db_bench=PATH",
                self.program.display()
            )
        })?;
        let began_ns = self.clock.now_ns();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Duration::from_nanos(self.clock.now_ns() - began_ns) > self.limit {
                child.kill()?;
                child.wait()?;
                anyhow::bail!("{} did not end within {} s", self.program.display(), self.limit.as_secs());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Returns a command that runs `program` with a limit of `descriptors` open files.
pub(super) fn limited(program: &Path, descriptors: u32) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$0\" && exec \"$@\""]).arg(descriptors.to_string()).arg(program);
    command
}

/// Returns the line for a start.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn recovered(took_ns: u64) -> PeerLine {
    let (name, seconds) = (Workload::Recover.name(), took_ns as f64 / 1e9);
    let text = format!(
        "{name:<12} : {:11.3} micros/op {:.0} ops/sec {seconds:.3} seconds 1 operations; (a process from start to end)",
        seconds * 1e6,
        1.0 / seconds.max(1e-9)
    );
    PeerLine { name: name.to_owned(), operations_per_second: 1.0 / seconds.max(1e-9), text, ..PeerLine::default() }
}

/// Finds the lines with figures, and the lines that belong to each.
pub(super) fn lines(text: &str) -> Vec<PeerLine> {
    let (mut found, mut statistics): (Vec<PeerLine>, Statistics) = (Vec::new(), Statistics::default());
    // Progress overwrites its own line: only the text after the last carriage return counts.
    for line in text.lines().filter_map(|line| line.rsplit('\r').next()) {
        if let Some(one) = figures(line) {
            found.push(one);
        } else if let Some(last) = found.last_mut() {
            if let Some(list) = line.strip_prefix("Percentiles: ") {
                last.percentiles = percentiles(list);
            } else if line.starts_with("Min: ") && line.contains("Max: ") {
                last.max_us = after(line, "Max: ");
            }
        }
        if let Some(volume) = statistics.take(line) {
            let wrote =
                |line: &&mut PeerLine| Workload::ALL.iter().any(|(name, one)| *name == line.name && one.writes());
            if let Some(last) = found.iter_mut().rev().find(wrote) {
                let sum = last.volume.get_or_insert_default();
                sum.log_bytes += volume.log_bytes;
                sum.flush_bytes += volume.flush_bytes;
                sum.level_bytes += volume.level_bytes;
            }
        }
    }
    found
}

fn figures(line: &str) -> Option<PeerLine> {
    let (name, rest) = line.split_once(" : ")?;
    let (_, rest) = rest.split_once("micros/op ")?;
    let operations_per_second = rest.split_once(" ops/sec")?.0.trim().parse().ok()?;
    Some(PeerLine { name: name.trim().to_owned(), operations_per_second, text: line.to_owned(), ..PeerLine::default() })
}

/// Parses the number after `word`.
fn after(line: &str, word: &str) -> Option<f64> {
    let rest = line.split_once(word)?.1.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Parses `P50: 1.0 P99.9: 2.0`.
fn percentiles(list: &str) -> Vec<(f64, f64)> {
    let words: Vec<&str> = list.split_ascii_whitespace().collect();
    words
        .chunks(2)
        .filter_map(|pair| {
            let [name, value] = pair else { return None };
            Some((name.strip_prefix('P')?.strip_suffix(':')?.parse().ok()?, value.parse().ok()?))
        })
        .collect()
}

/// The state of parsing the text of one `stats`.
#[derive(Debug, Default)]
struct Statistics {
    w_amp: f64,
    flush_gib: f64,
    ingest_mib: Option<f64>,
}

/// Column of `W-Amp` among the words of a row of levels; before it are level, files, size and its unit, score, and six
/// columns of bytes.
const W_AMP_WORD: usize = 11;

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_024.0 * MIB;
/// The value of the last printed digit of the log's bytes.
const GIB_DIGIT: f64 = 0.01 * GIB;

impl Statistics {
    /// Parses a line; returns the bytes of the last interval once all of them were read.
    fn take(&mut self, line: &str) -> Option<PeerVolume> {
        let line = line.trim_start();
        if line.starts_with("Int ") {
            self.w_amp = line.split_ascii_whitespace().nth(W_AMP_WORD)?.parse().ok()?;
        } else if line.starts_with("Flush(GB): ") {
            self.flush_gib = after(line, "interval ")?;
        } else if line.starts_with("Interval writes: ") {
            self.ingest_mib = after(line, "ingest: ");
        } else if let Some(writes) = line.strip_prefix("Interval WAL: ") {
            let written = after(writes, "written: ")? * GIB;
            // The bytes of batches are printed with more digits than the log's bytes, and are equal except for
            // transactions' own records.
            let batches = self.ingest_mib.take().unwrap_or(0.0) * MIB;
            let is_same = !writes.starts_with("0 writes") && (batches - written).abs() <= GIB_DIGIT;
            let flush_bytes = self.flush_gib * GIB;
            return Some(PeerVolume {
                log_bytes: if is_same { batches } else { written },
                flush_bytes,
                level_bytes: self.w_amp * flush_bytes,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the statistics of db_bench become bytes and ratios of the benchmark that wrote. Method: its texts,
    /// shortened: one with the log, one without, one without a flush.
    #[test]
    fn statistics_of_the_peer_are_read() {
        let stats = |ingest: &str, flush: &str, w_amp: &str, wal: &str| {
            format!(
                "\n** Compaction Stats [default] **\n\
                 Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s)\n\
                 ----\n\
                   L0      0/0    0.00 KB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   1.0      0.0\n\
                  Sum      1/0    1.38 MB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   9.9     17.5\n\
                  Int      0/0    0.00 KB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   {w_amp}     17.5\n\
                 Flush(GB): cumulative 7.777, interval {flush}\n\
                 Interval writes: 40K writes, 60K keys, 40K commit groups, 1.0 writes per commit group, ingest: {ingest} MB, 3.19 MB/s\n\
                 Interval WAL: {wal}, 3.19 MB/s\n"
            )
        };
        let text = format!(
            "fillseq      :       2.000 micros/op 500000 ops/sec 2.0 seconds 1000000 operations;   55.3 MB/s\n\
             Microseconds per write:\nCount: 5 Average: 1.0  StdDev: 0.1\nMin: 1  Median: 2.0000  Max: 6100\n\
             Percentiles: P50: 2.00 P75: 3.00 P99: 5.90 P99.9: 18.00 P99.99: 38.50\n\
             readrandom   :       1.000 micros/op 1000000 ops/sec 1.0 seconds 1000000 operations; (5 of 5 found)\n{}\
             fillrandom   :       4.000 micros/op 250000 ops/sec 4.0 seconds 1000000 operations;   27.7 MB/s\n{}\
             overwrite    :       4.000 micros/op 250000 ops/sec 4.0 seconds 1000000 operations;   27.7 MB/s\n{}",
            stats("128.00", "0.125", "1.5", "40K writes, 0 syncs, 40000.00 writes per sync, written: 0.13 GB"),
            stats("128.00", "0.250", "2.0", "0 writes, 0 syncs, 0.00 writes per sync, written: 0.00 GB"),
            // As with transactions, whose batches count twice.
            stats("64.00", "0.000", "0.0", "5 writes, 0 syncs, 5.00 writes per sync, written: 0.02 GB")
        );
        let found = lines(&text);
        assert_eq!(
            found.iter().map(|line| &line.name[..]).collect::<Vec<_>>(),
            ["fillseq", "readrandom", "fillrandom", "overwrite"]
        );
        assert_eq!(found[0].percentiles, [(50.0, 2.0), (75.0, 3.0), (99.0, 5.9), (99.9, 18.0), (99.99, 38.5)]);
        assert_eq!((found[0].max_us, found[1].volume), (Some(6_100.0), None));
        let mib = f64::from(1 << 20);
        let volume = |at: usize| found[at].volume.unwrap();
        let expected = PeerVolume { log_bytes: 128.0 * mib, flush_bytes: 128.0 * mib, level_bytes: 192.0 * mib };
        assert_eq!(volume(0), expected);
        let told = volume(0).amplification(128 << 20);
        assert_eq!(told, Amplification { lsm: Some(1.5), total: Some(2.5), device: None });
        assert_eq!(
            volume(2).amplification(128 << 20),
            Amplification { lsm: Some(2.0), total: Some(4.0), device: None }
        );
        assert_eq!((volume(3).log_bytes, volume(3).amplification(16 << 20).lsm), (0.02 * GIB, None));
        assert_eq!(volume(0).amplification(0).total, None);
    }

    /// Goal: each process gets the benchmarks that can share one (D1), and statistics follow those that wrote. Method:
    /// lists, and the groups made from them.
    #[test]
    fn lists_are_cut_where_a_process_ends() {
        use Workload::{FillRandom, FillSeq, FillSync, Flush, Overwrite, RandomTransaction, ReadRandom, Recover};
        let cut = |list: &[Workload], existing| {
            let groups = groups(list, existing);
            groups.into_iter().map(|group| (group.names().join(","), group.keep)).collect::<Vec<_>>()
        };
        let own = |names: &str, keep| (names.to_owned(), keep);
        assert_eq!(
            cut(&[FillSeq, ReadRandom, Flush, Overwrite], false),
            [own("fillseq,readrandom,flush,stats,overwrite,stats", false)]
        );
        assert_eq!(
            cut(&[FillSeq, Recover, ReadRandom, FillRandom, ReadRandom], false),
            [
                own("fillseq,stats", false),
                own("recover", true),
                own("readrandom", true),
                own("fillrandom,readrandom,stats", false)
            ]
        );
        assert_eq!(
            cut(&[FillSeq, FillSync, ReadRandom], false),
            [own("fillseq,stats", false), own("fillsync,stats", false), own("readrandom", true)]
        );
        assert_eq!(
            cut(&[RandomTransaction, RandomTransaction], false),
            [own("randomtransaction,stats", false), own("randomtransaction,stats", true)]
        );
        assert_eq!(cut(&[FillSeq, FillRandom], true), [own("fillseq,stats,fillrandom,stats", true)]);
    }
}
