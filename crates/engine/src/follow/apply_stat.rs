//! [`ApplyStat`]: work and cost of applying so far.

use std::time::Duration;

/// The work of a replica's workers since the replica had a state to show. Every figure except `workers` only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyStat {
    /// Number of workers that apply row writes; 0 until the replica has a state to show.
    pub workers: usize,
    /// Total time of all workers on batches that they have finished.
    pub busy: Duration,
    /// Commits whose writes were handed to the workers.
    pub commits: u64,
}
