//! `Promotion`: the ways in which functions can ask for a promotion. The promotion itself is implemented elsewhere.

use std::time::Duration;

/// A way to make a replica a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// With the agreement of the other nodes.
    Agreed,
    /// Without their agreement.
    Forced,
    /// Without their agreement, in this term, regardless of the node's own promises.
    InTerm(u64),
    /// The running primary hands over to this node; nothing is lost.
    Switchover {
        /// The time that the primary's open transactions have to end, and then this node to take over; `None` for the
        /// configured time.
        wait: Option<Duration>,
    },
}
