//! `Source`: the interface to the database that is followed.

use std::{fmt, future::Future, path::PathBuf, sync::Arc};

use collie_base::{Lsn, Term};
use thiserror::Error;

use super::{DrawnCommit, Expiry, Sent, Switchover, Synchronous};
use crate::{Keep, compare::Held, identity::Identity, reads::ReadFeed};

/// A database that can be followed.
pub trait Source: Send + Sync + 'static {
    /// The reader of its log for one replica.
    type Shipper: Ship;

    /// Returns the identity of the node, with its durable position.
    fn identity(&self) -> Identity;

    /// Reports that a node has seen `term`, which is above this node's own: it no longer leads.
    fn heard(&self, term: Term) {
        let _nobody_asks = term;
    }

    /// Returns whether the node has promised no higher term than the one in which it leads. Must be called after
    /// [`Source::durable`]: then every promise that this node gives later covers the position read before (T2 of
    /// `terms.rs`).
    fn leads(&self) -> bool {
        true
    }

    /// Returns the durable position.
    fn durable(&self) -> Lsn;

    /// Returns the position below which readers of replicas may see commits.
    fn show(&self) -> Lsn;

    /// Returns the quorum that must have a commit before its reply may leave, if there is one.
    fn synchronous(&self) -> Option<&Arc<Synchronous>> {
        None
    }

    /// Returns the state of switchovers, if the node can perform one.
    fn handing(&self) -> Option<&Arc<Switchover>> {
        None
    }

    /// Returns the source of the reads that are sampled for replicas, if there is one.
    fn reads(&self) -> Option<&Arc<ReadFeed>> {
        None
    }

    /// Notifies the database that enough replicas have reached `confirmed`: replies that wait for that may leave.
    fn confirm(&self, confirmed: Sent) {
        let _nobody_waits = confirmed;
    }

    /// Sets whether replicas are asked for commits from now on.
    fn ask_replicas(&self, asked: bool) {
        let _nobody_waits = asked;
    }

    /// Sets whether replies wait for replicas from now on.
    fn count_replicas(&self, counted: bool) {
        let _nobody_waits = counted;
    }

    /// Returns how many transactions it has committed.
    fn commits(&self) -> u64;

    /// Samples about one in `one_in` of the commits whose replies leave from now on; 0: none.
    fn draw(&self, one_in: u32) {
        let _nobody_measures = one_in;
    }

    /// Moves the commits that were sampled since the last call to `out`.
    fn take_drawn(&self, out: &mut Vec<DrawnCommit>) {
        let _none_were = out;
    }

    /// Returns the CRC-32C of the `bytes` bytes of log below `end`; `None` when it no longer has all of them.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError>;

    /// Returns the CRC-32C of the log from `from` to `to`, both ends of records, below `durable`; `None` when it
    /// no longer has all of it. Blocks on reading the log.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, SourceError> {
        let _not_kept = (from, to);
        Ok(None)
    }

    /// Returns a reader of the log from `from` on under the name of a slot, which keeps the log from there on
    /// within the bounds of `keep`.
    ///
    /// # Errors
    /// [`SourceError::Gone`] when the log was freed, or is more than the slot may keep; others.
    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<Self::Shipper, SourceError>;

    /// Sets how much log is kept for a slot from now on; `keep` is not `Nothing`. A slot that does not exist, or
    /// has lost its position, stays so.
    ///
    /// # Errors
    /// The setting cannot be stored; it applies until the database is closed.
    fn keep(&self, slot: &str, keep: Keep) -> Result<(), SourceError> {
        let _nothing_is_freed = (slot, keep);
        Ok(())
    }

    /// Makes the files of a base backup, and keeps the log that they need under the name of the slot, whatever the
    /// bounds.
    ///
    /// # Errors
    /// The disk or the log failed.
    fn backup(&self, slot: &str) -> Result<BackupFiles, SourceError>;

    /// Returns the positions that its log keeps for slots, including those of an earlier process.
    fn held(&self) -> Vec<HeldSlot> {
        Vec::new()
    }

    /// Takes a snapshot of everything committed now, for comparison with a replica; `None` when that is
    /// impossible.
    fn hold(&self) -> Option<Box<dyn Held>> {
        None
    }

    /// Drops the slot, so that the log that it kept may be freed.
    ///
    /// # Errors
    /// The disk failed.
    fn drop_slot(&self, slot: &str) -> Result<(), SourceError>;
}

/// A slot's position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// The name of the slot.
    pub name: String,
    /// The position below which its replica has everything on disk.
    pub lsn: Lsn,
    /// The position from which log is kept.
    pub restart: Lsn,
    /// The size of the kept log, in bytes that were written to files.
    pub kept_bytes: u64,
    /// Whether that is less than the bound for a replica that follows.
    pub is_within: bool,
    /// The bound that it exceeded, if it did: then it keeps no log any more.
    pub lost: Option<Expiry>,
}

/// Reads a log for one replica.
pub trait Ship: Send + 'static {
    /// Puts the next durable records into `out`, which was cleared: whole records, at most `bytes_max` bytes of
    /// them but at least one record; waits until there are any.
    ///
    /// # Cancel safety
    /// Dropping the future loses no record.
    fn next<'a>(
        &'a mut self,
        bytes_max: usize,
        out: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Shipment, SourceError>> + Send + 'a;

    /// Records that everything below `durable` is on the replica's disk: the log below need not be kept for it.
    ///
    /// # Errors
    /// The cursor cannot be stored, or was lost.
    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError>;
}

/// The positions of records that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipment {
    /// The end of the record before.
    pub prev_end: Lsn,
    /// The start of the first one; above `prev_end` only in front of the first record of a history.
    pub start: Lsn,
    /// The end of the last one.
    pub end: Lsn,
}

/// The files of a base backup; dropping this removes them.
#[derive(Debug)]
pub struct BackupFiles {
    /// The directory of the files; names are relative to it.
    pub root: PathBuf,
    /// The files, with their lengths.
    pub files: Vec<BackupFile>,
    /// The start of the log that is needed in addition to them.
    pub log_start: Lsn,
    /// Everything in them is below this position.
    pub consistent: Lsn,
    /// Removes the files.
    pub cleanup: Option<Box<dyn FnOnceSend>>,
}

/// A closure that is called once, when the files of a backup are no longer needed.
pub trait FnOnceSend: FnOnce() + Send + Sync {}

impl<T: FnOnce() + Send + Sync> FnOnceSend for T {}

impl fmt::Debug for dyn FnOnceSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("removes the files")
    }
}

impl Drop for BackupFiles {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup.take() {
            cleanup();
        }
    }
}

/// A file of a base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its path, with `/` between the parts.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Why a source cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The requested log was freed.
    #[error("the log that is needed was freed")]
    Gone,
    /// Another reader uses that name already, or there is no room for another name.
    #[error("{0}")]
    Taken(String),
    /// The log has ended: the database is closing, or its disk failed.
    #[error("{0}")]
    Ended(String),
    /// A disk operation failed, or the data is damaged.
    #[error("{0}")]
    Failed(String),
}
