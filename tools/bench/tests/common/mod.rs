//! Shared by the tests of the program: running it, the server next to it, and an outcome.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part; one that cannot run has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_collie-bench");

/// Returns the program `collie`, which has to be built before.
pub(crate) fn collie() -> PathBuf {
    let path = Path::new(BENCH).with_file_name("collie");
    assert!(path.is_file(), "{} is not there: build it with `cargo build -p collie`", path.display());
    path
}

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a program to its end, with empty standard input.
pub(crate) fn run(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
