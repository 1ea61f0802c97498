//! `Pending`: a version whose transaction is unfinished, owned by the code that will end it (R2).

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

/// A version whose transaction is unfinished: the only handle that ends it, by a commit or an undo; dropping it undoes
/// it.
///
/// Undo the versions of a transaction newest first.
#[derive(Debug)]
pub struct Pending {
    pub(super) row: Arc<Row>,
    pub(super) version: Option<NonNull<Version>>,
    pub(super) supersedes: bool,
    /// Bytes that become old with the commit.
    pub(super) outdates: u64,
    /// Bytes of memory that the version occupies; 0 for a lock.
    pub(super) bytes: u32,
    /// How often the installation was repeated because other threads were faster.
    pub(crate) retries: u16,
}

// SAFETY: only this handle ends the version (R2), everything behind the pointer is atomic or constant (R1), and `Row`
// is `Sync`; nothing is tied to a thread.
unsafe impl Send for Pending {}
// SAFETY: as for `Send`; a shared reference is used only for reading `row`.
unsafe impl Sync for Pending {}

impl Pending {
    /// Returns the row.
    pub const fn row(&self) -> &Arc<Row> {
        &self.row
    }

    /// Returns whether there was a version below, so that the commit leaves garbage.
    pub const fn supersedes(&self) -> bool {
        self.supersedes
    }

    /// Returns about how many bytes of memory the commit turns into old versions: the value below, and the row itself
    /// if this deletes it.
    pub const fn outdates(&self) -> u64 {
        self.outdates
    }

    /// Returns about how many bytes of memory the version occupies; 0 for a lock, which is not counted.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns how often the write started again because other threads changed the row before the version was on top.
    pub const fn retries(&self) -> u16 {
        self.retries
    }

    /// Returns about how many bytes of memory the version occupies, plus those of its row if it may be the row's first
    /// version.
    pub fn bytes_with_row(&self) -> u64 {
        let row = if self.bytes == 0 || self.supersedes { 0 } else { self.row.row_bytes() };
        u64::from(self.bytes) + row
    }

    /// Stamps the version with its commit position.
    pub fn commit(mut self, csn: Lsn) {
        self.stamp(csn);
    }

    /// Does the same as [`Pending::commit`] and leaves the row accessible. Called once.
    pub fn stamp(&mut self, csn: Lsn) {
        debug_assert!(csn >= Lsn::FIRST, "a commit position is a log position");
        if let Some(version) = self.version.take() {
            // SAFETY: R2: not stamped yet, so not retired; the reference ends with the store.
            unsafe { version.as_ref() }.stamp.store(csn.get(), ord!("ROW_STAMP_STORE", Release));
        }
    }

    /// Rolls the version back. Returns whether the row may be empty now and should be removed.
    pub fn undo(mut self) -> bool {
        self.take_back()
    }

    fn take_back(&mut self) -> bool {
        let Some(version) = self.version.take() else { return false };
        let pin = pin();
        let at = version.as_ptr();
        // SAFETY: R2: not stamped yet, so not retired, and after the stamp the pin keeps it alive.
        let (stamp, next) = unsafe { (&(*at).stamp, (*at).next.load(Acquire)) };
        stamp.store(ABORTED, Release);
        let mut head = self.row.head.load(Acquire);
        while version_of(head) == at {
            let below = if mutant!("ROW_UNDO_DROPS_TAGS") { next } else { with_tags_of(next, head) };
            match self.row.head.compare_exchange(head, below, AcqRel, Acquire) {
                Ok(_) => {
                    // SAFETY: R2: our exchange took it out; if a writer had done so first, ours would have failed.
                    unsafe { pin.retire(at) };
                    break;
                }
                Err(now) => head = now, // a tag was set or cleared, or a writer took it out
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
