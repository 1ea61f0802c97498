//! `Carry`: facts from released log that replay would have read there, as MANIFEST keeps them.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version: 1, or 2 with the fields from 13 on |
//! | 1 | 8 | a transaction id above every one in the released log |
//! | 9 | 4 | a family id above every one in the released log |
//! | 13 | 8 | the position of the newest QUORUM record in the released log that applies |
//! | 21 | | its payload, with a time of 0 |
//!
//! Little-endian; MANIFEST's frame has the checksum. The histories that begin in the released log are in the
//! control file.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::codec::{DecodeError, Reader};
use collie_base::{CfId, Lsn, Xid};

use crate::log::quorum_notes::NotedAt;
use crate::redo::{Redo, tag};

/// The version without a QUORUM record, so that earlier programs can still read it.
const WITHOUT_QUORUM: u8 = 1;
const WITH_QUORUM: u8 = 2;

/// Bounds of the ids that were handed out in released log, and the replicas that commits ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    pub(crate) xid_limit: Xid,
    pub(crate) next_family: CfId,
    pub(crate) quorum: Option<NotedAt>,
}

impl Carry {
    /// Encodes the bytes that MANIFEST keeps.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![if self.quorum.is_some() { WITH_QUORUM } else { WITHOUT_QUORUM }];
        out.extend_from_slice(&self.xid_limit.get().to_le_bytes());
        out.extend_from_slice(&self.next_family.get().to_le_bytes());
        if let Some((at, note)) = &self.quorum {
            out.extend_from_slice(&at.get().to_le_bytes());
            out.extend_from_slice(&note.encode(0));
        }
        out
    }

    /// Decodes the bytes; `None` if no log was released.
    ///
    /// # Errors
    /// The bytes make no sense, or a newer program wrote them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if ![WITHOUT_QUORUM, WITH_QUORUM].contains(&version) {
            return Err(DecodeError { what: "carry version (written by a newer program?)" });
        }
        let (xid_limit, next_family) = (Xid::new(reader.u64()?), CfId::new(reader.u32()?));
        let mut quorum = None;
        if version == WITH_QUORUM {
            let at = Lsn::new(reader.u64()?);
            let Redo::Quorum(redo) = Redo::decode(tag::QUORUM, reader.rest())? else {
                return Err(DecodeError { what: "quorum in a carry" });
            };
            quorum = redo.note().map(|note| (at, note));
        } else {
            reader.finish()?;
        }
        Ok(Some(Self { xid_limit, next_family, quorum }))
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the bytes are the test's own")]
mod tests {
    use super::*;
    use crate::QuorumNote;

    /// Goal: decoding inverts encoding, and nothing shorter or longer is accepted. Method: one value, cut at each
    /// byte and lengthened.
    #[test]
    fn carry_round_trips_and_is_taken_whole_only() {
        let note = QuorumNote { list: "ANY 1 (a)".to_owned(), before: Some(String::new()), ..QuorumNote::default() };
        for quorum in [None, Some((Lsn::new(1 << 33), note))] {
            let carry = Carry { xid_limit: Xid::new(1 << 40), next_family: CfId::new(77), quorum };
            let bytes = carry.encode();
            assert_eq!(Carry::decode(&bytes), Ok(Some(carry)));
            assert!((1..bytes.len()).all(|len| Carry::decode(&bytes[..len]).is_err()));
            assert!(Carry::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
        assert_eq!(Carry::decode(&[]), Ok(None));
    }
}
