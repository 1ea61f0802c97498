//! `Unflushed`: the rows of a family whose newest state the LSM levels may lack, listed by the threads that wrote them.
//!
//! # Invariants
//! - U1. Only the thread that set a row's mark lists the row, right after setting it (L1 of the rows' flush). A thread
//!   that took the lists and left the marks gives the rows back.
//! - U2. `since` is at or below the log position of every record that the listed rows need, except records of chunks:
//!   it is a position that the log had reached before their writers wrote. Taking the lists takes it along; it still
//!   counts for the family until the taken rows are settled, so that a caller in between does not see a family that
//!   needs no log.
//!
//! Progress: listing waits for one short mutex. Another thread holds it only if there are more threads than lists, or
//! while a flush takes them.

use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{Mutex, Padded, mutant, stripe_below};

use crate::row::Row;

/// Number of lists: up to this many threads that write at one time list their rows separately.
const LISTS: usize = if cfg!(loom) { 1 } else { 8 };

/// Bytes that a listed row counts for in addition to its key and value.
const ROW_OVERHEAD_BYTES: usize = 64;

/// Returns the bytes that a row counts for.
pub(crate) fn listed_bytes(key: &[u8], value_bytes: usize) -> u64 {
    u64::try_from(key.len() + value_bytes + ROW_OVERHEAD_BYTES).unwrap_or(0)
}

#[derive(Debug)]
struct List {
    rows: Vec<Arc<Row>>,
    bytes: u64,
    since: Lsn,
}

impl Default for List {
    fn default() -> Self {
        Self { rows: Vec::new(), bytes: 0, since: Lsn::MAX }
    }
}

/// The lists of a family.
#[derive(Debug)]
pub(crate) struct Lists {
    lists: [Padded<Mutex<List>>; LISTS],
    /// The lowest log position that rows taken and not yet settled need (U2). Locked before the lists.
    taken: Mutex<Lsn>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { lists: Default::default(), taken: Mutex::new(Lsn::MAX) }
    }
}

/// Rows taken from the lists of a family, to be flushed.
#[derive(Debug)]
#[must_use]
pub struct Unflushed {
    pub(crate) rows: Vec<Arc<Row>>,
    bytes: u64,
    pub(crate) since: Lsn,
}

impl Unflushed {
    /// Returns the rows of a family that lists none.
    pub(crate) const fn none() -> Self {
        Self { rows: Vec::new(), bytes: 0, since: Lsn::MAX }
    }
}

/// The state of a family that its LSM levels lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnflushedStat {
    /// Number of rows listed, including removed ones.
    pub rows: u64,
    /// Bytes of their keys, and of their values at the time of listing.
    pub bytes: u64,
    /// Position from which on the log is needed; `None` if it is not needed.
    pub since: Option<Lsn>,
}

impl Lists {
    /// Lists a row that the caller has marked (U1), whose state has `value_bytes` and needs the log from `since` on.
    pub(crate) fn push(&self, row: Arc<Row>, value_bytes: usize, since: Lsn) {
        let bytes = listed_bytes(row.key(), value_bytes);
        let mut list = self.lists[stripe_below(LISTS)].lock();
        list.bytes += bytes;
        list.since = list.since.min(since);
        list.rows.push(row);
    }

    /// Lists rows that the caller has marked, which together count for `bytes` and need the log from `since` on.
    pub(crate) fn append(&self, rows: impl Iterator<Item = Arc<Row>>, bytes: u64, since: Lsn) {
        let mut list = self.lists[stripe_below(LISTS)].lock();
        list.bytes += bytes;
        list.since = list.since.min(since);
        list.rows.extend(rows);
    }

    /// Takes every list. Requires that rows taken before are settled.
    pub(crate) fn take(&self) -> Unflushed {
        let mut all = Unflushed::none();
        let mut taken = self.taken.lock();
        for list in &self.lists {
            let List { rows, bytes, since } = std::mem::take(&mut *list.lock());
            all.since = all.since.min(since);
            all.bytes += bytes;
            if all.rows.is_empty() {
                all.rows = rows;
            } else {
                all.rows.extend(rows);
            }
        }
        *taken = all.since;
        all
    }

    /// Records that the taken rows are in the levels, or listed again.
    pub(crate) fn settle(&self) {
        *self.taken.lock() = Lsn::MAX;
    }

    /// Lists rows again that were taken and are still marked (U1); they now need the log from `since` on.
    pub(crate) fn give_back(&self, mut taken: Unflushed, since: Lsn) {
        taken.rows.retain(|row| !row.is_dead()); // dead rows need no flush
        if !taken.rows.is_empty() {
            let mut list = self.lists[stripe_below(LISTS)].lock();
            list.bytes += taken.bytes;
            list.since = list.since.min(since);
            list.rows.append(&mut taken.rows);
        }
        self.settle();
    }

    /// Makes the family need the log from `since` on again: for rows that were taken and that other threads already
    /// listed again.
    pub(crate) fn lower_since(&self, since: Lsn) {
        if mutant!("FAILED_FLUSH_NEEDS_NO_LOG") {
            return;
        }
        let mut list = self.lists[stripe_below(LISTS)].lock();
        list.since = list.since.min(since);
    }

    pub(crate) fn stat(&self) -> UnflushedStat {
        let taken = self.taken.lock(); // nothing is taken or settled in between
        let none = UnflushedStat { rows: 0, bytes: 0, since: Some(*taken).filter(|since| *since < Lsn::MAX) };
        self.lists.iter().fold(none, |sum, list| {
            let list = list.lock();
            let since = sum.since.unwrap_or(Lsn::MAX).min(list.since);
            UnflushedStat {
                rows: sum.rows + u64::try_from(list.rows.len()).unwrap_or(0),
                bytes: sum.bytes + list.bytes,
                since: (since < Lsn::MAX).then_some(since),
            }
        })
    }
}
