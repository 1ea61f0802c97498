//! The file `DIR.collie-lock`, by which one server at a time has a directory whose database may be exchanged for another.
//!
//! # Invariants
//! - L1. Whoever fills `DIR` or exchanges what is in it holds it, from before the first look until its process ends. The lock of the log
//!   inside of `DIR` does not do: it goes with that log, and is free while another is made.
//! - L2. It is made by a server that may come to fill its directory anew, and heeded by every one. What nobody can make a replica, and
//!   has never been one, needs nothing beside its directory.

use std::path::Path;

use collie_env::{Access, Env, FileLock, LockError};

use super::rebuild::{beside, is_exchanged};
use crate::ServeError;

/// Whether a server may come to exchange its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// It follows, or may once another leads.
    Possible,
    /// It leads, and nobody else can.
    Never,
    /// It only reads.
    ReadsOnly,
}

/// Takes the directory `data`, until what comes back is dropped; `None` where that needs no lock (L2).
///
/// # Errors
/// Another process has it; the disk's.
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

    /// Goal: L1, L2: of two servers that may exchange one directory the second is refused, also one that would only lead; after the first,
    /// it is free; a server that only leads writes nothing beside its directory. Method: each after each, on a simulated disk.
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
            // A file that is there is heeded; the simulated disk has none under a lock.
            let made = env.files.create(&beside(data, ".collie-lock"));
            drop(made);
            let refused = guard(data, exchange, &env).unwrap_err().to_string();
            assert!(refused.contains("/nodes/data is in use by"), "{refused}");
        }
        drop(held);
        assert!(guard(data, Exchange::Never, &env).unwrap().is_some());
    }
}
