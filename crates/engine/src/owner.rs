//! Whose a data directory is: its owner's alone.
//!
//! # Invariants
//! - U1. A directory that others than its owner could change, or anybody could look into, is not opened to be written: whoever can replace its
//!   files is the database. Its owner's group may look into it, as where backups are made by another account.
//! - U2. A directory that is there and empty is closed to others before anything is written to it.

use std::path::Path;

use collie_env::Env;

use crate::EngineError;

/// Bits of a mode: what the group may change, and everything of everybody else.
const TOO_MUCH: u32 = 0o027;

/// Checks that nobody but its owner can change the directory `dir`, if it is there (U1).
///
/// # Errors
/// [`EngineError::Exposed`]; the system's.
pub(crate) fn check_owned(dir: &Path, env: &Env) -> Result<(), EngineError> {
    match env.files.mode(dir) {
        Ok(Some(mode)) if mode & TOO_MUCH != 0 => Err(EngineError::Exposed { path: dir.to_owned(), mode }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(EngineError::io("look at", dir.to_owned(), error)),
    }
}

/// Closes the directory `dir`, which is empty, to everybody but its owner (U2).
///
/// # Errors
/// The system's: it is another's.
pub(crate) fn close(dir: &Path, env: &Env) -> Result<(), EngineError> {
    env.files.close_to_others(dir).map_err(|error| EngineError::io("close to others", dir.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::{Db, Options};

    /// Goal: U1, U2: a directory that others can change, or look into, is refused with the command that mends it; one that is there and
    /// empty is closed. Method: a real directory with each mode.
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
