//! `Session`: the transactions of one client: reads, writes, waits, savepoints, commit and rollback.
//!
//! A session joins three parts: rows (`Family`) report conflicts of a write, transactions (`collie_txn`) give
//! snapshots, ids and waits, and the log takes the redo. Between calls it holds no locks but those of its transaction.
//!
//! # Invariants
//! - N1. Every version and share lock of the open transaction is in `writes`, and every version that is no lock is in
//!   `redo`, in one order.
//! - N2. A call that fails leaves `writes` and `redo` as they were; `doomed` records a rollback to a savepoint that the
//!   log did not accept, after which the transaction can only be rolled back.
//! - N3. Each commit that the session acts on although its snapshot does not show it is passed to `txn` (`saw`) before
//!   the caller gets the result.
//! - N4. `reads` exists exactly while a SERIALIZABLE transaction is open that may write. It has every key whose state
//!   the caller learned, except keys of versions in `writes`: no newer commit can come below an own version.
//! - N5. A check (`begin_check`) locks rows on their newest version at every level, but its writes are based on the
//!   transaction's snapshot, as all writes are: a row that the snapshot does not show is never changed at REPEATABLE
//!   READ. With [`Sees::Newest`] it reads at a separate snapshot above everything that was published when it began;
//!   `newest` holds that snapshot if it is not the transaction's.
//! - N6. The result of a read, absent rows included, is returned only after the snapshot was found to be in force: a
//!   cancelled snapshot may have lost versions that it needs.
//! - N7. Between two parts of an undo (`undo_some`) `is_undoing` is set and nothing commits: `redo` still has versions
//!   that are already removed. For others the transaction is unfinished until the last part, so no step of the undo is
//!   visible.
//!
//! | file | holds |
//! |---|---|
//! | `ending`, `validated` | commit and rollback; the check of what a SERIALIZABLE transaction read |
//! | `writes` | the versions and share locks of the open transaction |
//! | `write_retries` | the unsuccessful attempts of a statement to write a row |
//! | `wait`, `ack_condition` | the two waits, for a lock and for the log; the conditions of a reply |
//! | `room_wait` | the wait for room in the log |
//! | `upsert` | one write that does not depend on the previous value |
//! | `named_families` | families by name: creating, finding and dropping them |
//! | `advisory` | locks on numbers |

pub(crate) mod ack_condition;
pub(crate) mod advisory;
pub(crate) mod named_families;
pub(crate) mod room_wait;
pub(crate) mod upsert;
pub(crate) mod wait;
pub(crate) mod write_retries;
pub(crate) mod writes;

use std::ops::ControlFlow;
use std::sync::Arc;

use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_obs::{RowInsert, RowRead, Scan, Span, TxnBegin};
use collie_store::{
    Change, InsertOutcome, Origin, Pending, Pin, PutOutcome, ScanRequest, ScanStop, View, Visit, WriteOutcome,
    WriteRules, pin,
};
use collie_txn::{
    Behind, Blocker, CancelHandle, CommitLog as _, Holder, Isolation, LockTarget, RowKey, RowLockRequest, Start,
    StatementKind, TableLock, TableLockMode, Transaction, WriteSet as _,
};
use parking_lot::Mutex;

use crate::log::txn_statuses::TxnStatuses;
use crate::log::{EngineLog, Manner};
use crate::measured;
use crate::planted::is_planted;
use crate::redo::buffer::RedoBuffer;
use crate::redo::{KEY_BYTES_MAX, Op, VALUE_BYTES_MAX, encode_integers, tag};
use crate::serial::read_set::ReadSet;
use crate::session::advisory::Advisory;
use crate::session::wait::WaitFuture;
use crate::session::write_retries::WriteRetries;
use crate::session::writes::Writes;
use crate::shared::Shared;
use crate::{
    Basis, EngineError, Existing, Family, Insert, KeyRange, Mark, Outcome, RoomWait, RowBytes, ScanEnd, Sees, Write,
};

mod ending;
mod validated;

use validated::Validated;

/// The transactions of one client, at most one open at a time. Dropping it rolls back.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    txn: collie_txn::Session<EngineLog>,
    open: Option<Transaction>,
    /// The view of the current statement; `None` between statements of READ COMMITTED.
    view: Option<View>,
    kind: StatementKind,
    writes: Writes,
    redo: RedoBuffer,
    /// See N4. It has a lock because reading takes `&self`; no other thread ever holds it.
    reads: Option<Box<Mutex<ReadSet>>>,
    /// The state of the validation in parts, in a transaction with a large read set that is about to commit.
    validated: Option<Validated>,
    /// Used only to measure writes.
    tried: WriteRetries,
    /// Whether the open statement checks constraints (N5).
    checking: bool,
    /// Keeps the newest state readable for a check in a transaction that has an older snapshot (N5).
    newest: Option<Holder>,
    wrote_catalog: bool,
    /// How records of the open transaction are appended.
    manner: Manner,
    /// Whether the log gets a marker instead of the open transaction's operations.
    unlogged: bool,
    /// Stored bytes that the memory limit was not notified of yet (M2 of `memory.rs`).
    stored: u64,
    doomed: Option<EngineError>,
    /// Whether a part of the open transaction's writes has been undone (N7).
    is_undoing: bool,
}

const NO_TRANSACTION: EngineError = EngineError::InvalidArgument { what: "no transaction is open: begin one first" };
const UNDOING: EngineError =
    EngineError::InvalidArgument { what: "the transaction is being rolled back: finish that first" };
const NO_STATEMENT: EngineError = EngineError::InvalidArgument { what: "no statement is open: begin one first" };

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self, EngineError> {
        Ok(Self {
            txn: shared.txns.session()?,
            open: None,
            view: None,
            kind: StatementKind::ReadOnly,
            writes: Writes::of(shared),
            redo: RedoBuffer::new(shared.fixed.chunk_bytes),
            reads: None,
            validated: None,
            tried: WriteRetries::default(),
            checking: false,
            newest: None,
            wrote_catalog: false,
            manner: Manner::default(),
            unlogged: shared.has_no_log(),
            stored: 0,
            doomed: None,
            is_undoing: false,
            shared: Arc::clone(shared),
        })
    }

    /// Begins a transaction. It takes no snapshot and no id yet.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] if one is open.
    pub fn begin(&mut self, isolation: Isolation, read_only: bool) -> Result<(), EngineError> {
        if self.open.is_some() {
            return Err(EngineError::InvalidArgument { what: "a transaction is open already: end it first" });
        }
        let span = collie_obs::start::<TxnBegin>();
        self.open = Some(self.txn.begin(isolation, read_only));
        self.manner.gives_back = false;
        if let Some(span) = span {
            measured::txn_begin(span.end(), isolation, &self.shared.txns);
        }
        self.reads = (isolation == Isolation::Serializable && !read_only).then(Box::default);
        Ok(())
    }

    /// Returns the wait that a statement that writes needs before it begins, if any: flushes, which keep the log short,
    /// are behind; or the transaction has not written yet and this primary is in a switchover. To be called outside a
    /// statement. The session may hold locks during the wait. A session that writes without this call is not stopped.
    ///
    /// # Progress
    /// Three loads, if no wait is needed.
    ///
    /// # Errors
    /// [`EngineError::Busy`] instead of a wait, after [`Session::set_no_slowdown`].
    pub fn wait_for_room(&self) -> Result<Option<RoomWait>, EngineError> {
        let begins = self.xid().is_none();
        RoomWait::before_writing(&self.shared, begins, self.manner.no_slowdown, || self.txn.cancel_handle())
    }

    /// As [`Session::wait_for_room`], for a statement that must not wait for flushes, since they may need it.
    ///
    /// # Errors
    /// As of [`Session::wait_for_room`].
    pub fn wait_to_begin(&self) -> Result<Option<RoomWait>, EngineError> {
        let begins = self.xid().is_none();
        RoomWait::before_first_write(&self.shared, begins, self.manner.no_slowdown, || self.txn.cancel_handle())
    }

    /// Sets whether later appends fail with [`EngineError::Busy`] where they would wait for room in the log's ring, and
    /// [`Session::wait_for_room`] where it would return a wait.
    pub const fn set_no_slowdown(&mut self, no_slowdown: bool) {
        self.manner.no_slowdown = no_slowdown;
    }

    /// Notes, before a statement that writes, whether it frees space on the disk: DROP, TRUNCATE, DELETE. On a full
    /// disk the commit of a transaction with only such statements may use the log's reserve, where others get
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace).
    pub fn note_purpose(&mut self, gives_back: bool) {
        let is_first = self.xid().is_none();
        self.manner.gives_back = gives_back && (is_first || self.manner.gives_back);
    }

    /// Sets whether the log gets a marker instead of the later writes. The setting at the commit applies to the whole
    /// transaction. Without a log all writes are unlogged. See [`Db::check_unlogged`](crate::Db::check_unlogged).
    pub fn set_unlogged(&mut self, unlogged: bool) {
        self.unlogged = unlogged || self.shared.has_no_log();
    }

    /// Returns whether a transaction is open.
    pub const fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a statement: takes the snapshot that its isolation level requires and a new command number. Table locks
    /// must be taken first, so that the snapshot shows the changes of their last holder.
    ///
    /// # Progress
    /// In a READ ONLY transaction it may wait for the disk, if the session acted on a commit that is not on disk;
    /// otherwise only for an append of another thread.
    ///
    /// # Errors
    /// If no transaction is open, the transaction has had 2^32 commands, or the log fails during a wait.
    pub fn begin_statement(&mut self, kind: StatementKind) -> Result<(), EngineError> {
        let t = self.open.as_mut().ok_or(NO_TRANSACTION)?;
        let mut from = kind;
        let snapshot = loop {
            match self.txn.begin_statement(t, from)? {
                Start::Ready(snapshot) => break snapshot,
                // After a failure of the log nothing more becomes durable.
                Start::Wait(Behind::Settled(_)) if self.shared.txns.log().has_failed() => self.txn.forget_unsettled(),
                // The newest state needs no wait for the disk and is as good: the end of the transaction waits instead.
                Start::Wait(Behind::Settled(_)) if !t.is_read_only() && from == StatementKind::ReadOnly => {
                    from = StatementKind::Write;
                }
                Start::Wait(Behind::Settled(_)) if self.shared.txns.log().replicas().is_some() => {
                    from = StatementKind::Newest; // replicas may stay away for long
                }
                Start::Wait(Behind::Boundary(lsn)) => self.shared.txns.log().wait_boundary(lsn)?,
                Start::Wait(Behind::Settled(lsn)) => self.shared.txns.log().wait_durable(lsn)?,
            }
        };
        self.kind = kind;
        self.view = Some(View { snapshot, me: t.xid(), command: t.command() });
        self.tried.clear();
        Ok(())
    }

    /// Begins a statement that checks constraints on the transaction's own writes: takes a new command number, and a
    /// snapshot as `sees` says. Row locks are then taken on the newest version at every level, and the caller learns of
    /// it as at READ COMMITTED; every other write is based on the transaction's snapshot.
    ///
    /// Rows that a SERIALIZABLE transaction reads in it are part of its read set: it commits only if they are unchanged
    /// since its snapshot.
    ///
    /// # Progress
    /// With [`Sees::Newest`] it waits for appends of other threads that are in progress.
    ///
    /// # Errors
    /// As of [`Session::begin_statement`]; [`EngineError::TooManySessions`] if there is no slot for another snapshot.
    pub fn begin_check(&mut self, sees: Sees) -> Result<(), EngineError> {
        if sees == Sees::Newest && !is_planted("checks do not wait") {
            // Row locks end when a commit is published, which may be before the boundary passes it. The rows of the
            // last holder of a lock that this session holds now must be visible.
            let end = self.shared.txns.log().wait_published()?;
            self.txn.saw(Lsn::new(end.get() - 1));
        }
        self.begin_statement(StatementKind::Write)?;
        self.checking = true;
        let repeatable = self.open.as_ref().is_some_and(|t| t.isolation() != Isolation::ReadCommitted);
        if sees == Sees::Newest && repeatable {
            let holder = self.shared.txns.hold_newest()?;
            self.txn.saw(Lsn::new(holder.snapshot().get() - 1));
            if let Some(view) = &mut self.view {
                view.snapshot = holder.snapshot();
            }
            if let Some(reads) = &self.reads {
                reads.lock().sees_beyond();
            }
            self.newest = Some(holder);
        }
        Ok(())
    }

    /// Ends a statement: leaves a row queue if it is in one; at READ COMMITTED it releases the snapshot.
    pub fn end_statement(&mut self) {
        if let Some(t) = &mut self.open {
            self.txn.end_statement(t);
            match (t.snapshot(), &mut self.view) {
                (None, view) => *view = None,
                (Some(snapshot), Some(view)) => view.snapshot = snapshot,
                (Some(_), None) => {}
            }
        }
        (self.checking, self.newest) = (false, None);
    }

    fn view(&self) -> Result<&View, EngineError> {
        self.view.as_ref().ok_or(if self.open.is_some() { NO_STATEMENT } else { NO_TRANSACTION })
    }

    /// Returns the view of the current statement, for a trace.
    #[cfg(feature = "trace-oracle")]
    pub(crate) const fn statement_view(&self) -> Option<View> {
        self.view
    }

    /// Fails if the snapshot was cancelled. Called after each read and before its result is used: N6.
    fn check_snapshot(&self) -> Result<(), EngineError> {
        match &self.open {
            Some(t) => Ok(self.txn.check_snapshot(t)?),
            None => Ok(()),
        }
    }

    fn fates(&self) -> TxnStatuses<'_> {
        TxnStatuses(&self.shared.txns)
    }

    /// Returns the value at `key`, without copying its bytes; own writes of earlier commands are visible.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] outside a statement; [`EngineError::TransactionLimit`] if a SERIALIZABLE
    /// transaction reads too many tables.
    pub fn get(&self, f: &Family, key: &[u8]) -> Result<Option<RowBytes>, EngineError> {
        self.read_key(f, key)?;
        let value = self.read(f, key, &pin())?.map(|value| RowBytes(Arc::clone(value)));
        self.check_snapshot()?;
        Ok(value)
    }

    /// Reads the value at `key` in place. `read` must not wait: no memory is reclaimed until it returns.
    ///
    /// # Errors
    /// As of [`Session::get`].
    pub fn get_with<R>(&self, f: &Family, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, EngineError> {
        self.read_key(f, key)?;
        let pin = pin();
        let value = self.read(f, key, &pin)?;
        self.check_snapshot()?;
        Ok(value.map(|value| read(value)))
    }

    /// Reads the value at `key`, measuring the read.
    #[inline]
    fn read<'p>(&self, f: &Family, key: &[u8], pin: &'p Pin) -> Result<Option<&'p Arc<[u8]>>, EngineError> {
        let (view, fates) = (self.view()?, self.fates());
        let span = collie_obs::start::<RowRead>();
        let value = f.read(key, view, &fates, pin);
        if let Some(span) = span {
            measured::row_read(span.end(), (f, key), value.map(|value| value.len()), (view, &fates, pin));
        }
        Ok(value)
    }

    /// Visits up to `limit` visible rows of `range` in order, or in reverse order, strictly after the key `after` in
    /// that order. `visit` must not wait; a row for which it returns `Break` counts as visited. Nothing is held after
    /// the call: the caller continues with the key in [`ScanEnd::More`].
    ///
    /// # Errors
    /// As of [`Session::get`]; [`EngineError::InvalidArgument`] for a limit of 0.
    pub fn scan(
        &self,
        f: &Family,
        range: &KeyRange,
        after: Option<&[u8]>,
        reverse: bool,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ScanEnd, EngineError> {
        if limit == 0 {
            return Err(EngineError::InvalidArgument { what: "a scan needs a limit above 0" });
        }
        let request = ScanRequest { span: range.span(after, reverse), limit };
        let (mut rows, mut bytes) = (0_usize, 0_usize);
        let mut visit = |key: &[u8], value: &[u8]| {
            if self.check_snapshot().is_err() {
                return ControlFlow::Break(());
            }
            (rows, bytes) = (rows + 1, bytes + value.len());
            visit(key, value)
        };
        let view = self.view()?;
        let span = collie_obs::start::<Scan>();
        let mut examined = 0;
        let stop = f.scan_counting(request, view, &self.fates(), &mut visit, &mut examined);
        if let Some(span) = span {
            measured::scan(span.end(), (f, request, reverse), [examined, rows, bytes], (view, &self.fates()));
        }
        self.check_snapshot()?; // covers rows that were not found, too
        let end = match stop {
            ScanStop::Exhausted => ScanEnd::Exhausted,
            ScanStop::At(key) => ScanEnd::More(key),
        };
        if let Some(reads) = &self.reads {
            let stop = match &end {
                ScanEnd::Exhausted => None,
                ScanEnd::More(key) => Some(&key[..]),
            };
            reads.lock().read_range(f.id(), request.span, stop)?;
        }
        Ok(end)
    }

    /// Notes that the caller learns whether there is a row at `key` (N4).
    fn read_key(&self, f: &Family, key: &[u8]) -> Result<(), EngineError> {
        match &self.reads {
            Some(reads) => reads.lock().read_key(f.id(), key),
            None => Ok(()),
        }
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if the key was freed after the snapshot of a transaction of REPEATABLE READ or above;
    /// [`EngineError::ReadChanged`] if it was taken since, and the transaction is SERIALIZABLE and had read it;
    /// [`EngineError::ReadOnly`], [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`]; limits; errors of the log
    /// for a large transaction.
    pub fn insert(&mut self, f: &Family, key: &[u8], value: &[u8]) -> Result<Insert, EngineError> {
        let (mut view, rules) = self.prepare(f, key, Some(value))?;
        view.snapshot = self.written_at(&view);
        let span = collie_obs::start::<RowInsert>();
        let outcome = f.insert(key, value, &view, &rules, &self.fates());
        let ended = span.map(Span::end);
        if let Err(error) = self.check_snapshot() {
            if let InsertOutcome::Done(pending) | InsertOutcome::DoneAfter { pending, .. } = outcome {
                f.undo(pending); // N2
            }
            return Err(error);
        }
        if let InsertOutcome::DoneAfter { csn, .. } = outcome {
            self.saw(Some(csn));
        }
        match outcome {
            InsertOutcome::Done(pending) | InsertOutcome::DoneAfter { pending, .. } => {
                if let Some(ended) = ended {
                    measured::row_insert(ended, &pending, value.len(), true);
                }
                self.shared.prune(f, pending.row());
                self.note_stored(&pending);
                self.writes.push(f.id(), pending);
                self.wrote(Op { cf: f.id(), key, value: Some(value) }, LockStrength::Update);
                Ok(Insert::Done)
            }
            InsertOutcome::Wait(holder) => Ok(Insert::Wait(row_blocker(f, key, holder, LockStrength::Update))),
            InsertOutcome::Duplicate { origin, value } => {
                if let Origin::Committed(csn) = origin {
                    self.saw(Some(csn));
                    if let Some(reads) = &self.reads {
                        reads.lock().found_taken(f.id(), key, csn, view.snapshot)?;
                    }
                }
                Ok(Insert::Duplicate(Existing { origin, row: RowBytes(value) }))
            }
            InsertOutcome::Conflict(csn) => Err(self.conflict(csn)),
            InsertOutcome::Dead => unreachable!("a family answers Dead by looking again"),
        }
    }

    /// Sets `key` to the value, whether there is a row or not; the caller does not learn which. It never returns a
    /// duplicate, and at READ COMMITTED it overwrites commits after the snapshot.
    ///
    /// # Errors
    /// As of [`Session::write`].
    pub(crate) fn put(&mut self, f: &Family, key: &[u8], value: &[u8]) -> Result<Option<Blocker>, EngineError> {
        let (mut view, rules) = self.prepare(f, key, Some(value))?;
        view.snapshot = self.written_at(&view);
        let span = collie_obs::start::<RowInsert>();
        let outcome = f.put(key, value, &view, &rules, &self.fates());
        let ended = span.map(Span::end);
        if let Err(error) = self.check_snapshot() {
            if let PutOutcome::Done { pending, .. } = outcome {
                f.undo(pending); // N2
            }
            return Err(error);
        }
        match outcome {
            PutOutcome::Done { pending, replaced, after } => {
                self.saw(after);
                if let Some(ended) = ended {
                    measured::row_insert(ended, &pending, value.len(), false);
                }
                self.shared.prune(f, pending.row());
                self.note_stored(&pending);
                self.writes.push(f.id(), pending);
                let strength = if replaced { LockStrength::NoKeyUpdate } else { LockStrength::Update };
                self.wrote(Op { cf: f.id(), key, value: Some(value) }, strength);
                Ok(None)
            }
            PutOutcome::Wait { holder, strength } => Ok(Some(row_blocker(f, key, holder, strength))),
            PutOutcome::Conflict(csn) => Err(self.conflict(csn)),
            PutOutcome::Dead => unreachable!("a family answers Dead by looking again"),
        }
    }

    /// Returns the basis of a write to a row that [`Self::insert`] met: the row as it was met, whether the statement's
    /// snapshot shows it or not. A row of [`Origin::ThisCommand`] cannot be written again by this command.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if the row was committed after the snapshot of a REPEATABLE READ transaction;
    /// [`EngineError::InvalidArgument`] outside a statement.
    pub fn basis_on(&self, existing: &Existing) -> Result<Basis, EngineError> {
        let snapshot = self.view()?.snapshot;
        match existing.origin {
            Origin::Committed(csn) if csn >= snapshot => {
                let isolation = self.open.as_ref().map(Transaction::isolation);
                if isolation == Some(Isolation::ReadCommitted) {
                    Ok(Basis::After(csn))
                } else {
                    Err(EngineError::Conflict)
                }
            }
            _ => Ok(Basis::Snapshot),
        }
    }

    /// Changes, deletes, moves or locks an existing row, based on the version that `basis` names.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if a newer version was committed and the transaction is REPEATABLE READ or above;
    /// [`EngineError::ReadOnly`], [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`]; limits; errors of the log
    /// for a large transaction.
    pub fn write(&mut self, f: &Family, key: &[u8], basis: Basis, what: Write<'_>) -> Result<Outcome, EngineError> {
        let (change, value) = match what {
            Write::Put(value) => (Change::Put(value), Some(value)),
            Write::PutKeys(value) => (Change::PutKeys(value), Some(value)),
            Write::Delete => (Change::Delete, None),
            Write::MoveTo { new_key } => (Change::MoveTo(new_key), None),
            Write::Lock(strength) => (Change::Lock(strength), None),
        };
        let strength = change.strength();
        let (mut view, mut rules) = self.prepare(f, key, value)?;
        if matches!(what, Write::Lock(_)) {
            self.read_key(f, key)?;
            rules.repeatable &= !self.checking; // N5
        } else {
            view.snapshot = self.written_at(&view);
        }
        let basis = match basis {
            Basis::Snapshot => collie_store::Basis::Snapshot,
            Basis::After(csn) => collie_store::Basis::After(csn),
        };
        let span = measured::Writing::start(&what);
        let outcome = f.write(key, change, basis, &view, &rules, &self.fates());
        let written = span.map(measured::Writing::end);
        if let Err(error) = self.check_snapshot() {
            match outcome {
                WriteOutcome::Done(pending) => f.undo(pending), // N2
                WriteOutcome::Shared(lock) => lock.release(&self.fates()),
                _ => {}
            }
            return Err(error);
        }
        let comes_again = matches!(outcome, WriteOutcome::Wait(_) | WriteOutcome::Changed { .. });
        if comes_again && !matches!(what, Write::Lock(_)) {
            self.tried.again(f.id(), key);
        }
        Ok(match outcome {
            WriteOutcome::Done(pending) => {
                if let Some(written) = written {
                    let value_bytes = value.map_or(0, <[u8]>::len);
                    written.tell(&pending, value_bytes, self.tried.times(f.id(), key));
                }
                self.shared.prune(f, pending.row());
                self.note_stored(&pending);
                self.writes.push(f.id(), pending);
                if matches!(what, Write::Lock(_)) {
                    self.took_row(f.id(), key, strength);
                } else {
                    self.wrote(Op { cf: f.id(), key, value }, strength);
                }
                Outcome::Done
            }
            WriteOutcome::Shared(lock) => {
                self.writes.push_share(lock);
                self.took_row(f.id(), key, strength);
                Outcome::Done
            }
            WriteOutcome::Held => {
                self.took_row(f.id(), key, strength);
                Outcome::Done
            }
            WriteOutcome::Wait(holder) => Outcome::Wait(row_blocker(f, key, holder, strength)),
            WriteOutcome::Changed { csn, value } => {
                self.saw(Some(csn));
                Outcome::Changed { csn, row: RowBytes(value) }
            }
            WriteOutcome::Moved { csn, key } => {
                self.saw(Some(csn));
                Outcome::Moved(key.into_vec())
            }
            WriteOutcome::Gone(csn) => {
                self.saw(csn);
                self.read_key(f, key)?;
                Outcome::Gone
            }
            WriteOutcome::Conflict(csn) => return Err(self.conflict(csn)),
            WriteOutcome::SelfModified => Outcome::SelfModified,
            WriteOutcome::Dead => unreachable!("a family answers Dead by looking again"),
        })
    }

    /// Returns the snapshot that writes are based on: the transaction's, if the statement reads at another one (N5).
    fn written_at(&self, view: &View) -> Lsn {
        self.open.as_ref().and_then(Transaction::snapshot).unwrap_or(view.snapshot)
    }

    /// Checks that a write is allowed now, assigns the transaction id if needed, and returns the view and the rules of
    /// the write. `value` is the value to store.
    fn prepare(&mut self, f: &Family, key: &[u8], value: Option<&[u8]>) -> Result<(View, WriteRules), EngineError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(EngineError::InvalidArgument { what: "a key is at most 65,531 bytes long" });
        }
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return Err(EngineError::InvalidArgument { what: "a value is at most 64 MiB long" });
        }
        let mut view = *self.view()?;
        if self.kind == StatementKind::ReadOnly {
            return Err(EngineError::ReadOnly);
        }
        self.shared.check_writable()?;
        if let Some(error) = self.doomed.as_ref().or_else(|| self.is_undoing.then_some(&UNDOING)) {
            return Err(error.clone());
        }
        self.shared.old.check_room()?;
        if let Some(value) = value.filter(|_| f.id() != CfId::CATALOG) {
            self.shared.memory.check_room(value.len(), || self.shared.families.memory_bytes())?;
        }
        let t = self.open.as_mut().ok_or(NO_TRANSACTION)?;
        let xid = self.txn.assign_xid_at(t, measured::first_write)?;
        view.me = Some(xid);
        self.view = Some(view);
        let repeatable = t.isolation() != Isolation::ReadCommitted;
        if self.redo.must_flush() {
            self.write_chunk(xid)?;
        }
        Ok((view, WriteRules { xid, repeatable }))
    }

    fn note_stored(&mut self, pending: &Pending) {
        self.stored += pending.bytes_with_row();
        if self.stored >= self.shared.memory.step() {
            let stored = std::mem::take(&mut self.stored);
            self.shared.memory.stored(stored, || self.shared.families.memory_bytes());
        }
    }

    fn write_chunk(&mut self, xid: Xid) -> Result<(), EngineError> {
        if self.redo.is_over_limit() {
            return Err(EngineError::TransactionLimit { what: "transaction has written 1 GiB of redo" });
        }
        let header = encode_integers(&[xid.get()]);
        let parts = [&header[..], self.redo.ops()];
        let log = self.shared.txns.log();
        if let Some(base) = self.shared.base().filter(|_| !self.redo.has_chunks()) {
            base.large.begin(xid, log.boundary());
        }
        let at = log.with_writer_that(self.manner, |writer| writer.append(tag::CHUNK, &parts))?;
        self.redo.chunk_written(at.start);
        Ok(())
    }

    fn wrote(&mut self, op: Op<'_>, strength: LockStrength) {
        self.wrote_catalog |= op.cf == CfId::CATALOG;
        if self.unlogged {
            self.redo.push_unlogged();
        } else {
            self.redo.push(&op);
        }
        self.took_row(op.cf, op.key, strength);
    }

    fn took_row(&mut self, cf: CfId, key: &[u8], strength: LockStrength) {
        if let Some(t) = &self.open {
            self.txn.took_row(t, cf, key, strength);
        }
    }

    fn saw(&mut self, csn: Option<Lsn>) {
        let snapshot = self.view.map_or(Lsn::ZERO, |view| view.snapshot);
        if let Some(csn) = csn.filter(|csn| *csn >= snapshot) {
            self.txn.saw(csn); // N3
        }
    }

    fn conflict(&mut self, csn: Lsn) -> EngineError {
        self.saw(Some(csn));
        EngineError::Conflict
    }

    /// Returns a mark of the current state of the transaction. It is cheap and may be called any number of times.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn savepoint(&mut self) -> Mark {
        let t = self.open.as_ref().expect("a savepoint is set in an open transaction");
        Mark { txn: t.savepoint(&self.writes), ops: self.redo.position(), writes: self.writes.position() }
    }

    /// Undoes everything since the mark and wakes waiters. Locks taken since are released, or get back their former
    /// strength. The mark stays valid.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn rollback_to(&mut self, m: Mark) {
        self.note_undone(m.writes);
        let t = self.open.as_mut().expect("a mark belongs to the open transaction");
        self.txn.rollback_to(t, m.txn, &mut self.writes);
        self.is_undoing = false;
        let xid = t.xid();
        if self.redo.truncate(m.ops)
            && let Some(xid) = xid
        {
            let record = encode_integers(&[xid.get(), m.ops]);
            let log = self.shared.txns.log();
            if let Err(error) = log.with_writer_that(self.manner, |writer| writer.append(tag::ROLLBACK_TO, &[&record]))
            {
                self.doomed = Some(error.into()); // N2
            }
        }
    }

    /// Requests a lock of table `id`, held until the transaction ends.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] if no transaction is open.
    pub fn lock_table(&mut self, id: u32, mode: TableLockMode) -> Result<TableLock, EngineError> {
        let t = self.open.as_mut().ok_or(NO_TRANSACTION)?;
        Ok(self.txn.lock_table(t, LockTarget::Table(id), mode))
    }

    /// Returns the session's advisory locks. Only the thread that runs the session may use the handle, even in the
    /// middle of a call to the session.
    pub fn advisory(&self) -> Advisory {
        Advisory(self.txn.advisory())
    }

    /// Returns a wait for the blocker, in its queue. Once it resolves, the caller repeats the call that returned the
    /// blocker.
    pub fn wait(&self, b: Blocker) -> WaitFuture {
        let measured = measured::MeasuredLockWait::start(&b, &self.shared.txns);
        WaitFuture::new(self.txn.wait_while(&b, || self.is_in_the_way(&b)), measured)
    }

    /// Returns whether the holder of a row still blocks: it may have rolled back to a savepoint.
    fn is_in_the_way(&self, b: &Blocker) -> bool {
        let Blocker::Row(RowLockRequest { row, holder, strength }) = b else { return true };
        let family = self.shared.families.get(row.family());
        family.is_some_and(|family| family.is_held(row.key(), *holder, *strength, &self.fates()))
    }

    /// Returns a handle that cancels this session's waits from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.txn.cancel_handle()
    }

    /// Returns the id of the open transaction, if it has written or locked a row.
    pub fn xid(&self) -> Option<Xid> {
        self.open.as_ref().and_then(Transaction::xid)
    }

    /// Assigns the open transaction its id, which it otherwise gets with its first write or row lock.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] if no transaction is open; [`EngineError::ReadOnly`],
    /// [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`].
    pub fn assign_xid(&mut self) -> Result<Xid, EngineError> {
        self.shared.check_writable()?;
        let t = self.open.as_mut().ok_or(NO_TRANSACTION)?;
        let xid = self.txn.assign_xid_at(t, measured::first_write)?;
        if let Some(view) = &mut self.view {
            view.me = Some(xid);
        }
        Ok(xid)
    }

    /// Returns the snapshot in force, which shows the commits below it. `None` between statements of READ COMMITTED,
    /// and before the first statement at other levels.
    pub fn snapshot(&self) -> Option<Lsn> {
        self.open.as_ref().and_then(Transaction::snapshot)
    }

    /// Returns whether the open transaction got table locks from commits that its snapshot does not show: its reads
    /// under these locks may be outdated. `false` while it has no snapshot.
    pub fn saw_beyond_snapshot(&self) -> bool {
        self.open.as_ref().is_some_and(|t| self.txn.saw_beyond_snapshot(t))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback();
    }
}

fn row_blocker(f: &Family, key: &[u8], holder: Xid, strength: LockStrength) -> Blocker {
    Blocker::Row(RowLockRequest { row: RowKey::new(f.id(), key), holder, strength })
}

#[cfg(test)]
#[cfg(not(loom))]
mod check_tests;
