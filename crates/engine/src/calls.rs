//! The plain values that calls of a session take and give: what to write, what came of it, where a scan ends.
//!
//! Holds no state and knows no log, map or row.

use std::ops::{Bound, Deref, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::sync::Arc;

use collie_base::{LockStrength, Lsn};
use collie_store::{Origin, Span};
use collie_txn::Blocker;

/// Which version the caller computed its write from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The version visible at the statement's snapshot, or one of the transaction's own.
    Snapshot,
    /// The version committed at this position, given by [`Outcome::Changed`].
    After(Lsn),
}

/// What a statement that judges constraints sees besides the transaction's own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// What any statement of the transaction sees.
    Snapshot,
    /// Every commit that was published when it began, at every level.
    Newest,
}

/// What to do to an existing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Replace the value by one that agrees with it in all that other rows may refer to. Holds the row as
    /// [`LockStrength::NoKeyUpdate`] does: who refers to it goes on.
    Put(&'a [u8]),
    /// Replace the value, and with it what other rows may refer to. Holds the row as [`LockStrength::Update`] does, like
    /// every change below.
    PutKeys(&'a [u8]),
    /// Remove the row.
    Delete,
    /// Hold the row without changing it.
    Lock(LockStrength),
    /// Remove the row and leave word that it lives on under another key.
    MoveTo {
        /// The key it lives on under.
        new_key: &'a [u8],
    },
}

/// What came of a write to an existing row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The write is in the transaction.
    Done,
    /// An unfinished transaction holds the row, as one of several perhaps: wait for it, then call again with the same
    /// basis.
    Wait(Blocker),
    /// A newer version was committed: evaluate on it, then write with [`Basis::After`] its position.
    Changed {
        /// Where it was committed.
        csn: Lsn,
        /// Its value.
        row: RowBytes,
    },
    /// The row was deleted, or never was.
    Gone,
    /// The row lives on under this key.
    Moved(Vec<u8>),
    /// This command wrote the row already.
    SelfModified,
}

/// What came of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Insert {
    /// The row is in the transaction.
    Done,
    /// A live row has this key.
    Duplicate(Existing),
    /// An unfinished transaction holds the key: wait for it, then call again.
    Wait(Blocker),
}

/// The live row that an insert met. To change it, ask [`crate::Session::basis_on`] what to base the write on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Whose its newest value is.
    pub origin: Origin,
    /// That value.
    pub row: RowBytes,
}

/// The value of a row: shared with the row, so cloning copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBytes(pub(crate) Arc<[u8]>);

impl Deref for RowBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for RowBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A range of keys, compared bytewise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower end.
    pub start: Bound<Vec<u8>>,
    /// The upper end.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// The part of the range that comes strictly after `after` in the direction asked for.
    pub(crate) fn span<'a>(&'a self, after: Option<&'a [u8]>, reverse: bool) -> Span<'a> {
        let bound = |bound: &'a Bound<Vec<u8>>| bound.as_ref().map(Vec::as_slice);
        let span = Span { start: bound(&self.start), end: bound(&self.end), reverse };
        after.map_or(span, |key| span.after(key))
    }

    /// The keys that begin with `prefix`, which may be empty.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if let Some(next) = last.checked_add(1) {
                end.push(next);
                return Self { start: Bound::Included(prefix.to_vec()), end: Bound::Excluded(end) };
            }
        }
        Self { start: Bound::Included(prefix.to_vec()), end: Bound::Unbounded }
    }
}

impl<K: AsRef<[u8]>> From<Range<K>> for KeyRange {
    fn from(range: Range<K>) -> Self {
        Self { start: Bound::Included(owned(range.start)), end: Bound::Excluded(owned(range.end)) }
    }
}

impl<K: AsRef<[u8]>> From<RangeInclusive<K>> for KeyRange {
    fn from(range: RangeInclusive<K>) -> Self {
        let (start, end) = range.into_inner();
        Self { start: Bound::Included(owned(start)), end: Bound::Included(owned(end)) }
    }
}

impl<K: AsRef<[u8]>> From<RangeFrom<K>> for KeyRange {
    fn from(range: RangeFrom<K>) -> Self {
        Self { start: Bound::Included(owned(range.start)), end: Bound::Unbounded }
    }
}

impl<K: AsRef<[u8]>> From<RangeTo<K>> for KeyRange {
    fn from(range: RangeTo<K>) -> Self {
        Self { start: Bound::Unbounded, end: Bound::Excluded(owned(range.end)) }
    }
}

impl<K: AsRef<[u8]>> From<RangeToInclusive<K>> for KeyRange {
    fn from(range: RangeToInclusive<K>) -> Self {
        Self { start: Bound::Unbounded, end: Bound::Included(owned(range.end)) }
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> Self {
        Self::ALL
    }
}

fn owned(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().to_vec()
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// Every key of the range was looked at.
    Exhausted,
    /// The limit was reached, or the visitor stopped: go on after this key.
    More(Vec<u8>),
}

/// A place in a transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(crate) txn: collie_txn::Mark,
    pub(crate) ops: u64,
    pub(crate) writes: u64,
}

/// What a finished commit tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Where the transaction was committed; `None` when it wrote nothing.
    pub csn: Option<Lsn>,
    /// Where its commit record ends: snapshots at or above show it. `None` when it wrote nothing.
    pub end: Option<Lsn>,
}
