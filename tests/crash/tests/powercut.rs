//! Power cuts: that they find what they are for. The clean slice, which needs the server's binary, is in `make lab`; the long form in
//! `make crash`.
#![cfg(feature = "planted-bugs")]

use std::process::Command;

/// Goal: power cuts find a mistake that a killed process never shows. Method: a server that does not sync its log, up to six seeds; where power
/// cannot be cut, the command says so.
#[test]
fn unsynced_log_is_found_by_power_cuts() {
    let found = (1..=6).any(|seed: u32| {
        let seed = seed.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
        command.args(["powercut", "--cycles", "4", "--seed", &seed, "--plant", "SYNC_SKIPPED"]);
        let dir = tempfile::tempdir().expect("a directory for evidence");
        let output = command.arg("--dir").arg(dir.path()).output().expect("faultlab was built");
        let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success() || errors.contains("after cut"), "noticed for another reason: {errors}");
        said.contains("powercut: skipped") || !output.status.success()
    });
    assert!(found, "a log that is not synced goes unnoticed");
}
