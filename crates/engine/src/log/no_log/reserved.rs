//! `Reserved`: the file `reserved` in the data directory of a database without a log: upper bounds of the numbers that
//! may have been assigned.
//!
//! | file | frame ([`frame`](crate::dir::frame)) | fields |
//! |---|---|---|
//! | `reserved` | `COLLIERS`, version 1 | cluster id (16), ends of positions (8), transaction ids (8), family ids (4) |
//!
//! It is replaced whole, by rename. Its presence means that there is no log; it is removed once a log has begun again.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;
use std::path::Path;

use collie_base::codec::DecodeError;
use collie_base::{CfId, Lsn, Xid};
use collie_env::Env;

use crate::EngineError;
use crate::dir::frame::{self, Refused};
use crate::dir::log_place::{read_framed, write_framed};

const NAME: &str = "reserved";
const MAGIC: &[u8; 8] = b"COLLIERS";
const VERSION: u32 = 1;

/// Upper bounds (exclusive) of the numbers that may have been assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) end: Lsn,
    pub(crate) xid_limit: Xid,
    pub(crate) next_family: CfId,
}

impl Reserved {
    /// Reads the file in `dir`, the directory of the database `cluster`; returns `None` if it does not exist.
    ///
    /// # Errors
    /// If the file is damaged, of a newer format, of another database, or cannot be read.
    pub(crate) fn read(env: &Env, dir: &Path, cluster: u128) -> Result<Option<Self>, EngineError> {
        read_framed(env, dir.join(NAME), |bytes| Self::decode(bytes, cluster))
    }

    /// Replaces the file in `dir`; it is durable on return.
    pub(crate) fn write(&self, env: &Env, dir: &Path, cluster: u128) -> Result<(), EngineError> {
        write_framed(env, dir, NAME, &self.encode(cluster))
    }

    /// Removes the file in `dir`; the removal is durable on return.
    pub(crate) fn remove(env: &Env, dir: &Path) -> Result<(), EngineError> {
        let path = dir.join(NAME);
        let removed = match env.files.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => env.files.sync_dir(dir),
        };
        removed.map_err(|error| EngineError::io("remove", path, error))
    }

    fn encode(&self, cluster: u128) -> Vec<u8> {
        let mut fields = cluster.to_le_bytes().to_vec();
        fields.extend_from_slice(&self.end.get().to_le_bytes());
        fields.extend_from_slice(&self.xid_limit.get().to_le_bytes());
        fields.extend_from_slice(&self.next_family.get().to_le_bytes());
        frame::encode(MAGIC, VERSION, &fields)
    }

    fn decode(bytes: &[u8], cluster: u128) -> Result<Self, Refused> {
        let (_version, mut fields) = frame::decode(MAGIC, VERSION, bytes)?;
        if fields.u128()? != cluster {
            return Err(DecodeError { what: "cluster id: the file is of another database" }.into());
        }
        let (end, xid_limit) = (Lsn::new(fields.u64()?), Xid::new(fields.u64()?));
        let next_family = CfId::new(fields.u32()?);
        fields.finish()?;
        Ok(Self { end, xid_limit, next_family })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the bytes are the test's own")]
mod tests {
    use super::*;

    /// Goal: the file has its documented bytes, and a damaged file or one of another database is refused. Method: bytes
    /// by hand; each bit flipped, each length cut.
    #[test]
    fn file_of_reserved_numbers_round_trips_and_every_flipped_bit_is_refused() {
        let reserved = Reserved { end: Lsn::new(0x1122), xid_limit: Xid::new(0x33), next_family: CfId::new(0x44) };
        let bytes = reserved.encode(7);
        assert_eq!((&bytes[..8], bytes.len()), (&MAGIC[..], 16 + 36));
        assert_eq!(bytes[32..], [0x22, 0x11, 0, 0, 0, 0, 0, 0, 0x33, 0, 0, 0, 0, 0, 0, 0, 0x44, 0, 0, 0]);
        assert_eq!(Reserved::decode(&bytes, 7), Ok(reserved));
        assert!(matches!(Reserved::decode(&bytes, 8), Err(Refused::Damaged(error)) if error.what.contains("another")));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Reserved::decode(&bad, 7).is_err(), "bit {bit}");
        }
        (0..bytes.len()).for_each(|len| assert!(Reserved::decode(&bytes[..len], 7).is_err(), "cut to {len} bytes"));
    }
}
