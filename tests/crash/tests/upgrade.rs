//! Directories of earlier formats, and of later ones: the whole of `faultlab upgrade`, with the server's binary.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns `$COLLIE_BIN`, else the server's binary that Cargo built beside `faultlab`.
fn server() -> PathBuf {
    let beside = || Path::new(env!("CARGO_BIN_EXE_faultlab")).with_file_name("collie");
    let path = std::env::var_os("COLLIE_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.is_file(), "{} is not there: cargo build -p collie, or set COLLIE_BIN", path.display());
    path
}

/// Goal: what an earlier program left is opened with everything that it had, what a later one left is refused untouched, and whoever raises a
/// format version adds an archive. Method: the archives in `tests/crash/upgrade`; versions raised by one; a directory that the program makes
/// now by the newest recipe.
#[test]
fn directories_of_every_format_open_and_later_ones_are_refused_untouched() {
    let output = Command::new(env!("CARGO_BIN_EXE_faultlab")).args(["upgrade", "--server"]).arg(server()).output();
    let output = output.expect("faultlab was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
