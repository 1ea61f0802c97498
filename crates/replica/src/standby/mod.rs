//! The receiving side: connects to a primary, fills an empty directory, follows, and reports its progress.
//!
//! | file | noun |
//! |---|---|
//! | `target.rs` | [`Target`]: the interface to the database that follows |
//! | `connect.rs` | a connection to a primary, up to the first packet |
//! | `follow.rs` | [`follow`]: one stream after the other until it is asked to stop |
//! | `receiver_state.rs` | [`ReceiverState`]: the receiver state of one connection, and the acks to send; no I/O |
//! | `succession.rs` | [`Succession`]: the request of a replica that wants the lead |
//! | `backoff.rs` | [`Backoff`]: how long to wait before the next try |
//! | `clone.rs` | [`clone`]: a base backup into an empty directory |

mod backoff;
mod clone;
mod connect;
mod follow;
mod receiver_state;
mod succession;
mod target;

pub use self::{
    backoff::Backoff,
    clone::{Cloned, clone},
    connect::{CLUSTER, STREAM, TERMS, cluster_text, connect, connect_for_terms},
    follow::{Ended, FollowOptions, TO_BE_FILLED, Told, follow},
    receiver_state::ReceiverState,
    succession::Succession,
    target::{Positions, Target, TargetError},
};
