//! Runs a loom model with one site weakened (or none) and counts its executions. Exists under `--cfg loom` only.
//!
//! A passing model says nothing by itself: assert a floor on the count, and that each mutant is caught.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// What a model run found.
#[derive(Debug, PartialEq, Eq)]
pub enum Explored {
    /// Every execution within the bound passed; so many were run.
    Passed(u64),
    /// An execution failed with this message.
    Failed(String),
}

/// Runs `model` in every interleaving with at most `preemptions` forced switches, making the mistake `mutant`.
pub fn explore(mutant: Option<&'static str>, preemptions: usize, model: impl Fn() + Send + Sync + 'static) -> Explored {
    let executions = Arc::new(AtomicU64::new(0));
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 200_000;
    builder.preemption_bound = Some(preemptions);
    super::weaken::set(mutant);
    let counted = Arc::clone(&executions);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            counted.fetch_add(1, Relaxed);
            model();
        });
    }));
    super::weaken::set(None);
    match outcome {
        Ok(()) => Explored::Passed(executions.load(Relaxed)),
        Err(panic) => Explored::Failed(
            panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_else(|| "panic without a message".to_owned()),
        ),
    }
}
