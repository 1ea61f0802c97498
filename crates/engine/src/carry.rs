//! `Carry`: what MANIFEST keeps of log that is gone, which replay would have taken from there.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 8 | an id of transactions above every one in the log that is gone |
//! | 9 | 4 | an id of families above every one in the log that is gone |
//!
//! Little-endian; MANIFEST's frame has the checksum. The histories that begin there are in the control file.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::codec::{DecodeError, Reader};
use collie_base::{CfId, Xid};

const VERSION: u8 = 1;

/// Bounds of the ids that were handed out in log that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    pub(crate) xid_limit: Xid,
    pub(crate) next_family: CfId,
}

impl Carry {
    /// Encodes the bytes that MANIFEST keeps.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.xid_limit.get().to_le_bytes());
        out.extend_from_slice(&self.next_family.get().to_le_bytes());
        out
    }

    /// Reads them; `None`: no log is gone.
    ///
    /// # Errors
    /// They make no sense, or were written by a newer program.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(DecodeError { what: "carry version (written by a newer program?)" });
        }
        let (xid_limit, next_family) = (Xid::new(reader.u64()?), CfId::new(reader.u32()?));
        reader.finish()?;
        Ok(Some(Self { xid_limit, next_family }))
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the bytes are the test's own")]
mod tests {
    use super::*;

    /// Goal: reading inverts writing, and nothing shorter or longer is taken. Method: one of them, cut at each byte and drawn out.
    #[test]
    fn carry_round_trips_and_is_taken_whole_only() {
        let carry = Carry { xid_limit: Xid::new(1 << 40), next_family: CfId::new(77) };
        let bytes = carry.encode();
        assert_eq!(Carry::decode(&bytes), Ok(Some(carry)));
        assert_eq!(Carry::decode(&[]), Ok(None));
        assert!((1..bytes.len()).all(|len| Carry::decode(&bytes[..len]).is_err()));
        assert!(Carry::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
