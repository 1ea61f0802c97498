//! [`ApplyStat`]: what applying has cost and done so far.

use std::time::Duration;

/// What a replica's workers have done since there was something to show. Every figure only grows, but for `workers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyStat {
    /// How many workers apply row writes; 0 as long as nothing may be shown.
    pub workers: usize,
    /// For how long all of them together were at batches that they have done.
    pub busy: Duration,
    /// Commits whose writes were handed to them.
    pub commits: u64,
}
