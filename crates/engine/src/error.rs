//! `EngineError`: why an engine call failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use collie_base::{Lsn, Remedy};
use collie_store::LevelsError;
use collie_txn::{SnapshotCancelled, TxnError};
use collie_wal::WalError;
use thiserror::Error;

use crate::ErrorKind;
use crate::utc::Utc;

/// Why an engine call failed. An open transaction stays open, and the caller rolls it back.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A concurrent transaction changed the row after this one's snapshot (SQLSTATE 40001).
    #[error("could not serialize access due to concurrent update: run the transaction again")]
    Conflict,
    /// A concurrent transaction changed rows that this SERIALIZABLE one had read (40001). When [`Session::commit`]
    /// returns this, the transaction is rolled back already.
    ///
    /// [`Session::commit`]: crate::Session::commit
    #[error("could not serialize access due to read/write dependencies among transactions: run the transaction again")]
    ReadChanged,
    /// Waiting would close a cycle of transactions that wait for one another (40P01).
    #[error("deadlock detected: run the transaction again")]
    Deadlock,
    /// The lock was not granted within the caller's limit (55P03).
    #[error("lock not granted within the time limit: run the transaction again")]
    LockTimeout,
    /// The wait was cancelled (57014).
    #[error("cancelled on request while waiting")]
    Cancelled,
    /// A write in a read-only transaction or statement (25006).
    #[error("cannot write in a read-only transaction: begin it READ WRITE")]
    ReadOnly,
    /// A write in a database that was opened with [`Options::read_only`](crate::Options::read_only) (25006).
    #[error("the database was opened read-only (read_only): open it without that to write")]
    OpenedReadOnly,
    /// A write in a database that was opened read-only from the remains of a damaged log (25006).
    #[error(
        "the database is open read-only, with what is left of a damaged log (wal.recovery_mode = \
         skip_any_corrupted_records): copy what you need and load it into a new database"
    )]
    Salvaged,
    /// A write in a database that follows another one (25006).
    #[error("cannot write to a replica: write to its primary")]
    Replica,
    /// A thread that replays the log of another database has ended, so no more is applied. Applied commits can be
    /// read.
    #[error("the replica has stopped replaying, since one of its threads ended: open it again")]
    ReplayStopped,
    /// The snapshot kept too many old versions or was too old, and is no longer in force (72000).
    #[error("{0}: run the transaction again, in shorter steps")]
    SnapshotCancelled(SnapshotCancelled),
    /// Old versions occupy all the memory they may, no snapshot can be cancelled for them, and a write would add
    /// to them (53200).
    #[error(
        "old versions take up {limit_bytes} bytes and none can be freed now: try again, or raise txn.old_version_memory"
    )]
    OldVersionMemory {
        /// Their limit (`txn.old_version_memory`).
        limit_bytes: u64,
    },
    /// Rows occupy all the memory they may, and a write would store a value (53200). Reads and deletes continue,
    /// and writes succeed again once there is room.
    #[error(
        "out of memory: rows take up {used_bytes} bytes, store.memory_limit is {limit_bytes}: delete rows, drop tables \
         or families, or raise it"
    )]
    OutOfMemory {
        /// Bytes that rows occupy.
        used_bytes: u64,
        /// Their limit (`store.memory_limit`).
        limit_bytes: u64,
    },
    /// Every session slot is taken (53300).
    #[error("all {limit} session slots are taken: close sessions or raise the limit")]
    TooManySessions {
        /// The number of slots.
        limit: usize,
    },
    /// A limit of one transaction was reached (54000).
    #[error("{what}: split the transaction")]
    TransactionLimit {
        /// The limit.
        what: &'static str,
    },
    /// The call breaks a rule of the interface.
    #[error("{what}")]
    InvalidArgument {
        /// The rule.
        what: &'static str,
    },
    /// There is no column family of this name, or it has been dropped.
    #[error("there is no column family {name}, or it was dropped: create it, or look it up again")]
    NoSuchFamily {
        /// The name.
        name: String,
    },
    /// There already is a column family of this name.
    #[error("there is a column family {name} already: use it, or another name")]
    FamilyExists {
        /// The name.
        name: String,
    },
    /// There is no option of this name.
    #[error("there is no option {name}: did you mean {nearest}?")]
    UnknownOption {
        /// The name.
        name: String,
        /// The option with the most similar name.
        nearest: String,
    },
    /// An option cannot have this value.
    #[error("{name} cannot be {value:?}: it takes {wanted}")]
    BadOption {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// The values that it can have.
        wanted: String,
    },
    /// The write would have to wait, and `no_slowdown` was requested: nothing was written.
    #[error("the write would have to wait ({why}): try again later")]
    Busy {
        /// The reason for the wait.
        why: String,
    },
    /// The database was closed.
    #[error("the database is closed: open it again")]
    Closed,
    /// There is no database in the directory, and creating one was not allowed.
    #[error("no database in {path}: name the right directory, or allow to create one")]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// The directory follows another database. Opened as a primary, it would write other records at the positions
    /// of that one.
    #[error("the database in {path} follows another one: open it as a replica (--replica-of), and promote it there")]
    Follows {
        /// The directory.
        path: PathBuf,
    },
    /// The process may not have as many open files as the database needs.
    #[error(
        "the process may have {have} files open, the database needs {needed}: raise the limit (ulimit -n), or, of a \
         server, lower server.max_connections"
    )]
    TooFewDescriptors {
        /// The number that it may have.
        have: u64,
        /// The number that the database needs.
        needed: u64,
    },
    /// The directory holds something that is not a database.
    #[error("{path} holds {found} but no database: use an empty directory")]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// One of the names in it.
        found: String,
    },
    /// Log files that this database wrote and needs are missing.
    #[error(
        "log files are missing in {path}: {}, the database needs {needed} on: put the files back, or restore a copy",
        log_start(*.start)
    )]
    MissingLog {
        /// The log's directory.
        path: PathBuf,
        /// The start of the log that is there; `None` if there is none.
        start: Option<Lsn>,
        /// The highest position at which the log may start.
        needed: Lsn,
    },
    /// There is no log in the configured directory, and the last one was elsewhere.
    #[error(
        "no log of {data} is in {path}: it was in {last} last: set wal.wal_dir to where it is, or move its files back"
    )]
    WrongLogDir {
        /// The data directory.
        data: PathBuf,
        /// The configured directory of the log.
        path: PathBuf,
        /// The directory that had the log last.
        last: PathBuf,
    },
    /// The log's directory has the log of another data directory, or one that does not name its owner.
    #[error("the log in {path} {}", owner(.of.as_deref(), .data))]
    ForeignLogDir {
        /// The log's directory.
        path: PathBuf,
        /// The data directory that it names as its owner.
        of: Option<PathBuf>,
        /// The data directory that is being opened.
        data: PathBuf,
    },
    /// A file was written by a newer version of this program.
    #[error("{path} has format version {version}, written by a newer program: use that program")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version that it names.
        version: u32,
    },
    /// The control file is damaged.
    #[error("bad {what} in {path}: restore the file from a backup of this directory")]
    BadControlFile {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: &'static str,
    },
    /// A log record with a good checksum does not make sense.
    #[error("log record at {lsn} makes no sense: {what}: restore from a backup or a replica")]
    Corruption {
        /// The record.
        lsn: Lsn,
        /// The defect.
        what: &'static str,
    },
    /// A row of the catalog that names a column family does not make sense.
    #[error("catalog row {key:02x?} makes no sense: bad {what}: restore from a backup or a replica")]
    BadName {
        /// Its key.
        key: Vec<u8>,
        /// The defect.
        what: &'static str,
    },
    /// The log ends below the position up to which the LSM levels were flushed: its end is missing.
    #[error(
        "the log ends at {end}, the levels were flushed up to {flushed}: its end is missing: put the log's files back, \
         or restore a copy"
    )]
    LogBehindLevels {
        /// The end of the log.
        end: Lsn,
        /// The position of that flush.
        flushed: Lsn,
    },
    /// Accounts other than the owner's have rights to a data directory.
    #[error(
        "the data directory {path} has mode {mode:04o}, so others than its owner can look into it or change it: chmod \
         0700 {path}"
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file of a backup has changed since it was made, or the directory is no backup.
    #[error("{path}{} {what}: use another backup", damage_start(*.offset))]
    BadBackup {
        /// The file.
        path: PathBuf,
        /// The first damaged byte, if it is known.
        offset: Option<u64>,
        /// The defect.
        what: String,
    },
    /// A copy cannot be made in this directory.
    #[error("cannot make a copy in {path}: it {what}: name a directory that is not there yet")]
    BadTarget {
        /// The directory.
        path: PathBuf,
        /// The reason.
        what: &'static str,
    },
    /// The backup cannot be restored to this position.
    #[error("the backup cannot be restored to {lsn}: it can to positions from {from} to {end}")]
    NotInBackup {
        /// The position.
        lsn: Lsn,
        /// The lowest position to which it can be restored.
        from: Lsn,
        /// The end of the backup.
        end: Lsn,
    },
    /// The backup cannot be restored to this time. Times are in microseconds since 1970.
    #[error("the backup cannot be restored to {}: {}", Utc(*.wall_us), times(*.from_us, *.end_us))]
    TimeNotInBackup {
        /// The time.
        wall_us: i64,
        /// The lowest time to which it can be restored.
        from_us: Option<i64>,
        /// The time at which it was made.
        end_us: i64,
    },
    /// The log returned an error.
    #[error("{0}")]
    Log(#[source] Arc<WalError>),
    /// The LSM levels returned an error, or are damaged.
    #[error("{0}")]
    Levels(#[source] Arc<LevelsError>),
    /// The operating system refused `op` on `path`.
    #[error("cannot {op} {path}: {source}")]
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

fn log_start(start: Option<Lsn>) -> String {
    start.map_or_else(|| "no log file is there".to_owned(), |start| format!("it starts at {start}"))
}

fn owner(owner: Option<&Path>, data: &Path) -> String {
    let data = data.display();
    match owner {
        Some(owner) => {
            format!("belongs to {}, not to {data}: set wal.wal_dir to the right directory", owner.display())
        }
        None => format!(
            "does not say that it belongs to {data}: set wal.wal_dir to the right directory, or to an empty one for a new \
             database"
        ),
    }
}

fn damage_start(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(", from byte {offset} on,"))
}

fn times(from_us: Option<i64>, end_us: i64) -> String {
    let end = Utc(end_us);
    match from_us.map(Utc) {
        Some(from) => format!("it can to times from {from} to {end}, when it was made"),
        None => format!("it says of no time, only all of {end}"),
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
