//! Checkpoints and backups: copies an open database into a directory of its own, checks such a copy, and restores
//! from it.
//!
//! A copy is a directory that opens by itself: control file, levels and log as a crash at its end would have left
//! them, and a list of its files with checksums ([`Manifest`](manifest::Manifest)). A checkpoint shares its tables
//! with its source by hard links if both are on one file system; a backup shares nothing.
//!
//! # What a copy holds
//! A copy holds every commit below its `end`, and no other. The commits that returned before the call are among
//! them, whether or not they waited for the disk. `end` is the durable end of the source's log when the log was
//! copied, which is the last step. So commits that happened while the levels were copied are in the copy's log,
//! and the copy can be restored to any record boundary between `from` and `end`.
//!
//! # Invariants
//! - K1. The log is pinned before the levels are linked: no record is missing between the log start that MANIFEST
//!   recorded and the copy's end, even if log is released during the copy. MANIFEST's start covers the records
//!   that unfinished large transactions need (`flush` F5), so no record has to name the open ones.
//! - K2. The levels are those of one moment with no flush or compaction running, and every entry in them is below
//!   the durable position read just after; that position is `from`. A drop recorded in MANIFEST is durable below
//!   it too.
//! - K3. Nothing beyond `durable` is copied (`collie_wal::LogPin` D1).
//! - K4. A copy appears whole or not at all: it is made under another name, synced, and renamed. After an error
//!   everything that was made is removed. A crash leaves a directory that the next attempt removes and that does
//!   not open: a directory without `control` is not a database, and one under the temporary name is not a backup.
//! - K5. The source is only read. The exception is a directory of links inside it while a copy is made that shares
//!   nothing; if a crash leaves it, an opening removes it.
//! - K6. A copy is another directory: its node id and its log's id are its own. Its database id and its histories
//!   so far are those of its source.
//! - K7. A copy holds no rot: its files were compared with the checksums inside, namely those of each table and of
//!   its tree's list in the levels, of MANIFEST's records, and of the log's frames. If a tree of the source fails,
//!   it is rewritten from memory first; if that is impossible, no copy is made. Files that are restored or sent to
//!   a replica are compared again in the same way before they are opened.
//!
//! Checked by `tests/backup.rs` (under writers, ended at every call to the disk, with each file damaged, restored
//! to each boundary) and, for K7, by `tests/rot.rs`.
//!
//! | file | noun |
//! |---|---|
//! | `checkpoint.rs` | making a copy of an open database |
//! | `restore.rs` | making a directory from a copy |
//! | `verify.rs` | the faults of a copy |
//! | `inner.rs` | checks by the checksums inside the files of a copy |
//! | `manifest.rs` | the list of files, their sizes and checksums |
//! | `table_rows.rs` | the number of rows in each file of the levels |
//! | `work.rs` | copying and summing files, with progress reports and cancellation |

mod checkpoint;
mod inner;
mod manifest;
mod restore;
mod table_rows;
mod verify;
mod work;

use collie_base::Lsn;

pub(crate) use self::checkpoint::{check_levels, remove_leftovers};
pub use self::{
    manifest::{check_backup_manifest, sample_backup_manifest},
    restore::{RestoreTo, Restored, restore},
    verify::{BackupFault, verify_backup},
    work::{CopyPhase, CopyProgress, CopyWatch},
};

/// How a copy is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Whether the copy shares nothing with its source. Default false: tables are linked where the file system
    /// supports it, which takes neither time nor space. A linked table is one piece of disk, so rot in it affects
    /// both.
    pub copy: bool,
}

/// The part of the log that is needed with a copy of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelsCopy {
    /// The start of the log that is needed with the levels.
    pub start: Lsn,
    /// A position above every entry in the levels.
    pub from: Lsn,
}

/// The summary of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The id of the database, the same in every copy of it.
    pub cluster: u128,
    /// The start of its log.
    pub start: Lsn,
    /// The lowest position to which it can be restored.
    pub from: Lsn,
    /// The end of its log: the copy holds every commit below.
    pub end: Lsn,
    /// When it was made, in microseconds since 1970, by the clock of the machine that made it.
    pub wall_us: i64,
    /// The number of its files, without the list of them.
    pub files: u64,
    /// The total size of the files in bytes.
    pub bytes: u64,
}
