//! `wal.wal_dir` through the program: every command finds the log, or says where it is not; and `collie restore
//! --to-time`.

mod common;

use std::process::Command;

use common::{COLLIE, Done, run};

fn collie(arguments: &[&str]) -> Done {
    run(Command::new(COLLIE).args(arguments))
}

/// Goal: a database whose log is elsewhere is written, inspected, copied and restored to a time; opened without its log
/// it is refused with both paths. Method: each command once.
#[test]
fn every_command_follows_the_log_to_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let (data, log, backup) = (path("data"), path("log"), path("backup"));
    let set = format!("wal.wal_dir={log}");
    let sql = |more: &[&str], text: &str| {
        collie(&[&["sql", "--data", &data, "--set", "wal.ring=private", "-c", text], more].concat())
    };
    sql(
        &["--create", "--set", &set],
        "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)",
    )
    .ok();
    assert!(!root.join("data/wal").exists() && root.join("log/owner").exists());
    let refused = sql(&[], "SELECT 1").refused();
    assert!(refused.contains(&format!("{data}/wal")) && refused.contains(&log), "{refused}");
    assert!(sql(&["--set", &set, "--read-only"], "SELECT count(*) FROM t").ok().contains("100"));

    let dump = collie(&["wal", "dump", &data]).ok();
    assert!(dump.contains("COMMIT xid"), "{dump}");
    assert_eq!(collie(&["wal", "dump", &log]).ok(), dump);
    assert_eq!(collie(&["wal", "stat", &data, "--json"]).json(), collie(&["wal", "stat", &log, "--json"]).json());
    collie(&["wal", "verify", &data]).ok();
    let cut = collie(&["wal", "truncate-at", &log, "4095", "--dry-run"]).refused();
    assert!(cut.contains("the checkpoint needs everything below"), "its database is found from the log: {cut}");

    collie(&["backup", &backup, "--data", &data, "--set", &set, "--set", "wal.ring=private"]).ok();
    let early = collie(&["restore", &backup, &path("early"), "--to-time", "2001-02-03 04:05:06+00"]).refused();
    assert!(early.contains("cannot be restored to 2001-02-03 04:05:06.000000+00"), "{early}");
    assert!(!root.join("early").exists());
    let restored = path("restored");
    collie(&["restore", &backup, &restored, "--to-time", "now"]).ok();
    let counted = collie(&["sql", "--data", &restored, "--set", "wal.ring=private", "-c", "SELECT count(*) FROM t"]);
    assert!(counted.code == Some(0) && counted.out.contains("100"), "{counted:?}");
    let wrong = collie(&["restore", &backup, &path("wrong"), "--to-time", "half past"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
