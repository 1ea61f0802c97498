//! `WaitFuture` and `Ack`: the two waits of a session, for a lock and for the log. Each is a future of the standard
//! library with a blocking variant; neither needs a runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use collie_base::Lsn;
use collie_sync::{mutant, thread_waker};
use collie_txn::{Gate, TableLocksHeld, Txns, Wait, WaitLimit};
use collie_wal::Reached;

use crate::log::EngineLog;
use crate::log::settled::{CommitLevel, Confirm, ConfirmWait};
use crate::measured::MeasuredLockWait;
use crate::session::ack_condition::{AckCondition, Missing};
use crate::{EngineError, Receipt};

/// Resolves when the blocker is probably gone: the caller repeats the call that returned it.
///
/// # Cancel safety
/// Dropping it leaves the queue and wakes the next waiter.
#[must_use = "a wait that is dropped leaves the queue"]
#[derive(Debug)]
pub struct WaitFuture {
    wait: Wait,
    measured: Option<MeasuredLockWait>,
}

impl WaitFuture {
    pub(crate) fn new(wait: Wait, measured: Option<MeasuredLockWait>) -> Self {
        Self { wait, measured }
    }

    /// Returns a handle that ends this wait, and no other, with [`EngineError::LockTimeout`], from any thread.
    pub fn limit(&self) -> WaitLimit {
        self.wait.limit()
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// [`EngineError::Deadlock`], [`EngineError::Cancelled`], and [`EngineError::LockTimeout`] after `timeout`.
    pub fn block(self, timeout: Option<Duration>) -> Result<(), EngineError> {
        let Self { wait, measured } = self;
        let ahead = wait.ahead();
        wait.block(timeout)?;
        if let Some(measured) = measured {
            measured.tell(ahead);
        }
        Ok(())
    }
}

impl Future for WaitFuture {
    type Output = Result<(), EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.wait).poll(cx);
        if matches!(polled, Poll::Ready(Ok(())))
            && let Some(measured) = this.measured.take()
        {
            measured.tell(this.wait.ahead());
        }
        polled.map_err(EngineError::from)
    }
}

/// Resolves when the reply to the end of a transaction may leave.
///
/// # Durability
/// After `commit(true)`: the transaction is on disk. After `commit(false)`: it is visible to all and will be on disk
/// soon. After `commit_at` with a higher level: a quorum of replicas has it too, unless [`Ack::is_unconfirmed`] returns
/// true. After the end of a transaction that wrote nothing: the same holds for everything that it has seen.
///
/// # Cancel safety
/// Dropping it takes nothing back: the transaction is committed, but the caller does not learn when it is on disk. A
/// server whose client has gone still waits for it if the catalog was changed, since it holds the table locks.
#[must_use = "the reply may leave only when this resolves"]
#[derive(Debug)]
pub struct Ack {
    txns: Arc<Txns<EngineLog>>,
    receipt: Receipt,
    needs: AckCondition,
    reached: Option<Reached>,
    confirming: Option<ConfirmWait>,
    unconfirmed: bool,
    /// Table locks of a transaction that changed the catalog: the next holder's snapshot must show the change.
    locks: Option<TableLocksHeld>,
}

impl Ack {
    /// Returns the wait for a transaction that was committed at `receipt` and whose record ends at `end`.
    pub(crate) fn committed(
        txns: &Arc<Txns<EngineLog>>,
        receipt: Receipt,
        end: Lsn,
        level: CommitLevel,
        locks: Option<TableLocksHeld>,
    ) -> Self {
        let needs = AckCondition::committed(end, level, txns.log().replicas().is_some());
        Self::new(txns, receipt, needs, locks)
    }

    fn new(txns: &Arc<Txns<EngineLog>>, receipt: Receipt, needs: AckCondition, locks: Option<TableLocksHeld>) -> Self {
        let txns = Arc::clone(txns);
        Self { txns, receipt, needs, reached: None, confirming: None, unconfirmed: false, locks }
    }

    /// Returns the wait for a transaction that wrote nothing.
    pub(crate) fn nothing_written(txns: &Arc<Txns<EngineLog>>, gate: Gate, level: CommitLevel) -> Self {
        let needs = AckCondition::nothing_written(gate, level, txns.log().replicas().is_some());
        Self::new(txns, Receipt::default(), needs, None)
    }

    /// Returns the next condition that is not met.
    fn missing(&self) -> Option<Missing> {
        self.needs.missing(&self.txns)
    }

    /// Returns the position of the commit in the log, if it wrote.
    pub const fn csn(&self) -> Option<Lsn> {
        self.receipt.csn
    }

    /// Returns the receipt, even before this has resolved.
    pub const fn receipt(&self) -> Receipt {
        self.receipt
    }

    fn finish(&mut self) -> Receipt {
        self.unconfirmed = self.needs.met(&self.txns);
        (self.locks, self.confirming) = (None, None);
        if let Some(csn) = self.receipt.csn {
            self.txns.log().draw().note(csn);
        }
        self.receipt
    }

    /// Takes the table locks of a transaction that changed the catalog, if it is one: they are released when the caller
    /// drops them, and no longer when this resolves. It is meant for a caller that publishes the change in between:
    /// snapshots taken after this has resolved show the transaction.
    pub fn take_locks(&mut self) -> Option<TableLocksHeld> {
        self.locks.take()
    }

    /// Returns whether only replicas are missing: this node's disk has the commit.
    pub fn waits_for_replicas(&self) -> bool {
        matches!(self.missing(), Some(Missing::Replicas(..)))
    }

    /// Stops waiting for replicas: this resolves once this node's disk has the commit, and [`Ack::is_unconfirmed`] then
    /// returns true. All sessions may see the commit then, though the loss of this node can still take it back.
    pub fn give_up_replicas(&mut self) {
        self.needs.give_up_replicas();
    }

    /// Returns, once this has resolved, whether it did so without the replicas that the level requires: they were given
    /// up, or are not counted now ([`Db::count_replicas`](crate::Db::count_replicas)).
    pub fn is_unconfirmed(&self) -> bool {
        self.unconfirmed && !mutant!("DEGRADED_SILENTLY")
    }

    /// Returns whether the reply may leave already. It takes one or two loads, and a look at the log's slots after a
    /// commit that does not wait for the disk.
    pub fn is_ready(&self) -> bool {
        self.missing().is_none()
    }

    /// Waits on this thread, and flushes the log itself if no other thread does.
    ///
    /// # Errors
    /// Those of the log: the next opening may or may not find the transaction.
    pub fn block(mut self) -> Result<Receipt, EngineError> {
        self.wait()
    }

    /// Waits as [`Ack::block`] does, for a caller that then asks [`Ack::is_unconfirmed`].
    ///
    /// # Errors
    /// As of [`Ack::block`].
    pub fn wait(&mut self) -> Result<Receipt, EngineError> {
        let waker = thread_waker();
        loop {
            match self.missing() {
                None => return Ok(self.finish()),
                Some(Missing::Log(mark, lsn)) => self.txns.log().wait(mark, lsn)?,
                Some(Missing::Replicas(..)) => match Pin::new(&mut *self).poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(outcome) => return outcome,
                    Poll::Pending => std::thread::park(), // returns at once if a wake came first
                },
            }
        }
    }

    /// Waits for replicas: ready when it is worthwhile to check again.
    fn poll_replicas(&mut self, confirm: Confirm, lsn: Lsn, cx: &Context<'_>) -> Poll<Result<(), EngineError>> {
        let Some(settled) = self.txns.log().replicas() else { return Poll::Ready(Ok(())) };
        if settled.is_closed() {
            return Poll::Ready(Err(EngineError::Closed));
        }
        let mut wait = self.confirming.take().unwrap_or_else(|| ConfirmWait::new(settled, confirm, lsn));
        let polled = wait.poll_until(cx.waker(), || settled.is_closed() || !self.waits_for_replicas());
        self.confirming = Some(wait);
        polled.map(Ok)
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        // No caller waits any more, but the record must get to the disk soon, as promised.
        if self.missing().is_some() {
            self.txns.log().flush_soon();
        }
    }
}

impl Future for Ack {
    type Output = Result<Receipt, EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(missing) = self.missing() {
            let this = &mut *self;
            let (mark, lsn) = match missing {
                Missing::Log(mark, lsn) => (mark, lsn),
                Missing::Replicas(confirm, lsn) => match this.poll_replicas(confirm, lsn, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(looked) => {
                        looked?;
                        continue;
                    }
                },
            };
            // Without a log nothing moves any more.
            let Some(wal) = this.txns.log().wal() else { return Poll::Ready(Err(EngineError::Closed)) };
            let reached = this.reached.get_or_insert_with(|| wal.reached(mark, lsn));
            match Pin::new(reached).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(outcome) => {
                    this.reached = None;
                    outcome?;
                }
            }
        }
        Poll::Ready(Ok(self.finish()))
    }
}
