//! Shared by the tests of the program: running it, the server next to it, and its report.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_collie-bench");

/// Returns the program `collie`, which has to be built before.
pub(crate) fn collie() -> PathBuf {
    let path = Path::new(BENCH).with_file_name("collie");
    assert!(path.is_file(), "{} is not there: build it with `cargo build -p collie`", path.display());
    path
}

/// Returns whether PostgreSQL can be compared; fails if it is missing and the tests must not leave it out.
pub(crate) fn peer() -> bool {
    let there = ["pgbench", "pg_basebackup"].map(|name| Path::new("/usr/lib/postgresql/15/bin").join(name).is_file());
    if there == [true; 2] {
        return true;
    }
    assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "PostgreSQL 15 is not installed");
    eprintln!("NOT RUN beside PostgreSQL: PostgreSQL 15 is not installed");
    false
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

/// A report, and the directory with the files that were kept: JSON, plots and the document `page.md`.
pub(crate) struct Kept {
    pub(crate) report: Value,
    pub(crate) dir: tempfile::TempDir,
}

impl Kept {
    /// Returns the section at a place.
    pub(crate) fn section(&self, at: usize) -> &Value {
        &self.report["sections"][at]
    }

    /// Returns the document.
    pub(crate) fn page(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("page.md")).unwrap()
    }
}

/// Asks `questions` of a benchmark in the shortest runs, with `more` arguments, in a directory that user postgres can
/// access. Every question must be answered, and nothing be left there.
pub(crate) fn ask(bench: &str, questions: &[&str], more: &[&str]) -> Kept {
    let (scratch, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let page = dir.path().join("page.md");
    std::fs::write(&page, "# Page\n").unwrap();
    let mut command = Command::new(BENCH);
    command.arg(bench).args(questions).args(more).args(["--quick", "--dir"]).arg(scratch.path());
    let done = run(command.arg("--out").arg(dir.path()).arg("--readme").arg(&page));
    assert_eq!(done.code, Some(0), "{done:?}");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let text = std::fs::read_to_string(dir.path().join(bench).with_extension("json")).unwrap();
    let kept = Kept { report: serde_json::from_str(&text).unwrap(), dir };
    for (at, question) in questions.iter().enumerate() {
        let section = kept.section(at);
        assert_eq!((&section["name"], &section["failure"]), (&Value::from(*question), &Value::Null), "{section}");
    }
    kept
}

/// Returns the rows of a section for `subject`.
pub(crate) fn rows<'a>(section: &'a Value, subject: &str) -> Vec<&'a Value> {
    section["rows"].as_array().unwrap().iter().filter(|row| row["subject"] == subject).collect()
}

/// Returns the median of a figure, which must be there.
pub(crate) fn median(row: &Value, key: &str) -> f64 {
    row["figures"][key]["median"].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}
