//! `collie-bench training`, the questions about models, as a program.

use serde_json::Value;

use super::common::{ask, median};

fn rows_of(section: &Value) -> Vec<Value> {
    section["rows"].as_array().unwrap().clone()
}

/// Goal: a replica's and its primary's models of at least one unit are fitted to real samples of a run, evaluated on
/// another run, and tested against each other, per policy; a replica that collects nothing is reported. Method: the
/// shortest run with real servers; figures are not checked, except that errors are above 0.
#[test]
fn models_of_a_replica_are_judged_beside_those_of_its_primary() {
    let kept = ask("training", &["accuracy"], &[]);
    let section = kept.section(0);
    let rows = rows_of(section);
    let (all, units): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["subject"] == "all units");
    let cases: Vec<&str> = all.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(
        cases,
        ["P0 none", "P2 hard_limit", "P3 k_sigma", "P6 headroom"].map(|policy| format!("median, {policy}"))
    );
    let [nothing, .., headroom] = &all[..] else { panic!("four policies in {section}") };
    assert_eq!(nothing["figures"]["replica_error_pct"]["absent"], "no samples", "{section}");
    assert!(units.iter().all(|unit| unit["case"] != "elapsed time, P0 none"), "{section}");
    let of_default = |unit: &&&Value| unit["case"] == "elapsed time, P6 headroom";
    assert!(
        units.iter().any(|unit| of_default(&unit)) && headroom["targets"].as_array().unwrap().len() == 1,
        "{section}"
    );
    assert!(all[..3].iter().all(|row| row["targets"] == Value::Array(Vec::new())), "{section}");
    for unit in &units {
        assert!(median(unit, "replica_error_pct") > 0.0 && median(unit, "primary_error_pct") > 0.0, "{unit}");
        assert!(unit["figures"]["rows"].as_u64().is_some_and(|rows| rows >= 60), "{unit}");
        let tested = unit["figures"]["p_worse"]["median"].as_f64();
        assert!(tested.is_none_or(|p| (0.0..=1.0).contains(&p)), "{unit}");
    }
    assert!(units.iter().any(|unit| unit["figures"]["p_worse"]["median"].is_f64()), "nothing was tested: {section}");
}

/// Goal: faults of each kind hit decisions halfway and leave nothing behind, on simulated servers and on a pair whose
/// primary is killed while its settings change. Method: the shortest run.
#[test]
fn faults_in_the_midst_of_decisions_leave_nothing() {
    let kept = ask("training", &["safety"], &[]);
    let section = kept.section(0);
    let rows = rows_of(section);
    assert_eq!(rows.len(), 7, "{section}");
    for row in &rows {
        let targets = row["targets"].as_array().unwrap();
        let missed: Vec<_> = targets.iter().filter(|target| target["met"] != true).collect();
        assert!(targets.len() >= 2 && missed.is_empty(), "{row}");
    }
    let failovers = &rows[6]["figures"];
    assert!(failovers["acknowledged_commits"].as_u64().is_some_and(|count| count > 0), "{failovers}");
}
