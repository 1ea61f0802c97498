//! `Source`: what is asked of the database that is followed.

use std::{fmt, future::Future, path::PathBuf, sync::Arc};

use collie_base::{Lsn, Term};

use super::{DrawnCommit, Expiry, Handing, Sent, Synchronous};
use crate::{Keep, compare::Held, identity::Identity, reads::ReadFeed};

/// A database that can be followed.
pub trait Source: Send + Sync + 'static {
    /// What reads its log for one replica.
    type Shipper: Ship;

    /// Who it is, and up to where its log is durable.
    fn identity(&self) -> Identity;

    /// A node has seen `term`, which is above its own: it leads no more.
    fn heard(&self, term: Term) {
        let _nobody_asks = term;
    }

    /// Whether no higher term than the one that it leads in was promised. Looked at behind [`Source::durable`]: what was read there is then
    /// covered by every promise that this node gives later (T2 of `terms.rs`).
    fn leads(&self) -> bool {
        true
    }

    /// Up to where it is durable.
    fn durable(&self) -> Lsn;

    /// Up to where readers of replicas may see.
    fn show(&self) -> Lsn;

    /// Who has to have a commit before its reply may leave, if anybody has.
    fn synchronous(&self) -> Option<&Arc<Synchronous>> {
        None
    }

    /// Who is handed the lead, if anybody can be.
    fn handing(&self) -> Option<&Arc<Handing>> {
        None
    }

    /// Where reads come from that are sampled for replicas, if any are.
    fn reads(&self) -> Option<&Arc<ReadFeed>> {
        None
    }

    /// So many replicas as are needed have come so far: who waits for that may go on.
    fn confirm(&self, confirmed: Sent) {
        let _nobody_waits = confirmed;
    }

    /// Replicas are asked for commits from now on, or nobody is.
    fn ask_replicas(&self, asked: bool) {
        let _nobody_waits = asked;
    }

    /// Replies wait for replicas from now on, or do without.
    fn count_replicas(&self, counted: bool) {
        let _nobody_waits = counted;
    }

    /// How many transactions it has committed.
    fn commits(&self) -> u64;

    /// Draws about one in `one_in` of the commits whose replies leave from now on; 0: none.
    fn draw(&self, one_in: u32) {
        let _nobody_measures = one_in;
    }

    /// Moves the commits that were drawn since the last call to `out`.
    fn take_drawn(&self, out: &mut Vec<DrawnCommit>) {
        let _none_were = out;
    }

    /// The CRC-32C of the `bytes` bytes of log below `end`; `None` when it does not have all of them any more.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError>;

    /// The CRC-32C of the log from `from` to `to`, both ends of records, below `durable`; `None` when it does not have all of it any more.
    /// Blocks on reading that.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, SourceError> {
        let _not_kept = (from, to);
        Ok(None)
    }

    /// Reads the log from `from` on under the name of a slot, which keeps it from there on, as much as `keep` says.
    ///
    /// # Errors
    /// [`SourceError::Gone`] when it was freed, or is more than may be kept for that slot; others.
    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<Self::Shipper, SourceError>;

    /// Has as much log kept for a slot from now on as `keep` says, which is not nothing. One that is not there, or lost its place, stays so.
    ///
    /// # Errors
    /// The disk: what is kept is as was said, until the database is closed.
    fn keep(&self, slot: &str, keep: Keep) -> Result<(), SourceError> {
        let _nothing_is_freed = (slot, keep);
        Ok(())
    }

    /// Makes the files of a base backup, and keeps the log that they need under the name of the slot, whatever the bounds.
    ///
    /// # Errors
    /// The disk, the log.
    fn backup(&self, slot: &str) -> Result<BackupFiles, SourceError>;

    /// What its log keeps for slots: those of an earlier process too.
    fn held(&self) -> Vec<HeldSlot> {
        Vec::new()
    }

    /// Holds what is committed now, to be compared with a replica; `None` when that cannot be.
    fn hold(&self) -> Option<Box<dyn Held>> {
        None
    }

    /// Forgets the slot, so that the log that it kept may go.
    ///
    /// # Errors
    /// The disk.
    fn drop_slot(&self, slot: &str) -> Result<(), SourceError>;
}

/// A slot's place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// The slot's name.
    pub name: String,
    /// Its replica has everything below on disk.
    pub lsn: Lsn,
    /// Log is kept from here on.
    pub restart: Lsn,
    /// How much that is, in bytes that were written to files.
    pub kept_bytes: u64,
    /// Whether that is less than may be kept for a replica that follows.
    pub is_within: bool,
    /// By what it fell further behind than it may, if it did: it keeps nothing any more.
    pub lost: Option<Expiry>,
}

/// Reads a log for one replica.
pub trait Ship: Send + 'static {
    /// Puts the next durable records into `out`, which was cleared: whole ones, at most `bytes_max` bytes of them but at least one;
    /// waits until there are any.
    ///
    /// # Cancel safety
    /// Dropping the future loses no record.
    fn next<'a>(
        &'a mut self,
        bytes_max: usize,
        out: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Shipment, SourceError>> + Send + 'a;

    /// Everything below is on the replica's disk: the log below need not be kept for it.
    ///
    /// # Errors
    /// The cursor cannot be stored, or was lost.
    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError>;
}

/// Where records that were read lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipment {
    /// Where the record before ends.
    pub prev_end: Lsn,
    /// Where they begin; above `prev_end` only in front of the first record of a history.
    pub start: Lsn,
    /// Where they end.
    pub end: Lsn,
}

/// The files of a base backup. Dropped, they are removed.
#[derive(Debug)]
pub struct BackupFiles {
    /// Where they lie; names are relative to it.
    pub root: PathBuf,
    /// The files, with how long they are.
    pub files: Vec<BackupFile>,
    /// Where the log begins that is needed beside them.
    pub log_start: Lsn,
    /// Everything in them lies below.
    pub consistent: Lsn,
    /// Removes them.
    pub cleanup: Option<Box<dyn FnOnceSend>>,
}

/// Called once, when the files of a backup are needed no more.
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
    /// Its path, parts between `/`.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
}

/// Why a source cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceError {
    /// The log that is asked for was freed.
    Gone,
    /// Somebody reads under that name already, or there is no room for another name.
    Taken(String),
    /// The log has ended: the database is closing, or its disk failed.
    Ended(String),
    /// The disk refused, or what it gives is damaged.
    Failed(String),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the log that is needed was freed"),
            Self::Taken(text) | Self::Ended(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SourceError {}
