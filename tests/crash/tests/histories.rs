//! Histories of transactions, through the program that `make histories` runs at length: a run without mistakes at every
//! level and, with the feature `planted-bugs`, the mistakes that the oracle must find.

use std::process::{Command, Output};

fn txn_histories(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
    command.arg("txn-histories").args(arguments).output().expect("faultlab was built")
}

/// Goal: random transactions see exactly what their snapshots must show, and a run reports what it checked. Method: a
/// round of every protocol of the log and three sizes of the ring of ids.
#[test]
fn random_transactions_see_their_snapshots() {
    let output = txn_histories(&["--transactions", "60000", "--seed", "7"]);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.starts_with("txn-histories: 60006 transactions in 3 rounds, "), "{text}");
    assert!(text.contains("snapshots are exact"), "{text}");
}

/// Goal: the oracle finds planted mistakes. Method: one mistake at a time in the engine's own code, up to a number of
/// seeds each; the violation names the rule that the mistake breaks.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_mistakes_are_found() {
    // What a snapshot shows; first-updater-wins left out, and off by one; versions freed although readers may still
    // read them; a reader that does not notice that its snapshot was cancelled (if the row has been removed altogether,
    // validation meets nothing either); no validation of reads, and none of ranges.
    let mistakes: [(&str, &[&str]); 7] = [
        ("ROW_VISIBLE_AT_SNAPSHOT", &["P1: ", "P2: "]),
        ("ROW_CONFLICT_IGNORED", &["P3: ", "P4: "]),
        ("ROW_CONFLICT_ABOVE", &["P3: ", "P4: "]),
        ("PRUNE_READERS_IGNORED", &["P1: ", "P2: "]),
        ("CANCEL_UNSEEN", &["P1: ", "P2: ", "P7: "]),
        ("READS_NOT_VALIDATED", &["P7: "]),
        ("RANGES_NOT_KEPT", &["P7: "]),
    ];
    for (mistake, rules) in mistakes {
        // A cancel between a read and its end is rare: one run of this length in five has one.
        let (transactions, seeds) = if mistake == "CANCEL_UNSEEN" { ("100000", 60) } else { ("10000", 8) };
        let found = (1..=seeds).any(|seed: u32| {
            let output =
                txn_histories(&["--transactions", transactions, "--seed", &seed.to_string(), "--plant", mistake]);
            let errors = String::from_utf8_lossy(&output.stderr);
            let names_rule = rules.iter().any(|rule| errors.contains(rule));
            assert!(output.status.success() || names_rule, "{mistake} is noticed for another reason: {errors}");
            names_rule
        });
        assert!(found, "{mistake} goes unnoticed");
    }
}
