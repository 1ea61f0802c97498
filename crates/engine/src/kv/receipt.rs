//! `Receipt`: what a finished write tells; `Token`: the place of a commit, for others to wait for.

use std::fmt;
use std::str::FromStr;

use collie_base::{HistoryId, Lsn, ParseLsnError};

/// Where a transaction was committed: a history of the log and a position in it. Prints as `history:position`, both in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The line of positions; a new one begins after a crash.
    pub history: HistoryId,
    /// The end of the commit's record: snapshots at or above show it, on every node whose history it is.
    pub lsn: Lsn,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}:{}", self.history.get(), self.lsn)
    }
}

impl FromStr for Token {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let (history, lsn) = text.split_once(':').ok_or(ParseLsnError)?;
        let is_plain = (1..=16).contains(&history.len()) && history.bytes().all(|byte| byte.is_ascii_hexdigit());
        let history = if is_plain {
            u64::from_str_radix(history, 16).map_err(|_| ParseLsnError)?
        } else {
            return Err(ParseLsnError);
        };
        Ok(Self { history: HistoryId::new(history), lsn: lsn.parse()? })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a token that is printed reads back, and what is none is refused. Method: edge values both ways.
    #[test]
    fn tokens_round_trip_and_garbage_is_refused() {
        for (history, lsn) in [(0, 0), (1, 4096), (u64::MAX, u64::MAX), (0xA0, 1 << 32)] {
            let token = Token { history: HistoryId::new(history), lsn: Lsn::new(lsn) };
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for text in ["", ":", "0/1000", "1:", ":0/1000", "g:0/1000", "+1:0/1", "12345678901234567:0/1", "1:2:0/1"] {
            assert_eq!(text.parse::<Token>(), Err(ParseLsnError), "{text:?}");
        }
    }
}
