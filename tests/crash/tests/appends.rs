//! Tests that the checker of list-append histories finds planted mistakes. The run without mistakes, which needs the
//! server's binary, is in `make lab`; the long form in `make crash`.
#![cfg(feature = "planted-bugs")]

use std::process::Command;

/// Goal: through SQL and the wire, the checker finds mistakes of the engine by their anomaly. Method: one mistake at a
/// time, at the level whose promise it breaks, up to eight seeds each.
#[test]
fn planted_mistakes_are_found_over_the_wire() {
    // First-updater-wins left out, and off by one; no validation at commit, and none of ranges; versions freed although
    // readers may still read them.
    let mistakes: [(&str, &str, &[&str]); 5] = [
        ("ROW_CONFLICT_IGNORED", "repeatable-read", &["lost append"]),
        ("ROW_CONFLICT_ABOVE", "repeatable-read", &["lost append"]),
        ("READS_NOT_VALIDATED", "serializable", &["write skew (G2", "anti-dependency cycle (G2"]),
        ("RANGES_NOT_KEPT", "serializable", &["write skew (G2", "anti-dependency cycle (G2"]),
        (
            "PRUNE_READERS_IGNORED",
            "repeatable-read",
            &["list that shrinks", "unrepeatable read", "read skew (G-single)"],
        ),
    ];
    for (mistake, level, names) in mistakes {
        let found = (1..=8).any(|seed: u32| {
            let seed = seed.to_string();
            let plan = ["--rounds", "1", "--transactions", "4000", "--kills", "0", "--seed", &seed, "--levels", level];
            let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
            let output = command.arg("list-append").args(plan).args(["--plant", mistake]).output();
            let output = output.expect("faultlab was built");
            let errors = String::from_utf8_lossy(&output.stderr);
            let names_it = names.iter().any(|name| errors.contains(name));
            assert!(output.status.success() || names_it, "{mistake} is noticed for another reason: {errors}");
            names_it
        });
        assert!(found, "{mistake} goes unnoticed");
    }
}

/// Goal: the checker finds that a replica shows commits before all of their rows are there. Method: a watermark that
/// does not wait for the lanes; the replica's reads in the same history, up to eight seeds.
#[test]
fn planted_half_commits_on_a_replica_are_found() {
    let found = (1..=8).any(|seed: u32| {
        let seed = seed.to_string();
        let plan = ["--rounds", "1", "--transactions", "4000", "--kills", "0", "--seed", &seed];
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
        command.arg("list-append").args(plan).args(["--levels", "repeatable-read", "--replica"]);
        let output = command.args(["--plant", "LANES_NOT_WAITED_FOR"]).output().expect("faultlab was built");
        let errors = String::from_utf8_lossy(&output.stderr);
        // If rows of one list are in two lanes, the list has a hole; if a lane catches up between two reads of a
        // snapshot, the list grows. The checker finds the other cases.
        let names = [
            " has position ",
            "read skew (G-single)",
            "intermediate read (G1b)",
            "list that shrinks",
            "unrepeatable read",
            "(G-nonadjacent)",
        ];
        let names_it = names.iter().any(|name| errors.contains(name));
        assert!(output.status.success() || names_it, "it is noticed for another reason: {errors}");
        names_it
    });
    assert!(found, "it goes unnoticed");
}
