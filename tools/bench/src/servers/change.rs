//! The flags of `collie-bench serve-with`, which change a server for a benchmark; `collie serve` has none of them.

use std::path::Path;

use anyhow::Context;

use crate::Plan;

/// Makes a primary sample all of its calls instead of a thousandth: otherwise it has too few samples for a comparison.
pub(crate) const SAMPLE_EVERYTHING: &str = "--sample-everything";
/// Makes six system calls with each sample (`training/beside.rs`).
pub(crate) const SIX_CALLS: &str = "--six-calls";

/// Returns the program of `plan` that serves with `arguments`, and its command.
///
/// # Errors
/// The plan does not name it.
pub(super) fn program<'p>(plan: &'p Plan, arguments: &[&str]) -> anyhow::Result<(&'p Path, &'static str)> {
    let changes = [SAMPLE_EVERYTHING, SIX_CALLS];
    let (program, command) = match arguments.iter().any(|argument| changes.contains(argument)) {
        true => (&plan.program, "serve-with"),
        false => (&plan.server, "serve"),
    };
    Ok((program.as_deref().context("no program was named that serves")?, command))
}
