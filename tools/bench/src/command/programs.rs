//! The programs that a benchmark starts: itself, and the server.

use std::path::PathBuf;

use anyhow::Context;

/// The command that builds the server as this program was built.
const BUILD: &str = if cfg!(debug_assertions) { "cargo build -p collie" } else { "cargo build --release -p collie" };

/// Returns the path of this program.
///
/// # Errors
/// The operating system does not know it.
pub(super) fn own() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program is not found")
}

/// Returns the path of the program `collie`, next to this one.
///
/// # Errors
/// It is not there: the error says how to build it.
pub(super) fn collie() -> anyhow::Result<PathBuf> {
    let path = own()?.with_file_name("collie");
    anyhow::ensure!(path.is_file(), "the server {} is not there: build it with `{BUILD}`", path.display());
    Ok(path)
}
