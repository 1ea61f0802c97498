//! `Manifest`: the file `BACKUP` of a copy, with a summary of the copy and every file with its size and checksums.
//! It is written once, last.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `COLLIEBK` |
//! | 8 | 4 | CRC-32C of everything from offset 12 to the end |
//! | 12 | 4 | format version, 1 |
//! | 16 | 16 | id of the database |
//! | 32 | 8 | where the log begins |
//! | 40 | 8 | the lowest position to which the copy can be restored |
//! | 48 | 8 | where the log ends |
//! | 56 | 8 | when the copy was made: i64, microseconds since 1970 |
//! | 64 | 4 | number of files |
//! | 68 | each | name: varint count and UTF-8, parts between `/`; bytes varint; CRC-32C of each 64 KiB, the last one shorter |
//!
//! Integers are little-endian. Names ascend strictly, and a name that leads out of the directory is refused.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;
use std::path::Path;

use collie_base::Lsn;
use collie_base::codec::{DecodeError, put_length_prefixed, put_varint};
use collie_env::{Env, read_all};

use super::Backup;
use crate::EngineError;
use crate::dir::frame::{self, Refused};

const MAGIC: &[u8; 8] = b"COLLIEBK";
const FORMAT_VERSION: u32 = 1;
/// The file's name.
pub(super) const NAME: &str = "BACKUP";
/// Bytes under one checksum. Damage is located to this precision, at a cost of 4 bytes per piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// The largest list that is read, enough for four terabytes of files. It guards against garbage and does not limit
/// use.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedFile {
    /// Its path in the copy, parts between `/`.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// CRC-32C of each piece.
    pub(super) pieces: Vec<u32>,
}

/// The content of `BACKUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) cluster: u128,
    pub(super) start: Lsn,
    pub(super) from: Lsn,
    pub(super) end: Lsn,
    pub(super) wall_us: i64,
    pub(super) files: Vec<ListedFile>,
}

impl Manifest {
    /// Returns a summary of the copy.
    pub(super) fn summary(&self) -> Backup {
        let Self { cluster, start, from, end, wall_us, .. } = *self;
        let files = u64::try_from(self.files.len()).unwrap_or(u64::MAX);
        Backup { cluster, start, from, end, wall_us, files, bytes: self.bytes() }
    }

    /// Returns the total size of all files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| file.bytes.saturating_add(sum))
    }

    /// Reads the list of the copy in `dir`.
    pub(super) fn read(env: &Env, dir: &Path) -> Result<Self, EngineError> {
        let path = dir.join(NAME);
        let bytes = match read_all(&*env.files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                let what = "is missing, so the directory is no backup, or one that was cut short".to_owned();
                return Err(EngineError::BadBackup { path, offset: None, what });
            }
            Err(error) => return Err(EngineError::io("read", path, error)),
        };
        Self::decode(&bytes).map_err(|error| match error {
            Refused::Newer(version) => EngineError::NewerFormat { path, version },
            Refused::Damaged(error) => {
                EngineError::BadBackup { path, offset: None, what: format!("has a bad {}", error.what) }
            }
        })
    }

    /// Writes the list of the copy in `dir`. Its content is durable on return, its name is not.
    pub(super) fn write(&self, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let path = dir.join(NAME);
        let write = || -> io::Result<()> {
            let file = env.files.create(&path)?;
            file.write_at(0, &self.encode())?;
            file.sync_data()
        };
        write().map_err(|error| EngineError::io("write", path.clone(), error))
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.cluster.to_le_bytes());
        for position in [self.start, self.from, self.end] {
            body.extend_from_slice(&position.get().to_le_bytes());
        }
        body.extend_from_slice(&self.wall_us.to_le_bytes());
        let count = u32::try_from(self.files.len()).expect("a copy has fewer files than a disk has");
        body.extend_from_slice(&count.to_le_bytes());
        for file in &self.files {
            put_length_prefixed(&mut body, file.name.as_bytes());
            put_varint(&mut body, file.bytes);
            for crc in &file.pieces {
                body.extend_from_slice(&crc.to_le_bytes());
            }
        }
        frame::encode(MAGIC, FORMAT_VERSION, &body)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        let (_version, mut reader) = frame::decode(MAGIC, FORMAT_VERSION, bytes)?;
        let cluster = reader.u128()?;
        let (start, from, end) = (Lsn::new(reader.u64()?), Lsn::new(reader.u64()?), Lsn::new(reader.u64()?));
        if !(start <= from && from <= end) {
            return Err(DecodeError { what: "order of positions" }.into());
        }
        let wall_us = reader.i64()?;
        let count = reader.u32()?;
        let mut files: Vec<ListedFile> = Vec::new();
        for _ in 0..count {
            let name = std::str::from_utf8(reader.length_prefixed()?).map_err(|_| DecodeError { what: "file name" })?;
            let bytes = reader.varint()?;
            let piece_bytes = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
            let count = usize::try_from(bytes.div_ceil(piece_bytes)).map_err(|_| DecodeError { what: "file size" })?;
            // Taken from the input first, so that a count beyond the input allocates nothing.
            let sums = reader.bytes(count.checked_mul(4).ok_or(DecodeError { what: "file size" })?)?;
            let word = |word: &[u8]| word.try_into().map_or(0, u32::from_le_bytes);
            let pieces = sums.chunks_exact(4).map(word).collect();
            let ascends = files.last().is_none_or(|last| last.name.as_str() < name);
            if !ascends || !stays_inside(name) {
                return Err(DecodeError { what: "file name" }.into());
            }
            files.push(ListedFile { name: name.to_owned(), bytes, pieces });
        }
        reader.finish()?;
        Ok(Self { cluster, start, from, end, wall_us, files })
    }
}

/// Returns whether a name leads to a file below the directory that it is joined to.
fn stays_inside(name: &str) -> bool {
    name.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0')) && name != NAME
}

/// Returns whether the bytes of a `BACKUP` are accepted. For the fuzz target: every other reader needs a file.
///
/// # Panics
/// If an accepted list does not survive being written and read again.
pub fn check_backup_manifest(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode(bytes) else { return false };
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest), "what is written reads back");
    true
}

/// Returns the bytes of a `BACKUP` with three files, as a seed for fuzzing.
pub fn sample_backup_manifest() -> Vec<u8> {
    let file = |name: &str, bytes, pieces: &[u32]| ListedFile { name: name.to_owned(), bytes, pieces: pieces.to_vec() };
    let files = vec![file("control", 76, &[7]), file("empty", 0, &[]), file("wal/1.wal", 65_537, &[1, 2])];
    let (start, from, end) = (Lsn::FIRST, Lsn::new(8192), Lsn::new(9000));
    Manifest { cluster: 0x0102_0304, start, from, end, wall_us: 1_700_000_000_000_000, files }.encode()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the bytes are the test's own")]
mod tests {
    use collie_base::checksum::crc32c;

    use super::*;

    fn sample() -> Manifest {
        Manifest::decode(&sample_backup_manifest()).unwrap()
    }

    /// Goal: the file reads back as written, and every damaged byte and every cut is noticed. Method: encode, flip
    /// each bit, cut at each byte.
    #[test]
    fn backup_manifest_round_trips_and_every_flipped_bit_is_refused() {
        let bytes = sample_backup_manifest();
        assert_eq!(sample().encode(), bytes);
        assert!(check_backup_manifest(&bytes));
        assert_eq!((sample().summary().files, sample().summary().bytes), (3, 65_613));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
    }

    /// Goal: no list names a file outside its directory, the list itself, or one file twice, and a file size
    /// without that many checksums allocates nothing. Method: lists with such names and with a huge file, under
    /// valid checksums.
    #[test]
    fn names_that_leave_the_directory_and_sizes_without_sums_are_refused() {
        let with = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = sample();
            change(&mut manifest);
            Manifest::decode(&manifest.encode())
        };
        for name in ["../up", "/root", "wal/../../x", "", "a//b", ".", "wal/", "nul\0", NAME, "control"] {
            let refused = with(&|manifest| manifest.files[1].name = name.to_owned());
            assert_eq!(refused, Err(DecodeError { what: "file name" }.into()), "{name:?}");
        }
        assert!(with(&|manifest| manifest.files[2].bytes = u64::MAX).is_err());
        assert!(with(&|manifest| manifest.end = Lsn::new(8191)).is_err());
    }

    /// Goal: the bytes are those of docs/format.md. Method: compare a list of one file byte by byte.
    #[test]
    fn backup_manifest_has_its_documented_bytes() {
        let mut manifest = sample();
        manifest.files.truncate(1);
        let bytes = manifest.encode();
        assert_eq!(bytes[..8], *b"COLLIEBK");
        assert_eq!(bytes[8..12], crc32c(&bytes[12..]).to_le_bytes());
        assert_eq!(bytes[12..16], [1, 0, 0, 0]);
        assert_eq!(bytes[16..32], 0x0102_0304_u128.to_le_bytes());
        assert_eq!(bytes[32..56], [4096_u64, 8192, 9000].map(u64::to_le_bytes).concat());
        assert_eq!(bytes[56..64], 1_700_000_000_000_000_i64.to_le_bytes());
        assert_eq!(bytes[64..68], [1, 0, 0, 0]);
        assert_eq!(bytes[68..], *b"\x07control\x4c\x07\0\0\0");
    }
}
