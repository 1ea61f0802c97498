//! Checks of the source tree, as tests: a tool keeps the rules of style that a tool can keep. The library lists the
//! tree's files for them.
#![forbid(unsafe_code)]

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the root of the source tree.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the tracked files, by their paths below the root.
///
/// # Errors
/// If git does not list the files.
pub fn tracked() -> io::Result<Vec<PathBuf>> {
    let output = Command::new("git").arg("ls-files").current_dir(root()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("git ls-files failed"));
    }
    let listed = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

/// Returns whether a path has one of these extensions.
pub fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

/// Returns the tracked text files with one of these extensions, and their texts.
///
/// # Errors
/// As [`tracked`].
pub fn texts(extensions: &[&str]) -> io::Result<Vec<(PathBuf, String)>> {
    let wanted = tracked()?.into_iter().filter(|path| has_extension(path, extensions));
    let read = |path: PathBuf| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?));
    Ok(wanted.filter_map(read).collect())
}
