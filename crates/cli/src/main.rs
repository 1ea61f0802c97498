//! `collie`: the one binary. Reads the command line and wires the crates together; decides nothing else.
//!
//! Exit codes: 0 done; 1 failed, with one line on standard error; 2 wrong usage.
#![forbid(unsafe_code)]

mod bench;
mod config;
mod progress;
mod render;
mod serve;
mod shell;
mod wal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tikv_jemallocator::Jemalloc;

/// Row versions are made by sessions and freed by whoever prunes, mostly another thread (decision 0069).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Collie, a PostgreSQL-compatible, memory-first OLTP database.
///
/// Start a server with `collie serve`, then connect with any PostgreSQL client:
/// psql -h 127.0.0.1 -p 5433 -U collie collie
#[derive(Parser)]
#[command(name = "collie", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server until SIGTERM or SIGINT.
    ///
    /// Opens (or makes) the data directory, prints `listening on ADDR` when clients can connect, and serves
    /// PostgreSQL's protocol: database collie, user collie, no password. Only loopback addresses are served until
    /// there is authentication.
    Serve(serve::Args),
    /// An SQL shell, on a data directory itself (no server needed) or on a running server.
    Sql(shell::Args),
    /// Look at a log, check it, or cut it.
    ///
    /// dump, verify and stat change nothing and do not disturb a running server; truncate-at is for a stopped one.
    Wal {
        #[command(subcommand)]
        command: wal::Command,
    },
    /// Measure a part of Collie beside its floor and its peers.
    Bench {
        #[command(subcommand)]
        command: bench::Command,
    },
    /// List every setting with its default and effect, or explain one.
    Config(config::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Sql(args) => shell::run(args),
        Command::Wal { command } => wal::run(command),
        Command::Bench { command } => bench::run(command),
        Command::Config(args) => config::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // One line: context added on the way, outermost first.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
