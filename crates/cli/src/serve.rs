//! `collie serve`: its arguments, and the server that they describe.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use collie_env::Env;
use collie_server::{Server, config::Config, log_lines};

use crate::{progress::Recovery, returned_memory};

/// The command line of `serve`.
#[derive(clap::Args)]
pub struct Args {
    /// Data directory; made if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "./collie-data")]
    data: PathBuf,
    /// Open the directory without writing a byte to it, even where nothing can be written; every statement that would
    /// write is refused.
    #[arg(long)]
    read_only: bool,
    /// Address for SQL clients [default: 127.0.0.1:5433].
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Address of a status page, and of /healthz, /readyz and /metrics, over HTTP, such as 127.0.0.1:8433; without it
    /// there is none.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Address for replicas and for queries about which node leads; without it none are served.
    #[arg(long, value_name = "ADDR")]
    replica_listen: Option<SocketAddr>,
    /// Follow the primary that listens for replicas there, or the node of replication.peers that leads, and answer
    /// reads only. An empty data directory is filled first. A directory that was promoted leads, unless another one has
    /// led since.
    #[arg(long, value_name = "HOST:PORT")]
    replica_of: Option<String>,
    /// TOML file with settings; see `collie config`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, such as wal.flush_delay=5ms; may be repeated, and overrides the file.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Stop in order once the process with this id, which started this one, has ended: for `collie demo`.
    #[arg(long, hide = true, value_name = "PID")]
    with_parent: Option<i32>,
}

/// Makes this process stop in order when its parent ends; fails if the parent has ended already.
#[cfg(target_os = "linux")]
fn end_with(parent: i32) -> anyhow::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot ask for a signal at the end of the parent process")?;
    let is_there = getppid().map(Pid::as_raw_pid) == Some(parent);
    anyhow::ensure!(is_there, "the process that started this one has ended");
    Ok(())
}

/// Other systems do not signal the end of a parent.
#[cfg(not(target_os = "linux"))]
fn end_with(_parent: i32) -> anyhow::Result<()> {
    Ok(())
}

/// Combines the settings: defaults, file, `--set`.
///
/// # Errors
/// The file cannot be read; an unknown setting, or a value that it does not take.
pub fn settings(file: Option<&PathBuf>, set: &[String]) -> anyhow::Result<Config> {
    let mut config = Config::default();
    if let Some(file) = file {
        config.read_file(file)?;
    }
    for pair in set {
        config.set_pair(pair)?;
    }
    Ok(config)
}

/// Serves until SIGTERM or SIGINT; this program fits the models.
///
/// # Errors
/// Those of the settings and of the server.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    run_with(args, std::env::current_exe().ok(), |_| Ok(()))
}

/// Serves like [`run`], with `trainer` as the program that fits models, once `change` has changed the open server. For
/// benchmarks: a change is no setting, so that no file can ask for it.
///
/// # Errors
/// Those of [`run`] and of `change`.
pub fn run_with(
    args: Args,
    trainer: Option<PathBuf>,
    change: impl FnOnce(&Server) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if let Some(parent) = args.with_parent {
        end_with(parent)?;
    }
    let mut config = settings(args.config.as_ref(), &args.set)?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    config.http = args.http.or(config.http);
    if let Some(listen) = args.replica_listen {
        config.replication.listen = Some(listen);
    }
    if let Some(primary) = &args.replica_of {
        config.set("server.replica_of", primary)?;
    }
    config.engine.read_only = args.read_only;
    config.engine.log.warnings = collie_wal::Warnings::to(|line| log_lines::warn(&line));
    config.trainer = trainer;
    let env = Env::real();
    returned_memory::start(&env);
    let mut recovery = Recovery::new(&*env.clock, |line| log_lines::note(&line));
    let (server, report) = Server::start(config, &args.data, &mut |progress| recovery.report(progress))?;
    recovery.finish();
    change(&server)?;
    for notice in &report.notices {
        log_lines::note(notice);
    }
    if report.created {
        log_lines::note(&format_args!("made a new database in {}", args.data.display()));
    } else {
        log_lines::note(&format_args!(
            "opened {}: {} row writes from {} bytes of log",
            args.data.display(),
            report.rows,
            report.log_bytes
        ));
    }
    let (ring, stopped) = if server.is_replica() {
        ("a replica: every statement that would write is refused with 25006", "stopped: what was received is on disk")
    } else if report.read_only {
        ("nothing can be written: every statement that would is refused with 25006", "stopped: nothing was written")
    } else if report.ring_outlives_process {
        (
            "wal.ring is shared: a kill of this process loses no commit that was answered",
            "stopped: every commit is on disk",
        )
    } else {
        (
            "wal.ring is private: a kill of this process may lose commits answered with synchronous_commit off",
            "stopped: every commit is on disk",
        )
    };
    log_lines::note(&ring);
    if !report.read_only {
        log_lines::note(&format_args!("wal.max_total_wal_size comes to {} MiB", server.log_bytes_max() >> 20));
    }
    if let Some(address) = server.replica_address() {
        log_lines::note(&format_args!("listening for replicas on {address}"));
    }
    println!("listening on {}", server.address());
    server.run()?;
    log_lines::note(&stopped);
    Ok(ExitCode::SUCCESS)
}
