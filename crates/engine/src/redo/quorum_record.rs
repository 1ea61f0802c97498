//! [`QuorumNote`]: the content of a QUORUM record, which names the replicas whose confirmation commits need.
//!
//! Lists are plain text here; the code that counts replicas (`replica`) interprets them.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::codec::{DecodeError, Reader, put_length_prefixed};

use crate::redo::REDO_VERSION;

/// Commits do not wait for replicas.
const WITHOUT: u8 = 1;
/// The fields that make the record count follow.
const COUNTS: u8 = 2;
/// The previous list follows too: the change of the list is not complete.
const CHANGES: u8 = 4;

/// The replicas whose confirmation commits need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumNote {
    /// The list of replicas, as text; if it is empty, no replica is asked.
    pub list: String,
    /// While the list changes, the previous list, whose quorum is needed too.
    pub before: Option<String>,
    /// Whether commits currently do not wait for these replicas.
    pub degraded: bool,
    /// Id of the node that led when the note was written.
    pub node: u64,
    /// The list in the configuration of that node.
    pub configured: String,
}

/// The payload of a QUORUM record after its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuorumRedo<'a> {
    pub(crate) degraded: bool,
    pub(crate) wall_us: i64,
    pub(crate) list: &'a str,
    /// Missing in records of earlier programs, which are informational.
    pub(crate) in_force: Option<InForce<'a>>,
}

/// The fields that make a record count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InForce<'a> {
    pub(crate) node: u64,
    pub(crate) configured: &'a str,
    pub(crate) before: Option<&'a str>,
}

impl<'a> QuorumRedo<'a> {
    /// Reads the payload after its version.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let list = |reader: &mut Reader<'a>| {
            std::str::from_utf8(reader.length_prefixed()?).map_err(|_| DecodeError { what: "list of replicas" })
        };
        let flags = reader.u8()?;
        if flags > WITHOUT | COUNTS | CHANGES || flags & (COUNTS | CHANGES) == CHANGES {
            return Err(DecodeError { what: "state of a quorum" });
        }
        let (wall_us, text) = (reader.i64()?, list(reader)?);
        let mut in_force = None;
        if flags & COUNTS != 0 {
            let (node, configured) = (reader.u64()?, list(reader)?);
            let before = if flags & CHANGES != 0 { Some(list(reader)?) } else { None };
            in_force = Some(InForce { node, configured, before });
        }
        Ok(Self { degraded: flags & WITHOUT != 0, wall_us, list: text, in_force })
    }

    /// Returns the note that is in force from this record on, if the record counts.
    pub(crate) fn note(&self) -> Option<QuorumNote> {
        let InForce { node, configured, before } = self.in_force?;
        Some(QuorumNote {
            list: self.list.to_owned(),
            before: before.map(str::to_owned),
            degraded: self.degraded,
            node,
            configured: configured.to_owned(),
        })
    }
}

impl QuorumNote {
    /// Returns whether commits need the confirmation of any replica.
    pub fn asks(&self) -> bool {
        !self.list.is_empty() || self.before.as_ref().is_some_and(|before| !before.is_empty())
    }

    /// Encodes the payload of a QUORUM record.
    pub(crate) fn encode(&self, wall_us: i64) -> Vec<u8> {
        let changes = if self.before.is_some() { CHANGES } else { 0 };
        let mut out = vec![REDO_VERSION, COUNTS | changes | u8::from(self.degraded)];
        out.extend_from_slice(&wall_us.to_le_bytes());
        put_length_prefixed(&mut out, self.list.as_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        put_length_prefixed(&mut out, self.configured.as_bytes());
        self.before.iter().for_each(|before| put_length_prefixed(&mut out, before.as_bytes()));
        out
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the bytes are the test's own")]
mod tests {
    use super::*;

    fn note(list: &str, before: Option<&str>) -> QuorumNote {
        QuorumNote {
            list: list.to_owned(),
            before: before.map(str::to_owned),
            degraded: false,
            node: 7,
            configured: "ANY 1 (c)".to_owned(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<QuorumRedo<'_>, DecodeError> {
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.u8(), Ok(REDO_VERSION));
        let redo = QuorumRedo::decode(&mut reader)?;
        reader.finish()?;
        Ok(redo)
    }

    /// Goal: decoding inverts encoding, a truncated payload or one with unknown flags is refused, and records of
    /// earlier programs are informational. Method: each form, truncated at each byte; each value of the flags byte;
    /// a record of an earlier program.
    #[test]
    fn notes_round_trip_and_earlier_ones_do_not_count() {
        for degraded in [false, true] {
            for before in [None, Some(""), Some("ANY 1 (a, b)")] {
                let note = QuorumNote { degraded, ..note("ANY 2 (a, b, c)", before) };
                assert!(note.asks());
                let bytes = note.encode(-5);
                let redo = decode(&bytes).expect("it was written so");
                assert_eq!((redo.wall_us, redo.note()), (-5, Some(note)));
                assert!((1..bytes.len()).all(|len| decode(&bytes[..len]).is_err()));
                assert!((8..=255).chain([4, 5]).all(|flags| {
                    let mut other = bytes.clone();
                    other[1] = flags;
                    decode(&other).is_err()
                }));
            }
        }
        let mut earlier = vec![REDO_VERSION, 1];
        earlier.extend_from_slice(&9_i64.to_le_bytes());
        put_length_prefixed(&mut earlier, b"ANY 1 (a)");
        let redo = decode(&earlier).expect("it was good");
        assert_eq!((redo.degraded, redo.wall_us, redo.list, redo.note()), (true, 9, "ANY 1 (a)", None));
    }

    /// Goal: no replica is asked if no list names one. Method: an empty list with each kind of previous list.
    #[test]
    fn notes_without_a_list_ask_nobody() {
        let asks = |before| note("", before).asks();
        assert_eq!([asks(None), asks(Some("")), asks(Some("ANY 1 (a)"))], [false, false, true]);
    }
}
