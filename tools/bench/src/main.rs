//! `collie-bench`: the benchmarks as a program. It reads the command line; the library measures.
//!
//! Exit codes: 0 done, whatever the figures are; 1 failed, with one line on standard error; 2 wrong usage.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::Parser;
use collie::{allocated, ended, keep_files_private};

/// Measure a part of Collie and compare it with its floor and its peers.
///
/// Servers that are measured are processes of the program collie, which is looked for next to this one.
#[derive(Parser)]
#[command(name = "collie-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: command::Command,
}

fn main() -> ExitCode {
    allocated::offer();
    let command = Cli::parse().command;
    // Files written by a benchmark are readable by everyone, those of a server are not.
    if command.serves() {
        keep_files_private();
    }
    ended(command::run(command))
}
