//! Tests that the benchmark of transactions runs and that its rows are complete. No figure is judged here: that would
//! make a test depend on the machine. Sections over the wire are tested with the program, in
//! `crates/cli/tests/bench.rs`.

use crate::{Figure, Pace, Plan, Report, txn_bench};

/// The valid keys of figures, or their suffixes.
const UNITS: [&str; 10] =
    ["_ns", "_us", "reads", "_bytes", "_per_s", "_per_commit", "_percent", "_per_row", "_per_row_max", "idle_sessions"];

fn run(only: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { only: vec![only.to_owned()], ..Plan::new(dir.path(), Pace::Touch) };
    let report = txn_bench(&plan).unwrap();
    assert_eq!(report.failed(), [""; 0], "{}", report.table());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "files left behind: {left:?}");
    report
}

/// Checks the properties of every row (report T1, T2), the number of rows, and the number of targets.
fn check(report: &Report, rows: usize, targets: usize) {
    let section = &report.sections[0];
    assert_eq!((section.rows.len(), report.verdicts().1), (rows, targets), "{section:?}");
    for row in &section.rows {
        assert!(!row.level.is_empty() && !row.ring.is_empty() && !row.figures.is_empty(), "{row:?}");
        for (key, figure) in &row.figures {
            assert!(UNITS.iter().any(|unit| key.ends_with(unit)), "{key} carries no unit");
            if let Figure::Runs(spread) = figure {
                assert!(spread.low.is_finite() && spread.low >= 0.0 && spread.high.is_finite(), "{key} of {row:?}");
            }
        }
    }
}

/// Goal: snapshots and visibility checks are measured on every number of threads. Method: a touch of each.
#[test]
fn snapshots_and_visibility_have_a_row_for_every_number_of_threads() {
    check(&run("snapshot"), 11, 3);
    check(&run("visibility"), 8, 2);
}

/// Goal: commits and their latency are measured at every size, and compared with the disk. Method: a touch of each.
#[test]
fn commits_have_a_row_for_every_size() {
    check(&run("commits"), 7, 1);
    check(&run("commit-latency"), 9, 0);
}

/// Goal: old snapshots and savepoints have a row without and one with; deadlocks of every size are found. Method: a
/// touch of each; a cycle that is not found is an error of the section itself.
#[test]
fn savepoints_old_snapshots_and_deadlocks_are_measured() {
    check(&run("old-snapshot"), 2, 3);
    check(&run("savepoints"), 2, 1);
    check(&run("deadlock"), 3, 3);
}

/// Goal: sections that need a server are left out with a note if there is none. Method: the sections that measure only
/// servers.
#[test]
fn sections_without_a_server_say_so() {
    for name in ["hot-row", "mixes", "read-only", "long-statements"] {
        let report = run(name);
        check(&report, 0, 0);
        assert_eq!(
            report.sections[0].notes.first().map(String::as_str),
            Some("no rows over the wire: no program was named that serves")
        );
    }
}

/// Goal: a misspelt section is an error that names the right ones. Method: a request for one.
#[test]
fn unknown_section_is_refused() {
    let plan = Plan { only: vec!["hotrow".to_owned()], ..Plan::new(std::env::temp_dir().as_path(), Pace::Touch) };
    let error = txn_bench(&plan).unwrap_err().to_string();
    assert!(error.starts_with("no section hotrow: use snapshot, visibility"), "{error}");
}
