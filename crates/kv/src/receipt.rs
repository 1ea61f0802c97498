//! `Receipt`: the result of a finished write.

use collie_engine::Token;

use crate::Durability;

/// The result of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The position of the commit; `None` if the write changed nothing.
    pub token: Option<Token>,
    /// How safe the write was when the call returned: as requested, or [`Durability::Local`] for an asynchronous write
    /// if the log happened to be faster, and for one that asked for replicas if they were given up.
    pub durability: Durability,
}

impl Receipt {
    /// Returns whether the write was on this machine's disk when the call returned.
    pub const fn is_durable(&self) -> bool {
        matches!(self.durability, Durability::Local | Durability::Quorum)
    }
}
