//! `LogPlace`: where a database's log is, and that it belongs to this database.
//!
//! The log is in `wal` of the data directory, or where `wal.wal_dir` says. Each side names the other, so that a
//! directory that was swapped, or moved without notice, is refused with an error that names both.
//!
//! | file | frame ([`frame`]) | fields |
//! |---|---|---|
//! | `owner`, next to the log | `COLLIEOW`, version 1 | cluster id (16), node id (8), data directory (count, bytes) |
//! | `log-dir`, in the data directory | `COLLIELD`, version 1 | the log's directory (count, bytes) |
//!
//! A count is a varint. The file `log-dir` exists only while the log is outside the data directory.
//!
//! # Invariants
//! - G1. A log is never opened or created in a directory with the `owner` file of another data directory. Outside
//!   the data directory a log without an `owner` file is not opened either, unless this data directory has begun to
//!   create it there.
//! - G2. A data directory whose log has histories never gets a log other than its own.
//! - G3. While the log is outside, the data directory is locked too: two processes cannot give it two logs.
//!
//! Checked by `crates/kv/tests/wal_dir.rs`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use collie_base::codec::put_length_prefixed;
use collie_env::{Env, FileLock, LockError, read_all};
use collie_wal::WalError;
use parking_lot::Mutex;

use crate::EngineError;
use crate::dir::control::Control;
use crate::dir::frame::{self, Refused};

/// File next to the log: names its owner.
const OWNER: &str = "owner";
const OWNER_MAGIC: &[u8; 8] = b"COLLIEOW";
/// File in the data directory: says where the log is.
const LOG_DIR: &str = "log-dir";
const LOG_DIR_MAGIC: &[u8; 8] = b"COLLIELD";
const VERSION: u32 = 1;
/// Longer than any path.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The owner of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogOwner {
    cluster: u128,
    node: u64,
    data: PathBuf,
}

impl LogOwner {
    fn new(control: &Control, data: &Path) -> Self {
        Self { cluster: control.cluster, node: control.node, data: data.to_owned() }
    }

    /// Reads the file next to the log in `dir`.
    fn read(env: &Env, dir: &Path) -> Result<Option<Self>, EngineError> {
        let path = dir.join(OWNER);
        let decode = |bytes: &[u8]| -> Result<Self, Refused> {
            let (_version, mut fields) = frame::decode(OWNER_MAGIC, VERSION, bytes)?;
            let (cluster, node) = (fields.u128()?, fields.u64()?);
            let data = PathBuf::from(OsStr::from_bytes(fields.length_prefixed()?));
            fields.finish()?;
            Ok(Self { cluster, node, data })
        };
        read_framed(env, path, decode)
    }

    fn encode(&self) -> Vec<u8> {
        let mut fields = [&self.cluster.to_le_bytes()[..], &self.node.to_le_bytes()].concat();
        put_length_prefixed(&mut fields, self.data.as_os_str().as_bytes());
        frame::encode(OWNER_MAGIC, VERSION, &fields)
    }
}

/// Reads from the data directory where its log is.
fn read_log_dir(env: &Env, data: &Path) -> Result<Option<PathBuf>, EngineError> {
    read_framed(env, data.join(LOG_DIR), |bytes| {
        let (_version, mut fields) = frame::decode(LOG_DIR_MAGIC, VERSION, bytes)?;
        let dir = PathBuf::from(OsStr::from_bytes(fields.length_prefixed()?));
        fields.finish()?;
        Ok(dir)
    })
}

/// Reads a small framed file; `None`: there is none.
pub(crate) fn read_framed<R>(
    env: &Env,
    path: PathBuf,
    decode: impl FnOnce(&[u8]) -> Result<R, Refused>,
) -> Result<Option<R>, EngineError> {
    let bytes = match read_all(&*env.files, &path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(EngineError::io("read", path, error)),
    };
    decode(&bytes).map(Some).map_err(|refused| match refused {
        Refused::Newer(version) => EngineError::NewerFormat { path, version },
        Refused::Damaged(error) => EngineError::BadControlFile { path, what: error.what },
    })
}

/// Replaces a file; durable on return.
pub(crate) fn write_framed(env: &Env, dir: &Path, name: &str, bytes: &[u8]) -> Result<(), EngineError> {
    let (path, temporary) = (dir.join(name), dir.join(format!("{name}.new")));
    let write = || {
        match env.files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = env.files.create(&temporary)?;
        file.write_at(0, bytes)?;
        file.sync_data()?;
        env.files.replace(&temporary, &path)
    };
    write().map_err(|error| EngineError::io("write", path.clone(), error))
}

/// The place of a log.
#[derive(Debug)]
pub(crate) struct LogPlace {
    /// Full names of the data directory and the log's directory.
    data: PathBuf,
    log: PathBuf,
    /// The log's directory as the caller gave it, which is the name that is opened.
    given: PathBuf,
    /// The log's directory as noted in the data directory.
    noted: Option<PathBuf>,
    owner: Option<LogOwner>,
    /// G3: held until the database is closed.
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl LogPlace {
    /// Finds the log of the directory `dir`, to which `control` belongs. Writes nothing. `copies` are the
    /// directories of the log's copies.
    ///
    /// # Errors
    /// [`EngineError::WrongLogDir`], [`EngineError::ForeignLogDir`] (G1, G2); `InvalidArgument` for a `wal_dir` in
    /// the data directory; `Io`.
    pub(crate) fn find(
        env: &Env,
        dir: &Path,
        wal_dir: Option<&Path>,
        copies: &[PathBuf],
        control: &Control,
    ) -> Result<Self, EngineError> {
        let full = |path: &Path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            env.files.resolve(path).map_err(|error| EngineError::io("look up", path.to_owned(), error))
        };
        let inner = Control::log_dir(dir);
        let given = wal_dir.unwrap_or(&inner).to_owned();
        let (data, log, noted, owner) =
            (full(dir)?, full(&given)?, read_log_dir(env, dir)?, LogOwner::read(env, &given)?);
        let place = Self { data, log, given, noted, owner, lock: Mutex::new(None) };
        if place.is_outside() && place.log.starts_with(&place.data) {
            return Err(EngineError::InvalidArgument {
                what: "wal.wal_dir lies inside the data directory: name another place, or leave it off",
            });
        }
        if let Some(owner) = &place.owner
            && (owner.node != control.node || place.is_of_another_copy(env, owner)?)
        {
            return Err(place.foreign(Some(owner.data.clone())));
        }
        let has_history = !control.histories.is_empty();
        if has_log_files(&place.given, env)? {
            let is_begun_here = !has_history && place.noted.as_ref() == Some(&place.log);
            if place.is_outside() && place.owner.is_none() && !is_begun_here {
                return Err(place.foreign(None)); // G1
            }
        } else if has_history && !copies.iter().any(|copy| has_log_files(copy, env).unwrap_or(false)) {
            let last = place.noted.clone().unwrap_or_else(|| place.inner());
            if last != place.log {
                return Err(EngineError::WrongLogDir { data: place.data, path: place.log, last }); // G2
            }
        }
        Ok(place)
    }

    fn inner(&self) -> PathBuf {
        Control::log_dir(&self.data)
    }

    /// Returns whether the log is elsewhere than in its usual place in the data directory.
    fn is_outside(&self) -> bool {
        self.log != self.inner()
    }

    /// Returns whether the owner is another data directory with the same node id, of which one is a copy of the
    /// other, and not an old name of this directory.
    fn is_of_another_copy(&self, env: &Env, owner: &LogOwner) -> Result<bool, EngineError> {
        if !self.is_outside() || owner.data == self.data {
            return Ok(false);
        }
        let there = Control::read(env, &owner.data)?;
        Ok(there.is_some_and(|there| there.node == owner.node))
    }

    fn foreign(&self, of: Option<PathBuf>) -> EngineError {
        EngineError::ForeignLogDir { path: self.log.clone(), of, data: self.data.clone() }
    }

    /// Returns the log's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.given
    }

    /// Returns the full name of the data directory, and that of the log's directory if it is outside.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.data.as_path()).chain(self.is_outside().then_some(self.log.as_path()))
    }

    /// Locks the data directory if the log's lock is not in it, and notes where the log is, before the log is
    /// opened.
    ///
    /// # Errors
    /// `Locked`, `Io`.
    pub(crate) fn claim(&self, env: &Env) -> Result<(), EngineError> {
        if self.is_outside() {
            let path = self.data.join("LOCK");
            let lock = env.files.lock(&path).map_err(|error| match error {
                LockError::Held { pid } => WalError::Locked { pid }.into(),
                LockError::Io(error) => EngineError::io("lock", path, error),
            })?;
            *self.lock.lock() = Some(lock);
        }
        if self.is_outside() && self.noted.as_ref() != Some(&self.log) {
            let mut fields = Vec::new();
            put_length_prefixed(&mut fields, self.log.as_os_str().as_bytes());
            write_framed(env, &self.data, LOG_DIR, &frame::encode(LOG_DIR_MAGIC, VERSION, &fields))?;
        }
        Ok(())
    }

    /// Releases the lock of the data directory, once the log is closed.
    pub(crate) fn release(&self) {
        drop(self.lock.lock().take());
    }

    /// Notes the owner next to the log, once the log is open and no other process can open it. With copies a
    /// failure of this is ignored: the log may exist in the copies alone.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sign(&self, env: &Env, control: &Control, copies: &[PathBuf]) -> Result<(), EngineError> {
        let owner = LogOwner::new(control, &self.data);
        if self.owner.as_ref() != Some(&owner) {
            let written = write_framed(env, &self.given, OWNER, &owner.encode());
            written.or_else(|error| if copies.is_empty() { Err(error) } else { Ok(()) })?;
        }
        if !self.is_outside() && self.noted.is_some() {
            let path = self.data.join(LOG_DIR);
            let removed = env.files.remove(&path).and_then(|()| env.files.sync_dir(&self.data));
            removed.map_err(|error| EngineError::io("remove", path, error))?;
        }
        Ok(())
    }
}

/// Notes that the closed log in `log_dir` belongs to the directory that will be `data`, of `control`. Durable on
/// return.
pub(crate) fn sign_closed(env: &Env, log_dir: &Path, control: &Control, data: &Path) -> Result<(), EngineError> {
    write_framed(env, log_dir, OWNER, &LogOwner::new(control, data).encode())
}

/// Returns where the log of the data directory `data` is, as that directory says: for tools. Does not check that it
/// exists.
///
/// # Errors
/// The file that says so is damaged or cannot be read.
pub fn log_dir_of(data: &Path, env: &Env) -> Result<PathBuf, EngineError> {
    Ok(read_log_dir(env, data)?.unwrap_or_else(|| Control::log_dir(data)))
}

/// Returns the data directory that the log in `log_dir` says it belongs to; `None` when it says nothing.
///
/// # Errors
/// The file that says so is damaged or cannot be read.
pub fn data_dir_of(log_dir: &Path, env: &Env) -> Result<Option<PathBuf>, EngineError> {
    Ok(LogOwner::read(env, log_dir)?.map(|owner| owner.data))
}

/// Returns whether the directory holds a log file.
pub(crate) fn has_log_files(dir: &Path, env: &Env) -> Result<bool, EngineError> {
    match env.files.list(dir) {
        Ok(names) => Ok(names.iter().any(|name| name.ends_with(".wal"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(EngineError::io("list", dir.to_owned(), error)),
    }
}

/// Returns whether a copy of the log holds a log file. An unreachable copy counts as empty; the log decides what
/// follows from that.
pub(crate) fn copy_has_log_files(dir: &Path, env: &Env) -> bool {
    has_log_files(dir, env).unwrap_or(false)
}
