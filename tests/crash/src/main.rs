//! `faultlab`: runs the real server, breaks it, and checks what a user would find afterwards.
//!
//! `killloop`: SIGKILL at random moments under a bank load over real connections. The journal of acknowledged commits
//! is in this process, which is not killed.
//!
//! `powercut`: power cuts on a real ext4 over a disk with a volatile cache, which keeps any part of the writes that
//! were not flushed.
//!
//! `iofault`: failing file system calls, one kind of file and of call at a time, in a file system that this process
//! serves.
//!
//! `fulldisk`: a server fills its own disk with rows, round after round, is killed on the full disk and starts again,
//! and SQL makes room.
//!
//! `log-states`, `log-threads`, `log-flips`, `log-kill`: the log alone. Every state that a simulated disk may be in
//! after a crash, every flipped bit, and a real process on real files under SIGKILL.
//!
//! `txn-histories`: transactions alone, without faults: everything that random transactions see is exactly what their
//! snapshots must show.
//!
//! `list-append`: the real server under SIGKILL: the reads of transactions on lists have no cycle that their level
//! excludes.
//!
//! `bitrot`: rot in each kind of file, under a stopped and a running server and in a backup, is reported or harmless,
//! never silently wrong.
//!
//! `memory`: statements and sessions that ask for more memory than a control group has: the server lives and refuses
//! them.
//!
//! `storm`: many connections that misbehave on every port: clients with a load go on, and nothing is left behind.
//!
//! `upgrade`: directories of every released format open with all their data, and those of a later format are refused
//! and left unchanged.
//!
//! `night`: all of these in turns for a given time, and a table of the results.
//!
//! `cluster`: three servers, or two and a witness, in one process, over a simulated network, disk and clock, determined
//! by a seed.
//!
//! `failover`: three real servers, or two and a witness, under kills, freezes and network cuts, with one promotion
//! after the other: a commit that was answered at a level that replicas confirm is never lost, and a lost commit at
//! `local` was set aside.
#![forbid(unsafe_code)]

mod appends;
mod backups;
mod bank;
mod bitrot;
mod checkpoints;
mod cluster;
mod definitions;
mod failover;
mod fulldisk;
mod histories;
mod iofault;
mod journal;
mod killloop;
mod log_kill;
mod log_sweeps;
mod memory;
mod mounts;
mod night;
#[cfg(feature = "planted-bugs")]
mod planted;
mod powercut;
mod random;
mod report;
mod server;
mod storm;
mod trio;
mod upgrade;
mod visitor;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use collie_engine::Isolation;

use crate::report::Report;

#[derive(Parser)]
#[command(name = "faultlab", about = "Breaks a running server and checks what is left")]
struct Cli {
    /// The file for the figures of a run without a violation, for `night`.
    #[arg(long, global = true, hide = true)]
    figures: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill the server at random moments under load, open again, compare with the journal.
    Killloop {
        /// Number of kill cycles.
        #[arg(long, default_value_t = 50)]
        cycles: u64,
        /// Decides when the server is killed and what is written.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Clients at one time; every fourth commits asynchronously.
        #[arg(long, default_value_t = 8)]
        clients: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// The server's `wal.ring`. With `shared`, asynchronous commits must survive too.
        #[arg(long, default_value = "shared")]
        ring: String,
    },
    /// Cut the power at random moments under load, open what the disk kept, compare with the journal. Needs root.
    Powercut {
        /// Number of cuts.
        #[arg(long, default_value_t = 20)]
        cycles: u64,
        /// Decides when the power is cut, and what the disk keeps.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Directory for the mounted file systems and the evidence of a violation.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        dir: PathBuf,
        /// Plant this mistake in the server, so that the run must fail; the server is then this program.
        #[cfg(feature = "planted-bugs")]
        #[arg(long)]
        plant: Option<String>,
    },
    /// Make file system calls fail under load and in openings, then go on without the fault. Needs root.
    Iofault {
        /// Number of faults.
        #[arg(long, default_value_t = 20)]
        cycles: u64,
        /// Decides what fails, and when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Directory for the data and the evidence of a violation.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        dir: PathBuf,
    },
    /// Fill a server's disk with its own rows, kill it there, start again, make room by SQL, and so on. Needs root.
    Fulldisk {
        /// Number of rounds.
        #[arg(long, default_value_t = 12)]
        rounds: u64,
        /// Decides the size of the disk, what is written, and how room is made.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Directory for the mounted file system and the evidence of a violation.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        dir: PathBuf,
    },
    /// Open a log in every state that a simulated disk may be in after a crash.
    LogStates {
        /// Minimum number of states.
        #[arg(long, default_value_t = 1_000_000)]
        states: u64,
        /// Seed of the first workload.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print the figures as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Open logs that had their own threads and several writers in every such state; the order of threads is not
    /// repeated.
    LogThreads {
        /// Number of logs.
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Seed of the first log's settings.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Flip every bit of a log's files, one at a time.
    LogFlips {
        /// Decides what the log holds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Flip one bit of each byte instead of all eight.
        #[arg(long)]
        one_bit: bool,
    },
    /// Kill a process that appends to a log, open the log, compare with what it acknowledged.
    LogKill {
        /// Number of kills.
        #[arg(long, default_value_t = 100)]
        cycles: u64,
        /// Decides when the process is killed and what is written.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Writers at one time; every other one commits to the kernel only.
        #[arg(long, default_value_t = 4)]
        writers: u64,
    },
    /// Run random transactions in this process and check everything that they saw.
    TxnHistories {
        /// Number of transactions, including those that are rolled back.
        #[arg(long, default_value_t = 1_000_000)]
        transactions: u64,
        /// Decides what is tried; the order of threads is not repeated.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Sessions at one time, each on its own thread.
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=32))]
        threads: u64,
        /// Isolation levels, mixed.
        #[arg(long, value_delimiter = ',', default_value = "read-committed,repeatable-read,serializable", value_parser = histories::level)]
        levels: Vec<Isolation>,
        /// Plant this mistake in the engine, so that the run must fail.
        #[cfg(feature = "planted-bugs")]
        #[arg(long)]
        plant: Option<String>,
    },
    /// Run random transactions on lists over connections, kill the server in between, look for cycles in what they saw.
    ListAppend {
        /// Number of rounds, each with its own server and history.
        #[arg(long, default_value_t = 4)]
        rounds: u64,
        /// Transactions of each round, including those that are rolled back.
        #[arg(long, default_value_t = 20_000)]
        transactions: u64,
        /// Kills in the middle of each round; there is one more at its end.
        #[arg(long, default_value_t = 2)]
        kills: u64,
        /// Decides what is tried; the order of clients is not repeated.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Connections at one time.
        #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=64))]
        clients: u64,
        /// Mixes of isolation levels, one for each round in turn.
        #[arg(long, value_delimiter = ',', default_value = "read-committed,repeatable-read,serializable,mixed", value_parser = appends::mix)]
        levels: Vec<appends::Mix>,
        /// Read on a replica too, behind a bad network, and kill it now and then.
        #[arg(long)]
        replica: bool,
        /// Use three nodes, and in each round kill the leader this many times and promote another node; the others are
        /// read.
        #[arg(long, default_value_t = 0)]
        failovers: u64,
        /// The order in time that counts as a dependency.
        #[arg(long, default_value = "real-time")]
        order: appends::Order,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Plant this mistake in the server, so that the run must fail; the server is then this program.
        #[cfg(feature = "planted-bugs")]
        #[arg(long)]
        plant: Option<String>,
    },
    /// Damage one file after the other, start, back up and verify; compare the rows with the journal.
    Bitrot {
        /// Number of damaged files.
        #[arg(long, default_value_t = 100)]
        cycles: u64,
        /// Decides what is damaged, and how.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
    },
    /// Ask for more memory than there is, in every way, and check that the server lives. Needs root, to make a control
    /// group.
    Memory {
        /// Number of rounds. Each explodes every bomb once; in every second round several at one time.
        #[arg(long, default_value_t = 2)]
        rounds: u64,
        /// Decides the order of bombs.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's memory limit, in MiB.
        #[arg(long, default_value_t = 1536)]
        limit_mib: u64,
        /// Connections that explode a bomb at one time.
        #[arg(long, default_value_t = 8)]
        at_once: u64,
        /// Largest number of bombs in a round.
        #[arg(long, default_value_t = usize::MAX)]
        bombs: usize,
        /// Only bombs with this in their name.
        #[arg(long)]
        only: Option<String>,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
    },
    /// Let many connections misbehave on every port while clients with a load go on.
    Storm {
        /// Number of waves of connections, each of one kind.
        #[arg(long, default_value_t = 16)]
        waves: u64,
        /// Decides the order of waves and what they send.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of clients of the load.
        #[arg(long, default_value_t = 4)]
        clients: u64,
        /// Only waves with this in their name.
        #[arg(long)]
        only: Option<String>,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
    },
    /// Open the directories that programs of earlier formats left, and refuse those of later formats.
    Upgrade {
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Directory of the archives.
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/upgrade"))]
        archives: PathBuf,
        /// Make the archive of this name by its recipe instead, with the server.
        #[arg(long)]
        make: Option<String>,
    },
    /// Run the parts of the lab in turns, with one seed after the other, and print a table of the results.
    Night {
        /// Hours to run; a part in progress then runs to its end.
        #[arg(long, default_value_t = 8.0)]
        hours: f64,
        /// Seed of the first turn; each turn uses the next one.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/release/collie")]
        server: PathBuf,
        /// Directory for mounted file systems and the evidence of a violation.
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        dir: PathBuf,
        /// Only parts with this in their name.
        #[arg(long)]
        only: Option<String>,
    },
    /// Break three simulated servers at random for hours of simulated time, compare with the journal, repeat by the
    /// seed.
    Cluster {
        /// Number of clusters, each in its own process.
        #[arg(long, default_value_t = 10)]
        runs: u64,
        /// Seed of the first cluster; it decides everything.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Simulated minutes of each cluster.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// Plant this mistake in the servers, so that the run must fail.
        #[cfg(feature = "planted-bugs")]
        #[arg(long)]
        plant: Option<String>,
        /// Use faults of exactly these kinds; by default each run draws its kinds.
        #[arg(long, value_delimiter = ',')]
        kinds: Vec<cluster::faults::Kind>,
        /// Use only this quorum; by default each run draws one.
        #[arg(long)]
        quorum: Option<String>,
        /// Run transactions on lists; by default each run draws whether to.
        #[arg(long)]
        lists: bool,
        /// Make every cluster one of two nodes and a witness; by default a third of the runs.
        #[arg(long)]
        witness: bool,
        /// Number of clusters at one time; by default one for each processor.
        #[arg(long)]
        jobs: Option<usize>,
        /// Run the single cluster in this process, on this processor.
        #[arg(long, hide = true)]
        inside: Option<usize>,
        /// Show what servers print.
        #[arg(long)]
        echo: bool,
    },
    /// Break three servers that know each other, or two and their witness, one of them the leader, promote another,
    /// compare with the journal.
    Failover {
        /// Number of cycles.
        #[arg(long, default_value_t = 20)]
        cycles: u64,
        /// Decides what breaks, and when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
        /// Let processes die at named places of their code too; the server is then this program.
        #[cfg(feature = "planted-bugs")]
        #[arg(long, conflicts_with = "witness")]
        points: bool,
        /// Use two servers and a witness.
        #[arg(long)]
        witness: bool,
    },
    /// Check what a primary guarantees to commits, readers and slots while its replicas fail, one rule after the other.
    #[cfg(feature = "planted-bugs")]
    ReplicaRules {
        /// Check only this rule.
        #[arg(long)]
        rule: Option<String>,
        /// Plant this mistake in the servers, so that the run must fail.
        #[arg(long)]
        plant: Option<String>,
    },
    /// The server with a planted mistake, which commands with `--plant` start.
    #[cfg(feature = "planted-bugs")]
    #[command(hide = true)]
    Planted {
        mistake: String,
        #[command(subcommand)]
        serve: planted::Serve,
    },
    /// The process that `log-kill` kills.
    #[command(hide = true)]
    LogChild {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value = "/dev/shm")]
        rings: PathBuf,
        /// Decides the log's protocol and the kind of ring.
        #[arg(long, default_value_t = 3)]
        cycle: u64,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        writers: u64,
    },
}

fn main() -> ExitCode {
    let Cli { figures, command } = Cli::parse();
    let (outcome, repeat) = match command {
        Command::Killloop { cycles, seed, clients, server, ring } => {
            let again = format!("--clients {clients} --ring {ring} --server {}", server.display());
            let plan = killloop::Plan { cycles, seed, clients, server, ring };
            (killloop::run(&plan), format!("killloop --cycles {cycles} --seed {seed} {again}"))
        }
        Command::Powercut {
            cycles,
            seed,
            server,
            dir,
            #[cfg(feature = "planted-bugs")]
            plant,
        } => {
            #[cfg(not(feature = "planted-bugs"))]
            let plant = None;
            #[cfg(feature = "planted-bugs")]
            let server = if plant.is_some() { planted::program() } else { server };
            let plan = powercut::Plan { cycles, seed, server, dir, plant };
            (powercut::run(&plan), plan.to_string())
        }
        Command::Iofault { cycles, seed, server, dir } => {
            let plan = iofault::Plan { cycles, seed, server, dir };
            (iofault::run(&plan), plan.to_string())
        }
        Command::Fulldisk { rounds, seed, server, dir } => {
            let plan = fulldisk::Plan { rounds, seed, server, dir };
            (fulldisk::run(&plan), plan.to_string())
        }
        Command::Bitrot { cycles, seed, server } => {
            let plan = bitrot::Plan { cycles, seed, server };
            (bitrot::run(&plan), plan.to_string())
        }
        Command::Memory { rounds, seed, limit_mib, at_once, bombs, only, server } => {
            let plan = memory::Plan { rounds, seed, limit_mib, at_once, bombs, only, server };
            (memory::run(&plan), plan.to_string())
        }
        Command::Storm { waves, seed, clients, only, server } => {
            let plan = storm::Plan { waves, seed, clients, only, server };
            (storm::run(&plan), plan.to_string())
        }
        Command::Night { hours, seed, server, dir, only } => {
            let plan = night::Plan { hours, seed, server, dir, only };
            (night::run(&plan), plan.to_string())
        }
        Command::Upgrade { server, archives, make } => {
            let plan = upgrade::Plan { server, archives, make };
            (upgrade::run(&plan).map(Report::from), plan.to_string())
        }
        Command::LogStates { states, seed, json } => log_sweeps::states(states, seed, json),
        Command::LogThreads { rounds, seed } => log_sweeps::threads(rounds, seed),
        Command::LogFlips { seed, one_bit } => log_sweeps::flips(seed, one_bit),
        Command::LogKill { cycles, seed, writers } => {
            let repeat = format!("log-kill --cycles {cycles} --seed {seed} --writers {writers}");
            (log_kill::run(cycles, seed, writers), repeat)
        }
        Command::TxnHistories {
            transactions,
            seed,
            threads,
            levels,
            #[cfg(feature = "planted-bugs")]
            plant,
        } => {
            #[cfg(feature = "planted-bugs")]
            plant.iter().for_each(|mistake| collie_sync::plant(mistake));
            let plan = histories::Plan { transactions, seed, threads, levels };
            (histories::run(&plan), plan.to_string())
        }
        Command::ListAppend {
            rounds,
            transactions,
            kills,
            seed,
            clients,
            levels,
            replica,
            failovers,
            order,
            server,
            #[cfg(feature = "planted-bugs")]
            plant,
        } => {
            #[cfg(not(feature = "planted-bugs"))]
            let plant = None;
            #[cfg(feature = "planted-bugs")]
            let server = if plant.is_some() { planted::program() } else { server };
            let plan = appends::Plan {
                rounds,
                transactions,
                kills,
                seed,
                clients,
                levels,
                order,
                server,
                replica,
                failovers,
                plant,
            };
            (appends::run(&plan), plan.to_string())
        }
        Command::Failover {
            cycles,
            seed,
            server,
            #[cfg(feature = "planted-bugs")]
            points,
            witness,
        } => {
            #[cfg(not(feature = "planted-bugs"))]
            let points = false;
            #[cfg(feature = "planted-bugs")]
            let server = if points { planted::program() } else { server };
            let plan = failover::Plan { cycles, seed, server, points, witness };
            (failover::run(&plan), plan.to_string())
        }
        Command::Cluster {
            runs,
            seed,
            minutes,
            #[cfg(feature = "planted-bugs")]
            plant,
            kinds,
            quorum,
            lists,
            witness,
            jobs,
            inside,
            echo,
        } => {
            #[cfg(not(feature = "planted-bugs"))]
            let plant = None;
            let plan = cluster::Plan { runs, seed, minutes, kinds, quorum, lists, witness, plant, jobs, inside, echo };
            (cluster::run(&plan), plan.to_string())
        }
        #[cfg(feature = "planted-bugs")]
        Command::ReplicaRules { rule, plant } => {
            let plan = failover::rules::Plan { server: planted::program(), rule, plant };
            (failover::rules::run(&plan).map(Report::from), plan.to_string())
        }
        #[cfg(feature = "planted-bugs")]
        Command::Planted { mistake, serve } => (planted::serve(&mistake, serve).map(Report::from), String::new()),
        Command::LogChild { dir, rings, cycle, seed, writers } => {
            (log_kill::child([&dir, &rings], cycle, seed, writers).map(Report::from), String::new())
        }
    };
    match outcome {
        Ok(report) => {
            println!("{}", report.words);
            match figures.map_or(Ok(()), |path| report.figures.write(&path)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error:#}");
                    ExitCode::FAILURE
                }
            }
        }
        Err(error) => {
            eprintln!("violation: {error:#}");
            eprintln!("repeat: faultlab {repeat}");
            ExitCode::FAILURE
        }
    }
}
