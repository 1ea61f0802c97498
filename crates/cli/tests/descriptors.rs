//! The program under limits on open files.

mod common;

use std::process::Command;

use common::{COLLIE, Done, run};

/// Runs the program under `limits`, which are commands of the shell.
fn under(limits: &str, arguments: &[&str]) -> Done {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), COLLIE]);
    run(command.args(arguments))
}

/// Goal: a database opens with as many files as it says it needs; with fewer it is refused, nothing is made, and the
/// needed number is named; the soft limit does not matter. Method: limits on either side, of the shell and of a server
/// with its connections.
#[test]
fn too_few_open_files_are_refused_with_the_number_needed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    let sql = ["sql", "--create", "--data", data, "--set", "wal.ring=private", "-c"];
    let shell = |limits: &str, text: &str| under(limits, &[&sql[..], &[text]].concat());
    let refused = shell("ulimit -n 191", "SELECT 1").refused();
    assert!(refused.contains("may have 191 files open, the database needs 192"), "{refused}");
    assert!(!std::path::Path::new(data).exists(), "nothing is made");
    let serve = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--set", "server.max_connections=500"];
    let refused = under("ulimit -n 694", &serve).refused();
    assert!(refused.contains("needs 695") && refused.contains("server.max_connections"), "{refused}");
    shell(
        "ulimit -n 192",
        "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000); CHECKPOINT",
    )
    .ok();
    let counted = shell("ulimit -Sn 30 && ulimit -Hn 400", "CHECKPOINT; SELECT count(*) FROM t").ok();
    assert!(counted.contains("1000"), "{counted}");
}
