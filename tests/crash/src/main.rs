//! `faultlab`: runs the real server, breaks it, and checks what a user would find afterwards.
//!
//! `killloop`: SIGKILL at random moments under a bank load over real connections. The journal of what was acknowledged
//! lives in this process, which nobody kills.
#![forbid(unsafe_code)]

mod bank;
mod journal;
mod killloop;
mod random;
mod server;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "faultlab", about = "Breaks a running server and checks what is left")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill the server at random moments under load, open again, compare with the journal.
    Killloop {
        /// How often.
        #[arg(long, default_value_t = 50)]
        cycles: u64,
        /// Decides when it is killed and what is written.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Clients at one time; every fourth commits asynchronously.
        #[arg(long, default_value_t = 8)]
        clients: u64,
        /// The server's binary.
        #[arg(long, default_value = "target/debug/collie")]
        server: PathBuf,
    },
}

fn main() -> ExitCode {
    let Command::Killloop { cycles, seed, clients, server } = Cli::parse().command;
    let plan = killloop::Plan { cycles, seed, clients, server };
    match killloop::run(&plan) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("violation: {error:#}");
            eprintln!(
                "repeat: faultlab killloop --cycles {cycles} --seed {seed} --clients {clients} --server {}",
                plan.server.display()
            );
            ExitCode::FAILURE
        }
    }
}
