//! `publish`: a file that is there whole or not at all.

use std::{ffi::OsString, io, path::Path};

use collie_env::Files;

use crate::{SamplesError, name::TEMPORARY};

/// Writes `bytes` under a temporary name beside `path`, syncs them, and gives them their name. Makes directories where missing.
///
/// # Errors
/// [`SamplesError::Io`]; what was under `path` is still there then, and the temporary file is removed if that can be done.
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
    // Left by a process that ended in between.
    match files.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove", &temporary)(error)),
        _ => {}
    }
    let written = files.create(&temporary).and_then(|file| {
        file.write_at(0, bytes)?;
        file.sync_data()
    });
    let named = written
        .map_err(io("write", &temporary))
        .and_then(|()| files.replace(&temporary, path).map_err(io("rename", path)));
    if named.is_err() {
        // Whoever writes the same file next removes it as well.
        let _ = files.remove(&temporary);
    }
    named
}
