//! `Promotion`: how a replica is to become a primary, as functions ask for it. Not how that is done.

use std::time::Duration;

/// How a replica becomes a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// With the agreement of the other nodes.
    Agreed,
    /// Without.
    Forced,
    /// Without, in this term, whatever it has promised.
    InTerm(u64),
    /// The primary, which is there, hands over: nothing is lost.
    Switchover {
        /// How long its open transactions are given to end, and then this node to take over; `None`: what is set.
        wait: Option<Duration>,
    },
}
