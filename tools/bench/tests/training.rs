//! `collie-bench training` as a program.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::process::Command;

use serde_json::Value;

/// Goal: figures, plot and document of a question are made. The error for an unknown question names the known ones.
/// Method: the shortest full run; a misspelt question.
#[test]
fn what_a_sample_costs_is_measured_and_kept() {
    let kept = tempfile::tempdir().unwrap();
    let (json, document) = (kept.path().join("training.json"), kept.path().join("training.md"));
    std::fs::write(&document, "# Training\n").unwrap();
    let mut command = Command::new(common::BENCH);
    command.args(["training", "sample", "--quick", "--json"]).arg(&json).arg("--readme").arg(&document);
    let done = common::run(command.arg("--plots").arg(kept.path()));
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let section = &report["sections"][0];
    assert_eq!((&section["name"], &section["failure"]), (&Value::from("sample"), &Value::Null), "{section}");
    let row = |subject: &str, case: &str| {
        let mut rows = section["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["subject"] == subject && row["case"] == case);
        row.unwrap_or_else(|| panic!("no row {subject}, {case} in {section}")).clone()
    };
    let sampled = row("collie", "p = 1");
    assert!(sampled["figures"]["call_ns"]["median"].as_f64().is_some_and(|ns| ns > 0.0), "{sampled}");
    assert_eq!(sampled["beside"][0]["what"], "two readings of the counter (floor)", "{sampled}");
    let text = std::fs::read_to_string(&document).unwrap();
    assert!(text.contains("<!-- bench training sample begin -->") && text.contains("| <= 150 ns |"), "{text}");
    assert!(kept.path().join("training-sample.svg").is_file());
    let wrong = common::run(Command::new(common::BENCH).args(["training", "samples"]));
    assert!(wrong.code == Some(1) && wrong.err.contains("no question samples: use sample"), "{wrong:?}");
}

/// Runs a question in short and returns its section, which must not have failed.
fn asked(question: &str, more: &[&str]) -> Value {
    let kept = tempfile::tempdir().unwrap();
    let json = kept.path().join("training.json");
    let mut command = Command::new(common::BENCH);
    command.args(["training", question, "--quick", "--dir"]).arg(kept.path()).arg("--json").arg(&json);
    let done = common::run(command.args(more));
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let section = report["sections"][0].clone();
    assert_eq!((&section["name"], &section["failure"]), (&Value::from(question), &Value::Null), "{section}");
    section
}

fn rows<'a>(section: &'a Value, subject: &str) -> Vec<&'a Value> {
    section["rows"].as_array().unwrap().iter().filter(|row| row["subject"] == subject).collect()
}

/// Goal: every policy runs in the model of a queue under every disturbance, and the targets are those of P6 as a server
/// runs it: the model has no noise except its seed's, so they are met here too. Method: the shortest run.
#[test]
fn policies_are_judged_in_the_model() {
    let section = asked("policies-model", &["--seed", "3"]);
    let (always, guarded) = (rows(&section, "P1 always"), rows(&section, "P6 headroom, with its guards"));
    // Eight disturbances and all of them together, for two samplers.
    assert_eq!((always.len(), guarded.len()), (18, 18));
    let targets: Vec<&Value> = guarded.iter().flat_map(|row| row["targets"].as_array().unwrap()).collect();
    assert_eq!(targets.len(), 4, "{section}");
    assert!(targets.iter().all(|target| target["met"] == true), "{targets:?}");
    let out = |row: &Value| row["figures"]["windows_out_pct"]["high"].as_f64().unwrap();
    assert!(out(always[0]) > 50.0 && out(guarded[0]) == 0.0, "{section}");
}

/// Goal: each policy runs on a real replica, which is disturbed in each way, read and compared; nothing is granted
/// during a halt. Method: the shortest run.
#[test]
fn policies_are_judged_on_a_pair() {
    let section = asked("policies", &[]);
    let policies = ["P0 none", "P1 always", "P2 hard_limit", "P3 k_sigma", "P4 switchback", "P5 aimd", "P6 headroom"];
    for policy in policies {
        let rows = rows(&section, policy);
        // Eleven disturbances, and all of them together.
        assert_eq!(rows.len(), 12, "{section}");
        assert!(rows[0]["figures"]["txn_per_s"]["median"].as_f64().is_some(), "{section}");
    }
    let headroom = rows(&section, "P6 headroom");
    let targets = headroom[0]["targets"].as_array().unwrap();
    assert_eq!((targets.len(), &targets[2]["met"]), (3, &Value::Bool(true)), "{section}");
    assert!(headroom[0]["figures"]["windows"].as_u64().is_some_and(|windows| windows > 0), "{section}");
    let of = |policy: &str, key: &str| rows(&section, policy)[0]["figures"][key]["median"].as_f64().unwrap();
    let granted = |policy| of(policy, "granted_us_per_s");
    assert!(granted("P0 none") == 0.0 && granted("P1 always") > 0.0, "{section}");
    for policy in policies {
        // At most the number of kept samples, and 0 without any.
        let (kept, effective) = (of(policy, "samples_kept"), of(policy, "n_eff"));
        assert!(effective <= kept + 1e-6 && (effective > 0.0) == (kept > 0.0), "{policy}: n_eff {effective} of {kept}");
    }
    assert!(of("P1 always", "n_eff") > 0.0, "{section}");
}

/// Goal: each arm counts its samples, and named files are sampled, or reported as missing. Method: the shortest run; a
/// directory without samples.
#[test]
fn samples_are_counted_to_an_error() {
    let section = asked("active", &[]);
    assert_eq!(section["rows"].as_array().unwrap().len(), 6, "{section}");
    for arm in ["uniform", "Neyman (P8)", "Neyman, buckets (P8, thinned)"] {
        let row = &rows(&section, arm)[0]["figures"];
        let of = |key: &str| row[key]["median"].as_f64().unwrap();
        assert!(of("samples_kept") > 0.0 && of("samples_kept") <= of("samples_taken"), "{row}");
    }
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(common::BENCH);
    let done = common::run(command.args(["training", "active", "--quick", "--samples"]).arg(empty.path()));
    assert!(done.code != Some(0) && format!("{done:?}").contains("no unit has 1000 samples"), "{done:?}");
}
