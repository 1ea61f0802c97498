//! `WalError`: the reason why a log call failed, and what the caller can do.

use std::{io, path::PathBuf};

use collie_base::{Lsn, Remedy};
use thiserror::Error;

/// The reason why a log call failed. Unless a variant says otherwise, the log is as it was before the call.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WalError {
    /// The payload is larger than a record may be.
    #[error("wal: a record of {bytes} bytes is above the limit of {limit_bytes}; split it")]
    TooLarge {
        /// Size of the payload.
        bytes: u64,
        /// Largest size accepted by this call.
        limit_bytes: u64,
    },
    /// The disk, or the bound on log files, leaves no room: new records are refused before anything is reserved. The
    /// log accepts appends again without a call once there is room.
    #[error("wal: no room for more records ({pinned_by}); free space, the log goes on by itself")]
    Full {
        /// The holder of the space.
        pinned_by: String,
    },
    /// The ring has no room until a flush, and the caller chose not to wait (`no_slowdown`).
    #[error("wal: the ring is full, its bytes up to {until} wait for the disk; try again, or let the write wait")]
    RingFull {
        /// The bytes of the ring below this position wait for the disk.
        until: Lsn,
    },
    /// A write or sync failed, so that bytes in the kernel may never reach the disk, and writing them to another file
    /// failed too. Every later append and wait fails with this until the log is opened again. Records at or above
    /// `durable` have an unknown outcome.
    #[error(
        "wal: a write or sync failed; everything below {durable} is on disk, later records may not be: open the log \
         again"
    )]
    Poisoned {
        /// Everything below is on disk.
        durable: Lsn,
    },
    /// The log was closed.
    #[error("wal: the log is closed; open it again")]
    Closed,
    /// Bytes that were once durable do not read back.
    #[error(
        "wal: damaged at LSN {lsn} ({path} offset {offset}): crc {stored:08x} stored, {computed:08x} computed; the log \
         was durable to {durable}, so acknowledged commits are lost here: repair from a copy, a replica or a backup, \
         or open without them: --set wal.recovery_mode=point_in_time"
    )]
    Damaged {
        /// Everything below was read and is good.
        lsn: Lsn,
        /// The damaged file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The checksum stored there.
        stored: u32,
        /// The checksum of the bytes found there.
        computed: u32,
        /// The position up to which the log is known to have been durable.
        durable: Lsn,
    },
    /// Files between the readable part of the log and its durable end are absent.
    #[error(
        "wal: {missing}: the log reads to LSN {lsn} and was durable to {durable}, so acknowledged commits are lost \
         here: put it back, repair from a copy, a replica or a backup, or open without them: --set \
         wal.recovery_mode=point_in_time"
    )]
    MissingSegment {
        /// The missing files, as far as their numbers show.
        missing: String,
        /// Everything below was read and is good.
        lsn: Lsn,
        /// The position up to which the log is known to have been durable.
        durable: Lsn,
    },
    /// The log starts above the position that the caller's checkpoint needs (`Options::known_start`).
    #[error("wal: starts at {start} but the checkpoint needs {needed}: segment {missing} is missing")]
    MissingStart {
        /// The start of the log.
        start: Lsn,
        /// The needed position.
        needed: Lsn,
        /// The file before the first one.
        missing: String,
    },
    /// A log file is smaller than its header says: it was cut short, or copied in part.
    #[error(
        "wal: {path} has {bytes} of its {segment_bytes} bytes: it was cut, or copied in part; the log reads to LSN \
         {lsn} and was durable to {durable} at least: copy it again, repair from a copy, a replica or a backup, or \
         open with what reads: --set wal.recovery_mode=point_in_time"
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The size that its header names.
        segment_bytes: u64,
        /// Everything below was read and is good.
        lsn: Lsn,
        /// The position up to which the log is known to have been durable.
        durable: Lsn,
    },
    /// A log file has the name of another: it was copied or renamed.
    #[error("wal: {path} is segment {name} by its header: rename it, or remove it if that file is there too")]
    WrongName {
        /// The file.
        path: PathBuf,
        /// The name that its header requires.
        name: String,
    },
    /// The log was not closed cleanly, and `wal.recovery_mode = absolute_consistency` requires that.
    #[error(
        "wal: not closed cleanly: it ends at LSN {lsn} ({path} offset {offset}) without a closing mark; open it with \
         --set wal.recovery_mode=tolerate_corrupted_tail_records"
    )]
    Unfinished {
        /// Everything below was read and is good.
        lsn: Lsn,
        /// The last file.
        path: PathBuf,
        /// The offset at which its good part ends.
        offset: u64,
    },
    /// Records that a reader or consumer needs are gone.
    #[error("wal: the records asked for are gone, the oldest left is at {oldest}; start from a backup")]
    CursorLost {
        /// The oldest record left.
        oldest: Lsn,
    },
    /// Too few copies of the log are present to be sure that no acknowledged record is missing.
    #[error(
        "wal: {present} copies of the log are up to date, {needed} are needed to know that none of its records is \
         missing (not there: {}): bring the others back, or {}",
        list(.missing), opening_without_them(*.present)
    )]
    CopiesMissing {
        /// The directories that hold no usable copy.
        missing: Vec<PathBuf>,
        /// The number of copies that count.
        present: usize,
        /// The number that would have to.
        needed: usize,
    },
    /// Two copies of the log hold different records at one place: each continued without the other.
    #[error(
        "wal: {path} and {other} hold different records at offset {offset}: these copies went on without each other; \
         move the one to be given up out of its directory"
    )]
    CopiesDiffer {
        /// The file in one copy.
        path: PathBuf,
        /// The file in the other.
        other: PathBuf,
        /// The offset in both files.
        offset: u64,
    },
    /// The received records do not continue the log: records between were lost, or came twice. Nothing was taken.
    #[error(
        "wal: the records received continue {found}, but those that are here end at {expected}; connect again and go \
         on from there"
    )]
    Gap {
        /// The end of the records in the log.
        expected: Lsn,
        /// The position that the received records continue.
        found: Lsn,
    },
    /// The received bytes are not the records of a log. Nothing was taken.
    #[error("wal: received at LSN {lsn}: {what}; nothing was written, connect again")]
    BadStream {
        /// The position of the first bad record.
        lsn: Lsn,
        /// The reason.
        what: &'static str,
    },
    /// The log takes its records from another one ([`Follower`](crate::Follower)); it accepts no appends.
    #[error("wal: this log follows another one and takes no records of its own: promote it")]
    Follows,
    /// Another process has the log open.
    #[error("wal: the log is open in {}; stop that process or use another directory", holder(*.pid))]
    Locked {
        /// Its process id, if known.
        pid: Option<u32>,
    },
    /// A file of another log lies in the directory.
    #[error("wal: {path} belongs to another log; remove it or use another directory")]
    ForeignLog {
        /// The file.
        path: PathBuf,
    },
    /// A file was written by a newer version of this program.
    #[error("wal: {path} has format version {version}, written by a newer program; use that program")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version it names.
        version: u16,
    },
    /// The file with the consumers' cursors does not read back. The log itself was not read.
    #[error(
        "wal: {path} is damaged: crc {stored:08x} stored, {computed:08x} computed; no record is lost: remove the file \
         to open without consumers, each of which must then say where it starts"
    )]
    BadConsumers {
        /// The file.
        path: PathBuf,
        /// The checksum stored there.
        stored: u32,
        /// The checksum of the bytes found there; equal to `stored` if something else is wrong.
        computed: u32,
    },
    /// There is no log in the directory.
    #[error("wal: there is no log in {path}; name a log's directory")]
    NoLog {
        /// The directory.
        path: PathBuf,
    },
    /// [`truncate_at`](crate::truncate_at) cannot cut the log at the given position.
    #[error("wal: cannot cut at {lsn}: {why}")]
    Cut {
        /// The given position.
        lsn: Lsn,
        /// The reason.
        why: CutRefusal,
    },
    /// The settings contradict each other or need something that is not built.
    #[error("wal: {message}")]
    InvalidOptions {
        /// The setting, its value, and what to use.
        message: String,
    },
    /// The operating system refused `op` on `path`.
    #[error("wal: cannot {op} {path}: {source}")]
    Io {
        /// The operation.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl WalError {
    /// Returns what the caller can do. Match on this, not on text.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::TooLarge { .. } | Self::InvalidOptions { .. } => Remedy::FixCall,
            Self::RingFull { .. } | Self::Gap { .. } | Self::BadStream { .. } => Remedy::Retry,
            Self::Follows => Remedy::FixCall,
            Self::Full { .. } | Self::Io { .. } => Remedy::FreeResources,
            Self::Poisoned { .. } | Self::Closed | Self::Locked { .. } => Remedy::Reopen,
            Self::Damaged { .. } | Self::Unfinished { .. } | Self::CursorLost { .. } | Self::BadConsumers { .. } => {
                Remedy::RestoreData
            }
            Self::CopiesMissing { .. } | Self::CopiesDiffer { .. } => Remedy::RestoreData,
            Self::MissingSegment { .. } | Self::MissingStart { .. } | Self::Shortened { .. } => Remedy::RestoreData,
            Self::ForeignLog { .. } | Self::NewerFormat { .. } | Self::WrongName { .. } => Remedy::FixCall,
            Self::NoLog { .. } | Self::Cut { .. } => Remedy::FixCall,
        }
    }

    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { op, path: path.into(), source }
    }

    pub(crate) fn options(message: impl Into<String>) -> Self {
        Self::InvalidOptions { message: message.into() }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn list(dirs: &[PathBuf]) -> String {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    dirs.join(", ")
}

fn opening_without_them(present: usize) -> String {
    match present {
        // 0 is the default of `wal.open_with`.
        0 => "leave those that cannot be used out of wal.copies".to_owned(),
        _ => format!("open without them: --set wal.open_with={present}"),
    }
}

/// Why a log cannot be cut at a position. The log is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CutRefusal {
    /// A record lies across the position.
    #[error("a record lies across it: use {below} or {above}, the nearest boundaries")]
    NotABoundary {
        /// The nearest boundary below.
        below: Lsn,
        /// The nearest boundary above.
        above: Lsn,
    },
    /// The log ends below.
    #[error("the log can be read to {end} only")]
    BeyondEnd {
        /// Where it ends, or where its damage begins.
        end: Lsn,
    },
    /// No record would be left, or the log starts above.
    #[error("the lowest position it can be cut at is {lowest}")]
    NothingLeft {
        /// The lowest position that can be cut at.
        lowest: Lsn,
    },
    /// The caller's checkpoint needs records that would be removed.
    #[error("the checkpoint needs everything below {checkpoint}; restore a backup to go further back")]
    BelowCheckpoint {
        /// The lowest position that may be cut at.
        checkpoint: Lsn,
    },
}
