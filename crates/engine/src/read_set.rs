//! `ReadSet`: the keys and ranges of keys that an open SERIALIZABLE transaction has read, within bounded memory.
//!
//! It holds no values and no versions. The transaction has one snapshot, so what it read is unchanged exactly if nothing
//! was committed to these keys at or above that snapshot, and rows can say so: the newest committed version of a row stays
//! as long as the snapshot is held, a deletion included, and a key that was never there has none. This finds inserts into a
//! range, deletions from it, and rows that were moved into it. Own versions are unfinished until the commit, so they never
//! count; below one of them nothing newer than the snapshot can lie, else the write had failed.
//!
//! # Invariants
//! - D1. Every key of which a call told the caller something, presence or absence, lies in a piece. What was not read may
//!   lie in one as well (D3): that can cost a retry, never a wrong answer.
//! - D2. `bytes` is the size of all pieces and at most `limit` after a call that returned `Ok`.
//! - D3. At the limit, pieces that overlap or touch are joined; where that does not make it half empty, neighbours are
//!   joined two by two, gaps included, in the family that has most of them. What is left is one range per family.
//! - D4. The catalog is not in it: definitions are read under table locks, which a change of them waits for, so none of
//!   those that the transaction relied on has changed when it commits.
//!
//! Progress: keeping a read is a push; joining is a sort, paid for by the pushes that filled the half. Checked by the tests
//! below against a plain set of keys, and by `serial_tests.rs`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use collie_base::{CfId, Lsn};
use collie_store::{Resolve, Span};
use collie_sync::mutant;

use crate::EngineError;
use crate::families::Families;
use crate::planted::is_planted;

/// What one transaction may keep: about 50,000 keys of 16 bytes, which take some ten milliseconds to validate.
const BYTES_MAX: usize = 4 << 20;

/// Keys that one part of a look takes in.
const PART_KEYS: usize = 1_024;
/// What a part of a range counts for.
const RANGE_KEYS: usize = 64;

type Key = Box<[u8]>;

/// How far a look at everything that was read has come.
#[derive(Debug)]
pub(crate) struct Look {
    family: CfId,
    /// Pieces of it that were looked at.
    piece: usize,
    /// The last key that was looked at of the next piece.
    after: Option<Vec<u8>>,
}

impl Default for Look {
    fn default() -> Self {
        Self { family: CfId::CATALOG, piece: 0, after: None }
    }
}

/// Keys that were read.
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
    /// Whether the caller was told of a commit that its snapshot does not show: that is no state of any moment.
    beyond: bool,
    /// How often something was read that was not in it: for who has looked at all of it.
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

    /// Keeps that `key` was read, or found absent.
    ///
    /// # Errors
    /// [`EngineError::TransactionLimit`] when the limit is reached with one range for each family.
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

    /// Keeps that every key of `span` was looked for, up to `stop` in its direction where the scan stopped there.
    ///
    /// # Errors
    /// As [`ReadSet::read_key`].
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
        // The next batch of a scan begins where the last one ended.
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

    /// Keeps that `key` was found taken by the commit at `csn`, which lies at or above the snapshot or below it.
    ///
    /// # Errors
    /// [`EngineError::ReadChanged`] when the transaction had read the key before, and so in another state.
    pub(crate) fn found_taken(&mut self, cf: CfId, key: &[u8], csn: Lsn, snapshot: Lsn) -> Result<(), EngineError> {
        if csn >= snapshot && !is_planted("later duplicates are forgotten") {
            self.beyond = true;
            if self.holds(cf, key) {
                return Err(EngineError::ReadChanged);
            }
        }
        self.read_key(cf, key)
    }

    /// Keeps that the versions at `keys` were there and are taken back: that they could be written told the caller whether
    /// there were rows, and nothing holds others off any more.
    ///
    /// # Errors
    /// As [`ReadSet::read_key`].
    pub(crate) fn undone<'k>(&mut self, keys: impl Iterator<Item = (CfId, &'k [u8])>) -> Result<(), EngineError> {
        if is_planted("undone writes are forgotten") {
            return Ok(());
        }
        for (cf, key) in keys {
            self.read_key(cf, key)?;
        }
        Ok(())
    }

    /// Keeps that the caller is about to read at a later snapshot than its own.
    pub(crate) fn sees_beyond(&mut self) {
        self.beyond = true;
    }

    /// Returns whether the caller was told of a commit that its snapshot does not show: such a transaction must not even
    /// commit nothing.
    pub(crate) const fn saw_beyond(&self) -> bool {
        self.beyond
    }

    /// Returns the place of a commit at or above `snapshot` to something that was read. Looks at each key and at every row
    /// of each range.
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

    /// Returns whether it is so little that one look at it, under the lock of validation, takes less than a millisecond.
    pub(crate) fn is_small(&self, snapshot: Lsn, families: &Families, fates: &impl Resolve) -> bool {
        let pieces: usize = self.families.values().map(Vec::len).sum();
        let is_one = |piece: &Piece| matches!(piece, Piece::One(_));
        pieces <= PART_KEYS
            && (self.families.values().flatten().all(is_one)
                || self.look_on(&mut Look::default(), snapshot, families, fates).is_some())
    }

    /// Returns how often something was read that was not in it.
    pub(crate) const fn grown(&self) -> u64 {
        self.grown
    }

    /// Brings the pieces into order, for looks at single keys: nothing is read any more.
    pub(crate) fn sort(&mut self) {
        self.families.values_mut().for_each(join_touching);
        self.count();
    }

    /// As [`ReadSet::holds`], after [`ReadSet::sort`].
    pub(crate) fn holds_sorted(&self, cf: CfId, key: &[u8]) -> bool {
        let Some(pieces) = self.families.get(&cf) else { return false };
        let after = pieces.partition_point(|piece| by_start(piece.start(), Bound::Included(key)).is_le());
        after > 0 && pieces[after - 1].holds(key)
    }

    /// Goes on with a look at everything that was read, by about a millisecond of work. Returns what [`ReadSet::changed_since`] does
    /// once all was looked at, or something has changed; `None` before.
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

    /// Whether no key lies between the end of this piece and the start of `next`, if that comes later.
    fn touches(&self, next: &Self) -> bool {
        match (self.end(), next.start()) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Excluded(end), Bound::Excluded(start)) => start < end,
            (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
                start <= end
            }
        }
    }

    /// The smallest piece that has the keys of both, and what lies between them.
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

/// The order of lower ends: what begins earlier is less.
fn by_start(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Unbounded => (None, false),
        Bound::Included(key) => (Some(key), false),
        Bound::Excluded(key) => (Some(key), true),
    };
    place(a).cmp(&place(b))
}

/// The order of upper ends: what ends earlier is less.
fn by_end(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    let place = |bound| match bound {
        Bound::Excluded(key) => (false, Some(key), false),
        Bound::Included(key) => (false, Some(key), true),
        Bound::Unbounded => (true, None, false),
    };
    place(a).cmp(&place(b))
}

/// Joins pieces that overlap or have nothing between them; leaves them in order.
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

/// Joins the first piece with the second, the third with the fourth, and so on. They are in order.
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
#[path = "read_set_tests.rs"]
mod tests;
