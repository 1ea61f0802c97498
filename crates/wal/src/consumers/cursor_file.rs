//! The file `consumers`: the cursors of a log's consumers. It is replaced as a whole, and only this module writes and
//! reads it.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | magic `COLLIECU` |
//! | 8 | 4 | crc32c of bytes 12 to the end of the file |
//! | 12 | 2 | format version, 1 |
//! | 14 | 2 | zeros |
//! | 16 | 16 | log id |
//! | 32 | 4 | number of consumers, at most [`CONSUMERS_MAX`] |
//! | 36 | | each: name (varint length, bytes), cursor u64, restart position u64, policy u8 (1 hold, 2 invalidate, 3 files), lost u8 (0, 1), bound in files u32, bound in bytes u64 |
//!
//! Checked by the tests below and by `tests/consumers.rs` (power cuts while the file is replaced).
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::Path;

use collie_base::{
    Lsn,
    checksum::crc32c,
    codec::{Reader, put_length_prefixed},
};
use collie_env::Files;

use crate::{LagPolicy, WalError, segment::retention_pins::Bound};

/// Name of the file in the log directory.
pub(crate) const FILE_NAME: &str = "consumers";
/// Largest number of consumers of a log.
pub(crate) const CONSUMERS_MAX: usize = 1024;
/// Longest name of a consumer in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 63;

const MAGIC: &[u8; 8] = b"COLLIECU";
const VERSION: u16 = 1;
/// Above the largest possible file: a longer file was not written by this module.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// A consumer's cursor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredCursor {
    pub(crate) name: String,
    pub(crate) lsn: Lsn,
    pub(crate) restart: Lsn,
    pub(crate) bound: Bound,
    pub(crate) lost: bool,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredCursors {
    pub(crate) log_id: [u8; 16],
    pub(crate) cursors: Vec<StoredCursor>,
}

impl StoredCursors {
    /// Returns the bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.log_id);
        let count = u32::try_from(self.cursors.len()).expect("at most CONSUMERS_MAX");
        bytes.extend_from_slice(&count.to_le_bytes());
        for cursor in &self.cursors {
            put_length_prefixed(&mut bytes, cursor.name.as_bytes());
            bytes.extend_from_slice(&cursor.lsn.get().to_le_bytes());
            bytes.extend_from_slice(&cursor.restart.get().to_le_bytes());
            bytes.push(match cursor.bound.policy {
                LagPolicy::Hold => 1,
                LagPolicy::Invalidate => 2,
                LagPolicy::Files => 3,
            });
            bytes.push(u8::from(cursor.lost));
            bytes.extend_from_slice(&cursor.bound.segments.to_le_bytes());
            bytes.extend_from_slice(&cursor.bound.bytes.to_le_bytes());
        }
        let crc = crc32c(bytes.get(12..).unwrap_or(&[]));
        if let Some(place) = bytes.get_mut(8..12) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Reads the bytes of the file at `path`.
    ///
    /// # Errors
    /// `NewerFormat`; `BadConsumers` for anything that [`StoredCursors::encode`] does not write.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, WalError> {
        let computed = crc32c(bytes.get(12..).unwrap_or(&[]));
        let mut reader = Reader::new(bytes);
        let magic_holds = reader.bytes(8).is_ok_and(|magic| magic == MAGIC);
        let stored = reader.u32().unwrap_or(0);
        let bad = || WalError::BadConsumers { path: path.to_owned(), stored, computed };
        if !magic_holds || stored != computed {
            return Err(bad());
        }
        let version = reader.u16().map_err(|_| bad())?;
        if version > VERSION {
            return Err(WalError::NewerFormat { path: path.to_owned(), version });
        }
        Self::decode_body(reader).ok_or_else(bad)
    }

    fn decode_body(mut reader: Reader<'_>) -> Option<Self> {
        let _zeros = reader.u16().ok()?;
        let log_id = reader.bytes(16).ok()?.try_into().ok()?;
        let count = usize::try_from(reader.u32().ok()?).ok().filter(|count| *count <= CONSUMERS_MAX)?;
        let mut cursors = Vec::new();
        for _ in 0..count {
            let name = std::str::from_utf8(reader.length_prefixed().ok()?).ok()?;
            let (lsn, restart) = (Lsn::new(reader.u64().ok()?), Lsn::new(reader.u64().ok()?));
            let policy = match reader.u8().ok()? {
                1 => LagPolicy::Hold,
                2 => LagPolicy::Invalidate,
                3 => LagPolicy::Files,
                _ => return None,
            };
            let lost = match reader.u8().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            let bound = Bound { policy, segments: reader.u32().ok()?, bytes: reader.u64().ok()? };
            if name_refusal(name).is_some() || restart > lsn {
                return None;
            }
            cursors.push(StoredCursor { name: name.to_owned(), lsn, restart, bound, lost });
        }
        reader.is_empty().then_some(Self { log_id, cursors })
    }

    /// Reads the file in `dir`; `None` if there is no such file.
    ///
    /// # Errors
    /// As [`StoredCursors::decode`]; `Io`.
    pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Option<Self>, WalError> {
        let path = dir.join(FILE_NAME);
        match collie_env::read_all(files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(WalError::BadConsumers { path, stored: 0, computed: 0 })
            }
            Err(source) => Err(WalError::io("read", path, source)),
        }
    }

    /// Replaces the file in `dir`, durably: after a crash it has these cursors or the previous ones.
    ///
    /// # Errors
    /// `Io`: then either of them may be in the file.
    pub(crate) fn write(&self, files: &dyn Files, dir: &Path) -> Result<(), WalError> {
        let (path, temporary) = (dir.join(FILE_NAME), dir.join(format!("{FILE_NAME}.tmp")));
        let write = || {
            // An earlier try may have left the file; usually it is absent.
            let _absent = files.remove(&temporary);
            let file = files.create(&temporary)?;
            file.write_at(0, &self.encode())?;
            file.sync_data()?;
            files.replace(&temporary, &path)
        };
        write().map_err(|source| WalError::io("write", &path, source))
    }
}

/// Returns why the name of a consumer is refused, if it is.
pub(crate) fn name_refusal(name: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain);
    (!fits).then(|| {
        format!(
            "a consumer cannot be called {name:?}: use 1 to {NAME_BYTES_MAX} ASCII letters, digits, dashes, dots, \
             colons and underscores"
        )
    })
}

/// Reads `data` as the file `consumers`. For fuzzing: it must return for any input, and accepted cursors must survive
/// being written and read again.
#[cfg(any(test, feature = "fuzz"))]
pub fn fuzz_cursors(data: &[u8]) -> usize {
    let Ok(read) = StoredCursors::decode(data, Path::new("/consumers")) else { return 0 };
    assert_eq!(StoredCursors::decode(&read.encode(), Path::new("/consumers")).ok().as_ref(), Some(&read));
    read.cursors.len()
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "test code")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_cursor() -> impl Strategy<Value = StoredCursor> {
        let policy = prop_oneof![Just(LagPolicy::Hold), Just(LagPolicy::Invalidate), Just(LagPolicy::Files)];
        ("[a-zA-Z0-9_.:-]{1,63}", any::<(u64, u64, bool, u32, u64)>(), policy).prop_map(
            |(name, (one, other, lost, segments, bytes), policy)| {
                let (lsn, restart) = (Lsn::new(one.max(other)), Lsn::new(one.min(other)));
                StoredCursor { name, lsn, restart, lost, bound: Bound { policy, segments, bytes } }
            },
        )
    }

    proptest! {
        /// Goal: what is written is read back, and a flipped bit or a cut end is refused. Method: random cursors.
        #[test]
        fn cursors_read_back_and_damage_is_refused(
            log_id: [u8; 16],
            cursors in prop::collection::vec(any_cursor(), 0..5),
            flip: prop::sample::Index,
        ) {
            let path = Path::new("/wal/consumers");
            let written = StoredCursors { log_id, cursors };
            let mut bytes = written.encode();
            prop_assert_eq!(&StoredCursors::decode(&bytes, path).unwrap(), &written);
            let cut = &bytes[..flip.index(bytes.len())];
            prop_assert!(StoredCursors::decode(cut, path).is_err());
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(StoredCursors::decode(&bytes, path).is_err(), "bit {}", bit);
        }

        /// Goal: no bytes panic the reader. Method: random bytes behind a good head.
        #[test]
        fn garbage_is_refused_quietly(mut bytes: Vec<u8>) {
            fuzz_cursors(&bytes);
            let mut headed = MAGIC.to_vec();
            headed.extend_from_slice(&crc32c(&bytes).to_le_bytes());
            headed.append(&mut bytes);
            fuzz_cursors(&headed);
        }
    }
}
