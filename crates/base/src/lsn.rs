//! `Lsn`: a byte position in the logical log stream, the one number line of the system.
//!
//! Commit numbers, snapshots, durability and replica positions are all values of this type (docs/glossary.md).
//! Frame headers, padding and file offsets do not use it.

use std::{fmt, str::FromStr};

/// A byte position in the log stream. 0 is never the position of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// Below every record; never the position of a record.
    pub const ZERO: Self = Self(0);
    /// Start of the first record of a new log.
    pub const FIRST: Self = Self(4096);
    /// Above every position; in a snapshot slot it means "none".
    pub const MAX: Self = Self(u64::MAX);

    /// Wraps a raw position in bytes.
    pub const fn new(position: u64) -> Self {
        Self(position)
    }

    /// Returns the position in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the position that is `bytes` higher.
    ///
    /// # Panics
    /// If the result reaches 2^64. That is a bug, because a log refuses to open above 2^60.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        match self.0.checked_add(bytes) {
            Some(position) => Self(position),
            None => panic!("log position beyond the end of the number line"),
        }
    }

    /// Returns the number of bytes from `start` to `self`, or 0 if `start` is above `self`.
    pub const fn bytes_since(self, start: Self) -> u64 {
        self.0.saturating_sub(start.0)
    }
}

/// Writes the position as PostgreSQL writes a `pg_lsn`: two hexadecimal numbers without leading zeros.
impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error: the text is not a position of the form `high/low` in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLsnError;

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a log position: expected two hexadecimal numbers of at most 8 digits, as in 0/1A2F000")
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let half = |digits: &str| {
            let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if plain { u64::from_str_radix(digits, 16).map_err(|_| ParseLsnError) } else { Err(ParseLsnError) }
        };
        let (high, low) = text.split_once('/').ok_or(ParseLsnError)?;
        Ok(Self(half(high)? << 32 | half(low)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a position is printed as PostgreSQL prints it, and is read back with or without leading zeros; other
    /// text is refused. Method: edge values both ways.
    #[test]
    fn lsn_text_round_trips_and_garbage_is_refused() {
        for (position, text) in [
            (0, "0/0"),
            (1, "0/1"),
            (4096, "0/1000"),
            (0xFFFF_FFFF, "0/FFFFFFFF"),
            (0x1_0000_000A, "1/A"),
            (u64::MAX, "FFFFFFFF/FFFFFFFF"),
        ] {
            let lsn = Lsn::new(position);
            assert_eq!((lsn.to_string().as_str(), format!("{lsn:?}").as_str()), (text, text));
            let padded = format!("{:08X}/{:08x}", position >> 32, position & 0xFFFF_FFFF);
            assert_eq!((text.parse(), padded.parse()), (Ok(lsn), Ok(lsn)));
        }
        for text in ["", "/", "0", "0/", "/0", "g/0", "0/123456789", "+1/0", "0/ 1"] {
            assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError), "{text:?}");
        }
    }
}
