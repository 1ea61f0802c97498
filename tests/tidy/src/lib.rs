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

/// Returns the tracked text files with one of these extensions, and their texts.
///
/// # Errors
/// If git does not list the files.
pub fn texts(extensions: &[&str]) -> io::Result<Vec<(PathBuf, String)>> {
    let output = Command::new("git").arg("ls-files").current_dir(root()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("git ls-files failed"));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let paths = listed.lines().map(PathBuf::from);
    let wanted = |path: &PathBuf| path.extension().is_some_and(|found| extensions.iter().any(|e| found == *e));
    let read = |path: PathBuf| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?));
    Ok(paths.filter(wanted).filter_map(read).collect())
}
