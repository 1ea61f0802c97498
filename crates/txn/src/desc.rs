//! `Desc`: one writing transaction as other sessions see it: its xid, its state word, and the progress of its end.
//!
//! `flags` is changed by read-modify-write only, so its changes have one order: the setter of `DONE` learns whether a
//! session waits or the ring lapped the transaction, and the setter of `WAITED` or `LAPPED` learns whether it is done.
//! No fence is needed.

use crate::stamp::Word;
use collie_base::Xid;
use collie_sync::{atomic::AtomicU64, ord};

/// The holder of a lock or a waiter: one transaction of one session, never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct OwnerId(pub(crate) u64);

/// Number of bits of an owner id below the slot number, which number the transactions of a slot.
pub(crate) const OWNER_BITS: u32 = 44;

impl OwnerId {
    /// Returns the owner of locks that a session holds for itself. No transaction has this id: they are numbered from
    /// 1.
    pub(crate) const fn session(slot: usize) -> Self {
        Self((slot as u64) << OWNER_BITS)
    }

    pub(crate) const fn is_session(self) -> bool {
        self.0.trailing_zeros() >= OWNER_BITS
    }

    pub(crate) const fn has_slot_of(self, other: Self) -> bool {
        self.0 >> OWNER_BITS == other.0 >> OWNER_BITS
    }

    /// Returns the slot of the session that has this transaction.
    pub(crate) fn slot(self) -> usize {
        usize::try_from(self.0 >> OWNER_BITS).expect("at most 2^20 slots")
    }

    /// Returns the owner of the session that has this transaction.
    pub(crate) const fn of_session(self) -> Self {
        Self(self.0 >> OWNER_BITS << OWNER_BITS)
    }
}

#[derive(Debug)]
pub(crate) struct Desc {
    pub(crate) xid: Xid,
    pub(crate) owner: OwnerId,
    /// Stored by the owner, before its dense word.
    state: AtomicU64,
    flags: AtomicU64,
}

/// The end is published: waiters may proceed.
const DONE: u64 = 1;
/// Every version carries its final stamp.
const STAMPED: u64 = 2;
/// A session waits for `DONE`.
const WAITED: u64 = 4;
/// The sparse map holds this descriptor.
const LAPPED: u64 = 8;
/// The transaction committed without a write, and so ends as a rollback does.
const COMMITTED_NOTHING: u64 = 16;

/// What the owner of a transaction must still do after it marked the end.
#[must_use]
pub(crate) struct Duties {
    pub(crate) wake: bool,
    pub(crate) leave_sparse: bool,
}

impl Desc {
    pub(crate) fn new(xid: Xid, owner: OwnerId) -> Self {
        Self { xid, owner, state: AtomicU64::new(Word::in_progress(xid).raw()), flags: AtomicU64::new(0) }
    }

    pub(crate) fn state(&self) -> Word {
        Word::from_raw(self.state.load(ord!("DESC_STATE_LOAD", Acquire)))
    }

    pub(crate) fn set_state(&self, word: Word) {
        self.state.store(word.raw(), ord!("DESC_STATE_STORE", Release));
    }

    /// Marks the end as published: waiters may proceed. Returns whether a session waits for that.
    pub(crate) fn finish_waits(&self) -> bool {
        self.flags.fetch_or(DONE, ord!("DESC_DONE", AcqRel)) & WAITED != 0
    }

    /// Marks the versions as stamped, after [`Desc::finish_waits`]. Returns whether the sparse map holds this
    /// descriptor.
    pub(crate) fn finish_stamps(&self) -> bool {
        self.flags.fetch_or(STAMPED, ord!("DESC_STAMPED", AcqRel)) & LAPPED != 0
    }

    /// Marks the end: published and stamped.
    pub(crate) fn finish(&self) -> Duties {
        let old = self.flags.fetch_or(DONE | STAMPED, ord!("DESC_FINISH", AcqRel));
        Duties { wake: old & WAITED != 0, leave_sparse: old & LAPPED != 0 }
    }

    /// Records that it commits although it wrote nothing, for callers that ask how it ended.
    pub(crate) fn note_committed(&self) {
        self.flags.fetch_or(COMMITTED_NOTHING, ord!("DESC_NOTE", AcqRel));
    }

    pub(crate) fn committed_nothing(&self) -> bool {
        self.flags.load(ord!("DESC_NOTE_LOAD", Acquire)) & COMMITTED_NOTHING != 0
    }

    /// Announces a waiter; `false` if the transaction is done and there is nothing to wait for.
    pub(crate) fn announce_waiter(&self) -> bool {
        self.flags.fetch_or(WAITED, ord!("DESC_ANNOUNCE", AcqRel)) & DONE == 0
    }

    /// Returns whether a waiter was announced, after a partial rollback. A read-modify-write, so that a later waiter
    /// sees what was undone.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.flags.fetch_or(0, ord!("DESC_WAITED", AcqRel)) & WAITED != 0
    }

    /// Returns whether the end is published and waiters may proceed.
    pub(crate) fn is_done(&self) -> bool {
        self.flags.load(ord!("DESC_DONE_LOAD", Acquire)) & DONE != 0
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.flags.load(ord!("DESC_FINISHED_LOAD", Acquire)) & (DONE | STAMPED) == DONE | STAMPED
    }

    /// Records that the sparse map holds this descriptor; `false` if it is finished and need not be there.
    pub(crate) fn lap(&self) -> bool {
        self.flags.fetch_or(LAPPED, ord!("DESC_LAP", AcqRel)) & (DONE | STAMPED) != DONE | STAMPED
    }
}
