//! `Family`: the rows of one column family (one SQL table or index).
//!
//! Connects the index with the rows: it looks keys up, retries when a row dies under a writer, and scans in
//! batches. It holds no lock while a caller's code runs; the visitor of a scan runs under a pin.
//!
//! # Invariants
//! - A1. `memory` is the memory that the indexed rows and their versions occupy. A row counts from its insertion
//!   into the index until its removal, a version from its linking until it is rolled back or unlinked. Locks are
//!   not counted. The figure is exact while no thread writes, and approximate otherwise. Checked by the family's
//!   model test, and against the allocator by `crates/kv/tests/memory_count.rs`.
//! - A2. No commit below `first_commit` wrote to the family. A version with a lower CSN was applied before its
//!   commit was known (replay of a new table) and counts as committed at `first_commit`, or not at all while that
//!   is `Lsn::MAX`. Flushes, re-logs and [`Family::states`] obey it. Reads and writes of sessions need not, since
//!   no snapshot at or below `first_commit` knows the family. Checked by
//!   `versions_applied_before_their_commit_count_from_the_first_commit`.

mod applying;
mod counters;
mod loading;
mod staged;
mod states;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use collie_base::{CfId, LiveSnapshots, LockStrength, Lsn, Xid};
use collie_sync::mutant;

pub use self::applying::Superseded;
use self::counters::{Counted, Counters};
pub use self::loading::{Loaded, LoggedWrite};
pub use self::staged::{Ordered, Staged, WARMED};
pub use self::states::State;
use crate::epoch::{Pin, pin};
use crate::index::{OrderedIndex, RowIndex, Span};
use crate::row::{FlushAt, FlushEntry, Pending, Row};
use crate::share_locks::ShareLocks;
use crate::stamp::Resolve;
use crate::unflushed::{Lists, Unflushed, UnflushedStat};
use crate::{
    row::calls::Basis, row::calls::Change, row::calls::InsertOutcome, row::calls::Kept, row::calls::Pruned,
    row::calls::PutOutcome, row::calls::Removal, row::calls::View, row::calls::WriteOutcome, row::calls::WriteRules,
};

/// Rows examined under one pin and in one visit of the index.
const SCAN_BATCH_ROWS: usize = 256;
/// The first batch is small: most scans of an OLTP workload need only a few rows.
const SCAN_FIRST_ROWS: usize = 16;

/// Called with the key and the value of each row; returns whether the scan should continue. Runs under a pin, so
/// it must not wait.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// A request for a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest<'a> {
    /// The keys and the direction.
    pub span: Span<'a>,
    /// The largest number of visible rows to return.
    pub limit: usize,
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStop {
    /// Every key of the span was examined.
    Exhausted,
    /// The scan stopped at this key: it reached the limit, or the visitor ended it.
    At(Vec<u8>),
}

/// Counters of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStat {
    /// Rows in the index, including deleted ones that are not removed yet.
    pub rows: u64,
    /// Rows inserted since open.
    pub inserts: u64,
    /// Rows changed, deleted or locked since open.
    pub writes: u64,
    /// Bytes of keys and values in these writes and in inserts, including rolled-back ones but not locks.
    pub user_bytes: u64,
    /// Deleted rows removed from memory since open.
    pub removals: u64,
    /// Approximate bytes of memory that rows and their versions occupy.
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
    /// Set before the first row is removed.
    cleared: AtomicBool,
    /// Lists of the rows that are due for a flush; `None` if the family has no LSM tree.
    unflushed: Option<Box<Lists>>,
    /// Whether committed rows exist that are missing from the log.
    unlogged: AtomicBool,
    /// A position (A2).
    first_commit: AtomicU64,
    /// Includes the figure of A1.
    counters: Counters,
}

impl Family {
    /// Creates an empty family that exists only in memory.
    pub fn new(id: CfId) -> Self {
        Self::over(id, RowIndex::default())
    }

    /// Creates an empty family that tracks the rows whose newest state its LSM tree lacks. The caller must flush
    /// it.
    pub fn with_levels(id: CfId) -> Self {
        Self { unflushed: Some(Box::default()), ..Self::new(id) }
    }
}

impl<I: OrderedIndex> Family<I> {
    /// Creates an empty family over `index`.
    pub fn over(id: CfId, index: I) -> Self {
        let (cleared, unlogged) = (AtomicBool::new(false), AtomicBool::new(false));
        let (first_commit, counters) = (AtomicU64::new(Lsn::ZERO.get()), Counters::default());
        Self { id, index, cleared, unflushed: None, unlogged, first_commit, counters }
    }

    /// Sets the CSN of the family's first commit (A2). `Lsn::MAX` before the first row is written hides the rows
    /// from flushes and from [`Family::states`]; the CSN follows once every row is applied.
    pub fn set_first_commit(&self, csn: Lsn) {
        self.first_commit.store(csn.get(), Release);
    }

    fn first_commit(&self) -> Lsn {
        Lsn::new(self.first_commit.load(Acquire))
    }

    /// Returns whether the family's rows are applied and their commit is not known (A2).
    pub fn is_uncommitted(&self) -> bool {
        self.first_commit() == Lsn::MAX
    }

    /// Returns the family's id.
    pub const fn id(&self) -> CfId {
        self.id
    }

    /// Reads the value in view at `key`. The value stays readable while the pin is held.
    pub fn read<'g>(&self, key: &[u8], view: &View, fates: &impl Resolve, pin: &'g Pin) -> Option<&'g Arc<[u8]>> {
        self.index.with(key, |row| row.read(view, fates, pin)).flatten()
    }

    /// Returns the number of versions that a read at `key` examines, including the one at which it ends. Used to
    /// measure reads after they are done.
    pub fn read_steps(&self, key: &[u8], view: &View, fates: &impl Resolve, pin: &Pin) -> usize {
        self.index.with(key, |row| row.read_steps(view, fates, pin)).unwrap_or(0)
    }

    /// Returns the number of rows at the start of `request`, at most its limit, and the number of versions that a
    /// scan examines in them, including those at which it ends. Used to measure scans after they are done.
    pub fn scan_steps(&self, request: ScanRequest<'_>, view: &View, fates: &impl Resolve) -> [usize; 2] {
        let (pin, mut rows, mut steps) = (pin(), 0, 0);
        self.index.visit(request.span, request.limit, &mut |_, row| {
            rows += 1;
            steps += row.read_steps(view, fates, &pin);
        });
        [rows, steps]
    }

    /// Returns the approximate number of levels that an access by key descends in the index. Used to measure
    /// statements after they are done. Computed from the number of rows, so it waits for no other thread.
    pub fn index_depth(&self) -> u32 {
        self.index.depth()
    }

    /// Inserts a row, or a new value if the row was deleted.
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
                        self.leave_index(&row); // the thread that made it dead may not have removed it yet
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

    /// Puts a value whether or not a row exists; either way it descends the index once.
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
                        self.leave_index(&row); // the thread that made it dead may not have removed it yet
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

    /// Adds a value that was put to the counters, in addition to what `counted` already holds, and lists its row
    /// for the next flush.
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

    /// Returns whether `holder` conflicts with a lock of this strength on the row at `key`, as far as the row and
    /// the table of share locks show.
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

    /// Visits the rows in view in order. `visit` runs under a pin, so it must not wait.
    pub fn scan(&self, request: ScanRequest<'_>, view: &View, fates: &impl Resolve, visit: &mut Visit<'_>) -> ScanStop {
        self.scan_counting(request, view, fates, visit, &mut 0)
    }

    /// Scans as [`Family::scan`] does, and adds to `examined` the number of rows examined, in view or not.
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

    /// Returns the position of the last change of the row at `key` if it is at or above `snapshot`: a commit that
    /// a reader at the snapshot does not see. The horizon must not be above `snapshot`.
    pub fn changed_since(&self, key: &[u8], snapshot: Lsn, fates: &impl Resolve) -> Option<Lsn> {
        let pin = pin();
        let newest = self.index.with(key, |row| row.newest_commit(fates, &pin)).flatten();
        newest.filter(|csn| *csn >= snapshot)
    }

    /// Does what [`Family::changed_since`] does for every row of `span`, including deleted ones. Examines all of
    /// them, one batch per pin.
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

    /// Does what [`Family::any_changed_since`] does for the first batch of rows of `span`, under one pin.
    ///
    /// # Errors
    /// When no row of the batch changed and there are more rows: the key of the last one, after which the caller
    /// continues.
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

    /// Adds `memory`, which may be negative, to the counted bytes (A1).
    fn count(&self, memory: i64) {
        self.counters.add(Counted { memory, ..Counted::default() });
    }

    /// Takes a dead row out of the index. Returns whether this call removed it.
    fn leave_index(&self, row: &Arc<Row>) -> bool {
        let left = self.index.remove_if(row);
        if left {
            self.count(-signed(row.row_bytes()));
        }
        left
    }

    /// Returns the approximate bytes of memory that rows and their versions occupy (A1). One load per stripe of
    /// the counter.
    pub fn memory_bytes(&self) -> u64 {
        self.counters.memory()
    }

    /// Unlinks the versions of `row`, a row of this family, that no snapshot in `live` sees now or later. Returns
    /// `None` when another thread is pruning the row.
    pub fn prune(&self, row: &Row, live: &LiveSnapshots) -> Option<Pruned> {
        let pruned = row.prune(live, &pin())?;
        self.count(-signed(pruned.version_bytes));
        Some(pruned)
    }

    /// Frees the versions of `row` that no snapshot in `live` sees, and the row itself if it is deleted and no
    /// snapshot sees an earlier state.
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

    /// Rolls a version back, and removes its row if nothing remains.
    pub fn undo(&self, pending: Pending) {
        let row = Arc::clone(pending.row());
        self.count(-i64::from(pending.bytes()));
        if !pending.undo() {
            return;
        }
        // Horizon 0: removes only a row that never had a commit.
        loop {
            match row.try_remove(Lsn::ZERO, &pin()) {
                Removal::Dead { .. } => return self.take_out(&row),
                Removal::Alive | Removal::OnDisk => return,
                Removal::Busy => collie_sync::thread::yield_now(),
            }
        }
    }

    /// Notes that the LSM tree lacks the newest state of a row. Called after the state was put on top of the row
    /// and before its commit is in the log. `since` is a position that the log had reached earlier.
    fn mark(&self, row: &Arc<Row>, value_bytes: usize, since: Lsn) {
        if let Some(lists) = &self.unflushed
            && row.mark()
        {
            lists.push(Arc::clone(row), value_bytes, since);
        }
    }

    /// Notes that the family has committed rows that are not in the log.
    pub fn note_unlogged(&self) {
        if !self.unlogged.load(Relaxed) {
            self.unlogged.store(true, Relaxed);
        }
    }

    /// Returns whether such rows were committed since the family was created or loaded.
    pub fn has_unlogged(&self) -> bool {
        self.unlogged.load(Relaxed)
    }

    /// Returns how much committed state the LSM tree lacks. Takes one short lock per list.
    pub fn unflushed(&self) -> UnflushedStat {
        let none = UnflushedStat { rows: 0, bytes: 0, since: None };
        let lists = self.unflushed.as_ref().filter(|_| !self.is_uncommitted()); // A2
        lists.map_or(none, |lists| lists.stat())
    }

    /// Takes the rows whose newest state the LSM tree lacks. Load the position of the flush first: then every row
    /// that was written below it is among them. A family has one flush at a time.
    pub fn take_unflushed(&self) -> Unflushed {
        self.unflushed.as_ref().map_or(Unflushed::none(), |lists| lists.take())
    }

    /// Returns the entries that a flush at this position would take of these rows, in no order, so that they can
    /// be logged again. Hold a snapshot at the position during the call, and call [`Family::give_back`]
    /// afterwards.
    pub fn relog_entries(&self, taken: &Unflushed, at: FlushAt, fates: &impl Resolve) -> Vec<FlushEntry> {
        let (mut entries, first_commit) = (Vec::new(), self.first_commit());
        for rows in taken.rows.chunks(SCAN_BATCH_ROWS) {
            let pin = pin();
            entries.extend(rows.iter().filter_map(|row| row.take_for_relog(at, first_commit, fates, &pin)));
        }
        entries
    }

    /// Lists rows again after [`Family::relog_entries`]. They now need the log from `since` on; `None` keeps their
    /// old position.
    pub fn give_back(&self, taken: Unflushed, since: Option<Lsn>) {
        if let Some(lists) = &self.unflushed {
            let since = since.unwrap_or(taken.since);
            lists.give_back(taken, since);
        }
    }

    /// Returns the entries of these rows that must be flushed at this position, in no order, and lists rows with a
    /// newer state again. Hold a snapshot at the position during the call. Call [`Family::note_flushed`] or
    /// [`Family::put_back`] afterwards.
    pub fn flush_entries(&self, taken: &Unflushed, at: FlushAt, fates: &impl Resolve) -> Vec<FlushEntry> {
        let (mut entries, first_commit) = (Vec::new(), self.first_commit());
        for rows in taken.rows.chunks(SCAN_BATCH_ROWS) {
            let pin = pin();
            for row in rows {
                let (entry, newer) = row.take_for_flush(at, first_commit, fates, &pin);
                if newer {
                    // The commit of the newer state is at or above the position, or has yet to happen.
                    self.mark(row, 0, at.position);
                }
                entries.extend(entry);
            }
        }
        entries
    }

    /// Notes that the LSM tree holds these entries and that MANIFEST has recorded the flush.
    pub fn note_flushed(&self, entries: &[FlushEntry]) {
        entries.iter().for_each(|entry| entry.row.note_flushed(entry.value.is_some()));
        self.unflushed.iter().for_each(|lists| lists.settle());
    }

    /// Lists the rows of a failed flush again.
    pub fn put_back(&self, taken: Unflushed) {
        let Some(lists) = &self.unflushed else { return };
        lists.lower_since(taken.since);
        taken.rows.iter().for_each(|row| self.mark(row, 0, taken.since));
        lists.settle();
    }

    /// Returns the number of versions of the row at `key`, including unfinished ones and locks; 0 without a row.
    /// For diagnosis: it walks the chain.
    pub fn version_count(&self, key: &[u8]) -> usize {
        self.index.with(key, Arc::clone).map_or(0, |row| row.version_count())
    }

    /// Returns whether the family was cleared. If a reader calls this after its read and gets `false`, it has
    /// missed no row: the flag is set before the first row is removed, and a reader that finds the index without a
    /// row also sees the flag.
    #[inline]
    pub fn is_cleared(&self) -> bool {
        self.cleared.load(Acquire)
    }

    /// Removes every row and returns the bytes of old versions that were freed. No thread may clean the family any
    /// more, and later writes to it are lost.
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
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_models;

#[cfg(test)]
#[cfg(loom)]
mod put_loom_models;

#[cfg(test)]
#[cfg(not(loom))]
mod stress;
