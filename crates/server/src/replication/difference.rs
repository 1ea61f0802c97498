//! The file `state-differs` of a replica: its rows, or its log, differed from its primary's. A directory with this file
//! is not opened again.

use std::{io, path::Path};

use collie_env::{Env, read_all};
use collie_replica::Difference;

use crate::ServeError;

/// The file is one line of text for people.
const NAME: &str = "state-differs";

/// A longer file is not read.
const BYTES_MAX: u64 = 64 << 10;

/// Records the difference, with both checksums.
///
/// # Errors
/// Those of the disk.
///
/// # Durability
/// The file is on disk on return.
pub(crate) fn keep(data: &Path, difference: &Difference, env: &Env) -> Result<(), ServeError> {
    let path = data.join(NAME);
    let write = || {
        let file = env.files.create(&path)?;
        file.write_at(0, format!("{difference}\n").as_bytes())?;
        file.sync_data()?;
        env.files.sync_dir(data)
    };
    match write() {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed("write", &path, error)),
        _ => Ok(()),
    }
}

/// Refuses a directory whose rows or log were found to differ.
///
/// # Errors
/// [`ServeError::Replication`] if they were; those of the disk.
pub(crate) fn check(data: &Path, env: &Env) -> Result<(), ServeError> {
    let path = data.join(NAME);
    match read_all(&*env.files, &path, BYTES_MAX) {
        Ok(text) => Err(ServeError::Replication {
            message: format!(
                "{} says: {}: set the directory aside for a look, and start with an empty one",
                path.display(),
                String::from_utf8_lossy(&text).trim()
            ),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("read", &path, error)),
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> ServeError {
    ServeError::Io { operation, what: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use collie_base::{Lsn, Term};
    use collie_replica::Differing;

    use super::*;

    /// Goal: a recorded difference stays, with both checksums, over a power cut. Method: recorded twice, read after the
    /// cut.
    #[test]
    fn a_directory_that_differs_is_refused() {
        let (env, disk) = Env::simulated(1);
        let data = Path::new("/data");
        env.files.create_dir_all(data).unwrap();
        check(data, &env).unwrap();
        let what = Differing::Rows { family: 7, own: 0xAB, primary: 0xCD };
        let difference = Difference { at: Lsn::new(5000), term: Term::new(1), what };
        keep(data, &difference, &env).unwrap();
        let later = Differing::Log { from: Lsn::new(4096), own: 1, primary: 2 };
        keep(data, &Difference { what: later, ..difference }, &env).unwrap();
        let refused = check(data, &Env::over(disk.power_cut(1), 1)).unwrap_err().to_string();
        for part in ["family 7", "00000000000000ab", "00000000000000cd"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
