//! `collie-bench replication` as a program: a primary and a replica, and PostgreSQL with a standby if it is installed.

use std::process::Command;

use serde_json::Value;

use super::common::{BENCH, ask, median, peer, rows as of, run};

/// Returns the rows of a section, and the numbers of those of the floors, of Collie and of PostgreSQL.
fn rows(section: &Value) -> (&Vec<Value>, [usize; 3]) {
    (section["rows"].as_array().unwrap(), ["floor", "collie", "PostgreSQL"].map(|subject| of(section, subject).len()))
}

/// Goal: both pairs are started, loaded, observed and compared, and stopped without a trace; figures, plots and
/// document are made. Method: the shortest runs of the questions about delay; a question that does not exist.
#[test]
fn delay_is_watched_on_both_and_nothing_is_left() {
    let (peer, page) = (peer(), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(page.path(), "# Page\n").unwrap();
    let kept = ask("replication", &["rate", "time"], &["--targets", page.path().to_str().unwrap()]);
    let [rate, time] = [0, 1].map(|at| kept.section(at));
    let page = std::fs::read_to_string(page.path()).unwrap();
    assert!(page.contains("| replication | target | Collie | PostgreSQL |"), "{page}");
    for (section, of_each) in [(rate, 3), (time, 1)] {
        let (rows, counts) = rows(section);
        assert_eq!(counts, [2, of_each, if peer { of_each } else { 0 }], "{section}");
        let compared = section["notes"].to_string().matches("both add up to the same").count();
        // The comparison also runs for other numbers of workers.
        assert!(compared > usize::from(peer), "{section}");
        let last = rows.iter().rfind(|row| row["subject"] == "collie").unwrap();
        assert!(median(last, "seen_mean_us") > 0.0 && median(last, "seen_p99_us") > 0.0, "{last}");
        assert!(last["figures"]["delay_mean_us"].is_object(), "{last}");
    }
    let text = kept.page();
    assert!(text.contains("### time") && text.contains("mean <= 1 ms by the primary's clock"), "{text}");
    assert!(kept.dir.path().join("replication-rate.svg").is_file());
    let wrong = run(Command::new(BENCH).args(["replication", "lag"]));
    let known = "no section lag: use delay, rate, time, sync, capacity, catchup, failover";
    assert!(wrong.code == Some(1) && wrong.err.contains(known), "{wrong:?}");
}

/// Goal: levels are measured with and without a replica, and a stopped replica and an empty one both catch up in the
/// end. Method: the shortest runs of both questions; the figures that each row must have.
#[test]
fn levels_and_coming_back_are_measured_on_both() {
    let (peer, kept) = (peer(), ask("replication", &["sync", "catchup"], &[]));
    let [sync, catchup] = [0, 1].map(|at| kept.section(at));
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
    let (peer, kept) = (peer(), ask("replication", &["failover"], &[]));
    let section = kept.section(0);
    let (all, counts) = rows(section);
    assert_eq!(counts, [2, 1, usize::from(peer)], "{section}");
    for row in all.iter().skip(2) {
        assert_eq!(row["figures"]["lost_commits"], 0, "{row}");
        assert!(row["figures"]["rejoined_s"]["median"].as_f64().is_some_and(|s| s > 0.0), "{row}");
    }
}
