//! `Family`: the rows of one column family (one SQL table or index).
//!
//! Joins the index with the rows: looks keys up, retries when a row dies under a writer, scans in batches. Holds no lock
//! while a caller's code runs; a scan's visitor runs under a pin.
//!
//! # Invariants
//! - A1. `memory` is what the rows in the index take up, and their versions: a row from when it was put there until it is taken
//!   out, a version from when it was linked until it is rolled back or unlinked. Locks count for nothing. Exact while nobody
//!   writes, about meanwhile. Checked by the family's model test, against the allocator by `tests/memory.rs` of `engine`.

mod applying;
mod counters;
mod loading;
mod staged;
mod states;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use collie_base::{CfId, LiveSnapshots, LockStrength, Lsn, Xid};
use collie_sync::mutant;

pub use self::applying::Superseded;
use self::counters::{Counted, Counters};
pub use self::loading::{Loaded, LoggedWrite};
pub use self::staged::{Ordered, Staged, WARMED};
pub use self::states::State;
use crate::calls::{Basis, Change, InsertOutcome, Kept, Pruned, PutOutcome, Removal, View, WriteOutcome, WriteRules};
use crate::epoch::{Pin, pin};
use crate::index::{OrderedIndex, RowIndex, Span};
use crate::row::{FlushAt, FlushEntry, Pending, Row};
use crate::share_locks::ShareLocks;
use crate::stamp::Resolve;
use crate::unflushed::{Lists, Unflushed, UnflushedStat};

/// Rows looked at under one pin and in one visit of the index.
const SCAN_BATCH_ROWS: usize = 256;
/// The first batch is small: most scans of an OLTP workload want a few rows.
const SCAN_FIRST_ROWS: usize = 16;

/// Called with the key and the value of each row; says whether to go on. Runs under a pin: it must not wait.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// What to scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest<'a> {
    /// The keys, and the direction.
    pub span: Span<'a>,
    /// How many visible rows at most.
    pub limit: usize,
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStop {
    /// Every key of the span was looked at.
    Exhausted,
    /// The limit was reached or the visitor broke off, at this key.
    At(Vec<u8>),
}

/// Counters of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStat {
    /// Rows in the index, deleted ones not yet removed included.
    pub rows: u64,
    /// Rows inserted since open.
    pub inserts: u64,
    /// Rows changed, deleted or locked since open.
    pub writes: u64,
    /// Bytes of keys and values in these and in inserts, rolled back ones included, locks not.
    pub user_bytes: u64,
    /// Deleted rows removed from memory since open.
    pub removals: u64,
    /// Bytes of memory that rows and their versions take up, about.
    pub memory_bytes: u64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn signed_len(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The rows of one column family.
#[derive(Debug)]
pub struct Family<I = RowIndex> {
    id: CfId,
    index: I,
    /// Set before the first row goes.
    cleared: AtomicBool,
    /// Of the rows to be flushed; `None`: the family has no levels.
    unflushed: Option<Box<Lists>>,
    /// Whether rows may be listed there that the log has nothing of.
    unlogged: AtomicBool,
    /// A1 among them.
    counters: Counters,
}

impl Family {
    /// Makes an empty family, in memory alone.
    pub fn new(id: CfId) -> Self {
        Self::over(id, RowIndex::default())
    }

    /// Makes an empty family that remembers which rows its levels lack. Somebody must flush it.
    pub fn with_levels(id: CfId) -> Self {
        Self { unflushed: Some(Box::default()), ..Self::new(id) }
    }
}

impl<I: OrderedIndex> Family<I> {
    /// Makes an empty family over `index`.
    pub fn over(id: CfId, index: I) -> Self {
        let (cleared, unlogged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { id, index, cleared, unflushed: None, unlogged, counters: Counters::default() }
    }

    /// Returns the family's id.
    pub const fn id(&self) -> CfId {
        self.id
    }

    /// Reads the value in view at `key`. It stays readable as long as the pin is held.
    pub fn read<'g>(&self, key: &[u8], view: &View, fates: &impl Resolve, pin: &'g Pin) -> Option<&'g Arc<[u8]>> {
        self.index.with(key, |row| row.read(view, fates, pin)).flatten()
    }

    /// Returns how many versions a read at `key` walks past, with the one it ends at: for who measures reads, after them.
    pub fn read_steps(&self, key: &[u8], view: &View, fates: &impl Resolve, pin: &Pin) -> usize {
        self.index.with(key, |row| row.read_steps(view, fates, pin)).unwrap_or(0)
    }

    /// Returns how many of the first rows of `request` there are, at most its limit, and how many versions a scan walks past in them, with those
    /// that it ends at: for who measures scans, after them.
    pub fn scan_steps(&self, request: ScanRequest<'_>, view: &View, fates: &impl Resolve) -> [usize; 2] {
        let (pin, mut rows, mut steps) = (pin(), 0, 0);
        self.index.visit(request.span, request.limit, &mut |_, row| {
            rows += 1;
            steps += row.read_steps(view, fates, &pin);
        });
        [rows, steps]
    }

    /// Returns how many levels an access by key descends in the index, about: for who measures statements, after them. By the number of rows, so
    /// nobody is waited for.
    pub fn index_depth(&self) -> u32 {
        self.index.depth()
    }

    /// Inserts a row, or a new value where the row was deleted.
    pub fn insert(
        &self,
        key: &[u8],
        value: &[u8],
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> InsertOutcome {
        loop {
            let made = self.index.get_or_insert(key, |key| {
                let pending = Row::pending(key, value, view, rules);
                (Arc::clone(pending.row()), pending)
            });
            let mut counted = Counted::default();
            let outcome = match made {
                Ok(pending) => {
                    counted.memory = signed(pending.row().row_bytes());
                    InsertOutcome::Done(pending)
                }
                Err(row) => match row.insert(self.id, value, view, rules, others) {
                    InsertOutcome::Dead => {
                        self.leave_index(&row); // whoever made it dead may not have come to it yet
                        continue;
                    }
                    outcome => outcome,
                },
            };
            if let InsertOutcome::Done(pending) | InsertOutcome::DoneAfter { pending, .. } = &outcome {
                counted.inserts = 1;
                self.count_put(counted, pending, key, value, view);
            }
            return outcome;
        }
    }

    /// Puts a value, whether there is a row or not: one walk of the index either way.
    pub fn put(
        &self,
        key: &[u8],
        value: &[u8],
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> PutOutcome {
        loop {
            let made = self.index.get_or_insert(key, |key| {
                let pending = Row::pending(key, value, view, rules);
                (Arc::clone(pending.row()), pending)
            });
            let mut counted = Counted::default();
            let outcome = match made {
                Ok(pending) => {
                    counted.memory = signed(pending.row().row_bytes());
                    PutOutcome::Done { pending, replaced: false, after: None }
                }
                Err(row) => match row.put(self.id, value, view, rules, others) {
                    PutOutcome::Dead => {
                        self.leave_index(&row); // whoever made it dead may not have come to it yet
                        continue;
                    }
                    outcome => outcome,
                },
            };
            if let PutOutcome::Done { pending, replaced, .. } = &outcome {
                (counted.inserts, counted.writes) = if *replaced { (0, 1) } else { (1, 0) };
                self.count_put(counted, pending, key, value, view);
            }
            return outcome;
        }
    }

    /// Counts a value that was put, beside what is in `counted` already, and lists its row for the next flush.
    fn count_put(&self, mut counted: Counted, pending: &Pending, key: &[u8], value: &[u8], view: &View) {
        counted.memory += i64::from(pending.bytes());
        counted.user_bytes = signed_len(key.len() + value.len());
        self.counters.add(counted);
        self.mark(pending.row(), value.len(), view.snapshot);
    }

    /// Changes, deletes, moves or locks an existing row.
    pub fn write(
        &self,
        key: &[u8],
        change: Change<'_>,
        basis: Basis,
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> WriteOutcome {
        let mut died = 0_u16;
        loop {
            let Some(row) = self.index.with(key, Arc::clone) else { return WriteOutcome::Gone(None) };
            if mutant!("MARKED_BEFORE_EXCHANGE") {
                self.mark(&row, 0, view.snapshot);
            }
            match row.write(self.id, change, basis, view, rules, others) {
                WriteOutcome::Dead => {
                    self.leave_index(&row);
                    died = died.saturating_add(1);
                }
                mut outcome => {
                    let mut counted = Counted { writes: 1, ..Counted::default() };
                    if let WriteOutcome::Done(pending) = &mut outcome {
                        pending.retries = pending.retries.saturating_add(died);
                        counted.memory = i64::from(pending.bytes());
                        counted.user_bytes = signed_len(change.value_bytes().map_or(0, |bytes| key.len() + bytes));
                        if let Some(value_bytes) = change.value_bytes()
                            && !mutant!("MARKED_BEFORE_EXCHANGE")
                            && !mutant!("MARKED_AT_STAMPING")
                        {
                            self.mark(&row, value_bytes, view.snapshot);
                        }
                    }
                    if matches!(outcome, WriteOutcome::Done(_) | WriteOutcome::Shared(_)) {
                        self.counters.add(counted);
                    }
                    return outcome;
                }
            }
        }
    }

    /// Returns whether `holder` is in the way of who wants the row at `key` in this strength, as far as the row and the
    /// table of share locks say.
    pub fn is_held(
        &self,
        key: &[u8],
        holder: Xid,
        strength: LockStrength,
        others: &(impl Resolve + ShareLocks),
    ) -> bool {
        let row = self.index.with(key, Arc::clone);
        row.is_some_and(|row| row.is_held(self.id, holder, strength, others))
    }

    /// Visits the rows in view in order. `visit` runs under a pin: it must not wait.
    pub fn scan(&self, request: ScanRequest<'_>, view: &View, fates: &impl Resolve, visit: &mut Visit<'_>) -> ScanStop {
        self.scan_counting(request, view, fates, visit, &mut 0)
    }

    /// As [`Family::scan`], and adds to `examined` how many rows were looked at, in view or not.
    pub fn scan_counting(
        &self,
        request: ScanRequest<'_>,
        view: &View,
        fates: &impl Resolve,
        visit: &mut Visit<'_>,
        examined: &mut usize,
    ) -> ScanStop {
        let ScanRequest { span, limit } = request;
        assert!(limit > 0, "a scan wants at least one row");
        let mut left = limit;
        let mut batch_rows = SCAN_FIRST_ROWS.min(limit);
        let mut last: Option<Vec<u8>> = None;
        let mut keys: Vec<u8> = Vec::new();
        loop {
            let pin = pin();
            let from = last.as_deref().map_or(span, |key| span.after(key));
            let mut found: Vec<(usize, usize, &[u8])> = Vec::with_capacity(batch_rows);
            let mut seen = 0;
            let mut last_start = 0;
            keys.clear();
            let ended = self.index.visit(from, batch_rows, &mut |key, row| {
                seen += 1;
                let value = row.read(view, fates, &pin);
                if value.is_some() || seen == batch_rows {
                    last_start = keys.len();
                    keys.extend_from_slice(key);
                }
                if let Some(value) = value {
                    found.push((last_start, keys.len(), value));
                }
            });
            *examined += seen;
            for (start, end, value) in found {
                left -= 1;
                if visit(&keys[start..end], value).is_break() || left == 0 {
                    return ScanStop::At(keys[start..end].to_vec());
                }
            }
            if ended {
                return ScanStop::Exhausted;
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(&keys[last_start..]);
            batch_rows = SCAN_BATCH_ROWS;
        }
    }

    /// Returns where the row at `key` was last changed, if that is at or above `snapshot`: a commit that a reader at the
    /// snapshot does not see. The horizon must not be above `snapshot`.
    pub fn changed_since(&self, key: &[u8], snapshot: Lsn, fates: &impl Resolve) -> Option<Lsn> {
        let pin = pin();
        let newest = self.index.with(key, |row| row.newest_commit(fates, &pin)).flatten();
        newest.filter(|csn| *csn >= snapshot)
    }

    /// Like [`Family::changed_since`], for any row of `span`, deleted ones included. Looks at every row, some under each
    /// pin.
    pub fn any_changed_since(&self, span: Span<'_>, snapshot: Lsn, fates: &impl Resolve) -> Option<Lsn> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let from = last.as_deref().map_or(span, |key| span.after(key));
            match self.first_changed_since(from, snapshot, fates) {
                Ok(changed) => return changed,
                Err(next) => last = Some(next),
            }
        }
    }

    /// Like [`Family::any_changed_since`], for the first rows of `span`, as many as are looked at under one pin.
    ///
    /// # Errors
    /// When none of these changed and there are more: the key of the last one, after which to go on.
    pub fn first_changed_since(
        &self,
        span: Span<'_>,
        snapshot: Lsn,
        fates: &impl Resolve,
    ) -> Result<Option<Lsn>, Vec<u8>> {
        let (pin, mut seen, mut changed) = (pin(), 0, None);
        let mut next = Vec::new();
        let ended = self.index.visit(span, SCAN_BATCH_ROWS, &mut |key, row| {
            changed = changed.or_else(|| row.newest_commit(fates, &pin).filter(|csn| *csn >= snapshot));
            seen += 1;
            if seen == SCAN_BATCH_ROWS {
                next.extend_from_slice(key);
            }
        });
        if ended || changed.is_some() { Ok(changed) } else { Err(next) }
    }

    /// Adds to the bytes of memory that are counted (A1), or takes away.
    fn count(&self, memory: i64) {
        self.counters.add(Counted { memory, ..Counted::default() });
    }

    /// Takes a dead row out of the index. Returns whether nobody else had.
    fn leave_index(&self, row: &Arc<Row>) -> bool {
        let left = self.index.remove_if(row);
        if left {
            self.count(-signed(row.row_bytes()));
        }
        left
    }

    /// Returns the bytes of memory that rows and their versions take up, about (A1). One load per stripe of the counter.
    pub fn memory_bytes(&self) -> u64 {
        self.counters.memory()
    }

    /// Unlinks the versions of `row`, which is of this family, that nobody in `live` sees, now or later. `None` when another
    /// thread is at it.
    pub fn prune(&self, row: &Row, live: &LiveSnapshots) -> Option<Pruned> {
        let pruned = row.prune(live, &pin())?;
        self.count(-signed(pruned.version_bytes));
        Some(pruned)
    }

    /// Frees what nobody in `live` sees of `row`, and the row itself when it is deleted and nobody sees that it was not.
    pub fn clean(&self, row: &Arc<Row>, live: &LiveSnapshots) -> Pruned {
        match row.try_remove(live.horizon(), &pin()) {
            Removal::Dead { bytes, version_bytes } => {
                self.take_out(row);
                self.count(-signed(version_bytes));
                Pruned { bytes, version_bytes, ..Pruned::default() }
            }
            Removal::Alive | Removal::OnDisk => {
                self.prune(row, live).unwrap_or(Pruned { kept: Some(Kept::Unfinished), ..Pruned::default() })
            }
            Removal::Busy => Pruned { kept: Some(Kept::Unfinished), ..Pruned::default() },
        }
    }

    fn take_out(&self, row: &Arc<Row>) {
        if self.leave_index(row) {
            self.counters.add(Counted { removals: 1, ..Counted::default() });
        }
    }

    /// Rolls a version back, and removes its row if nothing is left.
    pub fn undo(&self, pending: Pending) {
        let row = Arc::clone(pending.row());
        self.count(-i64::from(pending.bytes()));
        if !pending.undo() {
            return;
        }
        // Horizon 0: only a row that nobody ever committed to.
        loop {
            match row.try_remove(Lsn::ZERO, &pin()) {
                Removal::Dead { .. } => return self.take_out(&row),
                Removal::Alive | Removal::OnDisk => return,
                Removal::Busy => collie_sync::thread::yield_now(),
            }
        }
    }

    /// Notes that a row has a state which the levels lack, after it was put on top of the row and before its commit is in the
    /// log. `since` is a position that the log had reached before.
    fn mark(&self, row: &Arc<Row>, value_bytes: usize, since: Lsn) {
        if let Some(lists) = &self.unflushed
            && row.mark()
        {
            lists.push(Arc::clone(row), value_bytes, since);
        }
    }

    /// Notes that rows of the family are committed which the log has nothing of.
    pub fn note_unlogged(&self) {
        if !self.unlogged.load(Relaxed) {
            self.unlogged.store(true, Relaxed);
        }
    }

    /// Returns whether such rows were committed since the family was made or loaded.
    pub fn has_unlogged(&self) -> bool {
        self.unlogged.load(Relaxed)
    }

    /// Returns what the levels lack. Takes one short lock per list.
    pub fn unflushed(&self) -> UnflushedStat {
        let none = UnflushedStat { rows: 0, bytes: 0, since: None };
        self.unflushed.as_ref().map_or(none, |lists| lists.stat())
    }

    /// Takes the rows that the levels lack a state of. Load the position of the flush before: then every row that was written
    /// below it is among them. One flush of a family at a time.
    pub fn take_unflushed(&self) -> Unflushed {
        self.unflushed.as_ref().map_or(Unflushed::none(), |lists| lists.take())
    }

    /// Returns what a flush would take of these rows at a position, in no order, so that the log can have it again. Hold a snapshot
    /// at the position meanwhile, and follow up with [`Family::give_back`].
    pub fn relog_entries(&self, taken: &Unflushed, at: FlushAt, fates: &impl Resolve) -> Vec<FlushEntry> {
        let mut entries = Vec::new();
        for rows in taken.rows.chunks(SCAN_BATCH_ROWS) {
            let pin = pin();
            entries.extend(rows.iter().filter_map(|row| row.take_for_relog(at, fates, &pin)));
        }
        entries
    }

    /// Lists the rows again of which [`Family::relog_entries`] was asked: they need the log from `since` on now; `None`: as before.
    pub fn give_back(&self, taken: Unflushed, since: Option<Lsn>) {
        if let Some(lists) = &self.unflushed {
            let since = since.unwrap_or(taken.since);
            lists.give_back(taken, since);
        }
    }

    /// Returns what is to be flushed of these rows at a position, in no order, and lists those again that have a newer state.
    /// Hold a snapshot at the position meanwhile. Follow up with [`Family::note_flushed`] or [`Family::put_back`].
    pub fn flush_entries(&self, taken: &Unflushed, at: FlushAt, fates: &impl Resolve) -> Vec<FlushEntry> {
        let mut entries = Vec::new();
        for rows in taken.rows.chunks(SCAN_BATCH_ROWS) {
            let pin = pin();
            for row in rows {
                let (entry, newer) = row.take_for_flush(at, fates, &pin);
                if newer {
                    // The newer state's commit is at or above the position, or comes yet.
                    self.mark(row, 0, at.position);
                }
                entries.extend(entry);
            }
        }
        entries
    }

    /// Notes that the levels hold these entries and say so.
    pub fn note_flushed(&self, entries: &[FlushEntry]) {
        entries.iter().for_each(|entry| entry.row.note_flushed(entry.value.is_some()));
        self.unflushed.iter().for_each(|lists| lists.settle());
    }

    /// Lists the rows of a flush that failed again.
    pub fn put_back(&self, taken: Unflushed) {
        let Some(lists) = &self.unflushed else { return };
        lists.lower_since(taken.since);
        taken.rows.iter().for_each(|row| self.mark(row, 0, taken.since));
        lists.settle();
    }

    /// Returns how many versions the row at `key` has, unfinished ones and locks among them; 0 without a row. For people:
    /// it walks the chain.
    pub fn version_count(&self, key: &[u8]) -> usize {
        self.index.with(key, Arc::clone).map_or(0, |row| row.version_count())
    }

    /// Returns whether the family was cleared. A reader that asks after it has read, and is told no, has missed no row: the
    /// flag is set before the first row goes, and who finds the index without a row has seen what came before that.
    #[inline]
    pub fn is_cleared(&self) -> bool {
        self.cleared.load(Acquire)
    }

    /// Removes every row: nobody may clean the family any more, and what is written to it is lost. Returns the bytes of old
    /// versions that went.
    pub fn clear(&self) -> u64 {
        self.cleared.store(true, Release);
        let mut bytes = 0;
        let mut last: Option<Vec<u8>> = None;
        loop {
            let (pin, mut seen, mut next) = (pin(), 0, Vec::new());
            let whole = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
            let from = last.as_deref().map_or(whole, |key| whole.after(key));
            let ended = self.index.visit(from, SCAN_BATCH_ROWS, &mut |key, row| {
                bytes += row.old_version_bytes(&pin);
                seen += 1;
                if seen == SCAN_BATCH_ROWS {
                    next.extend_from_slice(key);
                }
            });
            if ended {
                break;
            }
            last = Some(next);
        }
        self.index.clear();
        bytes
    }

    /// Returns the counters.
    pub fn stat(&self) -> FamilyStat {
        let Counted { memory, user_bytes, inserts, writes, removals } = self.counters.sums();
        let of = |sum: i64| u64::try_from(sum).unwrap_or(0);
        FamilyStat {
            rows: u64::try_from(self.index.len()).unwrap_or(u64::MAX),
            inserts: of(inserts),
            writes: of(writes),
            user_bytes: of(user_bytes),
            removals: of(removals),
            memory_bytes: of(memory),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "family_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(loom)]
#[path = "flush_loom.rs"]
mod models;

#[cfg(test)]
#[cfg(loom)]
#[path = "put_loom.rs"]
mod put_models;

#[cfg(test)]
#[cfg(not(loom))]
#[path = "stress_tests.rs"]
mod stress;
