//! `collie-bench kv` and `collie-bench txn` as a program: figures of the engine, and loads over the wire, on the server
//! that the program starts by itself and, if it is installed, on PostgreSQL.

use std::process::Command;

use super::common::{BENCH, ask, median, peer, rows, run};

/// Goal: the questions reach the key-value benchmark; many families under a limit of one byte need few files, and the
/// process may open as many as before afterwards. Method: a small run.
#[test]
fn limit_of_a_byte_with_ten_families_runs_with_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(BENCH);
    command.args(["kv", "kv-descriptors", "kv-recover", "--num", "20000", "--runs", "1", "--dir"]).arg(dir.path());
    let done = run(&mut command);
    assert!(done.code == Some(0) && done.out.contains("ok runs to its end"), "{done:?}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Goal: both servers are started, loaded, measured and stopped, and the document gets its tables. Method: two short
/// sections with the real program; JSON and document read back; nothing is left in the directory.
#[test]
fn loads_over_the_wire_run_beside_postgresql_and_leave_nothing() {
    if !peer() {
        return;
    }
    let kept = ask("txn", &["commits", "deadlock"], &[]);
    for (at, engine) in [(0, 7), (1, 3)] {
        let section = kept.section(at);
        let counts = ["collie engine", "collie server", "PostgreSQL"].map(|subject| rows(section, subject).len());
        assert_eq!(counts, [engine, 1, 1], "{section}");
        let wire = section["rows"].as_array().unwrap().last().unwrap();
        let key = if at == 0 { "commits_per_s" } else { "found_us" };
        assert!(median(wire, key) > 0.0, "{wire}");
    }
    let text = kept.page();
    assert!(text.contains("<!-- bench txn begin -->") && text.contains("### deadlock"), "{text}");
}
