//! The commands: each runs a benchmark, prints its table, and keeps the requested files.

mod kept;
mod programs;
mod serve_with;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use collie_bench::{
    KvFlags, Pace, Pacing, Plan, ReplayScheme, ReplicationSettings, Report, TpccSettings, TpccTarget,
    TrainingSettings, index_bench, index_memory, kv_bench, log_bench, replication_bench, replication_estimate,
    tpcc_bench, training_bench, txn_bench,
};
use indicatif::ProgressBar;

use self::kept::{
    Document, INDEX, KV, Kept, LOG, Part, REPLICATION, REPLICATION_TARGETS, TPCC, TRAINING, TXN, keep_so_far, print,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the log: appends in memory compared with other protocols, and reading back.
    ///
    /// Prints a table with each figure next to its floor or peers from the same run, and the targets; a missed target
    /// is marked LOST. Takes about half an hour, or two minutes with --quick. Use a release build on an otherwise idle
    /// machine. The exit code is 0 even when targets are missed: misses are findings, not failures.
    Log(LogArgs),
    /// Measure transactions: snapshots, commits, hot rows, old snapshots, savepoints, mixed loads, deadlocks.
    ///
    /// Measures in the engine on a disk that keeps nothing, and over the wire compared with PostgreSQL, which is
    /// started for it from /usr/lib/postgresql (as user postgres when this runs as root); pgbench is the client of
    /// both. Prints a table with each figure next to its floor or peer from the same run, and the targets; a missed
    /// target is marked LOST. Takes about forty minutes, ten of them with --old-snapshot 60, and about three minutes
    /// with --quick. Use a release build on an otherwise idle machine. The exit code is 0 even when targets are missed
    /// or PostgreSQL is not installed.
    Txn(TxnArgs),
    /// Measure ordered indexes of rows: inserts, lookups, scans in both directions, churn of keys, bytes per key.
    ///
    /// Runs in memory, on 1, 2 and 8 threads, with keys of 16 and 100 bytes. Prints a table with each candidate next to
    /// one B-tree behind one lock, from the same run. Takes about an hour, twenty minutes with --churn 60, and two with
    /// --quick. Use a release build on an otherwise idle machine.
    Index(IndexArgs),
    /// Fill one index and print how much memory it takes: the child process of `index`, of no use by itself.
    #[command(hide = true)]
    IndexMemory {
        /// Candidate, bytes per key, rows, milliseconds.
        arguments: Vec<String>,
    },
    /// Measure the embedded key-value engine as RocksDB's db_bench measures RocksDB: with its flags, benchmarks and
    /// output lines.
    ///
    /// Flags are --name=value: benchmarks (fillseq fillrandom filluniquerandom fillsync fill100K overwrite readseq
    /// readreverse readrandom readmissing multireadrandom seekrandom readwhilewriting readrandomwriterandom
    /// updaterandom deleteseq deleterandom randomtransaction recover flush compact stats levelstats; name[X5] repeats),
    /// num, reads, writes, duration, threads, key_size, value_size, batch_size, compression_ratio, compression_type,
    /// max_background_jobs, num_column_families, disable_wal (1: markers only; all: a database without a log), sync,
    /// manual_wal_flush, max_total_wal_size, write_buffer_size, use_existing_db, seed, histogram, statistics,
    /// readwritepercent, seek_nexts, transaction_sets, benchmark_write_rate_limit, report_interval_seconds,
    /// report_file, db. Flags of our own: json=FILE, runs=N, wal_segment_size (from 1 MiB), isolation (of
    /// randomtransaction), warm_up=0 (writes that wait for the disk are then measured in log files that were never
    /// written), and peer=db_bench or peer=db_bench=PATH, which alternates with runs of RocksDB's db_bench (package
    /// rocksdb-tools) with the same flags; the peer is refused where its writes would not survive the same failures,
    /// unless allow_unlike=1. matrix=figures runs the loads for which figures are promised, matrix=recover only the
    /// opening among these, matrix=wal-study three experiments on the log, matrix=all all of them: about ten minutes
    /// with runs=3 and the peer; plots=DIR and readme=FILE apply to a matrix. A db_bench flag that means nothing here
    /// is reported to have no effect; a flag that asks for another load, or an unknown one, gives exit code 2. Use a
    /// release build on an otherwise idle machine.
    Kv(KvArgs),
    /// Run TPC-C on the engine or its SQL in this process, on servers started for it, or on any server that speaks
    /// PostgreSQL's protocol.
    ///
    /// Tables are created and loaded unless the server of a URL has them already; all twelve consistency conditions of
    /// the specification are checked before and after, and figures are given only if they hold. Several targets take
    /// turns, run by run. Prints transactions per second, tpmC (New-Orders per minute, including those that end in the
    /// rollback that the specification asks for), log bytes per transaction, attempts that were refused and retried,
    /// and latency percentiles of each transaction type. A warehouse takes about 100 MB. Use a release build on an
    /// otherwise idle machine. The exit code is 0 even when targets are missed.
    Tpcc(TpccArgs),
    /// Measure replication: a primary and a replica started for it, compared with PostgreSQL and a streaming standby.
    ///
    /// Questions: delay (whether the primary measures the delay that a client sees), rate (delay against the arrival
    /// rate of TPC-C, by workers of the replica, and with the replay scheme of the thesis), time (delay over time at 80
    /// % of the primary's maximum rate), sync (the cost of the levels of synchronous_commit), capacity (replay at full
    /// speed compared with the peak rate that wrote the log, also with the scheme of the thesis), catchup (how fast a
    /// replica catches up, and an empty one is filled), failover (kill, promote, write, rejoin). Delays are given on
    /// the primary's clock, and as seen by a client that commits a row on the primary and reads it on the replica.
    /// Afterwards the rows of both are compared. Floors of the disk and of the loopback come from the same run. Prints
    /// an estimate of the duration at the start: more than an hour, under 25 minutes with --short, a minute or two with
    /// --quick. Use a release build on an otherwise idle machine. If a question fails, its error is reported, the other
    /// questions still run, and the exit code is 1 at the end. The exit code is 0 even when targets are missed or
    /// PostgreSQL is not installed.
    Replication(ReplicationArgs),
    /// Measure the cost of collecting for models: of one sample of an operating unit, and of a primary and its replica
    /// that collect.
    ///
    /// Questions: sample (one sample compared with an empty loop, two readings of the processor's counter, and six
    /// system calls), overhead (a primary's throughput, p99 and processor time by default and with every call sampled),
    /// rate (the arrival rate that a collecting replica keeps up with), time (how far behind it is), policies-model and
    /// policies (under disturbances, in a model and on a pair), accuracy, hardware and active (of models, and the
    /// samples that they need), decisions (the gain of a server that tunes itself, and whether wrong models do harm),
    /// safety (the state that faults in the middle of a decision leave), cost (everything that collecting takes on both
    /// machines), fig-1-1 and fig-5-3 (of the thesis). Servers are started for it; the collection is changed while they
    /// run, and ratios of paired runs are given with 95 % intervals (keys that end in _ci95). A missed target is marked
    /// LOST. All questions together take two hours, or some minutes with --short or --quick. Use a release build on an
    /// otherwise idle machine. If a question fails, its error is reported, the other questions still run, and the exit
    /// code is 1 at the end. The exit code is 0 even when targets are missed: misses are findings, not failures.
    Training(TrainingArgs),
    /// Serve with changes that only benchmarks make: the child process of `replication` and `training`, of no use by
    /// itself.
    #[command(hide = true)]
    ServeWith(serve_with::Changed),
}

impl Command {
    /// Returns whether it is a server.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::ServeWith(_))
    }
}

#[derive(clap::Args)]
pub(crate) struct LogArgs {
    /// Do three short runs per case instead of five long ones.
    #[arg(long)]
    quick: bool,
    /// Directory for the measured files, on the disk to be measured. They are removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run only this section (repeatable): append, threads, frozen, recovery.
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write the comparison of the protocols into FILE, between the lines `<!-- bench protocols begin -->` and `<!--
    /// bench protocols end -->`; a FILE without them gets a section at its end. Needs the sections append, threads and
    /// frozen.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct TxnArgs {
    /// Run only these sections: snapshot, visibility, commits, commit-latency, hot-row, old-snapshot, savepoints,
    /// mixes, read-only, deadlock, long-statements.
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Do three short runs per case instead of five long ones, and keep an old snapshot of five seconds.
    #[arg(long)]
    quick: bool,
    /// How long the snapshot of section old-snapshot is held, three times: in the engine and on both servers [default:
    /// 600].
    #[arg(long, value_name = "SECONDS")]
    old_snapshot: Option<u64>,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write targets and tables into FILE, between the lines `<!-- bench txn begin -->` and `<!-- bench txn end -->`; a
    /// FILE without them gets a section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct IndexArgs {
    /// Run only these sections: fill, look, churn, memory.
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Do three short runs per case instead of five long ones, with a tenth of the rows.
    #[arg(long)]
    quick: bool,
    /// Rows in an index [default: 1000000].
    #[arg(long, value_name = "ROWS")]
    rows: Option<u64>,
    /// How long keys are inserted and deleted in each index of section memory [default: 600].
    #[arg(long, value_name = "SECONDS")]
    churn: Option<u64>,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write targets and tables into FILE, between the lines `<!-- bench index begin -->` and `<!-- bench index end
    /// -->`; a FILE without them gets a section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct TrainingArgs {
    /// Ask only these questions: sample, overhead, rate, time, policies-model, policies, accuracy, hardware, active,
    /// decisions, safety, cost, fig-1-1, fig-5-3.
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// Warehouses of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    warehouses: u32,
    /// Sessions of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    clients: u32,
    /// Length of a run.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,
    /// Uncounted time before each run.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    warm_up: Duration,
    /// Runs of each arm, which make as many pairs.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    runs: u32,
    /// Do six runs of at most a second on one warehouse: intervals get wider.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Keep everything as short as possible, on one warehouse with a hundredth of the rows: shows that it works.
    #[arg(long)]
    quick: bool,
    /// For question active: also draw from the sample files in the data directory DIR.
    #[arg(long, value_name = "DIR")]
    samples: Option<PathBuf>,
    /// Seed of the rows, the requests and the intervals.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for data, on the disk to be measured. Everything made there is removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write all figures as JSON into FILE; keys carry units. The figures of other questions in FILE stay.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write targets and tables into FILE, those of each question between the lines `<!-- bench training QUESTION begin
    /// -->` and `<!-- bench training QUESTION end -->`; a FILE without them gets a section at its end. Those of other
    /// questions stay.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct KvArgs {
    /// Flags like those of db_bench.
    #[arg(value_name = "--NAME=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct TpccArgs {
    /// Where to run: embedded (the engine in this process), embedded-async (the same as with --async), embedded-sql
    /// (SQL in this process, without a server), servers (Collie's and PostgreSQL's, started for it from
    /// /usr/lib/postgresql, as user postgres when this runs as root), or postgres://USER@HOST:PORT/DATABASE; several
    /// targets take turns.
    #[arg(value_name = "TARGET", default_value = "embedded")]
    targets: Vec<String>,
    /// Warehouses.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    warehouses: u32,
    /// Sessions, not counting those that deliver [default: 8 on servers; in the engine 64, or one per core where
    /// commits do not wait for the disk; ten per warehouse with --terminals].
    #[arg(long, value_name = "COUNT")]
    clients: Option<u32>,
    /// Length of a run.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    time: u64,
    /// Uncounted time before each run.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    warm_up: u64,
    /// Runs on each target.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    runs: u32,
    /// Use one warehouse with a hundredth of the rows and runs of a second: shows that it works. The figures are not
    /// TPC-C's.
    #[arg(long)]
    quick: bool,
    /// Ask for this many transactions per second, at an even rate, whether the database keeps up or not; latency then
    /// counts from the time at which each was due. Without it, each client begins the next transaction once the last
    /// has ended.
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "terminals")]
    rate: Option<f64>,
    /// Make the arrivals of --rate random, each independent of the others (a Poisson process), instead of even.
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// Wait as people at terminals do: with the keying and think times of the specification.
    #[arg(long)]
    terminals: bool,
    /// Isolation level of transactions that write, on servers: read-committed, repeatable-read, serializable.
    /// Transactions that only read use REPEATABLE READ.
    #[arg(long, value_name = "LEVEL", default_value = "read-committed",
          value_parser = ["read-committed", "repeatable-read", "serializable"])]
    isolation: String,
    /// Answer commits before they are on disk.
    #[arg(long)]
    r#async: bool,
    /// Deliver in the client's own session, instead of through a queue with sessions of its own.
    #[arg(long)]
    inline_delivery: bool,
    /// Seed of the rows and the requests.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Drop the tables that the server of a URL has, and load them again.
    #[arg(long)]
    reload: bool,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write targets and tables into FILE, between the lines `<!-- bench tpcc begin -->` and `<!-- bench tpcc end -->`;
    /// a FILE without them gets a section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct ReplicationArgs {
    /// Ask only these questions: delay, rate, time, sync, capacity, catchup, failover.
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// Warehouses of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    warehouses: u32,
    /// Sessions of TPC-C.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    clients: u32,
    /// Length of a run.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    time: u64,
    /// Uncounted time before each run.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    warm_up: u64,
    /// Runs of each case.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    runs: u32,
    /// Runs of question time, each three times as long as --time.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    courses: u32,
    /// Rates of question rate, in percent of the primary's maximum rate.
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_values_t = [10, 30, 50, 70, 80, 90, 100, 110])]
    percents: Vec<u32>,
    /// Replay schemes of the replicas in question rate: rows, thesis (in the order in which transactions began, one at
    /// a time).
    #[arg(long, value_name = "SCHEME,...", value_delimiter = ',', default_values = ["rows", "thesis"], value_parser = ["rows", "thesis"])]
    replay: Vec<String>,
    /// Numbers of workers of further replicas in question rate, which replay by rows, in addition to one with the
    /// default number [default: 1, 2, 4 below the number of cores].
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',')]
    workers: Option<Vec<usize>>,
    /// Numbers of clients in question sync.
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_values_t = [1, 8, 32, 64])]
    small_clients: Vec<u32>,
    /// How much log the replica of question catchup is behind by.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    behind: u64,
    /// Size of a table that a base backup of question catchup copies in addition to TPC-C's: in memory on both nodes of
    /// each product.
    #[arg(long = "backup-gib", alias = "backup_gib", value_name = "GIB", default_value_t = 1)]
    backup_gib: u64,
    /// Maximum rate of a base backup, in MiB per second.
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    backup_rate: u64,
    /// How often question failover kills a primary.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    cycles: u32,
    /// Use fewer rates, numbers of clients and runs, each as long as usual: under 25 minutes on two idle cores.
    /// Overrides --runs, --percents, --workers, --courses, --small-clients, --cycles and --warm-up.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Keep everything as short as possible, on one warehouse with a hundredth of the rows: shows that it works.
    #[arg(long)]
    quick: bool,
    /// Leave PostgreSQL out.
    #[arg(long)]
    no_peer: bool,
    /// Seed of the rows and the requests.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write targets and tables into FILE, between the lines `<!-- bench replication begin -->` and `<!-- bench
    /// replication end -->`; a FILE without them gets a section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
    /// Write the targets and results in a few lines into FILE, between the lines `<!-- bench replication-targets begin
    /// -->` and `<!-- bench replication-targets end -->`, in the same way.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
}

fn scheme(name: &str) -> ReplayScheme {
    if name == "thesis" { ReplayScheme::Thesis } else { ReplayScheme::Rows }
}

impl ReplicationArgs {
    fn settings(&self) -> ReplicationSettings {
        let settings = ReplicationSettings {
            questions: self.questions.clone(),
            warehouses: self.warehouses,
            clients: self.clients,
            warm_up: Duration::from_secs(self.warm_up),
            time: Duration::from_secs(self.time),
            runs: self.runs,
            courses: self.courses,
            percents: self.percents.clone(),
            small_clients: self.small_clients.clone(),
            schemes: self.replay.iter().map(|name| scheme(name)).collect(),
            behind_bytes: self.behind << 20,
            backup_bytes: self.backup_gib.min(1 << 20) << 30,
            backup_bytes_per_s: self.backup_rate << 20,
            cycles: self.cycles,
            peer: !self.no_peer,
            seed: self.seed,
            ..ReplicationSettings::new(&self.dir)
        };
        let settings = match &self.workers {
            Some(workers) => ReplicationSettings { workers: workers.clone(), ..settings },
            None => settings,
        };
        match (self.quick, self.short) {
            (true, _) => settings.quick(),
            (_, true) => settings.short(),
            _ => settings,
        }
    }
}

/// Parses a number of seconds, which may have a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl TrainingArgs {
    fn settings(&self) -> TrainingSettings {
        let plan = Plan { only: self.questions.clone(), ..Plan::new(&self.dir, Pace::Full) };
        let settings = TrainingSettings {
            plan,
            warehouses: self.warehouses,
            clients: self.clients,
            warm_up: self.warm_up,
            time: self.time,
            runs: self.runs,
            samples: self.samples.clone(),
            seed: self.seed,
            ..TrainingSettings::new(&self.dir)
        };
        match (self.quick, self.short) {
            (true, _) => settings.quick(),
            (_, true) => settings.short(),
            _ => settings,
        }
    }
}

impl TpccArgs {
    fn settings(&self) -> anyhow::Result<TpccSettings> {
        let target = |name: &String| match name.as_str() {
            "embedded" => Ok(TpccTarget::Embedded),
            "embedded-async" => Ok(TpccTarget::EmbeddedAsync),
            "embedded-sql" => Ok(TpccTarget::EmbeddedSql),
            "servers" => Ok(TpccTarget::Servers),
            url if url.contains("://") => Ok(TpccTarget::Url(url.to_owned())),
            other => anyhow::bail!(
                "no target {other}: use embedded, embedded-async, embedded-sql, servers or postgres://USER@HOST:PORT/DATABASE"
            ),
        };
        let seconds = |full| Duration::from_secs(if self.quick { 1 } else { full });
        Ok(TpccSettings {
            targets: self.targets.iter().map(target).collect::<anyhow::Result<_>>()?,
            warehouses: if self.quick { 1 } else { self.warehouses },
            small: self.quick,
            clients: self.clients,
            warm_up: seconds(self.warm_up),
            time: seconds(self.time),
            runs: self.runs,
            pacing: match self.rate {
                Some(per_s) if self.poisson => Pacing::Poisson(per_s),
                Some(per_s) => Pacing::Rate(per_s),
                None if self.terminals => Pacing::Terminals,
                None => Pacing::FlatOut,
            },
            isolation: self.isolation.replace('-', " ").to_uppercase(),
            sync: !self.r#async,
            deferred: !self.inline_delivery,
            seed: self.seed,
            reload: self.reload,
            ..TpccSettings::new(&self.dir)
        })
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let pace = |quick| if quick { Pace::Quick } else { Pace::Full };
    match command {
        Command::Index(IndexArgs { sections, quick, rows, churn, json, readme }) => {
            let mut plan = Plan { only: sections, rows, ..Plan::new(Path::new("."), pace(quick)) };
            plan.churn = churn.map_or(plan.churn, Duration::from_secs);
            measure(plan, index_bench, &INDEX, Kept { json, plots: None, readme })
        }
        Command::IndexMemory { arguments } => {
            print(&format!("{}\n", index_memory(&Plan::new(Path::new("."), Pace::Full), &arguments)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Kv(KvArgs { flags }) => match KvFlags::parse(&flags) {
            Err(error) => {
                eprintln!("collie-bench kv: {error}");
                Ok(ExitCode::from(2))
            }
            Ok(flags) => {
                let [json, plots, readme] = flags.kept();
                let kept = Kept { json, plots, readme }.read(&KV)?;
                let mut said = Ok(());
                let mut say = |line: &str| said = print(&format!("{line}\n"));
                let program = programs::own()?;
                let report = kv_bench(&flags, &collie_env::Env::real(), Some(&program), &mut say)?;
                said?;
                report.map_or(Ok(ExitCode::SUCCESS), |report| kept.keep(&report))
            }
        },
        Command::Tpcc(args) => {
            let settings = args.settings()?;
            let run = |plan: &Plan| tpcc_bench(&TpccSettings { plan: plan.clone(), ..settings.clone() });
            let kept = Kept { json: args.json, plots: args.plots, readme: args.readme };
            let mut plan = Plan::new(&args.dir, Pace::Full);
            if settings.targets.contains(&TpccTarget::Servers) {
                plan.server = Some(programs::collie()?);
            }
            measure(plan, run, &TPCC, kept)
        }
        Command::Replication(args) => {
            let settings = args.settings();
            say_how_long(&replication_estimate(&settings)?);
            let plan = Plan { server: Some(programs::collie()?), ..Plan::new(&args.dir, Pace::Full) };
            let targets = Document::read(args.targets, &REPLICATION_TARGETS)?;
            let (json, targets) = (args.json.clone(), &targets);
            let run = |plan: &Plan| {
                let settings = ReplicationSettings { plan: plan.clone(), ..settings.clone() };
                // The results so far are kept, whatever happens to the remaining questions.
                let report =
                    replication_bench(&settings, &mut |so_far| keep_so_far(so_far, &REPLICATION, json.as_deref()))?;
                targets.iter().try_for_each(|document| document.write(&report))?;
                Ok(report)
            };
            let kept = Kept { json: args.json, plots: args.plots, readme: args.readme };
            measure(plan, run, &REPLICATION, kept)
        }
        Command::Training(args) => {
            let (settings, json) = (args.settings(), args.json.clone());
            let run = |plan: &Plan| {
                let settings = TrainingSettings { plan: plan.clone(), ..settings.clone() };
                training_bench(&settings, &mut |so_far| keep_so_far(so_far, &TRAINING, json.as_deref()))
            };
            let kept = Kept { json: args.json, plots: args.plots, readme: args.readme };
            let plan = Plan { server: Some(programs::collie()?), ..settings.plan.clone() };
            measure(plan, run, &TRAINING, kept)
        }
        Command::ServeWith(args) => serve_with::run(args),
        Command::Log(LogArgs { quick, dir, only, json, plots, readme }) => {
            let plan = Plan { only, ..Plan::new(&dir, pace(quick)) };
            measure(plan, log_bench, &LOG, Kept { json, plots, readme })
        }
        Command::Txn(TxnArgs { sections, quick, old_snapshot, dir, json, plots, readme }) => {
            let mut plan = Plan { only: sections, ..Plan::new(&dir, pace(quick)) };
            plan.server = Some(programs::collie()?);
            plan.old_snapshot = old_snapshot.map_or(plan.old_snapshot, Duration::from_secs);
            measure(plan, txn_bench, &TXN, Kept { json, plots, readme })
        }
    }
}

/// Measures as `plan` says, then prints and keeps the report.
fn measure(
    mut plan: Plan,
    bench: impl Fn(&Plan) -> anyhow::Result<Report>,
    part: &'static Part,
    kept: Kept,
) -> anyhow::Result<ExitCode> {
    plan.program = Some(programs::own()?);
    let kept = kept.read(part)?;
    let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let shown = bar.clone();
    plan.on_progress = Arc::new(move |what| {
        shown.set_message(what.to_owned());
        shown.tick();
    });
    let report = bench(&plan)?;
    bar.finish_and_clear();
    kept.keep(&report)
}

/// Prints an estimate of each question's duration on standard error.
fn say_how_long(questions: &[(&'static str, Duration)]) {
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    let each: Vec<String> = questions.iter().map(|(name, time)| format!("{name} {:.1}", minutes(*time))).collect();
    let all = questions.iter().map(|(_, time)| *time).sum();
    eprintln!("about {:.0} minutes: {}", minutes(all).ceil(), each.join(", "));
}
