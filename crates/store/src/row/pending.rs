//! `Pending`: a version whose transaction is unfinished, in the hands of the one who ends it (R2).

use std::ptr::NonNull;
use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{mutant, ord};

use super::Row;
use super::chain::walk;
use super::head::{version_of, with_tags_of};
use super::version::Version;
use crate::epoch::pin;
use crate::stamp::ABORTED;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Release};

/// A version whose transaction is unfinished. The one handle that ends it: commit it or undo it; dropped, it is undone.
///
/// Undo the versions of a transaction newest first.
#[derive(Debug)]
pub struct Pending {
    pub(super) row: Arc<Row>,
    pub(super) version: Option<NonNull<Version>>,
    pub(super) supersedes: bool,
    /// Bytes that are old once this is committed.
    pub(super) outdates: u64,
    /// Bytes of memory that it takes up; 0 for a lock.
    pub(super) bytes: u32,
    /// How often it was tried again to put it there, since others were faster.
    pub(crate) retries: u16,
}

// SAFETY: the pointer is the handle's alone to end (R2), everything behind it is atomic or constant (R1), and `Row` is
// `Sync`; nothing is tied to a thread.
unsafe impl Send for Pending {}
// SAFETY: as for `Send`; nothing is done through a shared reference but reading `row`.
unsafe impl Sync for Pending {}

impl Pending {
    /// Returns the row.
    pub const fn row(&self) -> &Arc<Row> {
        &self.row
    }

    /// Returns whether there was something below, so that garbage is left once this is committed.
    pub const fn supersedes(&self) -> bool {
        self.supersedes
    }

    /// Returns about how many bytes of memory are old versions once this is committed: the value below, the row itself when
    /// this deletes it.
    pub const fn outdates(&self) -> u64 {
        self.outdates
    }

    /// Returns about how many bytes of memory the version takes up; 0 for a lock, which nobody counts.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns how often a change of the row by others had the write begin again before the version was on top.
    pub const fn retries(&self) -> u16 {
        self.retries
    }

    /// Returns about how many bytes of memory the version takes up, and its row if it may be the first one of it.
    pub fn bytes_with_row(&self) -> u64 {
        let row = if self.bytes == 0 || self.supersedes { 0 } else { self.row.row_bytes() };
        u64::from(self.bytes) + row
    }

    /// Stamps the version with its commit position.
    pub fn commit(mut self, csn: Lsn) {
        self.stamp(csn);
    }

    /// Does what [`Pending::commit`] does and leaves the row to be asked for. Called once.
    pub fn stamp(&mut self, csn: Lsn) {
        debug_assert!(csn >= Lsn::FIRST, "a commit position is a log position");
        if let Some(version) = self.version.take() {
            // SAFETY: R2: not stamped yet, so not retired; the reference ends with the store.
            unsafe { version.as_ref() }.stamp.store(csn.get(), ord!("ROW_STAMP_STORE", Release));
        }
    }

    /// Rolls the version back. Returns whether the row may be empty now, so that it should be removed.
    pub fn undo(mut self) -> bool {
        self.take_back()
    }

    fn take_back(&mut self) -> bool {
        let Some(version) = self.version.take() else { return false };
        let pin = pin();
        let at = version.as_ptr();
        // SAFETY: R2: not stamped yet, so not retired, and after the stamp the pin keeps it.
        let (stamp, next) = unsafe { (&(*at).stamp, (*at).next.load(Acquire)) };
        stamp.store(ABORTED, Release);
        let mut head = self.row.head.load(Acquire);
        while version_of(head) == at {
            let below = if mutant!("ROW_UNDO_DROPS_TAGS") { next } else { with_tags_of(next, head) };
            match self.row.head.compare_exchange(head, below, AcqRel, Acquire) {
                Ok(_) => {
                    // SAFETY: R2: our exchange took it out; had a writer done so first, ours would have failed.
                    unsafe { pin.retire(at) };
                    break;
                }
                Err(now) => head = now, // a tag came or went, or a writer took it out
            }
        }
        next.is_null() || walk(self.row.head.load(Acquire), &pin).all(|(_, version)| version.is_debris())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.take_back();
    }
}
