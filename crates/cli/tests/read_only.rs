//! `collie sql --read-only` and `collie serve --read-only` as a program.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use common::{COLLIE, Done, run};

fn collie(arguments: &[&str]) -> Done {
    run(Command::new(COLLIE).args(arguments))
}

/// Returns every file below `dir`, with its bytes and its modification time.
fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let changed = path.metadata().unwrap().modified().unwrap();
        let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.insert(path, (bytes, changed));
    }
    found
}

/// Goal: a killed database is read without changing a byte of it, every statement that would write is refused with
/// 25006, and nothing is made where there is no database. Method: a server with rows in the LSM levels and in the log,
/// killed; the shell and a server, read-only; all files compared.
#[test]
fn killed_database_is_read_without_changing_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, none) = (dir.path().join("data"), dir.path().join("none"));
    let (data, none) = (data.to_str().unwrap(), none.to_str().unwrap());
    let serve = |more: &[&str]| {
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
        (child, format!("postgresql://collie@{address}/collie"))
    };
    let (mut server, url) = serve(&[]);
    collie(&["sql", &url, "-c", "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 500)"])
        .ok();
    collie(&["sql", &url, "-c", "CHECKPOINT"]).ok();
    collie(&["sql", &url, "-c", "INSERT INTO t VALUES (1000); DELETE FROM t WHERE n = 7"]).ok();
    let busy = collie(&["sql", "--data", data, "--read-only", "-c", "SELECT 1"]).refused();
    assert!(busy.contains(&format!("process {}", server.id())), "{busy}");
    server.kill().unwrap();
    server.wait().unwrap();

    let before = files(Path::new(data));
    let count = "SELECT count(*) || '/' || max(n) FROM t";
    let shell = |sql: &str| collie(&["sql", "--data", data, "--read-only", "-c", sql]);
    let told = shell(count);
    assert!(told.code == Some(0) && told.out.contains("500/1000"), "{told:?}");
    let writes = [
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET n = 2000 WHERE n = 1",
        "DELETE FROM t",
        "CREATE TABLE u (n int)",
        "DROP TABLE t",
        "TRUNCATE t",
        "SELECT * FROM t FOR UPDATE",
        "CHECKPOINT",
    ];
    for sql in writes {
        let refused = shell(sql);
        assert!(refused.code == Some(1) && refused.err.contains("25006"), "{sql}: {refused:?}");
    }
    let (mut server, url) = serve(&["--read-only"]);
    assert!(collie(&["sql", &url, "-c", count]).ok().contains("500/1000"));
    for sql in writes {
        let refused = collie(&["sql", &url, "-c", sql]);
        assert!(refused.code == Some(1) && refused.err.contains("25006"), "{sql}: {refused:?}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(files(Path::new(data)) == before, "a file was changed");

    let missing = collie(&["sql", "--data", none, "--read-only", "-c", "SELECT 1"]).refused();
    assert!(missing.contains("no database in") && !Path::new(none).exists(), "{missing}");
    let mistyped = collie(&["sql", "--data", none, "-c", "SELECT 1"]).refused();
    assert!(mistyped.contains("--create") && !Path::new(none).exists(), "nothing is made unasked: {mistyped}");
    let told = collie(&["sql", "--data", data, "--set", "wal.ring=private", "-c", "INSERT INTO t VALUES (7)"]);
    assert_eq!(told.code, Some(0), "an opening that writes goes on from there: {told:?}");
}
