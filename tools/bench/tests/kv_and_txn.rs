//! `collie-bench kv` and `collie-bench txn` as a program: flags; loads over the wire, on the server that the program
//! starts by itself and, if it is installed, on PostgreSQL.

mod common;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// Goal: db_bench's flags reach the benchmark, and a wrong one is wrong usage. Method: a small run; a misspelt flag.
#[test]
fn key_value_benchmark_takes_the_flags_of_db_bench() {
    let dir = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let mut command = Command::new(common::BENCH);
        let done = command.arg("kv").args(flags).stdin(Stdio::null()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let db = format!("--db={}", dir.path().display());
    let (code, out, err) = run(&["--benchmarks=fillseq,readrandom", "--num=100", &db]);
    assert_eq!(code, Some(0), "{out}\n{err}");
    assert!(out.contains("fillseq      : ") && out.contains("(100 of 100 found)"), "{out}");
    let (code, _, err) = run(&["--vlaue_size=1"]);
    assert!(code == Some(2) && err.contains("did you mean --value_size?"), "{err}");
}

/// Goal: many families under a limit of one byte need few files. Method: ten of them in a process that may have 256
/// open files, with small log files.
#[test]
fn limit_of_a_byte_with_ten_families_runs_with_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\"", common::BENCH, "kv"]);
    command.args(["--benchmarks=fillrandom,readrandom", "--num=20000", "--num_column_families=10"]);
    command
        .args(["--max_total_wal_size=1", "--wal_segment_size=1048576"])
        .arg(format!("--db={}", dir.path().display()));
    let done = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success() && out.contains("readrandom   : "), "{out}\n{err}");
}

/// Goal: the log of the measured database is where `--wal_dir` says. Method: a small run with another directory for it.
#[test]
fn log_of_a_measured_database_may_be_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (db, logs) = (format!("--db={}", path("bench")), format!("--wal_dir={}", path("logs")));
    let done = common::run(Command::new(common::BENCH).args([
        "kv",
        "--benchmarks=fillseq,fillrandom",
        "--num=200",
        &db,
        &logs,
    ]));
    assert!(done.code == Some(0) && dir.path().join("logs/collie-wal/owner").exists(), "{done:?}");
}

/// Goal: both servers are started, loaded, measured and stopped, and the document gets its tables. Method: two short
/// sections with the real program; JSON and document read back; nothing is left in the directory.
#[test]
fn loads_over_the_wire_run_beside_postgresql_and_leave_nothing() {
    if !Path::new("/usr/lib/postgresql/15/bin/pgbench").is_file() {
        assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "PostgreSQL 15 is not installed");
        eprintln!("NOT RUN: PostgreSQL 15 is not installed");
        return;
    }
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // User postgres must have access to the files made in it.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (json, document) = (kept.path().join("txn.json"), kept.path().join("txn.md"));
    std::fs::write(&document, "# Transactions\n").unwrap();
    let mut command = Command::new(common::BENCH);
    command.args(["txn", "commits", "deadlock", "--quick", "--dir"]).arg(dir.path());
    command.arg("--json").arg(&json).arg("--readme").arg(&document);
    let done = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success(), "{out}\n{err}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for (at, engine) in [(0, 7), (1, 3)] {
        let section = &report["sections"][at];
        let of =
            |subject: &str| section["rows"].as_array().unwrap().iter().filter(|row| row["subject"] == subject).count();
        assert_eq!([of("collie engine"), of("collie server"), of("PostgreSQL")], [engine, 1, 1], "{section}");
        let wire = section["rows"].as_array().unwrap().last().unwrap();
        let key = if at == 0 { "commits_per_s" } else { "found_us" };
        assert!(wire["figures"][key]["median"].as_f64().unwrap() > 0.0, "{wire}");
    }
    let text = std::fs::read_to_string(&document).unwrap();
    for line in [
        "<!-- bench txn begin -->",
        "### deadlock",
        "| deadlock | collie server | cycle of 2 transactions, 2 clients | < 1 ms |",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
