//! `collie-bench replication` as a program: a primary and a replica, and PostgreSQL with a standby if it is installed.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::Value;

/// Returns whether PostgreSQL can be compared; fails if it is missing and the tests must not leave it out.
fn peer() -> bool {
    let there = Path::new("/usr/lib/postgresql/15/bin/pg_basebackup").is_file();
    if !there {
        assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "PostgreSQL 15 is not installed");
        eprintln!("NOT RUN beside PostgreSQL: PostgreSQL 15 is not installed");
    }
    there
}

/// Asks `questions` in a directory that user postgres can access and returns the report; the kept files go to `kept`.
/// Nothing else is left.
fn ask(questions: &[&str], kept: &Path) -> Value {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (json, document) = (kept.join("replication.json"), kept.join("replication.md"));
    std::fs::write(&document, "# Replication\n").unwrap();
    let mut command = Command::new(common::BENCH);
    command.arg("replication").args(questions).args(["--quick", "--dir"]).arg(dir.path());
    command.arg("--json").arg(&json).arg("--readme").arg(&document).arg("--plots").arg(kept);
    let page = kept.join("page.md");
    std::fs::write(&page, "# Page\n").unwrap();
    let done = common::run(command.arg("--targets").arg(&page).args(["--workers", "1"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    let said = |line: &str| done.err.contains(line);
    assert!(said("about ") && questions.iter().all(|question| said(&format!("{question}: answered"))), "{}", done.err);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("| replication | target | Collie | PostgreSQL |"), "{page}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()
}

/// Returns the rows of a section, and the numbers of those of the floors, of Collie and of PostgreSQL.
fn rows(section: &Value) -> (&Vec<Value>, [usize; 3]) {
    let rows = section["rows"].as_array().unwrap();
    let of = |subject: &str| rows.iter().filter(|row| row["subject"] == subject).count();
    (rows, [of("floor"), of("collie"), of("PostgreSQL")])
}

/// Goal: both pairs are started, loaded, observed and compared, and stopped without a trace; figures, plots and
/// document are made. Method: the shortest runs of the questions about delay; a question that does not exist.
#[test]
fn delay_is_watched_on_both_and_nothing_is_left() {
    let (peer, kept) = (peer(), tempfile::tempdir().unwrap());
    let report = ask(&["rate", "time"], kept.path());
    let [rate, time] = [0, 1].map(|at| &report["sections"][at]);
    for subject in ["collie, 1 worker", "replay by begin (thesis)"] {
        let all: Vec<_> = rows(rate).0.iter().filter(|row| row["subject"] == subject).collect();
        assert_eq!(all.len(), 3, "{subject} in {rate}");
        for row in &all[1..] {
            let figures = &row["figures"];
            assert!(figures["seen_mean_us"]["median"].as_f64().is_some_and(|us| us > 0.0), "{row}");
            assert!(
                figures["delay_mean_us"].is_object() && row["targets"].as_array().is_some_and(Vec::is_empty),
                "{row}"
            );
        }
    }
    for (section, of_each) in [(rate, 3), (time, 1)] {
        let (rows, counts) = rows(section);
        assert_eq!(counts, [2, of_each, if peer { of_each } else { 0 }], "{section}");
        let compared = section["notes"].to_string().matches("both add up to the same").count();
        // The comparison also runs where one worker replays, and in the order of transaction starts.
        let others = if section["name"] == "rate" { 2 } else { 0 };
        assert_eq!(compared, 1 + others + usize::from(peer), "{section}");
        let last = rows.iter().rfind(|row| row["subject"] == "collie").unwrap();
        for key in ["seen_mean_us", "seen_p99_us"] {
            let median = &last["figures"][key]["median"];
            assert!(median.as_f64().is_some_and(|us| us > 0.0), "{key} in {last}");
        }
        assert!(last["figures"]["delay_mean_us"].is_object(), "{last}");
    }
    assert!(time["series"].as_array().is_some_and(|series| series.len() == if peer { 6 } else { 3 }), "{time}");
    let text = std::fs::read_to_string(kept.path().join("replication.md")).unwrap();
    assert!(text.contains("### time") && text.contains("mean <= 1 ms by the primary's clock"), "{text}");
    for plot in ["replication-rate.svg", "replication-time.svg"] {
        assert!(kept.path().join(plot).is_file(), "no {plot}");
    }
    let wrong = common::run(Command::new(common::BENCH).args(["replication", "lag"]));
    assert!(
        wrong.code == Some(1)
            && wrong.err.contains("no question lag: use delay, rate, time, sync, capacity, catchup, failover"),
        "{wrong:?}"
    );
}

/// Goal: levels are measured with and without a replica, and a stopped replica and an empty one both catch up in the
/// end. Method: the shortest runs of both questions; the figures that each row must have.
#[test]
fn levels_and_coming_back_are_measured_on_both() {
    let (peer, kept) = (peer(), tempfile::tempdir().unwrap());
    let report = ask(&["sync", "catchup"], kept.path());
    let [sync, catchup] = [0, 1].map(|at| &report["sections"][at]);
    let (all, counts) = rows(sync);
    assert_eq!(counts, [2, 7, if peer { 7 } else { 0 }], "{sync}");
    assert!(sync["notes"].to_string().contains("every row was the same"), "{sync}");
    let on = all.iter().find(|row| row["case"] == "on, a replica, waited for, 4 clients").unwrap();
    let beside: Vec<_> = on["beside"].as_array().unwrap().iter().map(|of| of["what"].as_str().unwrap()).collect();
    assert_eq!(beside, ["p50: two flushes and a round trip", "local, no replica"], "{on}");
    for row in all.iter().skip(2) {
        assert!(row["figures"]["commits_per_s"]["median"].as_f64().is_some_and(f64::is_finite), "{row}");
    }
    let (all, counts) = rows(catchup);
    assert_eq!(counts, [2, 2, if peer { 2 } else { 0 }], "{catchup}");
    let back = all.iter().find(|row| row["case"] == "comes back").unwrap();
    assert!(back["figures"]["log_bytes"]["median"].as_f64().is_some_and(|bytes| bytes >= 4e6), "{back}");
    for row in all.iter().skip(2) {
        assert!(row["figures"]["even_s"]["median"].as_f64().is_some_and(|s| s > 0.0), "{row}");
    }
}

/// Goal: commits answered at `synchronous_commit = on` are there after a kill, and the killed primary rejoins. Method:
/// two failovers of each pair, the nodes changing places.
#[test]
fn failover_loses_nothing_that_was_answered() {
    let (peer, kept) = (peer(), tempfile::tempdir().unwrap());
    let report = ask(&["failover"], kept.path());
    let section = &report["sections"][0];
    let (all, counts) = rows(section);
    assert_eq!(counts, [2, 1, usize::from(peer)], "{section}");
    for row in all.iter().skip(2) {
        assert_eq!(row["figures"]["lost_commits"], 0, "{row}");
        assert!(row["figures"]["rejoined_s"]["median"].as_f64().is_some_and(|s| s > 0.0), "{row}");
    }
}
