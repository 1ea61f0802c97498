//! `collie-bench training` as a program, with the questions that start servers: the cost of collecting on a primary and
//! its replica.

use serde_json::Value;

use super::common::{ask, median, rows as of};

/// Goal: on one server collecting is switched on and off, and its cost is measured: no samples without it, few by
/// default, many when every call is sampled; a ratio has an interval, and the notes report the six system
/// calls. Method: the shortest run.
#[test]
fn what_collecting_costs_a_primary_is_measured() {
    let kept = ask("training", &["overhead"], &[]);
    let section = kept.section(0);
    let samples =
        |subject: &str| of(section, subject).iter().map(|row| median(row, "samples_per_txn")).collect::<Vec<_>>();
    let rows = of(section, "every call, six system calls");
    let loads: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    for (cases, load) in loads.chunks(2).zip(["TPC-C, ", "YCSB A (", "YCSB B ("]) {
        assert!(cases.iter().all(|case| case.starts_with(load)), "{cases:?}, not of {load}");
    }
    assert_eq!(rows.len(), 6, "{section}");
    assert!(rows.iter().all(|row| median(row, "txn_per_s") > 0.0 && median(row, "p99_us") > 0.0), "{section}");
    for subject in ["every call", "every call, six system calls"] {
        // For each load without and with collecting; a transaction of YCSB is one statement.
        for (samples, least) in samples(subject).chunks(2).zip([5.0, 1.0, 1.0]) {
            assert!(samples[0] < samples[1] / 10.0 && samples[1] > least, "{subject}: {samples:?}");
        }
    }
    let default = samples("default (a thousandth of calls)");
    assert!(default[1] < samples("every call")[1] / 10.0, "{default:?}");
    for row in rows.iter().skip(1).step_by(2) {
        for key in ["throughput_ratio_ci95", "p99_ratio_ci95", "cpu_ratio_ci95"] {
            let figure = &row["figures"][key];
            let [low, middle, high] = ["low", "median", "high"].map(|end| figure[end].as_f64().unwrap());
            assert!(0.0 < low && low <= middle && middle <= high, "{key} in {row}");
        }
    }
    let targets = of(section, "default (a thousandth of calls)")[1]["targets"].as_array().unwrap().len();
    assert_eq!((targets, of(section, "the replica collects").len()), (2, 6), "{section}");
    let notes = section["notes"].to_string();
    assert_eq!(notes.matches("all 1000 rows of usertable are there").count(), 4, "{notes}");
    assert_eq!(notes.matches("and the same on the replica").count(), 1, "{notes}");
    assert!(notes.contains("six system calls") && notes.matches("consistency conditions").count() == 4, "{notes}");
}

/// Goal: a pair is measured under each policy while it runs, and the resource use of both nodes is determined; plots
/// and document are made. Method: the shortest runs of the three questions about a replica.
#[test]
fn a_replica_that_collects_is_measured_under_each_policy() {
    let kept = ask("training", &["rate", "time", "cost"], &[]);
    let [rate, time, cost] = [0, 1, 2].map(|at| kept.section(at));
    for policy in ["collection off (P0)", "always (P1)", "headroom (P6)"] {
        let rows = of(rate, policy);
        assert_eq!(rows.len(), 5, "{policy} in {rate}");
        assert!(median(rows[0], "knee_per_s") > 0.0 && median(rows[1], "seen_mean_us") > 0.0, "{rate}");
        let rows = of(time, policy);
        assert_eq!(rows.len(), 1, "{policy} in {time}");
        // The number of samples depends on the machine: a replica that is far behind takes none, and samples of a
        // previous run may be left.
        assert!(median(rows[0], "seen_mean_us") > 0.0 && median(rows[0], "samples") >= 0.0, "{time}");
    }
    let headroom = |section| of(section, "headroom (P6)")[0]["targets"].as_array().unwrap().len();
    assert_eq!((headroom(rate), headroom(time)), (1, 1));
    for node in ["primary", "replica"] {
        let rows = of(cost, node);
        assert_eq!(rows.len(), 1, "{cost}");
        assert!(median(rows[0], "txn_cpu_us_without") > 0.0, "{cost}");
        assert!(rows[0]["figures"]["cpu_percent_of_a_core_ci95"]["median"].is_number(), "{cost}");
    }
    let text = kept.page();
    assert!(text.contains("<!-- bench training rate begin -->") && text.contains("knee_ratio_ci95"), "{text}");
    assert!(
        !kept.dir.path().join("replication-rate.svg").exists() && kept.dir.path().join("training-rate.svg").is_file()
    );
}

/// Goal: a server samples a load, models are fitted to the samples, and the server decides by them; its values are
/// compared with those of the configuration and of an expert; a change is cut short by a shift of the load; models of
/// the wrong sign are kept nowhere, and the configured values are in force after a restart. Method: the shortest run,
/// in which no change can end: the rows say so, and no target claims an unobserved result.
#[test]
fn what_decisions_come_to_is_measured() {
    let kept = ask("training", &["decisions"], &[]);
    let section = kept.section(0);
    let rows = of(section, "half reads, half updates by key, commits in memory");
    let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!((cases.len(), cases[0]), (3, "as configured"), "{section}");
    assert!(
        cases[1].starts_with("expert: wal.flush_bytes=") || cases[1].starts_with("expert: wal.flush_delay="),
        "{cases:?}"
    );
    assert_eq!(cases[2], "loop: as configured", "{section}");
    for row in &rows[1..] {
        for key in ["throughput_ratio_ci95", "p99_ratio_ci95"] {
            let [low, middle, high] = ["low", "median", "high"].map(|end| row["figures"][key][end].as_f64().unwrap());
            assert!(0.0 < low && low <= middle && middle <= high, "{key} in {row}");
        }
    }
    let targets = |row: &Value| row["targets"].as_array().map_or(0, Vec::len);
    assert_eq!((targets(rows[2]), targets(of(section, "all loads")[0])), (2, 0), "{section}");
    assert!(section["notes"].to_string().contains("models of "), "{section}");
    let shift = of(section, "load shift")[0];
    assert!(median(shift, "per_s") > 0.0 && shift["figures"]["until_old_s"]["absent"].is_string(), "{shift}");
    let wrong = of(section, "models of the wrong sign")[0];
    let count = |key: &str| wrong["figures"][key].as_u64();
    assert_eq!((count("kept"), count("rejected"), count("restored_runs")), (Some(0), Some(0), Some(1)), "{wrong}");
    assert_eq!((targets(shift), targets(wrong)), (0, 0), "{section}");
}
