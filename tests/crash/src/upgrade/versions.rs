//! `Survey`: the format versions of a data directory's files. Each of our files begins with a magic of eight bytes, and
//! has its version at offset 12 and, at offset 8, the checksum of the bytes from there on.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use collie_base::checksum::crc32c;

use super::archive;

/// The eight magic bytes of a kind of file; the first six are the same in all files.
pub(super) type Magic = [u8; 8];

/// The offset of the version, where the checksummed bytes begin.
const VERSION_AT: usize = 12;

/// The version of each kind of file, by its magic: the highest, since some files may not have been rewritten yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Survey(BTreeMap<Magic, u16>);

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<String> =
            self.0.iter().map(|(magic, version)| format!("{} {version}", String::from_utf8_lossy(magic))).collect();
        f.write_str(&versions.join(", "))
    }
}

impl Survey {
    /// Reads the versions of all files of a data directory.
    pub(super) fn of(dir: &Path) -> anyhow::Result<Self> {
        let mut versions = BTreeMap::new();
        for bytes in archive::contents(dir)?.values().flatten() {
            if let Some((magic, version)) = version_of(bytes) {
                let highest: &mut u16 = versions.entry(magic).or_default();
                *highest = version.max(*highest);
            }
        }
        Ok(Self(versions))
    }

    /// Returns each kind of file and its version.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Magic, u16)> {
        self.0.iter().map(|(magic, version)| (*magic, *version))
    }
}

/// Returns a file's kind and version, or `None` if the file is not one of ours.
fn version_of(bytes: &[u8]) -> Option<(Magic, u16)> {
    let magic = *bytes.first_chunk::<8>()?;
    let version = bytes.get(VERSION_AT..)?.first_chunk::<2>()?;
    magic.starts_with(b"COLLIE").then_some((magic, u16::from_le_bytes(*version)))
}

/// Returns the end of the checksummed bytes of a kind of file.
fn checked_end(magic: Magic, bytes: &[u8]) -> usize {
    match &magic {
        b"COLLIEWL" => 4096,
        b"COLLIEMF" => 32,
        _ => bytes.len(),
    }
}

/// Rewrites `control` of version 2 as version 1 (docs/format.md section 1): without the field at 48, and without the
/// last field of each history. The programs that wrote version 1 wrote all other files as their successors did.
pub(super) fn write_control_1(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join("control");
    let bytes = fs::read(&path)?;
    ensure!(version_of(&bytes) == Some((*b"COLLIEDB", 2)), "control is not of version 2");
    let mut fields = [&1_u32.to_le_bytes(), &bytes[16..48], &bytes[56..60]].concat();
    bytes[60..].chunks_exact(32).for_each(|history| fields.extend(&history[..24]));
    fs::write(&path, [b"COLLIEDB".as_slice(), &crc32c(&fields).to_le_bytes(), &fields].concat())?;
    Ok(())
}

/// Raises the version of every file of one kind by one, with the right checksum, as a newer program would write it;
/// returns the path of the first one.
pub(super) fn raise(dir: &Path, kind: Magic) -> anyhow::Result<PathBuf> {
    let mut raised = None;
    for (name, bytes) in archive::contents(dir)? {
        let Some((mut bytes, version)) = bytes.and_then(|bytes| {
            version_of(&bytes).filter(|(magic, _)| *magic == kind).map(|(_, version)| (bytes, version))
        }) else {
            continue;
        };
        let end = checked_end(kind, &bytes);
        let sum = |bytes: &[u8]| crc32c(&bytes[VERSION_AT..end]).to_le_bytes();
        let stored = bytes[8..VERSION_AT].to_vec();
        ensure!(stored == sum(&bytes), "{name}: this program does not know what is under its checksum");
        bytes[VERSION_AT..VERSION_AT + 2].copy_from_slice(&(version + 1).to_le_bytes());
        let new = sum(&bytes);
        bytes[8..VERSION_AT].copy_from_slice(&new);
        let path = dir.join(name);
        fs::write(&path, bytes)?;
        raised.get_or_insert(path);
    }
    raised.context("there is such a file")
}
