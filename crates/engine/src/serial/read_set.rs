//! `ReadSet`: the keys and key ranges that an open SERIALIZABLE transaction has read, in bounded memory.
//!
//! It holds no values and no versions. The transaction has one snapshot, so its reads are unchanged exactly if no
//! transaction committed to these keys at or above that snapshot. The rows can answer this: the newest committed
//! version of a row, even a deletion, stays as long as the snapshot is held, and a key that never existed has none.
//! This detects inserts into a range, deletions from it, and rows that moved into it. The transaction's own
//! versions are unfinished until the commit and so never count; below one of them there is no version newer than
//! the snapshot, since otherwise the write would have failed.
//!
//! # Invariants
//! - D1. Every key of which a call revealed presence or absence to the caller is in a piece. A piece may also
//!   contain keys that were not read (D3): that can cost a retry, never a wrong answer.
//! - D2. `bytes` is the size of all pieces, and at most `limit` after a call that returned `Ok`.
//! - D3. At the limit, pieces that overlap or touch are joined. If the set is then more than half full, neighbours
//!   are joined in pairs, gaps included, in the family that has the most pieces, until one range per family
//!   remains.
//! - D4. The catalog is not in the set: definitions are read under table locks, for which a change of them waits,
//!   so no definition that the transaction relied on has changed when it commits.
//!
//! Progress: adding a read is a push; joining is a sort, paid for by the pushes that filled half of the set.
//! Checked by the tests below against a plain set of keys, and by `serial_tests.rs`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use collie_base::{CfId, Lsn};
use collie_store::{Resolve, Span};
use collie_sync::mutant;

use crate::EngineError;
use crate::families::Families;
use crate::planted::is_planted;

/// Size limit of the set of one transaction: about 50,000 keys of 16 bytes, which take some ten milliseconds to
/// validate.
const BYTES_MAX: usize = 4 << 20;

/// Number of keys that one step of a validation examines.
const PART_KEYS: usize = 1_024;
/// Number of keys as which one step within a range counts.
const RANGE_KEYS: usize = 64;

type Key = Box<[u8]>;

/// The progress of a validation that examines the whole set in steps.
#[derive(Debug)]
pub(crate) struct Look {
    family: CfId,
    /// Number of pieces of the family that were examined.
    piece: usize,
    /// The last key of the next piece that was examined.
    after: Option<Vec<u8>>,
}

impl Default for Look {
    fn default() -> Self {
        Self { family: CfId::CATALOG, piece: 0, after: None }
    }
}

/// A key or a range of keys that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    One(Key),
    Range(Bound<Key>, Bound<Key>),
}

/// The keys that one transaction has read.
#[derive(Debug)]
pub(crate) struct ReadSet {
    families: BTreeMap<CfId, Vec<Piece>>,
    bytes: usize,
    limit: usize,
    /// Whether a call revealed a commit that the snapshot does not show: the reads are then not the state at any
    /// one moment.
    beyond: bool,
    /// Number of additions to the set, by which a finished validation recognizes later reads.
    grown: u64,
}

impl Default for ReadSet {
    fn default() -> Self {
        Self::within(BYTES_MAX)
    }
}

impl ReadSet {
    const fn within(limit: usize) -> Self {
        Self { families: BTreeMap::new(), bytes: 0, limit, beyond: false, grown: 0 }
    }

    /// Adds `key`, which was read or found absent.
    ///
    /// # Errors
    /// [`EngineError::TransactionLimit`] if the set reaches the limit with one range for each family.
    pub(crate) fn read_key(&mut self, cf: CfId, key: &[u8]) -> Result<(), EngineError> {
        if cf == CfId::CATALOG || is_planted("keys are not kept") {
            return Ok(()); // D4
        }
        let pieces = self.families.entry(cf).or_default();
        if pieces.last().is_some_and(|last| last.holds(key)) {
            return Ok(());
        }
        let piece = Piece::One(key.into());
        self.grown += 1;
        self.bytes += piece.bytes();
        pieces.push(piece);
        self.make_room()
    }

    /// Adds every key of `span`, in its direction up to and including `stop` if the scan stopped there.
    ///
    /// # Errors
    /// Those of [`ReadSet::read_key`].
    pub(crate) fn read_range(&mut self, cf: CfId, span: Span<'_>, stop: Option<&[u8]>) -> Result<(), EngineError> {
        if cf == CfId::CATALOG || span.is_empty() || is_planted("ranges are not kept") || mutant!("RANGES_NOT_KEPT") {
            return Ok(()); // D4
        }
        let (start, end) = match stop {
            Some(key) if span.reverse => (Bound::Included(key), span.end),
            Some(key) => (span.start, Bound::Included(key)),
            None => (span.start, span.end),
        };
        let piece = Piece::Range(start.map(Key::from), end.map(Key::from));
        self.grown += 1;
        let pieces = self.families.entry(cf).or_default();
        // The next batch of a scan begins where the previous one ended.
        match pieces.last_mut().filter(|last| last.touches(&piece) && piece.touches(last)) {
            Some(last) => {
                self.bytes -= last.bytes();
                *last = std::mem::replace(last, Piece::Range(Bound::Unbounded, Bound::Unbounded)).hull(piece);
                self.bytes += last.bytes();
            }
            None => {
                self.bytes += piece.bytes();
                pieces.push(piece);
            }
        }
        self.make_room()
    }

    /// Adds `key`, at which an insert found a row of the commit `csn`, which may be below the snapshot or not.
    ///
    /// # Errors
    /// [`EngineError::ReadChanged`] if `csn` is not below the snapshot and the transaction had already read the
    /// key, and so in another state.
    pub(crate) fn found_taken(&mut self, cf: CfId, key: &[u8], csn: Lsn, snapshot: Lsn) -> Result<(), EngineError> {
        if csn >= snapshot && !is_planted("later duplicates are forgotten") {
            self.beyond = true;
            if self.holds(cf, key) {
                return Err(EngineError::ReadChanged);
            }
        }
        self.read_key(cf, key)
    }

    /// Adds the keys of own versions that are undone: the success of these writes revealed whether there were rows,
    /// and the versions no longer keep other writers off.
    ///
    /// # Errors
    /// Those of [`ReadSet::read_key`].
    pub(crate) fn undone<'k>(&mut self, keys: impl Iterator<Item = (CfId, &'k [u8])>) -> Result<(), EngineError> {
        if is_planted("undone writes are forgotten") {
            return Ok(());
        }
        for (cf, key) in keys {
            self.read_key(cf, key)?;
        }
        Ok(())
    }

    /// Notes that the caller is about to read at a snapshot later than its own.
    pub(crate) fn sees_beyond(&mut self) {
        self.beyond = true;
    }

    /// Returns whether a call revealed a commit that the snapshot does not show. Such a transaction must not commit
    /// even if it wrote nothing.
    pub(crate) const fn saw_beyond(&self) -> bool {
        self.beyond
    }

    /// Returns the CSN of a commit at or above `snapshot` to a key of the set, if there is one. Examines each key
    /// and every row of each range.
    pub(crate) fn changed_since(&self, snapshot: Lsn, families: &Families, fates: &impl Resolve) -> Option<Lsn> {
        if is_planted("nothing is validated") || mutant!("READS_NOT_VALIDATED") {
            return None;
        }
        self.families.iter().find_map(|(cf, pieces)| {
            let family = families.get(*cf)?;
            pieces.iter().find_map(|piece| match piece {
                Piece::One(key) => family.changed_since(key, snapshot, fates),
                Piece::Range(..) => {
                    let span = Span { start: piece.start(), end: piece.end(), reverse: false };
                    family.any_changed_since(span, snapshot, fates)
                }
            })
        })
    }

    /// Returns whether the set is so small that examining it under the validation mutex takes less than a
    /// millisecond.
    pub(crate) fn is_small(&self, snapshot: Lsn, families: &Families, fates: &impl Resolve) -> bool {
        let pieces: usize = self.families.values().map(Vec::len).sum();
        let is_one = |piece: &Piece| matches!(piece, Piece::One(_));
        pieces <= PART_KEYS
            && (self.families.values().flatten().all(is_one)
                || self.look_on(&mut Look::default(), snapshot, families, fates).is_some())
    }

    /// Returns the number of additions to the set.
    pub(crate) const fn grown(&self) -> u64 {
        self.grown
    }

    /// Sorts the pieces for [`ReadSet::holds_sorted`]; the caller reads nothing after this.
    pub(crate) fn sort(&mut self) {
        self.families.values_mut().for_each(join_touching);
        self.count();
    }

    /// Does the same as [`ReadSet::holds`], after [`ReadSet::sort`].
    pub(crate) fn holds_sorted(&self, cf: CfId, key: &[u8]) -> bool {
        let Some(pieces) = self.families.get(&cf) else { return false };
        let after = pieces.partition_point(|piece| by_start(piece.start(), Bound::Included(key)).is_le());
        after > 0 && pieces[after - 1].holds(key)
    }

    /// Continues a validation of the whole set by about a millisecond of work. Returns the result of
    /// [`ReadSet::changed_since`] once everything has been examined or a change was found; `None` before that.
    pub(crate) fn look_on(
        &self,
        look: &mut Look,
        snapshot: Lsn,
        families: &Families,
        fates: &impl Resolve,
    ) -> Option<Option<Lsn>> {
        let mut left = PART_KEYS;
        for (cf, pieces) in self.families.range(look.family..) {
            if *cf != look.family {
                *look = Look { family: *cf, ..Look::default() };
            }
            let Some(family) = families.get(*cf) else { continue };
            while let Some(piece) = pieces.get(look.piece) {
                if left == 0 {
                    return None;
                }
                let span = Span { start: piece.start(), end: piece.end(), reverse: false };
                let changed = match piece {
                    Piece::One(key) => {
                        left -= 1;
                        Ok(family.changed_since(key, snapshot, fates))
                    }
                    Piece::Range(..) => {
                        left = left.saturating_sub(RANGE_KEYS);
                        let from = look.after.as_deref().map_or(span, |key| span.after(key));
                        family.first_changed_since(from, snapshot, fates)
                    }
                };
                match changed {
                    Ok(None) => (look.piece, look.after) = (look.piece + 1, None),
                    Ok(changed) => return Some(changed),
                    Err(after) => look.after = Some(after),
                }
            }
        }
        Some(None)
    }

    fn holds(&self, cf: CfId, key: &[u8]) -> bool {
        self.families.get(&cf).is_some_and(|pieces| pieces.iter().any(|piece| piece.holds(key)))
    }

    fn make_room(&mut self) -> Result<(), EngineError> {
        if self.bytes <= self.limit {
            return Ok(());
        }
        self.families.values_mut().for_each(join_touching);
        self.count();
        while self.bytes > self.limit / 2 {
            let most = self.families.values_mut().max_by_key(|pieces| pieces.len());
            let Some(pieces) = most.filter(|pieces| pieces.len() > 1) else { break };
            join_neighbours(pieces);
            self.count();
        }
        if self.bytes > self.limit {
            return Err(EngineError::TransactionLimit {
                what: "transaction has read too many tables for SERIALIZABLE",
            });
        }
        Ok(())
    }

    fn count(&mut self) {
        self.bytes = self.families.values().flatten().map(Piece::bytes).sum();
    }
}

impl Piece {
    fn start(&self) -> Bound<&[u8]> {
        match self {
            Self::One(key) => Bound::Included(key),
            Self::Range(start, _) => start.as_ref().map(|key| &**key),
        }
    }

    fn end(&self) -> Bound<&[u8]> {
        match self {
            Self::One(key) => Bound::Included(key),
            Self::Range(_, end) => end.as_ref().map(|key| &**key),
        }
    }

    fn holds(&self, key: &[u8]) -> bool {
        let after_start = match self.start() {
            Bound::Included(at) => key >= at,
            Bound::Excluded(at) => key > at,
            Bound::Unbounded => true,
        };
        after_start
            && match self.end() {
                Bound::Included(at) => key <= at,
                Bound::Excluded(at) => key < at,
                Bound::Unbounded => true,
            }
    }

    /// Returns whether there is no key between the end of this piece and the start of `next`, if that is later.
    fn touches(&self, next: &Self) -> bool {
        match (self.end(), next.start()) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Excluded(end), Bound::Excluded(start)) => start < end,
            (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
                start <= end
            }
        }
    }

    /// Returns the smallest piece that contains both, gap included.
    fn hull(self, other: Self) -> Self {
        let (first, second) = if by_start(self.start(), other.start()).is_le() { (self, other) } else { (other, self) };
        if first == second {
            return first;
        }
        let second_ends = by_end(first.end(), second.end()).is_lt();
        let ((start, first_end), (_, second_end)) = (first.into_bounds(), second.into_bounds());
        Self::Range(start, if second_ends { second_end } else { first_end })
    }

    fn into_bounds(self) -> (Bound<Key>, Bound<Key>) {
        match self {
            Self::One(key) => (Bound::Included(key.clone()), Bound::Included(key)),
            Self::Range(start, end) => (start, end),
        }
    }

    fn bytes(&self) -> usize {
        let bound = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        size_of::<Self>()
            + match self {
                Self::One(key) => key.len(),
                Self::Range(..) => bound(self.start()) + bound(self.end()),
            }
    }
}

/// Orders lower bounds: the one that begins earlier is less.
fn by_start(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Unbounded => (None, false),
        Bound::Included(key) => (Some(key), false),
        Bound::Excluded(key) => (Some(key), true),
    };
    place(a).cmp(&place(b))
}

/// Orders upper bounds: the one that ends earlier is less.
fn by_end(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Excluded(key) => (false, Some(key), false),
        Bound::Included(key) => (false, Some(key), true),
        Bound::Unbounded => (true, None, false),
    };
    place(a).cmp(&place(b))
}

/// Joins pieces that overlap or have nothing between them; leaves the pieces sorted.
fn join_touching(pieces: &mut Vec<Piece>) {
    pieces.sort_unstable_by(|a, b| by_start(a.start(), b.start()));
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces.drain(..) {
        match joined.pop() {
            Some(last) if last.touches(&piece) => joined.push(last.hull(piece)),
            last => {
                joined.extend(last);
                joined.push(piece);
            }
        }
    }
    *pieces = joined;
}

/// Joins the first piece with the second, the third with the fourth, and so on. The pieces must be sorted.
fn join_neighbours(pieces: &mut Vec<Piece>) {
    let mut joined = Vec::with_capacity(pieces.len().div_ceil(2));
    let mut rest = pieces.drain(..);
    while let Some(first) = rest.next() {
        joined.push(match rest.next() {
            Some(second) => first.hull(second),
            None => first,
        });
    }
    drop(rest);
    *pieces = joined;
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
