//! Checkpoints and backups: a copy of an open database in a directory of its own, the check of one, and the way back.
//!
//! A copy is a directory that opens by itself: control file, levels and log as a crash at its end would have left them, and a
//! list of its files with checksums ([`Manifest`](manifest::Manifest)). A checkpoint shares its tables with its source by
//! hard links where both are on one file system; a backup shares nothing.
//!
//! # What a copy holds
//! Every commit below its `end`, and no other: those that returned before the call are among them, whether they waited for the
//! disk or not. `end` is what the source had on disk when its log was copied, which is last; so the commits of the time that
//! the levels took are in the copy's log, and it can be restored to any record boundary between `from` and `end`.
//!
//! # Invariants
//! - K1. The log is pinned before the levels are linked: from what MANIFEST said of the log's start up to the copy's end nothing
//!   is missing, however often log is given up meanwhile. MANIFEST's start takes in what unfinished large transactions need
//!   (`flush` F5), so that no record need say which are open.
//! - K2. The levels are of one moment, with no flush or compaction under way, and everything in them lies below what is durable
//!   just after: that is `from`. A drop that MANIFEST knows is durable below it too.
//! - K3. Nothing beyond `durable` is copied (`collie_wal::LogPin` D1).
//! - K4. A copy appears whole or not at all: it is made under another name, synced, and renamed. Whatever fails removes what was
//!   made; what a crash leaves is removed by the next try, and opens as nothing: a directory without `control` is no database,
//!   and one of that name is no backup.
//! - K5. The source is only read, but for a directory of links inside it while a copy is made that shares nothing, which an open
//!   removes.
//! - K6. A copy is another directory: its node id and its log's id are its own; its database, and its histories so far, are its
//!   source's.
//! - K7. A copy holds no rot: what is kept was compared with the checksums inside, those of each table and its tree's list as the levels
//!   have them, those of MANIFEST's records and of the log's frames. A tree of the source that fails is written anew from memory first;
//!   where that cannot be done no copy is made. What is restored, or sent to a replica, is compared so again before it opens.
//!
//! Checked by `tests/backup.rs`: under writers, ended at every call to the disk, each file damaged, restored to each boundary; K7 by
//! `tests/rot.rs`.
//!
//! | file | noun |
//! |---|---|
//! | `checkpoint.rs` | making a copy of an open database |
//! | `restore.rs` | a directory from a copy |
//! | `verify.rs` | what of a copy is not as it was made |
//! | `inner.rs` | what the files of a copy say of themselves |
//! | `manifest.rs` | the list of files, their sizes and checksums |
//! | `table_rows.rs` | how many rows the files of the levels have |
//! | `work.rs` | copying and summing files, telling how far it is, stopping when told to |

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
    /// Whether it is to share nothing with its source. Default false: tables are linked where the file system can, which takes
    /// neither time nor space; such a table is one piece of disk, and its rot is in both.
    pub copy: bool,
}

/// What a copy of the levels needs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelsCopy {
    /// Where the log begins that is needed beside them.
    pub start: Lsn,
    /// Everything in them lies below.
    pub from: Lsn,
}

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The id of the database, the same in every copy of it.
    pub cluster: u128,
    /// Where its log begins.
    pub start: Lsn,
    /// The lowest position that it can be restored to.
    pub from: Lsn,
    /// Where it ends: it holds every commit below.
    pub end: Lsn,
    /// When it was made, in microseconds since 1970, by the clock of the machine that made it.
    pub wall_us: i64,
    /// How many files it has, the list of them apart.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}
