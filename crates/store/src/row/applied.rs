//! A row that follows a log: committed versions are put on top of it while other threads read, prune and flush.
//!
//! # Invariants
//! - F1. One thread applies to a row, in the order of commits, and there are no other writers: a chain has no
//!   unfinished version and no lock, and the exchange of its head fails only if the row dies.
//! - F2. A version carries its commit position from before it is linked. Its visibility is decided by the snapshots
//!   that are given out: none is above a commit with a write still missing.
//! - F3. A commit that the row already has, or an older one, changes nothing; of one commit the last write is on top.
//!
//! Checked by the family's model test of applied commits, and by the engine's tests of replicas.

use std::ptr;

use collie_base::Lsn;

use super::Row;
use super::chain::walk;
use super::head::{DEAD, with_tags_of};
use super::version::Version;
use crate::epoch::Pin;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The outcome of applying a committed version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Applied {
    /// It is on top.
    OnTop {
        /// Bytes of versions that are old once this one is visible.
        outdates: u64,
        /// Bytes of memory that it occupies.
        bytes: u32,
    },
    /// The row already has this state (F3).
    Known,
    /// The row left the index: the caller must look the key up again.
    Dead,
}

impl Row {
    /// Puts a committed state on top; `None` is a deletion.
    pub(crate) fn apply(&self, value: Option<&[u8]>, csn: Lsn, pin: &Pin) -> Applied {
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return Applied::Dead;
            }
            let newest = walk(head, pin).next();
            if let Some((_, version)) = newest {
                let is_same = version.value().map(|value| &value[..]) == value;
                let stamp = version.stamp.load(Acquire);
                if stamp > csn.get() || is_same && (stamp == csn.get() || value.is_none()) {
                    return Applied::Known; // F3
                }
            } else if value.is_none() {
                return Applied::Known;
            }
            let new = match value {
                Some(value) => Version::committed(value, csn),
                None => Version::deleted(csn),
            };
            let mut outdates = if value.is_some() { 0 } else { self.old_bytes(&new) };
            let mut below = ptr::null_mut();
            if let Some((pointer, version)) = newest {
                below = pointer.as_ptr();
                if version.value().is_some() {
                    outdates += self.old_bytes(version);
                }
            }
            new.next.store(below, Relaxed); // published by the exchange
            let bytes = new.counted_bytes();
            let new = Box::into_raw(new);
            if self.head.compare_exchange(head, with_tags_of(new, head), AcqRel, Acquire).is_ok() {
                self.growth.add();
                return Applied::OnTop { outdates, bytes };
            }
            // SAFETY: `new` is ours alone: it was never linked.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}
