//! `collie checkpoint`, `backup` and `restore` as a program: by themselves on a data directory, and through a running
//! server.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use common::{COLLIE, Done, run};
use serde_json::Value;

fn collie(arguments: &[&str]) -> Done {
    run(Command::new(COLLIE).args(arguments))
}

const COUNT: &str = "SELECT count(*) || '/' || max(n) FROM t";

/// Runs SQL on a data directory that no server has open; returns its output.
fn sql(data: &str, sql: &str) -> String {
    let done = collie(&["sql", "--create", "--data", data, "--set", "wal.ring=private", "-c", sql]);
    // A killed server leaves a log end about which the next open prints a notice, so standard error is not checked.
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out
}

/// A running server; dropping it kills it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &str) -> Self {
        Self::start_with(data, &[])
    }

    fn start_with(data: &str, more: &[&str]) -> Self {
        let mut child = Command::new(COLLIE)
            .args(["serve", "--data", data, "--listen", "127.0.0.1:0", "--set", "wal.ring=private"])
            .args(more)
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

    fn sql(&self, sql: &str) -> String {
        collie(&["sql", &self.url, "-c", sql]).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

/// Goal: a running server is copied both ways; commits answered before the copy are in it and later ones are not; the
/// copy is checked, restored, and served; CHECKPOINT flushes. Method: the program's own commands, in both forms of
/// output.
#[test]
fn running_server_is_copied_checked_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, restored) = (path(&dir, "data"), path(&dir, "it's a backup"), path(&dir, "restored"));
    let server = Server::start_with(&data, &["--set", &format!("server.copy_dir={}", dir.path().display())]);
    server.sql("CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)");
    assert!(!fs::read_dir(dir.path().join("data/levels")).unwrap().any(|entry| entry.unwrap().path().is_dir()));
    server.sql("CHECKPOINT");
    assert!(fs::read_dir(dir.path().join("data/levels")).unwrap().any(|entry| entry.unwrap().path().is_dir()));
    server.sql("SET synchronous_commit = off; INSERT INTO t VALUES (1001)");
    let made = collie(&["backup", &backup, "--url", &server.url, "--json"]).json();
    assert!(made["files"].as_u64().unwrap() > 5 && made["bytes"].as_u64().unwrap() > 5_000, "{made}");
    let told = collie(&["checkpoint", &path(&dir, "checkpoint"), "--url", &server.url]).ok();
    assert!(told.starts_with("made ") && told.contains("it holds every commit below "), "{told}");
    server.sql("INSERT INTO t VALUES (1002)");
    let again = collie(&["backup", &backup, "--url", &server.url]).refused();
    assert!(again.contains("it is not empty"), "{again}");
    let inside = collie(&["checkpoint", &path(&dir, "data/inside"), "--url", &server.url]).refused();
    assert!(inside.contains("copies are made in ") && inside.contains("server.copy_dir"), "{inside}");
    drop(server);
    let whole = collie(&["backup", "verify", &backup, "--json"]).json();
    assert_eq!(
        (&whole["whole"], &whole["end_lsn"], &whole["files"]),
        (&Value::Bool(true), &made["end_lsn"], &made["files"])
    );
    let told = collie(&["restore", &backup, &restored]).ok();
    assert!(told.starts_with(&format!("restored {restored} from ")), "{told}");
    for copy in [&restored, &path(&dir, "checkpoint")] {
        let server = Server::start(copy);
        assert!(server.sql(COUNT).contains("1001/1001"), "{copy}");
        server.sql("INSERT INTO t VALUES (2000)");
    }
    assert!(sql(&data, COUNT).contains("1002/1002"));
}

/// Goal: a stopped directory is copied too, `--to-lsn` leaves out later commits, and failures are reported in one line
/// with exit code 1. Method: copies by `--data`, a restore to the end of the backup, refusals.
#[test]
fn stopped_directory_is_copied_and_restored_to_a_position() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (path(&dir, "data"), path(&dir, "backup"));
    sql(&data, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    let made = collie(&["backup", &backup, "--data", &data, "--set", "wal.ring=private", "--json"]).json();
    let whole = collie(&["backup", "verify", &backup]).ok();
    assert!(whole.starts_with("whole: ") && whole.contains(made["end_lsn"].as_str().unwrap()), "{whole}");
    let to_end = path(&dir, "to end");
    let restored =
        collie(&["restore", &backup, &to_end, "--to-lsn", made["end_lsn"].as_str().unwrap(), "--json"]).json();
    assert_eq!(restored["end_lsn"], made["end_lsn"]);
    assert!(sql(&to_end, COUNT).contains("2/2"));
    let below = collie(&["restore", &backup, &path(&dir, "no"), "--to-lsn", "0/1000"]).refused();
    assert!(below.contains("cannot be restored to 0/1000: it can to positions from "), "{below}");
    let nothing = collie(&["restore", &data, &path(&dir, "no")]).refused();
    assert!(nothing.contains("BACKUP is missing"), "{nothing}");
    let absent = collie(&["backup", &path(&dir, "no"), "--data", &path(&dir, "absent")]).refused();
    assert!(absent.contains("no database in"), "{absent}");
    assert!(!Path::new(&path(&dir, "no")).exists() && !Path::new(&path(&dir, "absent")).exists());
    let control = dir.path().join("backup/control");
    let mut bytes = fs::read(&control).unwrap();
    bytes[20] ^= 1;
    fs::write(&control, bytes).unwrap();
    let bad = collie(&["backup", "verify", &backup]);
    assert!(bad.out.starts_with(&format!("bad: {}, from byte 0 on, ", control.display())), "{bad:?}");
    assert!(bad.refused().contains("1 of "));
    let bad = collie(&["restore", &backup, &path(&dir, "no")]).refused();
    assert!(bad.contains("control, from byte 0 on, is not as it was made"), "{bad}");
    assert_eq!(collie(&["backup"]).code, Some(2));
}
