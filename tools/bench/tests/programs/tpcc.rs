//! `collie-bench tpcc` as a program: on the engine, over the wire, compared with PostgreSQL if it is installed, and on
//! a server that is killed during the run.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::common::{BENCH, Done, collie, peer, run};
use serde_json::Value;

/// A running server; dropping it kills it with SIGKILL.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(collie())
            .args(["serve", "--listen", "127.0.0.1:0", "--set", "wal.ring=private", "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, url: format!("postgresql://collie@{address}/collie") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tpcc(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BENCH);
    command.arg("tpcc").args(arguments).args(["--quick", "--clients", "4", "--dir"]).arg(dir);
    command
}

/// Checks a report: every target has a row for all transactions and one for each type, with figures; all conditions
/// hold.
fn check(done: &Done, out: &Path, targets: usize) {
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(out.join("tpcc.json")).unwrap()).unwrap();
    let section = &report["sections"][0];
    let rows = section["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6 * targets, "{section}");
    for row in rows.iter().step_by(6) {
        let figure = |key: &str| row["figures"][key]["median"].as_f64().unwrap();
        // In one second on a busy machine, possibly no transaction ends; the test of the killed server waits for
        // completed load.
        assert!(figure("txn_per_s").is_finite() && figure("log_bytes_per_txn").is_finite(), "{row}");
    }
    let notes = section["notes"].to_string();
    assert_eq!(notes.matches("all twelve consistency conditions hold before and after").count(), targets, "{notes}");
}

/// Goal: the engine and a server pass every condition after four clients, and report their work; existing tables are
/// used again, those of another scale are refused. Method: short runs flat out, then at a rate on the same tables.
#[test]
fn engine_and_server_pass_every_condition() {
    let dir = tempfile::tempdir().unwrap();
    let document = dir.path().join("tpcc.md");
    std::fs::write(&document, "# TPC-C\n").unwrap();
    let server = Server::start(&dir.path().join("data"));
    let out = dir.path().to_str().unwrap();
    let keep = ["--out", out, "--readme", document.to_str().unwrap(), "--runs", "2"];
    let done = run(tpcc(dir.path(), &["embedded", "embedded-async", "embedded-sql", &server.url]).args(keep));
    check(&done, dir.path(), 4);
    assert!(done.out.contains("Delivery, from its queueing") && done.out.contains("tpmc"), "{}", done.out);
    assert!(std::fs::read_to_string(&document).unwrap().contains("### tpcc"));
    let rate = ["--rate", "20", "--runs", "1"];
    let done = run(tpcc(dir.path(), &[&server.url]).args(rate).args(["--out", out]));
    check(&done, dir.path(), 1);
    assert!(done.out.contains("backlog_txns"), "{}", done.out);
    let other = run(Command::new(BENCH).args(["tpcc", &server.url, "--warehouses", "2"]));
    assert!(
        other.code == Some(1) && other.err.contains("has tables of 1 warehouse with 300 customers each"),
        "{other:?}"
    );
    let none = run(Command::new(BENCH).args(["tpcc", "elsewhere"])).err;
    assert!(
        none.contains("no target elsewhere: use embedded, embedded-async, embedded-sql, servers or postgres://"),
        "{none}"
    );
}

/// Goal: a server that is killed during transactions is consistent after its restart. Method: SIGKILL after some
/// hundred payments; the next run checks every condition before it begins, and after.
#[test]
fn killed_server_is_consistent_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    let mut load = tpcc(dir.path(), &[&server.url, "--runs", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The loaded tables have 300.
    let payments =
        || run(Command::new(collie()).args(["sql", &server.url, "-c", "SELECT count(*) >= 500 FROM history"]));
    while !payments().out.contains(" t") {
        assert!(load.try_wait().unwrap().is_none(), "the load ended before the server");
    }
    drop(server);
    assert_eq!(load.wait().unwrap().code(), Some(1));
    let server = Server::start(&data);
    let done = run(tpcc(dir.path(), &[&server.url, "--runs", "1"]).arg("--out").arg(dir.path()));
    check(&done, dir.path(), 1);
}

/// Goal: the same driver runs against PostgreSQL. Method: both servers, started for it; nothing is left in the
/// directory.
#[test]
fn driver_runs_beside_postgresql() {
    if !peer() {
        return;
    }
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // User postgres must have access to the files made in it.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let done = run(tpcc(dir.path(), &["servers", "--runs", "1"]).arg("--out").arg(kept.path()));
    check(&done, kept.path(), 2);
    assert!(done.out.contains("x PostgreSQL"), "{}", done.out);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
