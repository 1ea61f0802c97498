//! `Session`: begins, steps and ends the transactions of one connection, and keeps it from going back in time.
//!
//! # Invariants
//! - C1. `floor` is the lowest snapshot that the session may take: above every commit that it acted on, at or above
//!   every snapshot that it had. It only rises, until the log fails ([`Session::forget_unsettled`]).
//! - C2. [`Gate`] says when a reply that reveals what the session acted on may leave: when the boundary has reached
//!   `floor`, and at the end of a transaction of a synchronous session when max(settled, acknowledged floor) has. The
//!   caller must check it.
//! - C3. A transaction ends in this order: published, stamped (or undone, then published as aborted), share locks of
//!   rows released (by the write set, with stamping and undoing), done, waiters woken, snapshot ended, advisory locks
//!   of the transaction and table locks released. A commit of many versions is stamped last, by the next tick
//!   (`stamper.rs`).
//! - C4. Data read at the snapshot is used only after [`Session::check_snapshot`] (S3 of `snapshots.rs`).

use crate::{
    desc::{OWNER_BITS, OwnerId},
    error::TxnError,
    locks::advisory::Advisory,
    locks::cancel::{CancelHandle, Owner},
    locks::table_lock::{LockTarget, TableLock, TableLockMode, TableLocksHeld},
    locks::wait::Wait,
    locks::waits::{Blocker, RowKey},
    log::{Appended, CommitLog},
    snapshots::Origin,
    transaction::{Isolation, StatementKind, Transaction},
    txns::{Gate, Txns},
    write_set::{Mark, WriteSet},
};
use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_sync::{atomic::Ordering, mutant};
use std::sync::Arc;

/// One connection, or one embedded handle. Has at most one transaction at a time.
#[derive(Debug)]
pub struct Session<L: CommitLog> {
    txns: Arc<Txns<L>>,
    owner: Arc<Owner>,
    slot: usize,
    /// Number of transactions that this slot has had, in all its sessions.
    transactions: u64,
    current: OwnerId,
    floor: Lsn,
    /// Whether the slot has a time of the first write ([`Txns::first_write`]), which the next transaction must clear if
    /// it has none.
    has_moment: bool,
}

/// The outcome of beginning a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Start {
    /// The statement reads at this snapshot.
    Ready(Lsn),
    /// The session has seen more than a snapshot would show now: wait, then ask again.
    Wait(Behind),
}

/// The position for which a statement waits before it may take its snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// The boundary must reach this.
    Boundary(Lsn),
    /// max(settled, acknowledged floor) must reach this ([`Txns::settled`]); without a quorum, waiting for `durable`
    /// suffices.
    Settled(Lsn),
}

/// A commit record, ready to append.
#[derive(Clone, Copy, Debug)]
pub struct CommitRecord<'a> {
    /// The record's tag.
    pub tag: u8,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// The outcome of a transaction, and the locks that it still holds.
#[derive(Debug)]
#[must_use]
pub enum Ended {
    /// It committed: `start` is its CSN, and it is durable once `durable` reaches `end`. Other sessions see it once the
    /// boundary passes `start`. The table locks are released when `locks` is dropped: if the transaction changed the
    /// catalog, keep them until the reply may leave.
    Committed {
        /// The place of its commit record.
        at: Appended,
        /// Its table locks.
        locks: TableLocksHeld,
    },
    /// It had nothing to commit and left no trace in the log.
    Nothing,
    /// It was rolled back: a commit that its snapshot does not show changed what it had read.
    ReadChanged {
        /// That commit.
        csn: Lsn,
    },
}

impl<L: CommitLog> Txns<L> {
    /// Opens a session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn session(self: &Arc<Self>) -> Result<Session<L>, TxnError> {
        Session::new(Arc::clone(self))
    }
}

impl<L: CommitLog> Session<L> {
    pub(crate) fn new(txns: Arc<Txns<L>>) -> Result<Self, TxnError> {
        let (slot, transactions) = txns.snapshots.take_slot(true)?;
        let owner = Arc::new(Owner::new(Arc::clone(&txns.locks), slot));
        let mut session =
            Self { txns, owner, slot, transactions, current: OwnerId(0), floor: Lsn::ZERO, has_moment: false };
        session.current = session.owner_id();
        session.owner.current.store(session.current.0, Ordering::Relaxed);
        Ok(session)
    }

    fn owner_id(&self) -> OwnerId {
        OwnerId(OwnerId::session(self.slot).0 | self.transactions)
    }

    /// Returns the state that all sessions share.
    pub fn txns(&self) -> &Arc<Txns<L>> {
        &self.txns
    }

    /// Returns a handle that cancels the session's current work, from any thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::clone(&self.owner))
    }

    /// Returns the session's advisory locks, for the thread that runs it.
    #[must_use]
    pub fn advisory(&self) -> Advisory {
        Advisory(Arc::clone(&self.owner))
    }

    /// Begins a transaction. It has no xid and no snapshot yet.
    pub fn begin(&mut self, isolation: Isolation, read_only: bool) -> Transaction {
        self.transactions += 1;
        assert!(self.transactions < 1 << OWNER_BITS, "a snapshot slot has had 2^44 transactions");
        self.current = self.owner_id();
        self.owner.current.store(self.current.0, Ordering::Relaxed);
        Transaction {
            isolation,
            read_only,
            command: 0,
            snapshot: None,
            desc: None,
            tables: TableLocksHeld::new(Arc::clone(&self.owner), self.current),
        }
    }

    /// Begins a statement: next command number, and a snapshot (READ COMMITTED: a new one; else one per transaction).
    ///
    /// Take table locks first, so that the snapshot shows what their last holder did. On [`Start::Wait`] the statement
    /// has not begun.
    ///
    /// # Errors
    /// [`TxnError::TooManyCommands`]; [`TxnError::SnapshotCancelled`] for the transaction's current snapshot.
    pub fn begin_statement(&mut self, t: &mut Transaction, kind: StatementKind) -> Result<Start, TxnError> {
        let command = t.command.checked_add(1).ok_or(TxnError::TooManyCommands)?;
        // G4 of the table locks, for advisory locks: the snapshot must show what their last holders committed.
        let after = self.owner.after.load(Ordering::Relaxed);
        if after > 0 {
            self.owner.after.store(0, Ordering::Relaxed);
            self.saw(Lsn::new(after));
        }
        let snapshot = match t.snapshot {
            Some(snapshot) if t.isolation != Isolation::ReadCommitted => {
                self.check_snapshot(t)?;
                snapshot
            }
            _ => {
                let from = if kind != StatementKind::Newest && t.read_only
                    || t.isolation == Isolation::ReadCommitted && kind == StatementKind::ReadOnly && t.desc.is_none()
                {
                    Origin::Settled
                } else {
                    Origin::Boundary
                };
                let snapshot = self.txns.snapshots.begin(self.slot, from, &self.txns.log);
                // C1: a snapshot below the floor is given back.
                if snapshot < self.floor && !mutant!("NO_SEEN_FLOOR_GATE") {
                    self.txns.snapshots.end(self.slot);
                    t.snapshot = None;
                    return Ok(Start::Wait(match from {
                        Origin::Boundary => Behind::Boundary(self.floor),
                        Origin::Settled | Origin::Durable => Behind::Settled(self.floor),
                    }));
                }
                self.floor = snapshot;
                snapshot
            }
        };
        t.command = command;
        t.snapshot = Some(snapshot);
        Ok(Start::Ready(snapshot))
    }

    /// Returns an error if the transaction's snapshot was cancelled. Call it after each read at the snapshot and before
    /// its result is used: a read after the cancellation may lack versions, a read before it does not.
    ///
    /// Cost: one load of the session's own word.
    ///
    /// # Errors
    /// [`TxnError::SnapshotCancelled`]. Writes made so far are valid: the transaction can still commit.
    #[inline]
    pub fn check_snapshot(&self, t: &Transaction) -> Result<(), TxnError> {
        if t.snapshot.is_some() && self.txns.snapshots.is_cancelled(self.slot) {
            return Err(TxnError::SnapshotCancelled(self.txns.snapshots.why_cancelled(self.slot)));
        }
        Ok(())
    }

    /// Returns the number of the session's snapshot slot. Another session may get it once this one is closed.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Ends a statement: leaves the row queue in which it still is, and in READ COMMITTED ends its snapshot.
    pub fn end_statement(&mut self, t: &mut Transaction) {
        self.leave_queue();
        if t.isolation == Isolation::ReadCommitted && t.snapshot.take().is_some() {
            self.txns.snapshots.end(self.slot);
        }
    }

    /// Records that the session acted on the commit at `csn` although its snapshot does not show it: a row examined
    /// again after a wait, a duplicate key, a conflict.
    pub fn saw(&mut self, csn: Lsn) {
        self.floor = self.floor.max(csn.plus(1));
    }

    /// Lets the session read at the settled position, once the log has failed: what it has seen above will never be
    /// settled, and no reply revealed that without reporting the failure.
    pub fn forget_unsettled(&mut self) {
        self.floor = Lsn::ZERO;
    }

    /// Returns the error for a row that was changed at `csn`, after the snapshot, and records that the commit was seen.
    pub fn conflict(&mut self, t: &Transaction, csn: Lsn) -> TxnError {
        self.saw(csn);
        TxnError::Conflict { csn, snapshot: t.snapshot.unwrap_or(Lsn::ZERO) }
    }

    /// Returns what must hold before a reply leaves. At the end of a transaction that wrote nothing, in a synchronous
    /// session, set `ends_synchronous`; any other reply needs the boundary only.
    #[must_use]
    pub fn gate(&self, ends_synchronous: bool) -> Gate {
        Gate { boundary: self.floor, settled: ends_synchronous.then_some(self.floor) }
    }

    /// Assigns the transaction its xid, before its first version or row lock.
    ///
    /// # Progress
    /// Wait-free while the ring of xids has room.
    ///
    /// # Errors
    /// [`TxnError::ReadOnly`].
    pub fn assign_xid(&mut self, t: &mut Transaction) -> Result<Xid, TxnError> {
        self.assign_xid_at(t, || 0)
    }

    /// Stores the time of the first write, or clears an earlier one. Writes nothing if there is neither.
    fn note_first_write(&mut self, moment: u64) {
        if moment != 0 || self.has_moment {
            self.has_moment = moment != 0;
            self.txns.snapshots.note_first_write(self.slot, moment);
        }
    }

    /// Does the same as [`Session::assign_xid`], and records the time for sessions that will wait for the transaction
    /// ([`Txns::first_write`]): `now`, called only if it has no xid yet, returns it in a unit chosen by the caller, or
    /// 0 for none.
    ///
    /// # Errors
    /// As for [`Session::assign_xid`].
    pub fn assign_xid_at(&mut self, t: &mut Transaction, now: impl FnOnce() -> u64) -> Result<Xid, TxnError> {
        if let Some(xid) = t.xid() {
            return Ok(xid);
        }
        if t.read_only {
            return Err(TxnError::ReadOnly);
        }
        let desc = self.txns.map.allocate(t.tables.id());
        self.note_first_write(now());
        let xid = desc.xid;
        t.desc = Some(desc);
        Ok(xid)
    }

    /// Requests a table or advisory lock, held until the transaction ends or rolls back to an earlier savepoint.
    pub fn lock_table(&mut self, t: &mut Transaction, target: LockTarget, mode: TableLockMode) -> TableLock {
        let lock = t.tables.acquire(target, mode);
        if t.tables.after() > Lsn::ZERO {
            self.saw(t.tables.after());
        }
        lock
    }

    /// Returns whether the session acted on commits that the snapshot of `t` does not show: one of them may have
    /// released a lock. `false` without a snapshot.
    #[must_use]
    pub fn saw_beyond_snapshot(&self, t: &Transaction) -> bool {
        t.snapshot.is_some_and(|snapshot| self.floor > snapshot)
    }

    /// Joins the queue for what is in the way. For a row, the transaction must not hold an epoch pin or a latch.
    ///
    /// If the holder of a row rolled back to a savepoint between the caller's look and this call, and so freed the row,
    /// the wait still lasts until the holder ends: for rows use [`Session::wait_while`], which closes that gap.
    pub fn wait(&self, blocker: &Blocker) -> Wait {
        self.wait_while(blocker, || true)
    }

    /// Like [`Session::wait`], but looks once more when it is registered: if `still_held` returns `false` there is
    /// nothing to wait for. `still_held` runs under the lock of all queues: one look at the row and its share locks, no
    /// wait.
    pub fn wait_while(&self, blocker: &Blocker, still_held: impl FnOnce() -> bool) -> Wait {
        self.txns.locks.wait(&self.owner, self.current, blocker, still_held)
    }

    /// Returns whether the session is waiting for a lock.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.txns.locks.is_waiting(self.current)
    }

    /// Reports that a row was taken in this strength, and gives up the place in the queue. If it is the row last waited
    /// for, conflicting waiters in its queue now wait for this transaction, which saves each a futile look.
    pub fn took_row(&mut self, t: &Transaction, cf: CfId, key: &[u8], strength: LockStrength) {
        if let Some(desc) = t.desc.as_ref().filter(|_| self.owner.queued.swap(false, Ordering::Relaxed)) {
            self.txns.locks.leave_queue_as_holder(self.current, &RowKey::new(cf, key), desc, strength);
        }
    }

    /// Gives up the session's place in a row's queue, if it has one, and wakes the next waiter. For a row that no
    /// longer matches.
    pub fn leave_queue(&mut self) {
        if self.owner.queued.swap(false, Ordering::Relaxed) {
            self.txns.locks.leave_queue(self.current);
        }
    }

    /// Rolls back to a savepoint: undoes the versions and releases the table locks since then, and wakes their waiters.
    ///
    /// The mark stays valid. The caller must void redo chunks that are already in the log.
    pub fn rollback_to(&mut self, t: &mut Transaction, mark: Mark, writes: &mut impl WriteSet) {
        self.leave_queue();
        let early = mutant!("WAITERS_BEFORE_UNDO").then(|| t.desc.as_ref().is_some_and(|desc| desc.is_waited_for()));
        writes.undo_to(mark.writes);
        t.tables.release_to(mark.table_locks);
        self.owner.release_transaction_advisory(mark.advisory, Lsn::ZERO);
        // After the undo: a waiter that announces itself later looks at the row once more, and sees the undo.
        if let Some(desc) = t.desc.as_ref().filter(|desc| early.unwrap_or_else(|| desc.is_waited_for())) {
            self.txns.locks.release_rows(desc.xid);
        }
    }

    /// Commits: appends `record`, publishes at its start, stamps, and lets waiters proceed. Without a record (nothing
    /// written, or rows only locked) the transaction ends without a trace.
    ///
    /// # Durability
    /// None yet: wait until the boundary (asynchronous; then [`Txns::acknowledge`]) or `durable` reaches the end.
    ///
    /// # Errors
    /// Those of the log. The transaction is then rolled back.
    pub fn commit(
        &mut self,
        t: Transaction,
        writer: &mut L::Writer,
        record: Option<CommitRecord<'_>>,
        writes: &mut impl WriteSet,
    ) -> Result<Ended, L::Error> {
        let Some(record) = record else {
            self.abort(t, writes);
            return Ok(Ended::Nothing);
        };
        debug_assert!(t.isolation != Isolation::Serializable, "V1: a SERIALIZABLE commit is validated");
        let appended = self.append_commit(&t, writer, record, || ());
        self.finish_commit(t, appended, writes)
    }

    /// Appends and publishes; `numbered` is called when the CSN is known and not yet published.
    pub(crate) fn append_commit(
        &self,
        t: &Transaction,
        writer: &mut L::Writer,
        record: CommitRecord<'_>,
        numbered: impl FnOnce(),
    ) -> Result<Appended, L::Error> {
        let desc = t.desc.as_deref().expect("a transaction with a commit record has an xid");
        self.txns.log.append_commit(writer, record.tag, record.bytes, |start| {
            numbered();
            self.txns.map.publish(desc, start);
        })
    }

    /// Ends the transaction by the outcome of its append, in the order of C3.
    pub(crate) fn finish_commit(
        &mut self,
        mut t: Transaction,
        appended: Result<Appended, L::Error>,
        writes: &mut impl WriteSet,
    ) -> Result<Ended, L::Error> {
        let at = match appended {
            Ok(at) => at,
            Err(error) => {
                self.abort(t, writes);
                return Err(error);
            }
        };
        let desc = t.desc.as_ref().expect("a transaction with a commit record has an xid");
        // Many versions: waiters proceed at once, and the next tick stamps.
        if let Some(unstamped) = writes.hand_over() {
            if self.txns.map.finish_unstamped(desc) {
                self.txns.locks.release_rows(desc.xid);
            }
            self.txns.stamper.take(&self.txns.map, desc, at.start, unstamped);
        } else {
            if mutant!("DONE_BEFORE_STAMPED") {
                let _ = self.txns.map.finish(desc);
            }
            writes.stamp(at.start);
            if self.txns.map.finish(desc) {
                self.txns.locks.release_rows(desc.xid);
            }
        }
        // The session's next snapshot must show its own commit (C1).
        self.saw(at.start);
        self.end(&t);
        // G4 of the table locks: their next holders read above this commit.
        t.tables.committed(at.start);
        self.owner.last_commit.store(at.start.get(), Ordering::Relaxed);
        self.owner.release_transaction_advisory(0, at.start);
        Ok(Ended::Committed { at, locks: t.tables })
    }

    /// Rolls back: undoes the versions, then lets waiters proceed.
    pub fn abort(&mut self, t: Transaction, writes: &mut impl WriteSet) {
        writes.undo_to(0);
        if let Some(desc) = &t.desc {
            self.txns.map.publish_abort(desc);
            if self.txns.map.finish(desc) {
                self.txns.locks.release_rows(desc.xid);
            }
        }
        self.end(&t);
        self.owner.release_transaction_advisory(0, Lsn::ZERO);
    }

    fn end(&mut self, t: &Transaction) {
        self.leave_queue();
        if t.snapshot.is_some() {
            self.txns.snapshots.end(self.slot);
        }
    }
}

impl<L: CommitLog> Drop for Session<L> {
    fn drop(&mut self) {
        self.leave_queue();
        self.note_first_write(0);
        self.owner.release_transaction_advisory(0, Lsn::ZERO);
        self.owner.give_all_advisory_back();
        self.txns.snapshots.give_slot(self.slot, self.transactions);
    }
}
