//! `collie train` as a user runs it: the binary, on files that the sink wrote.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    path::Path,
    process::{Command, Output},
};

use collie_env::{Env, Random as _, SimRandom};
use collie_samples::{Origin, SampleSink, SinkOptions, sample_of_unit};
use collie_train::decision::sample_journal;
use serde_json::Value;

/// Writes row reads that take 50 ns per step of the version chain, with ten percent of noise.
fn write_samples(data: &Path, rows: u64) {
    let chance = SimRandom::new(1);
    let mut sink = SampleSink::open(&Env::real(), data, Origin::unknown("n1"), SinkOptions::default()).unwrap();
    for _ in 0..rows {
        let steps = 1 + u32::try_from(chance.u64() % 20).unwrap();
        let mut sample = sample_of_unit(9, u64::from(100 + 50 * steps) * (90 + chance.u64() % 20) / 100);
        sample.features = [8, 100, steps, 1, 0, 0, 0, 0];
        sink.add(&[sample]);
    }
    sink.finish();
    assert_eq!((sink.written_rows(), sink.dropped_rows()), (rows, 0), "{:?}", sink.state());
}

fn train(args: &[&str], data: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collie"));
    command.arg("train").args(args);
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Goal: samples become a model that can be evaluated and explained. Method: fitted as a server's child, evaluated,
/// explained, in words and JSON.
#[test]
fn a_model_is_fitted_judged_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    write_samples(dir.path(), 2000);

    let fitted = train(&["fit", "--child", "--json"], Some(dir.path()));
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    let outcome: Value = serde_json::from_slice(&fitted.stdout).unwrap();
    assert_eq!(
        (&outcome["unit"], &outcome["verdict"], &outcome["rows"]),
        (&"ROW_READ".into(), &"written".into(), &2000.into())
    );

    let again = train(&["fit", "--child"], Some(dir.path()));
    assert!(again.status.success() && text(&again.stdout).contains("left as it is"), "{}", text(&again.stdout));

    let judged = train(&["evaluate", "--json"], Some(dir.path()));
    let judged: Value = serde_json::from_slice(&judged.stdout).unwrap();
    assert!(judged["error"].as_f64().unwrap() < 0.1 && judged["coverage"].as_f64().unwrap() > 0.85, "{judged}");
    assert_eq!((&judged["stale"], &judged["hash"]), (&false.into(), &outcome["hash"]));
    let table = text(&train(&["evaluate"], Some(dir.path())).stdout);
    assert!(table.contains("ROW_READ | elapsed_ns") && table.contains("fresh"), "{table}");

    let package = dir.path().join("models/ou=09-label=0.package");
    let package = package.to_str().unwrap();
    let explained: Value = serde_json::from_slice(&train(&["explain", package, "--json"], None).stdout).unwrap();
    assert_eq!((&explained["features"][0]["name"], &explained["hash"]), (&"chain_steps".into(), &outcome["hash"]));
    assert!(text(&train(&["explain", package], None).stdout).contains("nine tenths lie within a factor of 1."));
}

/// Goal: a failure is one line with a way out, and exit code 1. Method: no samples, too few, no models, no unit, no
/// package, a decision.
#[test]
fn what_cannot_be_done_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let check = |args: &[&str], data: Option<&Path>, expected: &str| {
        let done = train(args, data);
        let told = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {told}");
        assert!(
            told.starts_with("error: ") && told.contains(expected) && told.lines().count() == 1,
            "{args:?}: {told}"
        );
    };
    check(&["fit"], Some(dir.path()), "no samples in");
    check(&["evaluate"], Some(dir.path()), "make them with collie train fit");
    check(&["fit", "--unit", "NONE"], Some(dir.path()), "as in SCAN or 13");
    check(&["explain", "17"], None, "say whose with --data DIR");
    check(&["explain", "17"], Some(dir.path()), "decisions");
    std::fs::write(dir.path().join("decisions"), sample_journal()).unwrap();
    check(&["explain", "17"], Some(dir.path()), "there is no decision 17 in it");
    let bad = dir.path().join("bad.package");
    std::fs::write(&bad, b"COLLIEMP, or so it says").unwrap();
    check(&["explain", bad.to_str().unwrap()], None, "fit the model again");
    write_samples(dir.path(), 20);
    let few = train(&["fit"], Some(dir.path()));
    assert_eq!(
        (few.status.code(), text(&few.stdout).as_str()),
        (Some(1), "ROW_READ elapsed_ns: 20 samples, at least 50 are needed\n")
    );
}

/// Goal: a decision is explained by its rows and by the calls that its prediction covers. Method: the journal of a
/// decision that a guard ended, in words and JSON.
#[test]
fn a_decision_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("decisions"), sample_journal()).unwrap();
    let told = text(&train(&["explain", "1"], Some(dir.path())).stdout);
    for part in [
        "decision   1: wal.flush_delay 10000us -> 5000us",
        "predicted  10.0 % (5.0 % to 20.0 %)",
        "trial      p = 0.0100",
        "rolled back: memory near its limit",
        "LOG_FLUSH: 100.0 -> 200.0 calls a second, 9.0 -> 4.0 us each",
        "stream_bytes",
    ] {
        assert!(told.contains(part), "{part} is not in:\n{told}");
    }
    let explained: Value =
        serde_json::from_slice(&train(&["explain", "1", "--json"], Some(dir.path())).stdout).unwrap();
    let verdicts: Vec<&Value> = explained["rows"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, ["trial", "canary", "rolled back"]);
    assert_eq!(explained["units"][0]["features"][0]["name"], "stream_bytes");
}
