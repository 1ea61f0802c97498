//! `collie`: the one binary. It reads the command line and wires the crates together; it makes no other decisions.
//!
//! Exit codes: 0 done; 1 failed, with one line on standard error; 2 wrong usage. Of `status`: 1 something needs
//! attention, 2 the server does not answer.
#![deny(unsafe_code)]

mod backup;
mod checkpoint;
mod config;
mod copying;
mod demo;
mod promote;
mod render;
mod replica_key;
mod restore;
mod shell;
mod status;
mod train;
mod wal;
mod witness;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use collie::{allocated, ended, keep_files_private, serve};

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
    /// PostgreSQL's protocol: database collie, user collie, no password. Only loopback addresses are served until there
    /// is authentication.
    Serve(serve::Args),
    /// Run an SQL shell, directly on a data directory (no server needed) or on a running server.
    Sql(shell::Args),
    /// Show the role of a running server, which nodes follow it and how far behind they are, and what needs attention.
    ///
    /// Exit code 0: nothing needs attention; 1: something does, such as lost redundancy: an absent replica or primary,
    /// an expired slot, commits that are answered without their quorum; 2: the server does not answer.
    Status(status::Args),
    /// Copy a database to a directory that opens by itself and shares its tables.
    ///
    /// Works while the server runs; then the server makes the copy, on its machine and below its server.copy_dir: DIR
    /// is a name there. Tables are linked, not copied, where both directories are on one file system: that is fast, but
    /// gives no second copy of files that may rot. For a second copy use collie backup.
    Checkpoint(checkpoint::Args),
    /// Copy a database to a directory that shares nothing with it, or check such a copy.
    ///
    /// Works while the server runs; then the server makes the copy, on its machine and below its server.copy_dir: DIR
    /// is a name there. The copy holds every commit that returned before the call, and those made while its tables were
    /// copied; it lists the checksums of all its files.
    Backup(backup::Args),
    /// Make a data directory from a backup, after checking every byte of it.
    ///
    /// BACKUP stays as it is, and can be restored again. The positions of the new directory continue in a new history,
    /// so that its commits are never taken for those of the old one.
    Restore(restore::Args),
    /// Make a running replica a primary.
    ///
    /// The other nodes (replication.peers) are asked to promise the next term, and from then on follow no node of a
    /// lower one. With a list of replicas that acknowledge commits, the replica leads only if it holds every commit
    /// that they acknowledged; without a list it is promoted at once, and the amount of its primary's log that it
    /// lacked at last contact is printed.
    Promote(promote::Args),
    /// Run a witness: a third vote for two nodes, which keeps promises and no data.
    ///
    /// Run it on a machine of its own, with a copy of the nodes' replication key, and name its address in
    /// replication.witness on both nodes. With it a replica can be promoted when the primary is lost, and a primary
    /// whose replica is lost acknowledges commits alone, safely: the witness then lets no other node lead. Runs until
    /// SIGTERM or SIGINT.
    Witness(witness::Args),
    /// Show or change the key by which the nodes of a database know each other.
    ///
    /// The first node makes it when it serves replicas (DIR/replication.key); each further node needs a copy before it
    /// can be filled.
    ReplicaKey {
        #[command(subcommand)]
        command: replica_key::Command,
    },
    /// Inspect a log, check it, or cut it.
    ///
    /// dump, verify and stat change nothing and do not disturb a running server; truncate-at is for a stopped one.
    Wal {
        #[command(subcommand)]
        command: wal::Command,
    },
    /// Fit cost models to the samples of a data directory, evaluate them, and explain their predictions.
    ///
    /// Samples are files under DIR/samples/v1, models are files under DIR/models; no server need run, and a running one
    /// is not disturbed.
    Train {
        #[command(subcommand)]
        command: train::Command,
    },
    /// See Collie at work: a primary, a replica and a load, started for it, and a page that shows them.
    ///
    /// Prints the address of the page, then a line every few seconds: commits, delay of the replica and its bound,
    /// processor time granted to collection, samples, models, decisions, replayed reads. Needs nothing but this
    /// program, and no particular port; leaves nothing behind unless --keep is given. The tables are TPC-C's at a
    /// hundredth of its rows, and grow with the load: a forgotten demo ends, with that reason, once they occupy 1 GiB,
    /// after hours.
    Demo(demo::Args),
    /// List every setting with its default and effect, or explain one.
    Config(config::Args),
}

fn main() -> ExitCode {
    allocated::offer();
    let command = Cli::parse().command;
    keep_files_private();
    ended(match command {
        Command::Serve(args) => serve::run(args),
        Command::Sql(args) => shell::run(args),
        Command::Status(args) => status::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Promote(args) => promote::run(&args),
        Command::ReplicaKey { command } => replica_key::run(command),
        Command::Witness(args) => witness::run(&args),
        Command::Wal { command } => wal::run(command),
        Command::Train { command } => train::run(command),
        Command::Demo(args) => demo::run(&args),
        Command::Config(args) => config::run(&args),
    })
}
