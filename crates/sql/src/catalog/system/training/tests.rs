//! Tests of the rows of `collie_training`, with a fake replica.

use super::*;
use crate::catalog::system::fixture::{read, shop};

/// A replica that may collect, with one model and one file that is not a model.
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
            samples: "stopped",
            samples_reason: Some("no room".to_owned()),
            samples_spent_us: 5,
            samples_written: 6,
            samples_lost: 7,
            samples_bytes: 8,
            fits: vec![("done", 1)],
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
            label: Some("elapsed_ns"),
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
        let whole = ModelRow {
            file,
            model: Some(model),
            state: "active",
            refused: None,
            coverage: Some(0.5),
            error_seen: Some(0.25),
            is_stale: true,
        };
        vec![whole, ModelRow { file: bad, state: "refused", refused, ..ModelRow::default() }]
    }
    fn units(&self) -> Vec<UnitRow> {
        vec![UnitRow {
            unit_id: 13,
            unit: "SCAN",
            p: 0.5,
            by_source: [1, 2, 3, 4],
            kept: 9,
            dropped: 1,
            calls_per_s: None,
            cost_us_per_s: 1.5,
            error: Some(0.25),
            is_stale: Some(false),
            is_shed: true,
        }]
    }
    fn sample_files(&self) -> Vec<SampleFileRow> {
        let file = SampleFileRow {
            unit_id: 13,
            unit: Some("SCAN"),
            version: 1,
            day: 20_260_131,
            node: "n1".to_owned(),
            seq: 7,
            rows: Some(3),
            bytes: 900,
        };
        vec![file, SampleFileRow { node: "n1".to_owned(), seq: 6, ..SampleFileRow::default() }]
    }
    fn predictions(&self) -> Vec<PredictionRow> {
        let row = PredictionRow {
            unit_id: 13,
            unit: "SCAN",
            label: "elapsed_ns",
            hash: 0xAB,
            predicted: 2.0,
            low: 1.0,
            high: 4.0,
            seen: 4.0,
            ..PredictionRow::default()
        };
        vec![row.clone(), PredictionRow { seen: 5.0, is_clamped: true, ..row }]
    }
    fn hardware(&self) -> Option<HardwareRow> {
        Some(HardwareRow { tag: 0xAB, properties: vec![("cores", "2".to_owned()), ("call_ns", "95.5".to_owned())] })
    }
    fn decisions(&self) -> Vec<DecisionRow> {
        let row = DecisionRow {
            id: 3,
            setting: "wal.flush_delay",
            old: 10_000.0,
            new: 5000.0,
            model_hash: 0xAB,
            gain: (0.05, 0.1, 0.2),
            verdict: "canary",
            reason: "canary until 900".to_owned(),
            ..DecisionRow::default()
        };
        let (trial_p, observed_gain) = (Some(0.01), Some(0.125));
        vec![row.clone(), DecisionRow { id: 4, trial_p, observed_gain, verdict: "kept", ..row }]
    }
    fn candidates(&self) -> Vec<CandidateRow> {
        let setting = "store.gc_interval";
        let reason = "the lower end of the predicted gain is below 5 %".to_owned();
        let row = CandidateRow { setting, old: 2000.0, reason, ..CandidateRow::default() };
        vec![CandidateRow { new: Some(4000.0), gain: Some((-0.25, 0.125, 0.5)), ..row.clone() }, row]
    }
    fn set_option(&self, name: &str, _: &str) -> std::result::Result<(), String> {
        Err(format!("{name} is fixed here"))
    }
}

/// Goal: the state of a server's training shows as rows with the right columns. Method: a policy, a change, a switch, a
/// model and a file that is not one; a decision in progress and one that was kept; a change that was considered and a
/// setting for which none was.
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
    let columns = ["file", "unit", "label", "kind", "rows", "effective_rows", "error", "trained_to", "hash", "refused"];
    assert_eq!(
        read("models", &columns),
        [
            "ou=13-label=0.package|SCAN|elapsed_ns|ridge|900|800.5|0.125|2000-01-01 00:00:01+00|00000000000000ab|NULL",
            "ou=14-label=0.package|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|not a model package: magic",
        ]
    );
    let columns = ["samples", "samples_reason", "samples_spent_us", "samples_written", "samples_lost", "samples_bytes"];
    assert_eq!(read("policy", &columns), ["stopped|no room|5|6|7|8"]);
    let columns = ["file", "state", "coverage", "error_seen", "is_stale"];
    let expected = ["ou=13-label=0.package|active|0.5|0.25|t", "ou=14-label=0.package|refused|NULL|NULL|f"];
    assert_eq!(read("models", &columns), expected);
    let columns = ["id", "at", "setting", "old_value", "new_value", "model_hash", "gain_low", "gain", "gain_high"];
    let change = "2000-01-01 00:00:00+00|wal.flush_delay|10000|5000|00000000000000ab|0.05|0.1|0.2";
    assert_eq!(read("decisions", &columns), [format!("3|{change}"), format!("4|{change}")]);
    let columns = ["trial_p", "observed_gain", "verdict", "reason"];
    let expected = ["NULL|NULL|canary|canary until 900", "0.01|0.125|kept|canary until 900"];
    assert_eq!(read("decisions", &columns), expected);
    let columns = ["at", "setting", "old_value", "new_value", "gain_low", "gain", "gain_high", "reason"];
    let weighed = |figures: &str| {
        format!(
            "2000-01-01 00:00:00+00|store.gc_interval|2000|{figures}|the lower end of the predicted gain is below 5 %"
        )
    };
    assert_eq!(read("candidates", &columns), [weighed("4000|-0.25|0.125|0.5"), weighed("NULL|NULL|NULL|NULL")]);
}

/// Goal: collected samples show as rows with the right columns, including unknown values. Method: a unit, a file and a
/// damaged one, a prediction that held and one that did not, the hardware.
#[test]
fn what_was_collected_is_shown() {
    let facts = shop();
    let read = |name: &str, columns: &[&str]| read(&facts, &format!("collie_training.{name}"), ("", ""), columns);
    let columns =
        ["unit_id", "unit", "p", "samples", "apply", "local", "replayed_read", "calibration", "kept", "dropped"];
    assert_eq!(read("units", &columns), ["13|SCAN|0.5|10|1|2|3|4|9|1"]);
    let columns = ["calls_per_s", "cost_us_per_s", "error", "is_stale", "is_shed"];
    assert_eq!(read("units", &columns), ["NULL|1.5|0.25|f|t"]);
    let columns = ["unit_id", "unit", "version", "day", "node", "seq", "rows", "bytes"];
    assert_eq!(read("samples", &columns), ["13|SCAN|1|20260131|n1|7|3|900", "0|NULL|0|0|n1|6|NULL|0"]);
    let columns = ["at", "unit", "label", "predicted", "low", "high", "seen", "is_inside", "is_clamped", "hash"];
    let row = |seen: &str| format!("2000-01-01 00:00:00+00|SCAN|elapsed_ns|2|1|4|{seen}|00000000000000ab");
    assert_eq!(read("predictions", &columns), [row("4|t|f"), row("5|f|t")]);
    let expected = ["00000000000000ab|cores|2", "00000000000000ab|call_ns|95.5"];
    assert_eq!(read("hardware", &["tag", "property", "value"]), expected);
}
