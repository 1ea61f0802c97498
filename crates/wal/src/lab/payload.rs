//! `Stamp`: the head of a lab record. It names the writer, the incarnation and the position in the log, and has a
//! running hash over all earlier records of that writer. The rest of the record is derived from the stamp, so that
//! every byte of a record can be checked without other data.
//!
//! A record from an earlier incarnation, from another place or after a lost record is detected without a list of the
//! written ones: the parent of a killed process has only the acknowledgements.

use collie_env::{Random, SimRandom};

/// Size of a stamp in bytes: the shortest lab record, except for the empty one.
pub const STAMP_BYTES: usize = 40;

/// The head of a lab record. Integers are little-endian, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the writer.
    pub writer: u64,
    /// The number of this record of the writer, from 1.
    pub number: u64,
    /// The incarnation of the log.
    pub incarnation: u64,
    /// The next free position, as the writer read it.
    pub position: u64,
    /// Running hash over this writer's stamps and lengths, including this one.
    pub chain: u64,
}

impl Stamp {
    /// Returns the stamp of this writer's next record, of `len` bytes.
    #[must_use]
    pub fn next(&self, incarnation: u64, position: u64, len: usize) -> Self {
        let number = self.number + 1;
        let mut chain = self.chain;
        for word in [self.writer, number, incarnation, position, len as u64] {
            chain = SimRandom::new(chain ^ word).u64();
        }
        Self { writer: self.writer, number, incarnation, position, chain }
    }

    /// Returns the record of `len` bytes, at least [`STAMP_BYTES`].
    pub fn body(&self, len: usize) -> Vec<u8> {
        assert!(len >= STAMP_BYTES, "a record has room for its stamp");
        let mut body = Vec::with_capacity(len);
        for word in [self.writer, self.number, self.incarnation, self.position, self.chain] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.resize(len, 0);
        SimRandom::new(self.chain).fill(&mut body[STAMP_BYTES..]);
        body
    }

    /// Reads the stamp of a record; `None` if a byte of the record does not match its stamp.
    pub fn of(body: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = body.get(at * 8..at * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let stamp =
            Self { writer: word(0)?, number: word(1)?, incarnation: word(2)?, position: word(3)?, chain: word(4)? };
        (stamp.body(body.len()) == body).then_some(stamp)
    }

    /// Returns whether `next`, on a record of `len` bytes, continues from this one.
    pub fn is_continued_by(&self, next: &Self, len: usize) -> bool {
        self.next(next.incarnation, next.position, len) == *next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a record reads back as it was made; any changed byte and a missing predecessor are detected. Method: two
    /// records in a row; flip each byte of the second; leave the first out.
    #[test]
    fn stamped_record_gives_away_any_change() {
        let first = Stamp { writer: 3, ..Stamp::default() }.next(1, 4096, 60);
        let second = first.next(1, 4200, 73);
        let body = second.body(73);
        assert_eq!(Stamp::of(&body), Some(second));
        assert!(first.is_continued_by(&second, 73) && !first.is_continued_by(&second, 74));
        assert!(!Stamp { writer: 3, ..Stamp::default() }.is_continued_by(&second, 73));
        for at in STAMP_BYTES - 8..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 0x20;
            assert_eq!(Stamp::of(&changed), None, "byte {at}");
        }
        for at in 0..STAMP_BYTES - 8 {
            let mut changed = body.clone();
            changed[at] ^= 0x20;
            assert!(Stamp::of(&changed).is_none_or(|stamp| !first.is_continued_by(&stamp, 73)), "byte {at}");
        }
        assert_eq!(Stamp::of(b"short"), None);
    }
}
