//! `EngineError`: why an engine call failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use collie_base::{Lsn, Remedy};
use collie_store::LevelsError;
use collie_txn::{SnapshotCancelled, TxnError};
use collie_wal::WalError;

use crate::ErrorKind;
use crate::redo::describe::Utc;

/// Why an engine call failed. An open transaction stays open, and the caller rolls it back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A concurrent transaction changed the row after this one's snapshot (SQLSTATE 40001).
    Conflict,
    /// A concurrent transaction changed rows that this SERIALIZABLE one had read (40001). When [`Session::commit`]
    /// returns this, the transaction is rolled back already.
    ///
    /// [`Session::commit`]: crate::Session::commit
    ReadChanged,
    /// Waiting would close a cycle of transactions that wait for one another (40P01).
    Deadlock,
    /// The lock was not granted within the caller's limit (55P03).
    LockTimeout,
    /// The wait was cancelled (57014).
    Cancelled,
    /// A write in a read-only transaction or statement (25006).
    ReadOnly,
    /// A write in a database that was opened with [`Options::read_only`](crate::Options::read_only) (25006).
    OpenedReadOnly,
    /// A write in a database that was opened read-only from the remains of a damaged log (25006).
    Salvaged,
    /// A write in a database that follows another one (25006).
    Replica,
    /// A thread that replays the log of another database has ended, so no more is applied. Applied commits can be
    /// read.
    ReplayStopped,
    /// The snapshot kept too many old versions or was too old, and is no longer in force (72000).
    SnapshotCancelled(SnapshotCancelled),
    /// Old versions occupy all the memory they may, no snapshot can be cancelled for them, and a write would add
    /// to them (53200).
    OldVersionMemory {
        /// Their limit (`txn.old_version_memory`).
        limit_bytes: u64,
    },
    /// Rows occupy all the memory they may, and a write would store a value (53200). Reads and deletes continue,
    /// and writes succeed again once there is room.
    OutOfMemory {
        /// Bytes that rows occupy.
        used_bytes: u64,
        /// Their limit (`store.memory_limit`).
        limit_bytes: u64,
    },
    /// Every session slot is taken (53300).
    TooManySessions {
        /// The number of slots.
        limit: usize,
    },
    /// A limit of one transaction was reached (54000).
    TransactionLimit {
        /// The limit.
        what: &'static str,
    },
    /// The call breaks a rule of the interface.
    InvalidArgument {
        /// The rule.
        what: &'static str,
    },
    /// There is no column family of this name, or it has been dropped.
    NoSuchFamily {
        /// The name.
        name: String,
    },
    /// There already is a column family of this name.
    FamilyExists {
        /// The name.
        name: String,
    },
    /// There is no option of this name.
    UnknownOption {
        /// The name.
        name: String,
        /// The option with the most similar name.
        nearest: String,
    },
    /// An option cannot have this value.
    BadOption {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// The values that it can have.
        wanted: String,
    },
    /// The write would have to wait, and `no_slowdown` was requested: nothing was written.
    Busy {
        /// The reason for the wait.
        why: String,
    },
    /// The database was closed.
    Closed,
    /// There is no database in the directory, and creating one was not allowed.
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// The directory follows another database. Opened as a primary, it would write other records at the positions
    /// of that one.
    Follows {
        /// The directory.
        path: PathBuf,
    },
    /// The process may not have as many open files as the database needs.
    TooFewDescriptors {
        /// The number that it may have.
        have: u64,
        /// The number that the database needs.
        needed: u64,
    },
    /// The directory holds something that is not a database.
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// One of the names in it.
        found: String,
    },
    /// Log files that this database wrote and needs are missing.
    MissingLog {
        /// The log's directory.
        path: PathBuf,
        /// The start of the log that is there; `None` if there is none.
        start: Option<Lsn>,
        /// The highest position at which the log may start.
        needed: Lsn,
    },
    /// There is no log in the configured directory, and the last one was elsewhere.
    WrongLogDir {
        /// The data directory.
        data: PathBuf,
        /// The configured directory of the log.
        path: PathBuf,
        /// The directory that had the log last.
        last: PathBuf,
    },
    /// The log's directory has the log of another data directory, or one that does not name its owner.
    ForeignLogDir {
        /// The log's directory.
        path: PathBuf,
        /// The data directory that it names as its owner.
        of: Option<PathBuf>,
        /// The data directory that is being opened.
        data: PathBuf,
    },
    /// A file was written by a newer version of this program.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version that it names.
        version: u32,
    },
    /// The control file is damaged.
    BadControlFile {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: &'static str,
    },
    /// A log record with a good checksum does not make sense.
    Corruption {
        /// The record.
        lsn: Lsn,
        /// The defect.
        what: &'static str,
    },
    /// A row of the catalog that names a column family does not make sense.
    BadName {
        /// Its key.
        key: Vec<u8>,
        /// The defect.
        what: &'static str,
    },
    /// The log ends below the position up to which the LSM levels were flushed: its end is missing.
    LogBehindLevels {
        /// The end of the log.
        end: Lsn,
        /// The position of that flush.
        flushed: Lsn,
    },
    /// Accounts other than the owner's have rights to a data directory.
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file of a backup has changed since it was made, or the directory is no backup.
    BadBackup {
        /// The file.
        path: PathBuf,
        /// The first damaged byte, if it is known.
        offset: Option<u64>,
        /// The defect.
        what: String,
    },
    /// A copy cannot be made in this directory.
    BadTarget {
        /// The directory.
        path: PathBuf,
        /// The reason.
        what: &'static str,
    },
    /// The backup cannot be restored to this position.
    NotInBackup {
        /// The position.
        lsn: Lsn,
        /// The lowest position to which it can be restored.
        from: Lsn,
        /// The end of the backup.
        end: Lsn,
    },
    /// The backup cannot be restored to this time. Times are in microseconds since 1970.
    TimeNotInBackup {
        /// The time.
        wall_us: i64,
        /// The lowest time to which it can be restored.
        from_us: Option<i64>,
        /// The time at which it was made.
        end_us: i64,
    },
    /// The log returned an error.
    Log(Arc<WalError>),
    /// The LSM levels returned an error, or are damaged.
    Levels(Arc<LevelsError>),
    /// The operating system refused `op` on `path`.
    Io {
        /// The operation.
        op: &'static str,
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
}

impl EngineError {
    /// Returns the caller's remedy. Callers match on this, not on the text.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Conflict
            | Self::ReadChanged
            | Self::Deadlock
            | Self::LockTimeout
            | Self::Cancelled
            | Self::Busy { .. }
            | Self::SnapshotCancelled(_) => Remedy::Retry,
            Self::TooManySessions { .. }
            | Self::OldVersionMemory { .. }
            | Self::OutOfMemory { .. }
            | Self::TooFewDescriptors { .. } => Remedy::FreeResources,
            Self::Closed | Self::ReplayStopped => Remedy::Reopen,
            Self::BadControlFile { .. }
            | Self::BadName { .. }
            | Self::Corruption { .. }
            | Self::MissingLog { .. }
            | Self::LogBehindLevels { .. }
            | Self::BadBackup { .. }
            | Self::Salvaged => Remedy::RestoreData,
            Self::Levels(error) => error.remedy(),
            Self::Log(error) => error.remedy(),
            Self::Io { .. } => Remedy::FreeResources,
            Self::ReadOnly
            | Self::OpenedReadOnly
            | Self::Replica
            | Self::TransactionLimit { .. }
            | Self::InvalidArgument { .. }
            | Self::NoSuchFamily { .. }
            | Self::FamilyExists { .. }
            | Self::UnknownOption { .. }
            | Self::BadOption { .. }
            | Self::NotFound { .. }
            | Self::Follows { .. }
            | Self::ForeignDirectory { .. }
            | Self::WrongLogDir { .. }
            | Self::ForeignLogDir { .. }
            | Self::Exposed { .. }
            | Self::BadTarget { .. }
            | Self::NotInBackup { .. }
            | Self::TimeNotInBackup { .. }
            | Self::NewerFormat { .. } => Remedy::FixCall,
        }
    }

    /// Returns the kind of the error: finer than [`EngineError::remedy`], coarser than the variants.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict | Self::ReadChanged => ErrorKind::Conflict,
            Self::Deadlock => ErrorKind::Deadlock,
            Self::LockTimeout => ErrorKind::LockTimeout,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Busy { .. } | Self::TooManySessions { .. } => ErrorKind::Busy,
            Self::ReadOnly | Self::OpenedReadOnly | Self::Salvaged | Self::Replica => ErrorKind::ReadOnly,
            Self::SnapshotCancelled(_) => ErrorKind::SnapshotTooOld,
            Self::OldVersionMemory { .. } | Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::TransactionLimit { .. }
            | Self::InvalidArgument { .. }
            | Self::Follows { .. }
            | Self::UnknownOption { .. }
            | Self::BadOption { .. }
            | Self::ForeignDirectory { .. }
            | Self::WrongLogDir { .. }
            | Self::ForeignLogDir { .. }
            | Self::Exposed { .. }
            | Self::BadTarget { .. }
            | Self::NotInBackup { .. }
            | Self::TimeNotInBackup { .. }
            | Self::NewerFormat { .. } => ErrorKind::InvalidArgument,
            Self::FamilyExists { .. } => ErrorKind::AlreadyExists,
            Self::NoSuchFamily { .. } | Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Closed => ErrorKind::Closed,
            Self::ReplayStopped => ErrorKind::Poisoned,
            Self::MissingLog { .. }
            | Self::LogBehindLevels { .. }
            | Self::BadControlFile { .. }
            | Self::BadName { .. }
            | Self::BadBackup { .. }
            | Self::Corruption { .. } => ErrorKind::Corruption,
            Self::Levels(error) => ErrorKind::of_levels(error),
            Self::Log(error) => ErrorKind::of_log(error),
            Self::Io { .. } | Self::TooFewDescriptors { .. } => ErrorKind::Io,
        }
    }

    pub(crate) fn levels(error: LevelsError) -> Self {
        Self::Levels(Arc::new(error))
    }

    pub(crate) fn io(op: &'static str, path: PathBuf, source: io::Error) -> Self {
        Self::Io { op, path, source: Arc::new(source) }
    }

    /// Returns whether the error means that the disk, or this user's quota on it, is full.
    pub(crate) fn is_full_disk(&self) -> bool {
        matches!(self, Self::Io { source, .. } if collie_env::is_full(source)) || self.kind() == ErrorKind::NoSpace
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => {
                f.write_str("could not serialize access due to concurrent update: run the transaction again")
            }
            Self::ReadChanged => f.write_str(
                "could not serialize access due to read/write dependencies among transactions: run the transaction again",
            ),
            Self::Deadlock => f.write_str("deadlock detected: run the transaction again"),
            Self::LockTimeout => f.write_str("lock not granted within the time limit: run the transaction again"),
            Self::Cancelled => f.write_str("cancelled on request while waiting"),
            Self::ReadOnly => f.write_str("cannot write in a read-only transaction: begin it READ WRITE"),
            Self::OpenedReadOnly => {
                f.write_str("the database was opened read-only (read_only): open it without that to write")
            }
            Self::Salvaged => f.write_str(
                "the database is open read-only, with what is left of a damaged log \
                 (wal.recovery_mode = skip_any_corrupted_records): copy what you need and load it into a new database",
            ),
            Self::Replica => f.write_str("cannot write to a replica: write to its primary"),
            Self::ReplayStopped => {
                f.write_str("the replica has stopped replaying, since one of its threads ended: open it again")
            }
            Self::SnapshotCancelled(why) => write!(f, "{why}: run the transaction again, in shorter steps"),
            Self::OldVersionMemory { limit_bytes } => write!(
                f,
                "old versions take up {limit_bytes} bytes and none can be freed now: try again, or raise \
                 txn.old_version_memory"
            ),
            Self::OutOfMemory { used_bytes, limit_bytes } => write!(
                f,
                "out of memory: rows take up {used_bytes} bytes, store.memory_limit is {limit_bytes}: delete rows, drop \
                 tables or families, or raise it"
            ),
            Self::TooManySessions { limit } => {
                write!(f, "all {limit} session slots are taken: close sessions or raise the limit")
            }
            Self::TransactionLimit { what } => write!(f, "{what}: split the transaction"),
            Self::InvalidArgument { what } => f.write_str(what),
            Self::NoSuchFamily { name } => {
                write!(f, "there is no column family {name}, or it was dropped: create it, or look it up again")
            }
            Self::FamilyExists { name } => {
                write!(f, "there is a column family {name} already: use it, or another name")
            }
            Self::UnknownOption { name, nearest } => write!(f, "there is no option {name}: did you mean {nearest}?"),
            Self::BadOption { name, value, wanted } => write!(f, "{name} cannot be {value:?}: it takes {wanted}"),
            Self::Busy { why } => write!(f, "the write would have to wait ({why}): try again later"),
            Self::BadName { key, what } => {
                write!(f, "catalog row {key:02x?} makes no sense: bad {what}: restore from a backup or a replica")
            }
            Self::Closed => f.write_str("the database is closed: open it again"),
            Self::NotFound { path } => {
                write!(f, "no database in {}: name the right directory, or allow to create one", path.display())
            }
            Self::Follows { path } => {
                let path = path.display();
                write!(f, "the database in {path} follows another one: open it as a replica (--replica-of), and promote it there")
            }
            Self::TooFewDescriptors { have, needed } => write!(
                f,
                "the process may have {have} files open, the database needs {needed}: raise the limit (ulimit -n), or, of a \
                 server, lower server.max_connections"
            ),
            Self::ForeignDirectory { path, found } => {
                write!(f, "{} holds {found} but no database: use an empty directory", path.display())
            }
            Self::MissingLog { path, start, needed } => {
                let found =
                    start.map_or_else(|| "no log file is there".to_owned(), |start| format!("it starts at {start}"));
                write!(
                    f,
                    "log files are missing in {}: {found}, the database needs {needed} on: put the files back, or restore a copy",
                    path.display(),
                )
            }
            Self::WrongLogDir { data, path, last } => write!(
                f,
                "no log of {} is in {}: it was in {} last: set wal.wal_dir to where it is, or move its files back",
                data.display(),
                path.display(),
                last.display()
            ),
            Self::ForeignLogDir { path, of: Some(of), data } => write!(
                f,
                "the log in {} belongs to {}, not to {}: set wal.wal_dir to the right directory",
                path.display(),
                of.display(),
                data.display()
            ),
            Self::ForeignLogDir { path, of: None, data } => write!(
                f,
                "the log in {} does not say that it belongs to {}: set wal.wal_dir to the right directory, or to an empty one \
                 for a new database",
                path.display(),
                data.display()
            ),
            Self::NewerFormat { path, version } => write!(
                f,
                "{} has format version {version}, written by a newer program: use that program",
                path.display()
            ),
            Self::BadControlFile { path, what } => {
                write!(f, "bad {what} in {}: restore the file from a backup of this directory", path.display())
            }
            Self::Corruption { lsn, what } => {
                write!(f, "log record at {lsn} makes no sense: {what}: restore from a backup or a replica")
            }
            Self::LogBehindLevels { end, flushed } => write!(
                f,
                "the log ends at {end}, the levels were flushed up to {flushed}: its end is missing: put the \
                 log's files back, or restore a copy"
            ),
            Self::BadBackup { path, offset, what } => {
                write!(f, "{}", path.display())?;
                if let Some(offset) = offset {
                    write!(f, ", from byte {offset} on,")?;
                }
                write!(f, " {what}: use another backup")
            }
            Self::Exposed { path, mode } => write!(
                f,
                "the data directory {0} has mode {mode:04o}, so others than its owner can look into it or change it: chmod 0700 {0}",
                path.display()
            ),
            Self::BadTarget { path, what } => {
                write!(f, "cannot make a copy in {}: it {what}: name a directory that is not there yet", path.display())
            }
            Self::NotInBackup { lsn, from, end } => {
                write!(f, "the backup cannot be restored to {lsn}: it can to positions from {from} to {end}")
            }
            Self::TimeNotInBackup { wall_us, from_us, end_us } => {
                let (wanted, end) = (Utc(*wall_us), Utc(*end_us));
                match from_us {
                    Some(from) => write!(
                        f,
                        "the backup cannot be restored to {wanted}: it can to times from {} to {end}, when it was made",
                        Utc(*from)
                    ),
                    None => write!(f, "the backup cannot be restored to {wanted}: it says of no time, only all of {end}"),
                }
            }
            Self::Log(error) => error.fmt(f),
            Self::Levels(error) => error.fmt(f),
            Self::Io { op, path, source } => write!(f, "cannot {op} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(&**error),
            Self::Levels(error) => Some(&**error),
            Self::Io { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<WalError> for EngineError {
    fn from(error: WalError) -> Self {
        match error {
            WalError::Closed => Self::Closed,
            error @ WalError::RingFull { .. } => Self::Busy { why: error.to_string() },
            error => Self::Log(Arc::new(error)),
        }
    }
}

impl From<TxnError> for EngineError {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Conflict { .. } => Self::Conflict,
            TxnError::Deadlock { .. } => Self::Deadlock,
            TxnError::LockTimeout => Self::LockTimeout,
            TxnError::Cancelled => Self::Cancelled,
            TxnError::ReadOnly => Self::ReadOnly,
            TxnError::SnapshotCancelled(why) => Self::SnapshotCancelled(why),
            TxnError::TooManySessions { limit } => Self::TooManySessions { limit },
            TxnError::TooManyCommands => Self::TransactionLimit { what: "transaction has 2^32 - 1 commands" },
            _ => Self::InvalidArgument { what: "the transaction cannot go on: roll it back" },
        }
    }
}
