//! `Receipt`: what a finished write tells; `Token`: the place of a commit, for others to wait for.

use std::fmt;

use collie_base::{HistoryId, Lsn};

/// Where a transaction was committed: a history of the log and a position in it. Prints as `history:position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The line of positions; a new one begins after a crash.
    pub history: HistoryId,
    /// The position of the commit: snapshots above it show it.
    pub lsn: Lsn,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}:{}", self.history.get(), self.lsn)
    }
}

/// What a finished write tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where it was committed; `None` when it changed nothing.
    pub token: Option<Token>,
    /// Whether it was on disk when the call returned: always after `sync`, never with `disable_wal`, and else when the log was faster.
    pub durable: bool,
}
