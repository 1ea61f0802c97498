//! The file `DIR.collie-lock`, which reserves a directory for one server at a time if its database may be exchanged for
//! another.
//!
//! # Invariants
//! - L1. A server that fills `DIR` or exchanges its contents holds the lock, from before the first look until its
//!   process ends. The lock of the log inside `DIR` is not sufficient: it is removed with that log, and is free while
//!   another log is made.
//! - L2. A server that may come to fill its directory again creates the file, and every server respects it. A directory
//!   that no other node can make a replica, and that has never been one, needs nothing next to it.

use std::path::Path;

use collie_env::{Access, Env, FileLock, LockError};

use super::rebuild::{beside, is_exchanged};
use crate::ServeError;

/// Whether a server may come to exchange its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The server follows, or may follow once another node leads.
    Possible,
    /// The server leads, and no other node can.
    Never,
    /// The server only reads.
    ReadsOnly,
}

/// Locks the directory `data` until the returned guard is dropped; returns `None` if no lock is needed (L2).
///
/// # Errors
/// Another process has it; those of the disk.
pub(crate) fn guard(data: &Path, exchange: Exchange, env: &Env) -> Result<Option<Box<dyn FileLock>>, ServeError> {
    let path = beside(data, ".collie-lock");
    let failed = |error: LockError| match error {
        LockError::Held { pid } => {
            let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            let message = format!("{} is in use by {by}: one server at a time has a directory", data.display());
            ServeError::Replication { message }
        }
        LockError::Io(source) => ServeError::Io { operation: "lock", what: path.display().to_string(), source },
    };
    if exchange == Exchange::ReadsOnly {
        return env.files.lock_to_read(&path).map_err(failed);
    }
    let was_made = env.files.open(&path, Access::Read).is_ok();
    if exchange == Exchange::Never && !was_made && !is_exchanged(env, data)? {
        return Ok(None);
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        env.files.create_dir_all(above).map_err(|source| failed(LockError::Io(source)))?;
    }
    env.files.lock(&path).map(Some).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: L1, L2: of two servers that may exchange one directory the second is refused, even one that would only
    /// lead; after the end of the first, the directory is free; a server that only leads writes nothing next to its
    /// directory. Method: each combination in turn, on a simulated disk.
    #[test]
    fn one_server_at_a_time_has_a_directory() {
        let (env, _disk) = Env::simulated(1);
        let data = Path::new("/nodes/data");
        env.files.create_dir_all(data).unwrap();
        assert!(guard(data, Exchange::Never, &env).unwrap().is_none());
        assert_eq!(env.files.list("/nodes".as_ref()).unwrap(), ["data"]);
        let held = guard(data, Exchange::Possible, &env).unwrap();
        assert!(held.is_some());
        for exchange in [Exchange::Possible, Exchange::Never, Exchange::ReadsOnly] {
            // An existing file is respected; on the simulated disk a lock does not create its file.
            let made = env.files.create(&beside(data, ".collie-lock"));
            drop(made);
            let refused = guard(data, exchange, &env).unwrap_err().to_string();
            assert!(refused.contains("/nodes/data is in use by"), "{refused}");
        }
        drop(held);
        assert!(guard(data, Exchange::Never, &env).unwrap().is_some());
    }
}
