//! `KvFlags`: db_bench's flags, `--name=value`, with `_` or `-` in names.
//!
//! A flag that has no meaning here is accepted and reported as having no effect, with the reason (`peer_flags.rs`). A
//! flag that asks for a load that is not built is refused, and so is an unknown flag. No flag is silently ignored.

use std::fmt;
use std::path::PathBuf;

use collie_engine::{Compression, Isolation};

use super::peer_flags::{REFUSED, WITHOUT_EFFECT};
use super::workload::Workload;

/// A wrong flag: the message for standard error; the exit code is 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct KvFlags {
    /// The benchmarks in order; one written `name[Xn]` occurs once with its count.
    pub(super) benchmarks: Vec<(Workload, u32)>,
    pub(super) num: u64,
    pub(super) reads: Option<u64>,
    pub(super) writes: Option<u64>,
    pub(super) duration_seconds: u64,
    pub(super) threads: u32,
    pub(super) key_size: usize,
    pub(super) value_size: usize,
    pub(super) batch_size: u64,
    pub(super) compression_ratio: f64,
    pub(super) compression: Compression,
    pub(super) column_families: u64,
    pub(super) disable_wal: bool,
    /// Whether there is no log at all: `disable_wal=all`.
    pub(super) no_log: bool,
    pub(super) sync: bool,
    pub(super) manual_wal_flush: bool,
    pub(super) use_existing_db: bool,
    pub(super) seed: u64,
    pub(super) histogram: bool,
    pub(super) read_percent: u64,
    pub(super) seek_nexts: u64,
    pub(super) db: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) runs: u32,
    /// Whether `runs` was given; otherwise a matrix uses its own number.
    pub(super) runs_given: bool,
    pub(super) peer: Option<PathBuf>,
    pub(super) allow_unlike: bool,
    pub(super) isolation: Isolation,
    pub(super) matrix: Option<Matrix>,
    pub(super) plots: Option<PathBuf>,
    pub(super) readme: Option<PathBuf>,
    /// Whether every file of the log is written once before a benchmark that waits for the disk.
    pub(super) warm_up: bool,
    /// Bytes per second that all writers together may write; 0: no limit.
    pub(super) write_rate: u64,
    pub(super) report_interval_seconds: u64,
    pub(super) report_file: PathBuf,
    pub(super) statistics: bool,
    pub(super) transaction_sets: u64,
    pub(super) wal_segment_size: Option<u64>,
    pub(super) write_buffer_size: Option<u64>,
    pub(super) max_total_wal_size: Option<u64>,
    pub(super) background_jobs: Option<usize>,
    /// The parent of the directories of the logs, one for each database.
    pub(super) wal_dir: Option<PathBuf>,
    /// The flags that db_bench knows too, as they were given.
    pub(super) for_peer: Vec<String>,
    /// Lines to print before the first benchmark.
    pub(super) notes: Vec<String>,
}

/// Several experiments in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matrix {
    /// The experiments of the LevelDB wiki's page on RocksDB's log.
    WalStudy,
    /// The loads for which figures are promised.
    Figures,
    /// Only that load of `Figures` that opens a database whose rows are in its log alone.
    Recover,
    /// `WalStudy` and `Figures`.
    All,
}

const MATRICES: [(&str, Matrix); 4] =
    [("wal-study", Matrix::WalStudy), ("figures", Matrix::Figures), ("recover", Matrix::Recover), ("all", Matrix::All)];

const ISOLATIONS: [(&str, Isolation); 3] = [
    ("read_committed", Isolation::ReadCommitted),
    ("repeatable_read", Isolation::RepeatableRead),
    ("serializable", Isolation::Serializable),
];

/// Flags that have a meaning here: the name, and whether it is passed on to db_bench.
const KNOWN: &[(&str, bool)] = &[
    ("allow_unlike", false),
    ("batch_size", true),
    ("benchmark_write_rate_limit", true),
    ("benchmarks", true),
    ("compression_ratio", true),
    ("compression_type", true),
    ("db", false),
    ("disable_wal", true),
    ("duration", true),
    ("histogram", true),
    ("isolation", false),
    ("json", false),
    ("key_size", true),
    ("manual_wal_flush", true),
    ("matrix", false),
    ("max_background_jobs", true),
    ("max_total_wal_size", true),
    ("num", true),
    ("num_column_families", true),
    ("peer", false),
    ("plots", false),
    ("readme", false),
    ("reads", true),
    ("readwritepercent", true),
    ("report_file", false),
    ("report_interval_seconds", false),
    ("runs", false),
    ("seed", true),
    ("seek_nexts", true),
    ("statistics", true),
    ("sync", true),
    ("threads", true),
    ("transaction_sets", true),
    ("use_existing_db", true),
    ("value_size", true),
    ("wal_dir", false),
    ("wal_segment_size", false),
    ("warm_up", false),
    ("write_buffer_size", true),
    ("writes", true),
];

/// The smallest file of the log that can hold a ring and the contents of the writers' buffers.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Compression types that the peer has and Collie does not.
const PEER_COMPRESSIONS: [&str; 6] = ["snappy", "zlib", "bzip2", "lz4hc", "xpress", "zstd"];

const TRUE: [&str; 5] = ["1", "true", "t", "yes", "y"];
const FALSE: [&str; 5] = ["0", "false", "f", "no", "n"];

impl Default for KvFlags {
    fn default() -> Self {
        Self {
            benchmarks: [Workload::FillSeq, Workload::FillRandom, Workload::ReadRandom].map(|one| (one, 1)).to_vec(),
            num: 1_000_000,
            reads: None,
            writes: None,
            duration_seconds: 0,
            threads: 1,
            key_size: 16,
            value_size: 100,
            batch_size: 1,
            compression_ratio: 0.5,
            compression: Compression::Lz4,
            column_families: 1,
            disable_wal: false,
            no_log: false,
            sync: false,
            manual_wal_flush: false,
            use_existing_db: false,
            seed: 1,
            histogram: false,
            read_percent: 90,
            seek_nexts: 0,
            db: None,
            json: None,
            runs: 1,
            runs_given: false,
            peer: None,
            allow_unlike: false,
            isolation: Isolation::RepeatableRead,
            matrix: None,
            plots: None,
            readme: None,
            warm_up: true,
            write_rate: 0,
            report_interval_seconds: 0,
            report_file: "report.csv".into(),
            statistics: false,
            transaction_sets: 2,
            wal_segment_size: None,
            write_buffer_size: None,
            max_total_wal_size: None,
            background_jobs: None,
            wal_dir: None,
            for_peer: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl KvFlags {
    /// Parses the arguments of the command.
    ///
    /// # Errors
    /// The first argument that is wrong and what is wrong with it; for an unknown flag, the nearest known one.
    pub fn parse(arguments: &[String]) -> Result<Self, UsageError> {
        let mut flags = Self::default();
        for argument in arguments {
            let Some(flag) = argument.strip_prefix("--") else {
                return Err(UsageError(format!("{argument} is no flag: flags are written --name=value")));
            };
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            flags.set(&name.replace('-', "_"), value)?;
        }
        flags.check()?;
        Ok(flags)
    }

    /// Checks the bounds of each flag, and flags that exclude each other.
    fn check(&self) -> Result<(), UsageError> {
        let lowest = |what: &str, value: u64, least: u64| {
            let said = || UsageError(format!("--{what}={value}: at least {least}"));
            if value < least { Err(said()) } else { Ok(()) }
        };
        lowest("key_size", self.key_size as u64, 8)?;
        lowest("num", self.num, 1)?;
        lowest("threads", self.threads.into(), 1)?;
        lowest("batch_size", self.batch_size, 1)?;
        lowest("num_column_families", self.column_families, 1)?;
        lowest("runs", self.runs.into(), 1)?;
        lowest("transaction_sets", self.transaction_sets, 1)?;
        if let Some(bytes) = self.wal_segment_size {
            lowest("wal_segment_size", bytes, SEGMENT_BYTES_MIN)?;
        }
        if self.sync && self.disable_wal {
            return Err(UsageError("--sync and --disable_wal exclude each other: set one of them".to_owned()));
        }
        for (name, given) in [("plots", &self.plots), ("readme", &self.readme)] {
            if given.is_some() && self.matrix.is_none() {
                return Err(UsageError(format!(
                    "--{name} is of a matrix: add --matrix=wal-study, figures, recover or all"
                )));
            }
        }
        Ok(())
    }

    /// Returns these flags with some of them replaced, each written `name=value`: one cell of a matrix.
    ///
    /// # Errors
    /// Those of [`KvFlags::parse`].
    pub(super) fn with<S: AsRef<str>>(&self, settings: &[S]) -> Result<Self, UsageError> {
        let mut flags = self.clone();
        for setting in settings {
            let (name, value) = setting.as_ref().split_once('=').unwrap_or((setting.as_ref(), ""));
            flags.set(name, value)?;
        }
        flags.check()?;
        Ok(flags)
    }

    /// Returns the benchmarks in order, a repeated one as often as it is repeated.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        self.benchmarks.iter().flat_map(|(one, times)| (0..*times).map(|_| *one)).collect()
    }

    /// Returns the compression of the tables, as the value of a setting.
    pub(super) fn compression_name(&self) -> &'static str {
        Compression::NAMES.iter().find(|(_, kind)| *kind == self.compression).map_or("none", |(name, _)| name)
    }

    /// Returns the paths for the report of a matrix: JSON, plots, and a document.
    pub fn kept(&self) -> [Option<PathBuf>; 3] {
        [self.json.clone(), self.plots.clone(), self.readme.clone()]
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        let bad = |wanted: &str| UsageError(format!("--{name}={value}: {wanted}"));
        let number = || value.parse::<u64>().map_err(|_| bad("a count is wanted"));
        let small = || value.parse::<u32>().map_err(|_| bad("a count is wanted"));
        let size = || value.parse::<usize>().map_err(|_| bad("a number of bytes is wanted"));
        let flag = || match value {
            "" => Ok(true),
            value if TRUE.contains(&value) => Ok(true),
            value if FALSE.contains(&value) => Ok(false),
            _ => Err(bad("0 or 1 is wanted")),
        };
        match name {
            "allow_unlike" => self.allow_unlike = flag()?,
            "batch_size" => self.batch_size = number()?,
            "benchmark_write_rate_limit" => self.write_rate = number()?,
            "benchmarks" => self.benchmarks = benchmarks(value)?,
            "compression_ratio" => {
                let ratio = value.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                self.compression_ratio = ratio.ok_or_else(|| bad("a number from 0 to 1 is wanted"))?;
            }
            "compression_type" if PEER_COMPRESSIONS.contains(&value) => {
                self.notes.push(format!(
                    "compression_type={value}: no effect: tables are written with {}, and unlike the peer's",
                    self.compression_name()
                ));
            }
            "compression_type" => {
                self.compression = word(&Compression::NAMES, value).map_err(|known| bad(&known))?;
            }
            "db" => self.db = Some(value.into()),
            "disable_wal" if value == "all" => {
                (self.disable_wal, self.no_log) = (true, true);
                // It keeps a log all the same, and writes nothing to it.
                self.for_peer.push("--disable_wal=1".to_owned());
                return Ok(());
            }
            "disable_wal" => (self.disable_wal, self.no_log) = (flag()?, false),
            "duration" => self.duration_seconds = number()?,
            "histogram" => self.histogram = flag()?,
            "isolation" => self.isolation = word(&ISOLATIONS, value).map_err(|known| bad(&known))?,
            "json" => self.json = Some(value.into()),
            "key_size" => self.key_size = size()?,
            "manual_wal_flush" => self.manual_wal_flush = flag()?,
            "max_background_jobs" => {
                let jobs = Some(size()?).filter(|jobs| (1..=64).contains(jobs));
                self.background_jobs = Some(jobs.ok_or_else(|| bad("1 to 64 are wanted"))?);
            }
            "matrix" => self.matrix = Some(word(&MATRICES, value).map_err(|known| bad(&known))?),
            "num" => self.num = number()?,
            "num_column_families" => self.column_families = number()?,
            "peer" if value == "db_bench" || value.starts_with("db_bench=") => {
                self.peer = Some(value.strip_prefix("db_bench=").unwrap_or("db_bench").into());
            }
            "peer" => return Err(bad("db_bench or db_bench=PATH is wanted")),
            "plots" => self.plots = Some(value.into()),
            "readme" => self.readme = Some(value.into()),
            "reads" => self.reads = Some(number()?),
            "readwritepercent" => self.read_percent = number()?,
            "report_file" => self.report_file = value.into(),
            "report_interval_seconds" => self.report_interval_seconds = number()?,
            "runs" => (self.runs, self.runs_given) = (small()?, true),
            "seed" => self.seed = number()?,
            "seek_nexts" => self.seek_nexts = number()?,
            "statistics" => self.statistics = flag()?,
            "sync" => self.sync = flag()?,
            "threads" => self.threads = small()?,
            "transaction_sets" => self.transaction_sets = number()?,
            "use_existing_db" => self.use_existing_db = flag()?,
            "value_size" => self.value_size = size()?,
            "wal_dir" => {
                self.wal_dir = Some(value.into());
                self.for_peer.push(format!("--wal_dir={value}/db_bench-wal"));
            }
            "wal_segment_size" => self.wal_segment_size = Some(number()?),
            "warm_up" => self.warm_up = flag()?,
            "max_total_wal_size" => self.max_total_wal_size = Some(number()?),
            "write_buffer_size" => self.write_buffer_size = Some(number()?),
            "writes" => self.writes = Some(number()?),
            _ => return self.set_nothing(name, value),
        }
        if KNOWN.iter().any(|(known, peer)| *known == name && *peer) && name != "benchmarks" {
            self.for_peer.push(format!("--{name}={}", if value.is_empty() { "1" } else { value }));
        }
        Ok(())
    }

    /// Handles a flag that sets nothing here: notes that it has no effect, or refuses it.
    fn set_nothing(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        let has = |names: &str| names.split_ascii_whitespace().any(|known| known == name);
        if let Some((why, _)) = WITHOUT_EFFECT.iter().find(|(_, names)| has(names)) {
            self.notes.push(format!("{name}={value}: no effect: {why}"));
            self.for_peer.push(format!("--{name}={}", if value.is_empty() { "1" } else { value }));
            return Ok(());
        }
        if has(REFUSED) {
            return Err(UsageError(format!(
                "--{name} is not built: it asks for a load, or a way to run, that is not there"
            )));
        }
        let tuning = WITHOUT_EFFECT.iter().flat_map(|(_, names)| names.split_ascii_whitespace());
        let names = KNOWN.iter().map(|(name, _)| *name).chain(tuning).chain(REFUSED.split_ascii_whitespace());
        Err(UsageError(format!("unknown flag --{name}: did you mean --{}?", nearest(name, names))))
    }
}

/// Finds a word; the error lists the known ones.
fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(known)
}

/// Parses the list of benchmarks.
fn benchmarks(list: &str) -> Result<Vec<(Workload, u32)>, UsageError> {
    let mut all = Vec::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        let (name, times) = match item.split_once('[') {
            None => (item, 1),
            Some((name, times)) => {
                let times = times.strip_prefix(['X', 'x']).and_then(|rest| rest.strip_suffix(']')?.parse().ok());
                let said = || UsageError(format!("benchmark {item}: name[X5] repeats five times"));
                (name, times.filter(|times| *times > 0).ok_or_else(said)?)
            }
        };
        let known = Workload::ALL.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let near = nearest(name, Workload::ALL.iter().map(|(name, _)| *name));
            UsageError(format!("unknown benchmark {name}: did you mean {near}?"))
        })?;
        all.push((known.1, times));
    }
    if all.is_empty() {
        return Err(UsageError("--benchmarks names none".to_owned()));
    }
    Ok(all)
}

/// Returns the name with the smallest edit distance.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|known| edits(name, known)).unwrap_or_default()
}

/// Returns the edit distance: letters to insert, remove or change to turn one text into the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (place, known) in other.bytes().enumerate() {
            let changed = before + usize::from(letter != known);
            before = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(before + 1);
        }
    }
    row[other.len()]
}
