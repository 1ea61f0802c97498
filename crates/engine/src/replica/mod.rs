//! Replicas: a database that follows the log of another one and shows a prefix of it.
//!
//! Records come in the order of the log, which is the order of commits. Row writes are applied by several workers, each
//! for its own keys; sessions see every commit below a watermark, whole, and nothing above it
//! (`docs/design/replication.md`).
//!
//! | file | noun |
//! |---|---|
//! | `replica.rs` | [`Replica`]: a directory that follows a log; how it is created and opened |
//! | `promotion.rs` | [`Promoted`](promotion::Promoted): how a replica becomes a primary |
//! | `followed.rs` | [`Followed`](followed::Followed): the log that is followed |
//! | `shown.rs` | [`Shown`](shown::Shown): the read horizon |
//! | `follower_log.rs` | [`FollowerLog`](follower_log::FollowerLog): a replica's own log on disk |
//! | `following.rs` | [`Following`](following::Following): the database as replay uses it |
//! | `live.rs` | [`Live`](live::Live): the dispatcher, which takes records |
//! | `unfinished.rs` | [`Unfinished`](unfinished::Unfinished): transactions with chunks that have not ended |
//! | `shown_times.rs` | [`ShownTimes`](shown_times::ShownTimes): the times at which positions became visible |
//! | `lanes.rs` | [`Lanes`](lanes::Lanes): queues and workers |
//! | `measured_commits.rs` | [`MeasuredCommits`](measured_commits::MeasuredCommits): before the watermark |
//! | `apply_stat.rs` | [`ApplyStat`]: work and cost of applying |
//! | `watermark.rs` | [`Watermark`](watermark::Watermark): the position below which everything is applied |
//! | `replay_time.rs` | [`ReplayTime`](replay_time::ReplayTime): the age of the visible state, by the primary's clock |
//! | `holes.rs` | [`Holes`](holes::Holes): families that lack rows here |
//! | `hash.rs` | the state hash, by which two databases are compared |
//! | `held_state.rs` | [`HeldState`]: a state to compare, held at one position |

mod apply_stat;
pub(crate) mod followed;
pub(crate) mod follower_log;
pub(crate) mod following;
pub(crate) mod hash;
mod held_state;
pub(crate) mod holes;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod measured_commits;
pub(crate) mod promotion;
pub(crate) mod replay_time;
#[expect(clippy::module_inception, reason = "the noun of the folder")]
mod replica;
pub(crate) mod shown;
pub(crate) mod shown_times;
pub(crate) mod unfinished;
pub(crate) mod watermark;

pub use apply_stat::ApplyStat;
pub use followed::{CatalogChange, CatalogHook, CatalogRows};
pub use held_state::HeldState;
pub use replica::{HistoryStart, Replica, ReplicaOptions, Seed};
pub use shown::ShownWait;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
