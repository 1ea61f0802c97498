//! Directories of earlier and of later formats: the whole of `faultlab upgrade`, with the server's binary.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the path of the server's binary: `$COLLIE_BIN`, or the one that Cargo built next to `faultlab`.
fn server() -> PathBuf {
    let beside = || Path::new(env!("CARGO_BIN_EXE_faultlab")).with_file_name("collie");
    let path = std::env::var_os("COLLIE_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.is_file(), "{} is not there: cargo build -p collie, or set COLLIE_BIN", path.display());
    path
}

/// Goal: a directory of an earlier program is opened with all its data, one of a later program is refused and left
/// unchanged, and a raised format version without a new archive is noticed. Method: the archives in
/// `tests/crash/upgrade`; versions raised by one; a directory that the current program makes by the newest recipe.
#[test]
fn directories_of_every_format_open_and_later_ones_are_refused_untouched() {
    let output = Command::new(env!("CARGO_BIN_EXE_faultlab")).args(["upgrade", "--server"]).arg(server()).output();
    let output = output.expect("faultlab was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
