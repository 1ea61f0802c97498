//! `collie demo`: starts a primary, a replica and a load, with nothing but this program, and serves a page that shows
//! them.
//!
//! | file | noun |
//! |---|---|
//! | `ground.rs` | [`Ground`]: the directory, which is removed with the demo |
//! | `node.rs` | [`Node`]: a server in its own process |
//! | `figures.rs` | [`Figures`](figures::Figures): the figures from the views, in one line |
//! | `show.rs` | [`Show`]: the demo from the start of the load to its end |
//!
//! # Invariants
//! - D1. Started servers are stopped, and files that were made are removed (unless they are to be kept), however the
//!   demo ends, except by SIGKILL; then the servers stop by themselves, and the directory stays.
//! - D2. Nothing outside the demo is touched: ports are free ones unless they are named, and a directory that is not
//!   empty is refused.

mod figures;
mod ground;
mod node;
mod show;

use std::{
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context as _;
use collie_env::{Clock, Env};
use collie_replica::key::KEY_FILE;
use collie_workload::TpccLoad;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};

use self::{
    ground::Ground,
    node::{Node, Role},
    show::Show,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Transactions that are requested per second, whether the servers keep up or not.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 50.0)]
    rate: f64,
    /// Warehouses of TPC-C, each with a hundredth of its rows.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    warehouses: u32,
    /// Sessions of the load.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Seconds of load, after which everything stops [default: until Ctrl-C].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    time: Option<u64>,
    /// Directory for both databases, empty or not existing [default: a new one among the temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the directory, with both databases and the servers' logs.
    #[arg(long)]
    keep: bool,
    /// Address of the page, such as 127.0.0.1:8433 [default: a free port of 127.0.0.1].
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Address of the primary for SQL clients [default: a free port of 127.0.0.1].
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

/// Prints a line; that the reader has closed its end is no error.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _nobody_reads = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// SIGINT and SIGTERM.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    fn catch() -> anyhow::Result<Self> {
        let catching = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { interrupt: catching(SignalKind::interrupt())?, terminate: catching(SignalKind::terminate())? })
    }

    /// Waits for one of them. Dropping the future loses no signal.
    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(args.rate.is_finite() && args.rate > 0.0, "--rate is transactions a second, above 0");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let env = Env::real();
    let mut stops = runtime.block_on(async { Stops::catch() })?;
    let ground = Ground::make(args.dir.as_deref(), args.keep, &env)?;
    // On this thread: servers end with the thread that started them (`--with-parent`).
    let ended = runtime.block_on(demonstrate(args, &ground, &env, &mut stops));
    // A thread that still blocks in an unanswered query is left behind: the process ends.
    runtime.shutdown_background();
    let words = ground.leave();
    ended?;
    say(&words);
    Ok(ExitCode::SUCCESS)
}

/// Starts everything, shows it until its time is over or a signal arrives, and stops it.
async fn demonstrate(args: &Args, ground: &Ground, env: &Env, stops: &mut Stops) -> anyhow::Result<()> {
    let mut nodes = tokio::select! {
        () = stops.come() => return Ok(()),
        started = start(args, ground, env) => started?,
    };
    let [replica, primary] = &mut nodes;
    let load = Arc::new(TpccLoad::small(&primary.url(), args.warehouses, env.clock.clone())?);
    let filled = tokio::select! {
        () = stops.come() => None,
        filled = fill(&load, args.warehouses) => Some(filled),
        ended = either_ends(primary, replica) => return Err(ended),
    };
    if let Some(filled) = filled {
        if let Err(error) = filled {
            return Err(blame(error, primary, replica).await);
        }
        announce(args, ground, primary, replica);
        let show = Show { primary, replica, clock: &*env.clock, time: args.time.map(Duration::from_secs) };
        show.run(load, args.clients, args.rate, stops).await?;
    }
    for node in &mut nodes {
        tokio::select! {
            () = stops.come() => return Ok(()), // the second signal: they are killed
            stopped = node.stop() => stopped?,
        }
    }
    Ok(())
}

/// Starts a primary and its replica, and returns them in the order in which they are to be stopped.
async fn start(args: &Args, ground: &Ground, env: &Env) -> anyhow::Result<[Node; 2]> {
    let clock: &dyn Clock = &*env.clock;
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    say("starting a primary");
    let role = Role::Primary { listen: args.listen.unwrap_or(free) };
    let primary = Node::start("primary", &role, ground.path(), clock).await?;
    say("starting a replica, which is filled from it");
    let key = ground.path().join("primary").join(KEY_FILE);
    let role = Role::Replica { http: args.http.unwrap_or(free), primary: primary.replica_address()?, key };
    let replica = Node::start("replica", &role, ground.path(), clock).await?;
    Ok([replica, primary])
}

/// Waits until one of the servers has ended, and returns why.
async fn either_ends(primary: &mut Node, replica: &mut Node) -> anyhow::Error {
    tokio::select! {
        ended = primary.ended() => ended,
        ended = replica.ended() => ended,
    }
}

/// Returns the cause of a failure that involves both servers: the end of one of them, or else `error`.
async fn blame(error: anyhow::Error, primary: &mut Node, replica: &mut Node) -> anyhow::Error {
    // The connections of a server end a moment before its process does.
    timeout(Duration::from_secs(1), either_ends(primary, replica)).await.unwrap_or(error)
}

/// Loads the tables, with a bar on a terminal, with lines elsewhere.
async fn fill(load: &Arc<TpccLoad>, warehouses: u32) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("loading {bar:40} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(u64::from(warehouses)).with_style(style);
    let filling = tokio::task::spawn_blocking({
        let (load, bar) = (load.clone(), bar.clone());
        let begun = AtomicU32::new(0);
        move || {
            load.fill(&|| {
                let before = begun.fetch_add(1, Relaxed);
                let words = format!("warehouse {} of {warehouses}", before + 1);
                if bar.is_hidden() {
                    say(&format!("loading {words}"));
                }
                bar.set_position(u64::from(before));
                bar.set_message(words);
            })
        }
    });
    let filled = filling.await.context("loading was given up");
    bar.finish_and_clear();
    filled?.context("cannot load the tables")
}

/// Prints the addresses and the directory.
fn announce(args: &Args, ground: &Ground, primary: &Node, replica: &Node) {
    say(&format!(
        "{} transactions a second on the primary; both databases are in {}",
        args.rate,
        ground.path().display()
    ));
    if let (Some(page), Some(figures)) = (replica.http_address(), primary.http_address()) {
        say(&format!("page: http://{page}/?primary={figures}"));
    }
    let [of_primary, of_replica] = [primary, replica].map(|node| node.address().port());
    say(&format!("psql -h 127.0.0.1 -p {of_primary} -U collie collie    (the replica: -p {of_replica})"));
    say(&match args.time {
        Some(seconds) => format!("stops after {seconds} s, or by Ctrl-C"),
        None => "Ctrl-C stops it".to_owned(),
    });
}
