//! `collie-bench training` as a program.

use std::process::Command;

use serde_json::Value;

use super::common::{BENCH, ask, median, rows, run};

/// Goal: figures, plot and document of a question are made. The error for an unknown question names the known ones.
/// Method: the shortest full run; a misspelt question.
#[test]
fn what_a_sample_costs_is_measured_and_kept() {
    let kept = ask("training", &["sample"], &[]);
    let collie = rows(kept.section(0), "collie");
    let sampled = collie.iter().find(|row| row["case"] == "p = 1").unwrap();
    assert!(median(sampled, "call_ns") > 0.0, "{sampled}");
    assert_eq!(sampled["beside"][0]["what"], "two readings of the counter (floor)", "{sampled}");
    let text = kept.page();
    assert!(text.contains("<!-- bench training sample begin -->") && text.contains("| <= 150 ns |"), "{text}");
    assert!(kept.dir.path().join("training-sample.svg").is_file());
    let wrong = run(Command::new(BENCH).args(["training", "samples"]));
    assert!(wrong.code == Some(1) && wrong.err.contains("no section samples: use sample"), "{wrong:?}");
}

/// Goal: every policy runs in the model of a queue under every disturbance, and the targets are those of P6 as a server
/// runs it: the model has no noise except its seed's, so they are met here too. Method: the shortest run.
#[test]
fn policies_are_judged_in_the_model() {
    let kept = ask("training", &["policies-model"], &["--seed", "3"]);
    let section = kept.section(0);
    let (always, guarded) = (rows(section, "P1 always"), rows(section, "P6 headroom, with its guards"));
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
    let kept = ask("training", &["policies"], &[]);
    let section = kept.section(0);
    let policies = ["P0 none", "P1 always", "P2 hard_limit", "P3 k_sigma", "P4 switchback", "P5 aimd", "P6 headroom"];
    for policy in policies {
        let rows = rows(section, policy);
        // Eleven disturbances, and all of them together.
        assert_eq!(rows.len(), 12, "{section}");
        assert!(rows[0]["figures"]["txn_per_s"]["median"].as_f64().is_some(), "{section}");
    }
    let headroom = rows(section, "P6 headroom");
    let targets = headroom[0]["targets"].as_array().unwrap();
    assert_eq!((targets.len(), &targets[2]["met"]), (3, &Value::Bool(true)), "{section}");
    assert!(headroom[0]["figures"]["windows"].as_u64().is_some_and(|windows| windows > 0), "{section}");
    let of = |policy: &str, key: &str| rows(section, policy)[0]["figures"][key]["median"].as_f64().unwrap();
    let granted = |policy| of(policy, "granted_us_per_s");
    assert!(granted("P0 none") == 0.0 && granted("P1 always") > 0.0, "{section}");
    for policy in policies {
        // At most the number of kept samples, and 0 without any.
        let (kept, effective) = (of(policy, "samples_kept"), of(policy, "n_eff"));
        assert!(effective <= kept + 1e-6 && (effective > 0.0) == (kept > 0.0), "{policy}: n_eff {effective} of {kept}");
    }
    assert!(of("P1 always", "n_eff") > 0.0, "{section}");
}

/// Goal: each arm counts its samples. Method: the shortest run.
#[test]
fn samples_are_counted_to_an_error() {
    let kept = ask("training", &["active"], &[]);
    let section = kept.section(0);
    assert_eq!(section["rows"].as_array().unwrap().len(), 6, "{section}");
    for arm in ["uniform", "Neyman (P8)", "Neyman, buckets (P8, thinned)"] {
        let row = &rows(section, arm)[0]["figures"];
        let of = |key: &str| row[key]["median"].as_f64().unwrap();
        assert!(of("samples_kept") > 0.0 && of("samples_kept") <= of("samples_taken"), "{row}");
    }
}
