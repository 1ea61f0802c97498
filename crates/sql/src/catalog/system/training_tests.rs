//! The rows of `collie_training`, of a replica that is made up.

use super::*;
use crate::catalog::system::fixture::{read, shop};

/// A replica that may collect, with one model and one file that is none.
pub(in crate::catalog::system) struct FakeTraining;

impl Training for FakeTraining {
    fn policy(&self) -> PolicyRow {
        PolicyRow {
            policy: "headroom",
            state: "collecting",
            delay_us: Some(300.0),
            without_us: Some(250.0),
            bound_us: Some(1250.0),
            behind_us: Some(f64::INFINITY),
            grant_us_per_s: 500_000,
            elastic_us_per_s: 20_000,
            elastic_spent_us: 70,
            integral: Some(-0.25),
            commit_us: Some(12.5),
            utilisation: None,
            commits_per_s: Some(100.0),
            windows: 9,
            out_windows: 1,
            unknown_windows: 2,
            halts: vec![("silent", 3)],
        }
    }
    fn changes(&self) -> Vec<PolicyChange> {
        let (change, reason) = ("halted".to_owned(), "the primary was not heard of".to_owned());
        vec![PolicyChange { at_us: 0, subject: "grant", change, reason, grant_us_per_s: 0 }]
    }
    fn switches(&self) -> Vec<SwitchRow> {
        vec![SwitchRow { unit_id: 13, unit: "SCAN", source: "replayed_read", is_on: false }]
    }
    fn models(&self) -> Vec<ModelRow> {
        let model = Model {
            unit_id: 13,
            unit: Some("SCAN"),
            label: 0,
            schema_version: 1,
            kind: "ridge",
            rows: 900,
            effective_rows: 800.5,
            error: 0.125,
            trained: (0, 1_000_000),
            hash: 0xAB,
        };
        let refused = Some("not a model package: magic".to_owned());
        let (file, bad) = ("ou=13-label=0.package".to_owned(), "ou=14-label=0.package".to_owned());
        vec![ModelRow { file, model: Some(model), refused: None }, ModelRow { file: bad, model: None, refused }]
    }
    fn set_option(&self, name: &str, _: &str) -> std::result::Result<(), String> {
        Err(format!("{name} is fixed here"))
    }
}

/// Goal: what a server knows of its training has rows with the right columns. Method: a policy, a change, a switch, a model and a
/// file that is none; decisions, of which there are none.
#[test]
fn training_is_shown() {
    let facts = shop();
    let read = |name: &str, columns: &[&str]| read(&facts, &format!("collie_training.{name}"), ("", ""), columns);
    let columns = [
        "policy",
        "state",
        "delay_us",
        "delay_without_us",
        "bound_us",
        "behind_us",
        "grant_us_per_s",
        "elastic_us_per_s",
    ];
    assert_eq!(read("policy", &columns), ["headroom|collecting|300|250|1250|Infinity|500000|20000"]);
    let columns =
        ["elastic_spent_us", "integral", "commit_us", "utilisation", "windows", "out_windows", "unknown_windows"];
    assert_eq!(read("policy", &columns), ["70|-0.25|12.5|NULL|9|1|2"]);
    assert_eq!(
        read("policy_log", &["at", "subject", "change", "reason", "grant_us_per_s"]),
        ["2000-01-01 00:00:00+00|grant|halted|the primary was not heard of|0"]
    );
    assert_eq!(read("switches", &["unit_id", "unit", "source", "is_on"]), ["13|SCAN|replayed_read|f"]);
    let columns = ["file", "unit", "kind", "rows", "effective_rows", "error", "trained_to", "hash", "refused"];
    assert_eq!(
        read("models", &columns),
        [
            "ou=13-label=0.package|SCAN|ridge|900|800.5|0.125|2000-01-01 00:00:01+00|00000000000000ab|NULL",
            "ou=14-label=0.package|NULL|NULL|NULL|NULL|NULL|NULL|NULL|not a model package: magic",
        ]
    );
    assert_eq!(read("decisions", &["id", "setting", "verdict"]), [""; 0]);
}
