//! The flags of `collie bench serve-with`, which change a server for a benchmark; `collie serve` has none of them.

/// Records in commits what replay in the order of transaction starts needs.
pub(crate) const NOTE_COMMIT_TIMES: &str = "--note-commit-times";
/// Makes a primary sample all of its calls instead of a thousandth: otherwise it has too few samples for a comparison.
pub(crate) const SAMPLE_EVERYTHING: &str = "--sample-everything";
/// Does extra work with each sample (`training/beside.rs`); the next argument says which.
pub(crate) const BESIDE_SAMPLES: &str = "--beside-samples";

/// Returns the command that serves with `arguments`.
pub(super) fn command(arguments: &[&str]) -> &'static [&'static str] {
    let changes = [NOTE_COMMIT_TIMES, SAMPLE_EVERYTHING, BESIDE_SAMPLES];
    if arguments.iter().any(|argument| changes.contains(argument)) { &["bench", "serve-with"] } else { &["serve"] }
}
