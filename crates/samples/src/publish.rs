//! `publish`: writes a file that is there whole or not at all.

use std::{ffi::OsString, io, path::Path};

use collie_env::Files;

use crate::{SamplesError, name::TEMPORARY};

/// Writes `bytes` under a temporary name next to `path`, syncs them, and renames the file to `path`. It creates missing
/// directories.
///
/// # Errors
/// [`SamplesError::Io`]; then the old file at `path` is still there, and the temporary file is removed if possible.
pub(crate) fn publish(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<(), SamplesError> {
    let io = |op, path: &Path| {
        let path = path.to_owned();
        move |source| SamplesError::Io { op, path, source }
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    files.create_dir_all(dir).map_err(io("create", dir))?;
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(TEMPORARY);
    let temporary = dir.join(name);
    // A process that died before the rename may have left the file.
    match files.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove", &temporary)(error)),
        _ => {}
    }
    // The content is synced before the rename, so that the name never belongs to a part of it (S1).
    let written = files.create(&temporary).and_then(|file| {
        file.write_at(0, bytes)?;
        file.sync_data()
    });
    let named = written
        .map_err(io("write", &temporary))
        .and_then(|()| files.replace(&temporary, path).map_err(io("rename", path)));
    if named.is_err() {
        // If this fails, the next attempt to write the same file removes it.
        let _ = files.remove(&temporary);
    }
    named
}
