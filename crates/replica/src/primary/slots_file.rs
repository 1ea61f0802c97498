//! The file `slots`: the state of a primary's replicas other than their positions in the log. It is replaced as a
//! whole, and written and read here only.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `COLLIESL` |
//! | 8 | 4 | CRC-32C of everything from offset 12 to the end |
//! | 12 | 4 | format version, 1 |
//! | 16 | 4 | number of slots, at most 1,024 |
//! | 20 | | the slots, one after the other |
//!
//! | field of a slot | type |
//! |---|---|
//! | name | varint length, bytes |
//! | node id, received, durable, applied | u64 each |
//! | time since it last sent something, in ns | u64 |
//! | when that was, in us since 1970 | i64 |
//! | why it is expired | u8: 0 it is not, 1 bytes, 2 age, 3 files |
//! | address | varint length, bytes |
//!
//! Little-endian. The log's list of consumers decides which slots exist; a slot that is here and not there was
//! dropped, unless it is expired.
//!
//! # Invariants
//! - F1. A file of a newer format version is never replaced: the version is checked before the checksum, which a
//!   newer program may compute differently, and a caller that finds such a file has no [`SlotsFile`] to write
//!   with.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{
    io,
    path::{Path, PathBuf},
};

use collie_base::{
    Lsn,
    checksum::crc32c,
    codec::{DecodeError, Reader, put_length_prefixed},
};
use collie_env::{Env, read_all};
use thiserror::Error;

use super::slots::Expiry;

const MAGIC: &[u8; 8] = b"COLLIESL";
const VERSION: u32 = 1;
const NAME: &str = "slots";
/// The most slots that are read.
const SLOTS_MAX: u32 = 1024;
/// More than the bytes of the largest possible file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A slot as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredSlot {
    pub(super) name: String,
    pub(super) node: u64,
    pub(super) received: Lsn,
    pub(super) durable: Lsn,
    pub(super) applied: Lsn,
    /// The time since it last sent something, while this node ran.
    pub(super) unheard_ns: u64,
    /// When it last sent something, by the wall clock: for people only.
    pub(super) heard_wall_us: i64,
    pub(super) expired: Option<Expiry>,
    pub(super) address: String,
}

/// A file `slots` that a newer program has written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{path} has format version {version}, written by a newer program: use that program, or move the file away, by which \
     this server forgets what it last knew of its replicas but keeps their slots and the log for them"
)]
pub struct NewerSlots {
    /// The file.
    pub path: PathBuf,
    /// Its format version.
    pub version: u32,
}

/// Why the file is not used.
#[derive(Debug, Error)]
pub(super) enum Unread {
    /// A newer program has written it, and it is left alone (F1).
    #[error("{0}")]
    Newer(NewerSlots),
    /// It cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// It does not have the form that [`encode`] writes.
    #[error("{0}")]
    Damaged(DecodeError),
}

/// Why the bytes of a file are not slots.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Newer(u32),
    Damaged(DecodeError),
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// The place of the file.
#[derive(Clone, Debug)]
pub(super) struct SlotsFile {
    env: Env,
    dir: PathBuf,
}

impl SlotsFile {
    /// Creates a handle for the file in the data directory `dir`.
    pub(super) fn new(env: Env, dir: &Path) -> Self {
        Self { env, dir: dir.to_owned() }
    }

    /// Reads the file; returns no slots if it does not exist.
    ///
    /// # Errors
    /// [`Unread`] states why it is not used.
    pub(super) fn read(&self) -> Result<Vec<StoredSlot>, Unread> {
        let path = self.dir.join(NAME);
        match read_all(&*self.env.files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => decode(&bytes).map_err(|refused| match refused {
                Refused::Newer(version) => Unread::Newer(NewerSlots { path, version }),
                Refused::Damaged(error) => Unread::Damaged(error),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Unread::Io(error)),
        }
    }

    /// Replaces the file; durable when this returns.
    ///
    /// # Errors
    /// The file could not be written: it has the new or the previous content.
    pub(super) fn write(&self, slots: &[StoredSlot]) -> io::Result<()> {
        let (path, temporary) = (self.dir.join(NAME), self.dir.join(format!("{NAME}.new")));
        let files = &*self.env.files;
        match files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = files.create(&temporary)?;
        file.write_at(0, &encode(slots))?;
        file.sync_data()?;
        files.replace(&temporary, &path)
    }
}

fn encode(slots: &[StoredSlot]) -> Vec<u8> {
    let mut body = VERSION.to_le_bytes().to_vec();
    let count = u32::try_from(slots.len()).unwrap_or(SLOTS_MAX).min(SLOTS_MAX);
    body.extend_from_slice(&count.to_le_bytes());
    for (slot, _) in slots.iter().zip(0..count) {
        put_length_prefixed(&mut body, slot.name.as_bytes());
        for word in [slot.node, slot.received.get(), slot.durable.get(), slot.applied.get(), slot.unheard_ns] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&slot.heard_wall_us.to_le_bytes());
        body.push(match slot.expired {
            None => 0,
            Some(Expiry::Bytes) => 1,
            Some(Expiry::Age) => 2,
            Some(Expiry::Files) => 3,
        });
        put_length_prefixed(&mut body, slot.address.as_bytes());
    }
    [&MAGIC[..], &crc32c(&body).to_le_bytes(), &body].concat()
}

fn decode(bytes: &[u8]) -> Result<Vec<StoredSlot>, Refused> {
    let bad = |what| DecodeError { what };
    let mut reader = Reader::new(bytes);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(bad("magic").into());
    }
    let stored = reader.u32()?;
    let computed = crc32c(reader.rest());
    let version = reader.u32()?;
    // F1
    if version > VERSION {
        return Err(Refused::Newer(version));
    }
    if stored != computed {
        return Err(bad("checksum").into());
    }
    if version != VERSION {
        return Err(bad("version").into());
    }
    let count = Some(reader.u32()?).filter(|count| *count <= SLOTS_MAX).ok_or(bad("number of slots"))?;
    let mut slots = Vec::new();
    for _ in 0..count {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| bad("text"));
        let name = text(reader.length_prefixed()?)?;
        let node = reader.u64()?;
        let [received, durable, applied] = [reader.u64()?, reader.u64()?, reader.u64()?].map(Lsn::new);
        let (unheard_ns, heard_wall_us) = (reader.u64()?, reader.u64()?.cast_signed());
        let expired = match reader.u8()? {
            0 => None,
            1 => Some(Expiry::Bytes),
            2 => Some(Expiry::Age),
            3 => Some(Expiry::Files),
            _ => return Err(bad("expiry").into()),
        };
        let address = text(reader.length_prefixed()?)?;
        slots.push(StoredSlot { name, node, received, durable, applied, unheard_ns, heard_wall_us, expired, address });
    }
    reader.finish()?;
    Ok(slots)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "test code")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_slot() -> impl Strategy<Value = StoredSlot> {
        let why = [Expiry::Bytes, Expiry::Age, Expiry::Files].map(Some);
        let expired = prop::sample::select([&[None][..], &why[..]].concat());
        ("[a-z]{0,60}", any::<[u64; 5]>(), any::<i64>(), expired, "[0-9.:]{0,30}").prop_map(
            |(name, [node, received, durable, applied, unheard_ns], heard_wall_us, expired, address)| {
                let [received, durable, applied] = [received, durable, applied].map(Lsn::new);
                StoredSlot { name, node, received, durable, applied, unheard_ns, heard_wall_us, expired, address }
            },
        )
    }

    proptest! {
        /// Goal: slots are read back as they were written after a power cut, and a flipped bit or a cut end is
        /// refused. Method: random slots.
        #[test]
        fn slots_read_back_and_damage_is_refused(
            slots in prop::collection::vec(any_slot(), 0..5), flip: prop::sample::Index,
        ) {
            let (env, disk) = Env::simulated(1);
            env.files.create_dir_all(Path::new("/data")).unwrap();
            let file = SlotsFile::new(env, Path::new("/data"));
            prop_assert_eq!(file.read().unwrap(), Vec::new());
            file.write(&[]).unwrap();
            file.write(&slots).unwrap();
            let after = SlotsFile::new(Env::over(disk.power_cut(1), 1), Path::new("/data"));
            prop_assert_eq!(&after.read().unwrap(), &slots);
            let mut bytes = encode(&slots);
            prop_assert!(decode(&bytes[..flip.index(bytes.len())]).is_err());
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&bytes).is_err(), "bit {}", bit);
        }
    }
}
