//! `Files`: the files of a directory by name, the purpose of each, and copies of directories.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The contents of files, by name relative to the directory.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Log,
    Table,
    /// The list of a tree's tables.
    List,
    Manifest,
    Control,
    Slots,
    /// The list of files of a backup.
    Backup,
    /// Small files: the owner of the log, the promised term, the positions of consumers, and others.
    Note,
    Samples,
}

impl Kind {
    /// Returns the purpose of the file with this name, or `None` if its bytes do not matter.
    pub(super) fn of(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name);
        Some(match name {
            _ if file == "LOCK" || name.contains("quarantine/") => return None,
            _ if name.starts_with("wal/") && name.ends_with(".wal") => Self::Log,
            _ if name.starts_with("levels/tree-") && name.contains("/tables/") => Self::Table,
            _ if name.starts_with("levels/tree-") => Self::List,
            "levels/MANIFEST" => Self::Manifest,
            "control" => Self::Control,
            "slots" => Self::Slots,
            "BACKUP" => Self::Backup,
            _ if name.starts_with("samples/") || name.starts_with("models/") => Self::Samples,
            _ => Self::Note,
        })
    }

    /// Returns whether it is a file of the LSM levels.
    pub(super) fn is_of_levels(self) -> bool {
        matches!(self, Self::Table | Self::List | Self::Manifest)
    }
}

/// Reads every file below a directory, except those that a running server removes meanwhile.
pub(super) fn read(dir: &Path) -> anyhow::Result<Files> {
    let (mut found, mut todo) = (Files::new(), vec![dir.to_owned()]);
    while let Some(at) = todo.pop() {
        let Some(entries) = unless_gone(fs::read_dir(&at)).with_context(|| at.display().to_string())? else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else if let Some(bytes) = unless_gone(fs::read(&path)).with_context(|| path.display().to_string())? {
                found.insert(path.strip_prefix(dir)?.display().to_string(), bytes);
            }
        }
    }
    Ok(found)
}

/// Returns `None` for a file that does not exist any more.
pub(super) fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Copies a directory with its modes to another one, which is emptied first, and the log of its servers.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for left in [to, &said_of(to)] {
        let _none = if left.is_dir() { fs::remove_dir_all(left) } else { fs::remove_file(left) };
    }
    let mut todo = vec![from.to_owned()];
    while let Some(at) = todo.pop() {
        let copied = to.join(at.strip_prefix(from)?);
        fs::create_dir_all(&copied)?;
        // The server refuses to open a data directory that other users can read.
        fs::set_permissions(&copied, fs::metadata(&at)?.permissions())?;
        for entry in fs::read_dir(&at).with_context(|| at.display().to_string())? {
            let entry = entry?;
            if entry.path().is_dir() {
                todo.push(entry.path());
            } else {
                fs::copy(entry.path(), copied.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Returns the path of the log of the servers that run on a directory.
pub(super) fn said_of(data: &Path) -> PathBuf {
    data.with_extension("said")
}
