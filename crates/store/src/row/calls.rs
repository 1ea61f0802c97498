//! The plain values that writes take and return: the view, the change, and its outcome.
//!
//! They hold no state; `row.rs` makes the decisions.

use std::sync::Arc;

use collie_base::{LockStrength, Lsn, Xid};

use crate::row::{Pending, ShareLock};

/// What a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Commits strictly below this position are visible.
    pub snapshot: Lsn,
    /// The reading transaction, whose own versions are visible too; `None` if it has no id.
    pub me: Option<Xid>,
    /// The current command: the transaction's own versions of lower commands are visible.
    pub command: u32,
}

/// How a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRules {
    /// The writer.
    pub xid: Xid,
    /// Whether a version committed since the snapshot is a conflict (REPEATABLE READ); otherwise the caller gets
    /// its value.
    pub repeatable: bool,
}

/// The version from which a write was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The version in view.
    Snapshot,
    /// The version committed at this position.
    After(Lsn),
}

/// A change of an existing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Replaces its value and keeps the columns that other rows may refer to: NO KEY UPDATE.
    Put(&'a [u8]),
    /// Replaces its value including such columns: UPDATE.
    PutKeys(&'a [u8]),
    /// Deletes it.
    Delete,
    /// Deletes it and records the key under which it continues.
    MoveTo(&'a [u8]),
    /// Locks it.
    Lock(LockStrength),
}

impl Change<'_> {
    /// Returns the length of the value that the change leaves; `None` if it leaves the row's state unchanged.
    pub(crate) const fn value_bytes(&self) -> Option<usize> {
        match self {
            Self::Put(value) | Self::PutKeys(value) => Some(value.len()),
            Self::Delete | Self::MoveTo(_) => Some(0),
            Self::Lock(_) => None,
        }
    }

    /// Returns the strength with which the transaction that makes the change holds the row.
    pub const fn strength(&self) -> LockStrength {
        match self {
            Self::Put(_) => LockStrength::NoKeyUpdate,
            Self::PutKeys(_) | Self::Delete | Self::MoveTo(_) => LockStrength::Update,
            Self::Lock(strength) => *strength,
        }
    }
}

/// The outcome of a write or a lock.
#[derive(Debug)]
#[must_use]
pub enum WriteOutcome {
    /// The new version is in place.
    Done(Pending),
    /// The row is locked in shared strength.
    Shared(ShareLock),
    /// The transaction already holds the row strongly enough; nothing was added.
    Held,
    /// This unfinished transaction holds the row, perhaps as one of several.
    Wait(Xid),
    /// A newer value was committed.
    Changed {
        /// Where it was committed.
        csn: Lsn,
        /// The value.
        value: Arc<[u8]>,
    },
    /// The row was moved to another key after the snapshot.
    Moved {
        /// Where the move was committed.
        csn: Lsn,
        /// The new key.
        key: Box<[u8]>,
    },
    /// There is no such row. Holds the position of the deletion when that is not in view.
    Gone(Option<Lsn>),
    /// A newer version was committed at this position, and `repeatable` forbids a write on top of it.
    Conflict(Lsn),
    /// The same command has already written the row.
    SelfModified,
    /// The row left the index: the caller must look the key up again.
    Dead,
}

/// The origin of the newest version of a row, from the point of view of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The transaction that was committed at this position.
    Committed(Lsn),
    /// An earlier command of the writer's transaction.
    EarlierCommand,
    /// The command that is writing now.
    ThisCommand,
}

/// The outcome of an insert.
#[derive(Debug)]
#[must_use]
pub enum InsertOutcome {
    /// The row is in place.
    Done(Pending),
    /// The row is in place, over a row whose deletion was committed but is not in view.
    DoneAfter {
        /// The row.
        pending: Pending,
        /// Where the deletion was committed.
        csn: Lsn,
    },
    /// This unfinished transaction holds the key.
    Wait(Xid),
    /// A live row has the key. Locks on it do not matter, whichever transaction holds them.
    Duplicate {
        /// The origin of its newest value.
        origin: Origin,
        /// That value.
        value: Arc<[u8]>,
    },
    /// The row of this key was deleted at this position, above the snapshot, and `repeatable` forbids an insert on
    /// top of it.
    Conflict(Lsn),
    /// The row left the index: the caller must look the key up again.
    Dead,
}

/// The outcome of a put, which stores a value whether or not a row exists.
#[derive(Debug)]
#[must_use]
pub enum PutOutcome {
    /// The value is in place.
    Done {
        /// Its version.
        pending: Pending,
        /// Whether it replaced the value of a live row, as [`Change::Put`] does. Otherwise it created the row.
        replaced: bool,
        /// The newest commit below it, when that commit is not in view.
        after: Option<Lsn>,
    },
    /// This unfinished transaction holds the row or its key, perhaps as one of several.
    Wait {
        /// That transaction.
        holder: Xid,
        /// The strength with which the put would hold the row.
        strength: LockStrength,
    },
    /// A newer state was committed at this position, and `repeatable` forbids a write on top of it.
    Conflict(Lsn),
    /// The row left the index: the caller must look the key up again.
    Dead,
}

/// The outcome of an attempt to remove a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Removal {
    /// The row is dead: the caller must take it out of the index.
    Dead {
        /// Bytes of old versions that were freed with it.
        bytes: u64,
        /// The part of `bytes` that the versions themselves occupied.
        version_bytes: u64,
    },
    /// It is live, or a reader may still see it.
    Alive,
    /// It is deleted, but the LSM tree may hold a value of it: a flush must come first.
    OnDisk,
    /// Another thread is pruning it: the caller should try again later.
    Busy,
}

/// The result of pruning a row: the remaining versions, and why they remain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Pruned {
    /// Number of versions that are still linked.
    pub left: u32,
    /// Bytes of old versions that were freed.
    pub bytes: u64,
    /// The part of `bytes` that the versions themselves occupied; for a deletion, `bytes` includes the row as
    /// well.
    pub(crate) version_bytes: u64,
    /// Why an old version remains; `None` if none does.
    pub kept: Option<Kept>,
}

/// Why an old version remains, and so what must happen before another attempt can free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// This snapshot may read it.
    By(Lsn),
    /// It was superseded at this position, which is at or above the position where new snapshots start.
    Until(Lsn),
    /// An ended transaction has not stamped one of the versions yet.
    Unfinished,
}

impl Pruned {
    /// Notes why a version remains; called from the newest version down. The reason that ends soonest wins; among
    /// readers, the one of the newest version.
    pub(crate) fn keep(&mut self, why: Kept) {
        self.kept = Some(match (self.kept, why) {
            (Some(Kept::Unfinished), _) | (_, Kept::Unfinished) => Kept::Unfinished,
            (Some(Kept::Until(a)), Kept::Until(b)) => Kept::Until(a.min(b)),
            (Some(until @ Kept::Until(_)), _) | (_, until @ Kept::Until(_)) => until,
            (Some(first), _) => first,
            (None, why) => why,
        });
    }
}
