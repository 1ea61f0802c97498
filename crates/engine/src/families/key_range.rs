//! [`KeyRange`]: a range of the keys of a family.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use collie_store::Span;

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

    /// Returns the part of the range that comes strictly after `after` in the given direction.
    pub(crate) fn span<'a>(&'a self, after: Option<&'a [u8]>, reverse: bool) -> Span<'a> {
        let bound = |bound: &'a Bound<Vec<u8>>| bound.as_ref().map(Vec::as_slice);
        let span = Span { start: bound(&self.start), end: bound(&self.end), reverse };
        after.map_or(span, |key| span.after(key))
    }

    /// Returns the range of the keys that begin with `prefix`, which may be empty.
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
