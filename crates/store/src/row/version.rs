//! `Version`: one state of a row, immutable except for its stamp and its link (R1).

use std::ptr;
use std::sync::Arc;

use collie_base::{LockStrength, Lsn, Xid};

use crate::row::calls::Change;
use crate::stamp::atomic::{AtomicBool, AtomicPtr};
use crate::stamp::{Resolve, TxnStatus, Word, unfinished};

/// A value, or the mark of a deletion or a lock.
#[derive(Debug)]
pub(super) enum Content {
    Put(Arc<[u8]>),
    Tombstone,
    Moved(Box<[u8]>),
    Lock,
}

/// One state of a row. Everything but `stamp` and `next` is constant once it is linked (R1).
#[derive(Debug)]
pub(super) struct Version {
    /// Lets a model see whether a version's constant part is read before it was published.
    #[cfg(loom)]
    pub(super) published: loom::cell::UnsafeCell<u64>,
    /// Lets a model see whether a version is retired twice.
    #[cfg(loom)]
    pub(super) retired: std::sync::atomic::AtomicBool,
    pub(super) stamp: Word,
    pub(super) next: AtomicPtr<Version>,
    pub(super) command: u32,
    /// How strongly its transaction holds the row by this version and its own versions below.
    pub(super) strength: LockStrength,
    /// A version that held the row in [`LockStrength::Update`] was unlinked directly below (R4).
    pub(super) hides_key_change: AtomicBool,
    pub(super) content: Content,
}

/// The two counts before the bytes of a shared value.
const VALUE_OVERHEAD_BYTES: usize = 16;

impl Version {
    /// Returns the version that `change` creates for transaction `xid`.
    pub(super) fn unfinished(change: Change<'_>, xid: Xid, command: u32) -> Box<Self> {
        let content = match change {
            Change::Put(value) | Change::PutKeys(value) => Content::Put(value.into()),
            Change::Delete => Content::Tombstone,
            Change::MoveTo(key) => Content::Moved(key.into()),
            Change::Lock(_) => Content::Lock,
        };
        Self::new(unfinished(xid), command, change.strength(), content)
    }

    /// Returns a value that was committed at `csn`.
    pub(super) fn committed(value: &[u8], csn: Lsn) -> Box<Self> {
        Self::new(csn.get(), 0, LockStrength::Update, Content::Put(value.into()))
    }

    /// Returns a deletion that was committed at `csn`.
    pub(super) fn deleted(csn: Lsn) -> Box<Self> {
        Self::new(csn.get(), 0, LockStrength::Update, Content::Tombstone)
    }

    fn new(stamp: u64, command: u32, strength: LockStrength, content: Content) -> Box<Self> {
        Box::new(Self {
            #[cfg(loom)]
            published: loom::cell::UnsafeCell::new(0),
            #[cfg(loom)]
            retired: std::sync::atomic::AtomicBool::new(false),
            stamp: Word::new(stamp),
            next: AtomicPtr::new(ptr::null_mut()),
            command,
            strength,
            hides_key_change: AtomicBool::new(false),
            content,
        })
    }

    pub(super) const fn is_lock(&self) -> bool {
        matches!(self.content, Content::Lock)
    }

    pub(super) const fn value(&self) -> Option<&Arc<[u8]>> {
        match &self.content {
            Content::Put(value) => Some(value),
            _ => None,
        }
    }

    /// Returns about how many bytes of memory it occupies.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.content {
                Content::Put(value) => VALUE_OVERHEAD_BYTES + value.len(),
                Content::Moved(key) => key.len(),
                Content::Tombstone | Content::Lock => 0,
            }
    }

    /// Returns [`Version::bytes`] of a value or a deletion; 0 for a lock, which the row's next write removes.
    pub(super) fn counted_bytes(&self) -> u32 {
        if self.is_lock() { 0 } else { u32::try_from(self.bytes()).unwrap_or(u32::MAX) }
    }

    pub(super) fn fate(&self, fates: &impl Resolve) -> TxnStatus {
        TxnStatus::of_final(&self.stamp).unwrap_or_else(|_| fates.resolve(&self.stamp))
    }

    /// Returns whether it is no longer needed: rolled back or a finished lock, and its owner is done with it (R2).
    pub(super) fn is_debris(&self) -> bool {
        match TxnStatus::of_final(&self.stamp) {
            Ok(TxnStatus::Aborted) => true,
            Ok(_) => self.is_lock(),
            Err(_) => false,
        }
    }
}
