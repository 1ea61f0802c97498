//! `collie-bench tpcc`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use collie_bench::{Pace, Pacing, Plan, TpccSettings, TpccTarget, tpcc_bench};

use super::kept::{Kept, Part};
use super::{measure, programs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to run: embedded (the engine in this process), embedded-async (commits answered in memory), embedded-sql
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
    /// Seed of the rows and the requests.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for data, on the disk to be measured, accessible to user postgres. Everything made there is removed at
    /// the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    kept: Kept,
}

impl Args {
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
            seed: self.seed,
            ..TpccSettings::new(&self.dir)
        })
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.settings()?;
    let mut plan = Plan::new(&args.dir, Pace::Full);
    if settings.targets.contains(&TpccTarget::Servers) {
        plan.server = Some(programs::collie()?);
    }
    measure(plan, |plan| tpcc_bench(&TpccSettings { plan, ..settings }), &Part::new("tpcc"), args.kept)
}
