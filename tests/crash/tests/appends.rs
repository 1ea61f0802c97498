//! Histories of lists over connections: that their checker finds what it is for. The clean slice, which needs the server's
//! binary, is in `make lab`; the long form in `make crash`.
#![cfg(feature = "planted-bugs")]

use std::process::Command;

/// Goal: the checker finds, through SQL and the wire, mistakes of the engine by their anomaly. Method: one mistake at a time,
/// at the level whose promise it breaks, up to eight seeds each.
#[test]
fn planted_mistakes_are_found_over_the_wire() {
    // First-updater-wins left out, and off by one; nothing validated at commit, and no range; versions freed under who may
    // read them.
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
