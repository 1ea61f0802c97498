//! The frame of small files that are written as a whole: `control`, `BACKUP`.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic, the file's own |
//! | 8 | 4 | CRC-32C of everything from offset 12 to the end |
//! | 12 | 4 | format version |
//! | 16 | .. | fields |
//!
//! Little-endian. A reader refuses a newer version before it looks at the checksum, since a newer program may
//! compute that differently.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::checksum::crc32c;
use collie_base::codec::{DecodeError, Reader};

/// Why the bytes of a file are refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A newer program wrote them, in this version.
    Newer(u32),
    Damaged(DecodeError),
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// Returns the bytes of a file with these fields.
pub(crate) fn encode(magic: &[u8; 8], version: u32, fields: &[u8]) -> Vec<u8> {
    let body = [&version.to_le_bytes(), fields].concat();
    [&magic[..], &crc32c(&body).to_le_bytes(), &body].concat()
}

/// Checks the frame of a file; returns its version, `newest` at most, and its fields.
pub(crate) fn decode<'a>(magic: &[u8; 8], newest: u32, bytes: &'a [u8]) -> Result<(u32, Reader<'a>), Refused> {
    let mut reader = Reader::new(bytes);
    if reader.bytes(magic.len())? != magic {
        return Err(DecodeError { what: "magic" }.into());
    }
    let stored = reader.u32()?;
    let computed = crc32c(reader.rest());
    let version = reader.u32()?;
    if version > newest {
        return Err(Refused::Newer(version));
    }
    if stored != computed {
        return Err(DecodeError { what: "checksum" }.into());
    }
    Ok((version, reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a frame returns its version and fields; another kind of file, a damaged one and one of a newer
    /// program are distinguished, whatever else is wrong with the last. Method: one frame, changed in each part.
    #[test]
    fn frame_tells_foreign_damaged_and_newer_files_apart() {
        let bytes = encode(b"COLLIEXX", 2, b"fields");
        let (version, mut fields) = decode(b"COLLIEXX", 3, &bytes).unwrap();
        assert_eq!((version, fields.bytes(6).unwrap(), fields.is_empty()), (2, &b"fields"[..], true));
        let refused = |magic, newest, bytes: &[u8]| decode(magic, newest, bytes).map(drop).unwrap_err();
        assert_eq!(refused(b"COLLIEYY", 2, &bytes), Refused::Damaged(DecodeError { what: "magic" }));
        assert_eq!(refused(b"COLLIEXX", 1, &bytes), Refused::Newer(2));
        let mut bad = bytes.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(refused(b"COLLIEXX", 1, &bad), Refused::Newer(2));
        assert_eq!(refused(b"COLLIEXX", 2, &bad), Refused::Damaged(DecodeError { what: "checksum" }));
        assert!(matches!(refused(b"COLLIEXX", 2, b"COLLIEXX123"), Refused::Damaged(_)));
    }
}
