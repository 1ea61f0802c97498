//! `Receipt`: the result of a finished write.

use collie_engine::Token;

/// The result of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The position of the commit; `None` if the write changed nothing.
    pub token: Option<Token>,
    /// Whether the write was on disk when the call returned: always after `sync`, never with `disable_wal`, and
    /// otherwise if the log happened to be faster.
    pub durable: bool,
}
