//! Shared code for tests that plant a mistake in a whole process: they run one test of their own binary with it.

use std::process::Command;

/// Messages of the models about rows that no commit left in this state.
pub(crate) const NO_STATE: &[&str] =
    &["is no state", "no state between commits", "a clean close loses nothing", "was durable"];

/// Seeds that are tried for a mistake until one notices it: a model that gets a new step draws all others differently.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

/// Runs a test of this binary with a mistake, or none; returns whether it passed, and its output.
pub(crate) fn run(test: &str, seed: u64, mistake: Option<&str>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env_remove("COLLIE_PLANT");
    command.env("PROPTEST_RNG_SEED", seed.to_string()).env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    mistake.iter().for_each(|mistake| _ = command.env("COLLIE_PLANT", mistake));
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(said.contains("running 1 test"), "there is no test {test}: {said}");
    (output.status.success(), said)
}

/// Checks that `test` fails with the mistake, and that its output contains one of `meant`.
pub(crate) fn noticed(mistake: &str, test: &str, meant: &[&str]) {
    for seed in SEEDS {
        let (passed, said) = run(test, seed, Some(mistake));
        if !passed {
            let is_meant = meant.iter().any(|meant| said.contains(meant));
            assert!(is_meant, "{mistake}: noticed, but not by {meant:?}: {said}");
            return;
        }
    }
    panic!("{mistake}: goes unnoticed by {test}");
}
