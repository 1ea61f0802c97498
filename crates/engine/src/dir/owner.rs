//! Permissions of a data directory: only its owner can change it.
//!
//! # Invariants
//! - U1. A directory that other accounts than its owner could change, or that accounts outside the owner's group
//!   could look into, is not opened for writing: an account that can replace its files controls the database. The
//!   owner's group may look into it, as where another account makes backups.
//! - U2. An existing empty directory is closed to other accounts before anything is written to it.

use std::path::Path;

use collie_env::Env;

use crate::EngineError;

/// Mode bits that must not be set: write for the group, and everything for other accounts.
const TOO_MUCH: u32 = 0o027;

/// Checks that only the owner of the directory `dir` can change it, if it exists (U1).
///
/// # Errors
/// [`EngineError::Exposed`]; those of the system.
pub(crate) fn check_owned(dir: &Path, env: &Env) -> Result<(), EngineError> {
    match env.files.mode(dir) {
        Ok(Some(mode)) if mode & TOO_MUCH != 0 => Err(EngineError::Exposed { path: dir.to_owned(), mode }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(EngineError::io("look at", dir.to_owned(), error)),
    }
}

/// Closes the directory `dir`, which is empty, to all accounts but its owner's (U2).
///
/// # Errors
/// Those of the system: the directory belongs to another account.
pub(crate) fn close(dir: &Path, env: &Env) -> Result<(), EngineError> {
    env.files.close_to_others(dir).map_err(|error| EngineError::io("close to others", dir.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::{Db, Options};

    /// Goal: U1, U2: a directory that other accounts can change, or look into, is refused with the command that
    /// repairs it; an existing empty one is closed. Method: a real directory with each mode.
    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("data");
        let set = |mode| fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let open = || Db::open(&dir, Options::default(), Env::real(), &mut |_| ());
        fs::create_dir(&dir).unwrap();
        set(0o777);
        let (db, report) = open().unwrap();
        assert!(report.created);
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        db.close().unwrap();
        for mode in [0o777, 0o755, 0o770, 0o720, 0o701] {
            set(mode);
            let refused = open().expect_err("it is refused").to_string();
            assert!(refused.contains("chmod 0700") && refused.contains(&format!("{mode:04o}")), "{refused}");
        }
        for mode in [0o750, 0o700] {
            set(mode);
            open().unwrap().0.close().unwrap();
        }
    }
}
