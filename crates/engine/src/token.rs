//! `Token`: the position of a commit, which others can wait for.

use std::fmt;
use std::str::FromStr;

use collie_base::{HistoryId, Lsn, ParseLsnError};

/// The position of a commit: a history of the log and a position in it. Prints as `history:position`, both in
/// hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The history; a new one begins after a crash.
    pub history: HistoryId,
    /// The end of the commit's record: snapshots at or above show the commit, on every node that has this history.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a printed token reads back, and any other text is refused. Method: edge values both ways.
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
