//! `Version`: one state of a row, immutable but for its stamp and its link (R1).

use std::ptr;
use std::sync::Arc;

use collie_base::{LockStrength, Lsn, Xid};

use crate::calls::Change;
use crate::stamp::atomic::AtomicPtr;
use crate::stamp::{Fate, Resolve, Word, unfinished};

/// One value, or the mark of a deletion or a lock.
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
    pub(super) stamp: Word,
    pub(super) next: AtomicPtr<Version>,
    pub(super) command: u32,
    /// Versions from here down when this one was linked, at least.
    pub(super) depth: u32,
    /// Depth at which the next writer prunes: twice what the last pruning had to leave, so that pruning costs each
    /// writer a constant number of steps however many versions old snapshots hold.
    pub(super) prune_at: u32,
    /// How strongly its transaction holds the row by this version and those of its own below.
    pub(super) strength: LockStrength,
    pub(super) content: Content,
}

/// Chains shorter than this are not worth a walk.
pub(super) const PRUNE_DEPTH_MIN: u32 = 4;

impl Version {
    /// The version that `change` makes, for transaction `xid`.
    pub(super) fn unfinished(change: Change<'_>, xid: Xid, command: u32) -> Box<Self> {
        let content = match change {
            Change::Put(value) | Change::PutKeys(value) => Content::Put(value.into()),
            Change::Delete => Content::Tombstone,
            Change::MoveTo(key) => Content::Moved(key.into()),
            Change::Lock(_) => Content::Lock,
        };
        Self::new(unfinished(xid), command, change.strength(), content)
    }

    /// A value that was committed at `csn`.
    pub(super) fn committed(value: &[u8], csn: Lsn) -> Box<Self> {
        Self::new(csn.get(), 0, LockStrength::Update, Content::Put(value.into()))
    }

    fn new(stamp: u64, command: u32, strength: LockStrength, content: Content) -> Box<Self> {
        Box::new(Self {
            #[cfg(loom)]
            published: loom::cell::UnsafeCell::new(0),
            stamp: Word::new(stamp),
            next: AtomicPtr::new(ptr::null_mut()),
            command,
            depth: 1,
            prune_at: PRUNE_DEPTH_MIN,
            strength,
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

    pub(super) fn fate(&self, fates: &impl Resolve) -> Fate {
        Fate::of_final(&self.stamp).unwrap_or_else(|_| fates.resolve(&self.stamp))
    }

    /// Whether nobody needs it any more: rolled back or a finished lock, and its owner is done with it (R2).
    pub(super) fn is_debris(&self) -> bool {
        match Fate::of_final(&self.stamp) {
            Ok(Fate::Aborted) => true,
            Ok(_) => self.is_lock(),
            Err(_) => false,
        }
    }
}
