//! `collie bench training` as a program.

mod common;

use std::process::Command;

use serde_json::Value;

/// Goal: the question is asked with the real program as its own tracer: a sample makes no system call, the sampler beside it six; figures,
/// plot and document are made. A question that there is not names those that there are. Method: the shortest full run; a misspelt one.
#[test]
fn what_a_sample_costs_is_measured_and_kept() {
    let kept = tempfile::tempdir().unwrap();
    let (json, document) = (kept.path().join("training.json"), kept.path().join("training.md"));
    std::fs::write(&document, "# Training\n").unwrap();
    let mut command = Command::new(common::COLLIE);
    command.args(["bench", "training", "sample", "--quick", "--json"]).arg(&json).arg("--readme").arg(&document);
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
    let counted = &sampled["figures"]["system_calls_per_call"];
    if counted.is_u64() {
        assert_eq!(
            (counted, &row("collie", "off")["figures"]["system_calls_per_call"]),
            (&Value::from(0), &Value::from(0))
        );
        let six = row("six system calls", "every call");
        assert!(
            six["figures"]["call_ns"]["absent"].is_string() || six["figures"]["system_calls_per_call"] == 6,
            "{six}"
        );
    } else {
        assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "nothing was traced: {}", section["notes"]);
        eprintln!("NOT RUN: system calls were not counted: {}", section["notes"]);
    }
    let text = std::fs::read_to_string(&document).unwrap();
    assert!(text.contains("<!-- bench training begin -->") && text.contains("| <= 150 ns |"), "{text}");
    assert!(kept.path().join("training-sample.svg").is_file());
    let wrong = common::run(Command::new(common::COLLIE).args(["bench", "training", "samples"]));
    assert!(wrong.code == Some(1) && wrong.err.contains("no question samples: use sample"), "{wrong:?}");
}
