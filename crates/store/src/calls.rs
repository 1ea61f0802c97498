//! The plain values that writes take and give: what is seen, what is to be done, what came of it.
//!
//! Holds no state; who decides is `row.rs`.

use std::sync::Arc;

use collie_base::{LockStrength, Lsn, Xid};

use crate::row::{Pending, ShareLock};

/// What a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Commits strictly below are seen.
    pub snapshot: Lsn,
    /// The transaction whose own versions are seen as well, if it has an id.
    pub me: Option<Xid>,
    /// The command: own versions of lower ones are seen.
    pub command: u32,
}

/// How a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRules {
    /// The writer.
    pub xid: Xid,
    /// Whether a version committed since the snapshot is a conflict (REPEATABLE READ) or shown to the caller.
    pub repeatable: bool,
}

/// Which version a write was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The one in view.
    Snapshot,
    /// The one committed at this position.
    After(Lsn),
}

/// What to do to an existing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Replace its value, which keeps the columns that other rows may refer to: NO KEY UPDATE.
    Put(&'a [u8]),
    /// Replace its value and with it such columns: UPDATE.
    PutKeys(&'a [u8]),
    /// Delete it.
    Delete,
    /// Delete it and leave the key it lives on under.
    MoveTo(&'a [u8]),
    /// Hold it.
    Lock(LockStrength),
}

impl Change<'_> {
    /// Returns how many bytes of value it leaves; `None`: it leaves the row's state as it was.
    pub(crate) const fn value_bytes(&self) -> Option<usize> {
        match self {
            Self::Put(value) | Self::PutKeys(value) => Some(value.len()),
            Self::Delete | Self::MoveTo(_) => Some(0),
            Self::Lock(_) => None,
        }
    }

    /// Returns how strongly the row is held by who makes the change.
    pub const fn strength(&self) -> LockStrength {
        match self {
            Self::Put(_) => LockStrength::NoKeyUpdate,
            Self::PutKeys(_) | Self::Delete | Self::MoveTo(_) => LockStrength::Update,
            Self::Lock(strength) => *strength,
        }
    }
}

/// What came of a write or a lock.
#[derive(Debug)]
#[must_use]
pub enum WriteOutcome {
    /// The new version is in place.
    Done(Pending),
    /// The row is held in shared strength.
    Shared(ShareLock),
    /// The row is held already, strongly enough; nothing was added.
    Held,
    /// This unfinished transaction holds the row, as one of several perhaps.
    Wait(Xid),
    /// A newer value was committed.
    Changed {
        /// Where.
        csn: Lsn,
        /// The value.
        value: Arc<[u8]>,
    },
    /// The row was moved to another key after the snapshot.
    Moved {
        /// Where in the order.
        csn: Lsn,
        /// The key.
        key: Box<[u8]>,
    },
    /// There is no such row; with the commit that deleted it when that is not in view.
    Gone(Option<Lsn>),
    /// A newer version was committed at this position and `repeatable` forbids to follow it.
    Conflict(Lsn),
    /// This command wrote the row already.
    SelfModified,
    /// The row left the index: look the key up again.
    Dead,
}

/// Who made the newest version of a row, as a writer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The transaction that was committed at this position.
    Committed(Lsn),
    /// An earlier command of the writer's transaction.
    EarlierCommand,
    /// The command that writes now.
    ThisCommand,
}

/// What came of an insert.
#[derive(Debug)]
#[must_use]
pub enum InsertOutcome {
    /// The row is in place.
    Done(Pending),
    /// The row is in place, where a commit that is not in view had deleted one.
    DoneAfter {
        /// The row.
        pending: Pending,
        /// Where the deletion was committed.
        csn: Lsn,
    },
    /// This unfinished transaction holds the key.
    Wait(Xid),
    /// A live row has the key. A lock on it, of whomever, does not count.
    Duplicate {
        /// Whose its newest value is.
        origin: Origin,
        /// That value.
        value: Arc<[u8]>,
    },
    /// The key was freed at this position, above the snapshot, and `repeatable` forbids to follow it.
    Conflict(Lsn),
    /// The row left the index: look the key up again.
    Dead,
}

/// What came of putting a value whatever is there.
#[derive(Debug)]
#[must_use]
pub enum PutOutcome {
    /// The value is in place.
    Done {
        /// Its version.
        pending: Pending,
        /// Whether it replaced one of a row that lives: [`Change::Put`]. Else the row came to be.
        replaced: bool,
        /// The newest commit below it, when that is not in view.
        after: Option<Lsn>,
    },
    /// This unfinished transaction holds the row, or its key, as one of several perhaps.
    Wait {
        /// Who.
        holder: Xid,
        /// How strongly it would be held by who puts.
        strength: LockStrength,
    },
    /// A newer state was committed at this position and `repeatable` forbids to follow it.
    Conflict(Lsn),
    /// The row left the index: look the key up again.
    Dead,
}

/// What came of trying to remove a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Removal {
    /// It is dead: take it out of the index.
    Dead {
        /// Bytes of old versions that went with it.
        bytes: u64,
        /// Bytes of the versions themselves among them.
        version_bytes: u64,
    },
    /// It lives, or somebody may still see it.
    Alive,
    /// It is deleted, and the levels may hold a value of it: a flush comes first.
    OnDisk,
    /// Another thread prunes it: try later.
    Busy,
}

/// What pruning a row left, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Pruned {
    /// Versions linked now.
    pub left: u32,
    /// Bytes of old versions that were freed.
    pub bytes: u64,
    /// Bytes of the versions themselves among them: a deletion counts for its row too in `bytes`.
    pub(crate) version_bytes: u64,
    /// Why something old was left; `None`: nothing was.
    pub kept: Option<Kept>,
}

/// Why an old version stays: what has to happen before another look is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// This snapshot may read it.
    By(Lsn),
    /// It was superseded here, at or above where new snapshots start.
    Until(Lsn),
    /// A transaction that has ended has yet to stamp one.
    Unfinished,
}

impl Pruned {
    /// Notes why a version stays, from the newest down: what ends soonest counts, then the newest.
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
