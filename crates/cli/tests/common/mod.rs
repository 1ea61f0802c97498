//! Shared by the tests of the program: running it, and its outcome.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part; one that cannot run has failed")]

use std::process::{Command, Stdio};

use serde_json::Value;

pub(crate) const COLLIE: &str = env!("CARGO_BIN_EXE_collie");

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Returns the standard output of a program that must have succeeded without a line on standard error.
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns the one error line of a program that must have failed.
    pub(crate) fn refused(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.err.starts_with("error: ") && self.err.matches('\n').count() == 1, "{self:?}");
        self.err.trim_end().to_owned()
    }

    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
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
