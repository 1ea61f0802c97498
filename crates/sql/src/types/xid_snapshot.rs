//! `XidSnapshot`: the text form of `pg_snapshot` (and `txid_snapshot`): `xmin:xmax:xid,xid,...`.
//!
//! A value of these types is kept as this text. A snapshot of the database itself is a position of the log and is not
//! made here.
//!
//! # Invariants
//! - X1. `0 < xmin <= xmax`; the open ids ascend and lie from `xmin` (inclusive) to `xmax` (exclusive).

use std::fmt;

use crate::error::{Result, SqlError, SqlState};

/// The transactions, by their ids, that had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XidSnapshot {
    /// All transactions below it had ended.
    pub xmin: i64,
    /// No transaction from here on had ended.
    pub xmax: i64,
    /// Transactions between the two that had not ended.
    pub open: Vec<i64>,
}

impl XidSnapshot {
    /// Parses the text form. A repeated id counts once, as in PostgreSQL.
    ///
    /// # Errors
    /// 22P02.
    pub fn parse(text: &str, type_name: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })
    }

    fn read(text: &str) -> Option<Self> {
        let number = |text: &str| -> Option<i64> {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
        };
        let mut parts = text.split(':');
        let (xmin, xmax, list) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
        if parts.next().is_some() || xmin <= 0 || xmax < xmin {
            return None;
        }
        let mut open: Vec<i64> = match list {
            "" => Vec::new(),
            list => list.strip_suffix(',').unwrap_or(list).split(',').map(number).collect::<Option<_>>()?,
        };
        let ascending = open.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ascending || open.iter().any(|xid| *xid < xmin || *xid >= xmax) {
            return None;
        }
        open.dedup();
        Some(Self { xmin, xmax, open })
    }

    /// Returns whether the transaction with this id had ended.
    pub fn shows(&self, xid: i64) -> bool {
        xid < self.xmin || xid < self.xmax && self.open.binary_search(&xid).is_err()
    }
}

impl fmt::Display for XidSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (place, xid) in self.open.iter().enumerate() {
            write!(f, "{}{xid}", if place > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the same texts are accepted, printed and refused as in PostgreSQL. Method: a table of its answers.
    #[test]
    fn text_form_is_that_of_postgresql() {
        for (text, printed) in [
            ("12:13:", Some("12:13:")),
            ("12:18:14,16", Some("12:18:14,16")),
            ("12:16:14,14", Some("12:16:14")),
            ("12:12:", Some("12:12:")),
            ("31:12:", None),
            ("0:1:", None),
            ("12:13:0", None),
            ("12:16:14,13", None),
            ("12:16:16", None),
            ("12:16", None),
            ("12:16:14:", None),
            ("12:16:14,", Some("12:16:14")),
            ("12:16:,", None),
            ("", None),
            ("-1:2:", None),
        ] {
            let read = XidSnapshot::parse(text, "pg_snapshot").ok().map(|snapshot| snapshot.to_string());
            assert_eq!(read.as_deref(), printed, "{text}");
        }
        let snapshot = XidSnapshot::parse("12:18:14,16", "pg_snapshot").unwrap();
        let shown: Vec<i64> = (10..20).filter(|xid| snapshot.shows(*xid)).collect();
        assert_eq!(shown, [10, 11, 12, 13, 15, 17]);
    }
}
