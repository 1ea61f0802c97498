//! `collie-bench kv`.

use std::path::PathBuf;
use std::process::ExitCode;

use collie_bench::{KvSettings, Pace, Plan, kv_bench};

use super::kept::{Kept, Part};
use super::measure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ask only these questions: kv-loads (loads for which figures are promised), kv-recover (an opening that reads the
    /// log), kv-log-off, kv-wal-size, kv-families, kv-descriptors, kv-manual-flush (experiments on the log).
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// The number of keys.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    num: u64,
    /// Runs of each case.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    runs: u32,
    /// Run RocksDB's db_bench (package rocksdb-tools) in turn with the same settings.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "db_bench")]
    peer: Option<PathBuf>,
    /// Seed of the keys and values.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for the databases, on the disk to be measured. They are removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    kept: Kept,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { questions, num, runs, peer, seed, dir, kept } = args;
    let plan = Plan { only: questions, ..Plan::new(&dir, Pace::Full) };
    let settings = KvSettings { num, runs, peer, seed, ..KvSettings::new(&dir) };
    measure(plan, |plan| kv_bench(&KvSettings { plan, ..settings }), &Part::new("kv"), kept)
}
