//! `Unflushed`: the rows of a family whose newest state the levels may lack, listed by the threads that wrote them.
//!
//! # Invariants
//! - U1. A row is listed by who set its mark, right after it (L1 of the rows' flush), and by nobody else. Who took the lists and left
//!   the marks gives the rows back.
//! - U2. `since` is at or below the log position of every record that the listed rows need, records of chunks aside: it is a
//!   position that the log had reached before their writers wrote. Taking the lists takes it along; it counts for the family until
//!   what was taken is settled, so that whoever asks meanwhile is not told that nothing is needed.
//!
//! Progress: listing waits for one short mutex, which is another thread's only when there are more threads than lists, or
//! while a flush takes them.

use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{Mutex, Padded, mutant, stripe_below};

use crate::row::Row;

/// Threads that write at one time list their rows apart, up to this many.
const LISTS: usize = if cfg!(loom) { 1 } else { 8 };

/// What a listed row counts for, beside its key and value.
const ROW_OVERHEAD_BYTES: usize = 64;

/// Returns what a row counts for.
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
    /// What was taken and is not settled needs the log from here on (U2). Before the lists' locks.
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
    /// Of a family that lists no rows.
    pub(crate) const fn none() -> Self {
        Self { rows: Vec::new(), bytes: 0, since: Lsn::MAX }
    }
}

/// What a family has that its levels lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnflushedStat {
    /// Rows listed, removed ones among them.
    pub rows: u64,
    /// Bytes of their keys, and of values as they were when they were listed.
    pub bytes: u64,
    /// The log is needed from here on; `None`: it is not needed.
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

    /// Lists rows that the caller has marked, which count for `bytes` together and need the log from `since` on.
    pub(crate) fn append(&self, rows: impl Iterator<Item = Arc<Row>>, bytes: u64, since: Lsn) {
        let mut list = self.lists[stripe_below(LISTS)].lock();
        list.bytes += bytes;
        list.since = list.since.min(since);
        list.rows.extend(rows);
    }

    /// Takes every list. What was taken before is settled.
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

    /// Notes that what was taken is in the levels, or listed again.
    pub(crate) fn settle(&self) {
        *self.taken.lock() = Lsn::MAX;
    }

    /// Lists rows again that were taken and are still marked (U1); they need the log from `since` on now.
    pub(crate) fn give_back(&self, mut taken: Unflushed, since: Lsn) {
        taken.rows.retain(|row| !row.is_dead()); // nobody lists or needs those
        if !taken.rows.is_empty() {
            let mut list = self.lists[stripe_below(LISTS)].lock();
            list.bytes += taken.bytes;
            list.since = list.since.min(since);
            list.rows.append(&mut taken.rows);
        }
        self.settle();
    }

    /// Needs the log from `since` on again: for rows that were taken and are listed by others already.
    pub(crate) fn lower_since(&self, since: Lsn) {
        if mutant!("FAILED_FLUSH_NEEDS_NO_LOG") {
            return;
        }
        let mut list = self.lists[stripe_below(LISTS)].lock();
        list.since = list.since.min(since);
    }

    pub(crate) fn stat(&self) -> UnflushedStat {
        let taken = self.taken.lock(); // nothing is taken or settled meanwhile
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
