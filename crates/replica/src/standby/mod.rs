//! The receiving side: connects to a primary, fills an empty directory, follows, and says how far it has come.
//!
//! | file | noun |
//! |---|---|
//! | `target.rs` | [`Target`]: what is asked of the database that follows |
//! | `connect.rs` | a connection to a primary, up to the first packet |
//! | `follow.rs` | [`follow`]: one stream after the other until told to stop |
//! | `heard.rs` | [`Heard`]: what came on one connection, and what is to be acknowledged; no I/O |
//! | `succession.rs` | [`Succession`]: a replica that wants to be handed the lead |
//! | `backoff.rs` | [`Backoff`]: how long to wait before the next try |
//! | `clone.rs` | [`clone`]: a base backup into an empty directory |

mod backoff;
mod clone;
mod connect;
mod follow;
mod heard;
mod succession;
mod target;

pub use self::{
    backoff::Backoff,
    clone::{Cloned, clone},
    connect::{CLUSTER, STREAM, TERMS, cluster_text, connect, connect_for_terms},
    follow::{Ended, FollowOptions, TO_BE_FILLED, Told, follow},
    heard::Heard,
    succession::Succession,
    target::{Positions, Target, TargetError},
};
