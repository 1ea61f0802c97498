//! Tests that power cuts find planted mistakes. The run without mistakes, which needs the server's binary, is in `make
//! lab`; the long form in `make crash`.
#![cfg(feature = "planted-bugs")]

use std::process::Command;

/// Returns whether one of up to six seeds finds a mistake, or the command says that power cannot be cut here.
fn is_found(mistake: &str, cycles: &str) -> bool {
    (1..=6).any(|seed: u32| {
        let seed = seed.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
        command.args(["powercut", "--cycles", cycles, "--seed", &seed, "--plant", mistake]);
        let dir = tempfile::tempdir().expect("a directory for evidence");
        let output = command.arg("--dir").arg(dir.path()).output().expect("faultlab was built");
        let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success() || errors.contains("after cut"), "noticed for another reason: {errors}");
        said.contains("powercut: skipped") || !output.status.success()
    })
}

/// Goal: power cuts find a mistake that a kill never shows. Method: a server that does not sync its log.
#[test]
fn unsynced_log_is_found_by_power_cuts() {
    assert!(is_found("SYNC_SKIPPED", "4"), "a log that is not synced goes unnoticed");
}

/// Goal: power cuts come between an answer and the flush that it should have waited for. Method: a log that is synced
/// after the answer.
#[test]
fn answer_before_the_sync_is_found_by_power_cuts() {
    assert!(is_found("ACK_BEFORE_SYNC", "25"), "an answer before its sync goes unnoticed");
}
