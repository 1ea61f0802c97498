//! Replicas: a database that follows the log of another one and shows a prefix of it.
//!
//! Records come in the order of the log, which is the order of commits. Row writes are applied by several workers, each
//! for its own keys; sessions see every commit below a watermark, whole, and nothing above it
//! (`docs/design/replication.md`). The room `follow` has the lanes, the watermark and the read horizon.
//!
//! | file | noun |
//! |---|---|
//! | `replica.rs` | [`Replica`]: a directory that follows a log; how it is created and opened |
//! | `promotion.rs` | how a replica becomes a primary |
//! | `follower_log.rs` | [`FollowerLog`](follower_log::FollowerLog): a replica's own log on disk |
//! | `following.rs` | [`Following`](following::Following): the database as replay uses it |
//! | `live.rs` | [`Live`](live::Live): the dispatcher, which takes records |
//! | `unfinished.rs` | [`Unfinished`](unfinished::Unfinished): transactions with chunks that have not ended |

pub(crate) mod follower_log;
pub(crate) mod following;
pub(crate) mod live;
pub(crate) mod promotion;
#[expect(clippy::module_inception, reason = "the noun of the folder")]
mod replica;
pub(crate) mod unfinished;

pub use replica::{Replica, ReplicaOptions, Seed};

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
