//! `collie`: the one binary. Reads the command line and wires the crates together; decides nothing else.
//!
//! Exit codes: 0 done; 1 failed, with one line on standard error; 2 wrong usage. From `status`: 1 something needs attention, 2 the
//! server does not answer.
#![deny(unsafe_code)]

mod allocated;
mod backup;
mod bench;
mod checkpoint;
mod config;
mod copying;
mod demo;
mod progress;
mod promote;
mod render;
mod replica_key;
mod restore;
mod returned_memory;
mod serve;
mod shell;
mod status;
mod train;
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
    /// Say who a running server is, who follows it and how far behind, and what needs attention.
    ///
    /// Exit code 0: nothing does; 1: something does, such as lost redundancy: a replica or a primary that is away, a slot that is expired,
    /// commits that do without their quorum; 2: the server does not answer.
    Status(status::Args),
    /// Copy a database to a directory that opens by itself, sharing its tables.
    ///
    /// Works while the server runs, which then makes the copy, on its machine and below its server.copy_dir: DIR is a name there. Tables are linked, not copied, where
    /// both directories are on one file system: quick, and no second copy of what may rot. For that: collie backup.
    Checkpoint(checkpoint::Args),
    /// Copy a database to a directory that shares nothing with it, or check such a copy.
    ///
    /// Works while the server runs, which then makes the copy, on its machine and below its server.copy_dir: DIR is a name there. The copy holds every commit that returned
    /// before the call, and those that came while its tables were copied; it lists the checksums of all its files.
    Backup(backup::Args),
    /// Make a data directory from a backup, after checking every byte of it.
    ///
    /// BACKUP stays as it is, and can be restored again. The new directory's positions go on in a new history, so that what
    /// it commits is never taken for what the old one did.
    Restore(restore::Args),
    /// Make a running replica a primary.
    ///
    /// The other nodes (replication.peers) are asked to promise the next term, and from then on follow nobody of a lower one. With a
    /// list of replicas that acknowledge commits it leads only if it holds every commit that was acknowledged by them; without one
    /// it is promoted at once, and how much of its primary's log it lacked at last contact is printed.
    Promote(promote::Args),
    /// Show or change the key by which the nodes of a database know each other.
    ///
    /// The first node makes it when it serves replicas (DIR/replication.key); each further node needs a copy before it can be filled.
    ReplicaKey {
        #[command(subcommand)]
        command: replica_key::Command,
    },
    /// Look at a log, check it, or cut it.
    ///
    /// dump, verify and stat change nothing and do not disturb a running server; truncate-at is for a stopped one.
    Wal {
        #[command(subcommand)]
        command: wal::Command,
    },
    /// Fit cost models to the samples of a data directory, say how good they are, and what they turn on.
    ///
    /// Samples are files under DIR/samples/v1, models are files under DIR/models; a server need not run, and is not disturbed.
    Train {
        #[command(subcommand)]
        command: train::Command,
    },
    /// See Collie at work: a primary, a replica and a load, started for it, and a page that shows them.
    ///
    /// Prints the address of the page, then a line every few seconds: commits, delay of the replica beside its bound, what is granted to
    /// collection, samples, models, decisions, reads replayed. Needs nothing but this program, and no port of your own; leaves nothing
    /// behind unless --keep. The tables are TPC-C's at a hundredth of its rows, and grow with the load: a demo that is forgotten ends,
    /// with that reason, once they take up 1 GiB, after hours.
    Demo(demo::Args),
    /// Measure a part of Collie beside its floor and its peers.
    Bench {
        #[command(subcommand)]
        command: bench::Command,
    },
    /// List every setting with its default and effect, or explain one.
    Config(config::Args),
}

fn main() -> ExitCode {
    allocated::offer();
    let command = Cli::parse().command;
    // What a benchmark writes is for everybody.
    if !matches!(command, Command::Bench { .. }) {
        // Files that libraries make are the owner's alone too: tables, samples, models, backups.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    let result = match command {
        Command::Serve(args) => serve::run(args),
        Command::Sql(args) => shell::run(args),
        Command::Status(args) => status::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Promote(args) => promote::run(&args),
        Command::ReplicaKey { command } => replica_key::run(command),
        Command::Wal { command } => wal::run(command),
        Command::Train { command } => train::run(command),
        Command::Demo(args) => demo::run(&args),
        Command::Bench { command } => bench::run(command),
        Command::Config(args) => config::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Returns an error in one line: what was added on the way, outermost first, then its causes, none of them twice. Errors of the crates name
/// their cause themselves.
fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().fold(String::new(), |line, cause| match cause.to_string() {
        cause if line.is_empty() => cause,
        cause if line.contains(&cause) => line,
        cause => format!("{line}: {cause}"),
    });
    collie_base::one_line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use anyhow::Context as _;

    use super::*;

    /// A crate's error, which names its cause.
    #[derive(Debug)]
    struct Named(Error);

    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot list /here: {}", self.0)
        }
    }

    impl std::error::Error for Named {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    /// Goal: a line says each cause once. Method: an error that names its cause, with and without more in front of it, and one that does not.
    #[test]
    fn line_says_each_cause_once() {
        let missing = || Error::from(ErrorKind::NotFound);
        let named = || anyhow::Error::from(Named(missing()));
        assert_eq!(one_line(&named()), "cannot list /here: entity not found");
        assert_eq!(
            one_line(&named().context("cannot read the log")),
            "cannot read the log: cannot list /here: entity not found"
        );
        let plain = Err::<(), _>(missing()).context("cannot start").unwrap_err();
        assert_eq!(one_line(&plain), "cannot start: entity not found");
    }
}
