//! `Files`: the files of a directory by name, what each of them is for, and a copy of them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The contents of files, by their name in the directory.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Log,
    Table,
    /// Which tables a tree has.
    List,
    Manifest,
    Control,
    Slots,
    /// The list of a backup.
    Backup,
    /// Whose the log is, which term was promised, where consumers are, and whatever else is small.
    Note,
    Samples,
}

impl Kind {
    /// Returns what the file of that name is for. `None`: its bytes count for nothing.
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

    /// Returns whether it is of the levels.
    pub(super) fn is_of_levels(self) -> bool {
        matches!(self, Self::Table | Self::List | Self::Manifest)
    }
}

/// Reads every file below a directory; those that a running server removes meanwhile are left out.
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

/// Returns `None` of what is not there any more.
pub(super) fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Copies a directory to another one, which is emptied first, with what the servers over it said. It is its owner's alone.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for left in [to, &said_of(to)] {
        let _none = if left.is_dir() { fs::remove_dir_all(left) } else { fs::remove_file(left) };
    }
    let mut todo = vec![from.to_owned()];
    while let Some(at) = todo.pop() {
        let copied = to.join(at.strip_prefix(from)?);
        fs::create_dir_all(&copied)?;
        // A data directory that others can look into is not opened.
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

/// Returns where what the servers over a directory say is written.
pub(super) fn said_of(data: &Path) -> PathBuf {
    data.with_extension("said")
}
