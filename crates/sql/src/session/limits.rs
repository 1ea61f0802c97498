//! Time limits of a session: `statement_timeout`, `lock_timeout`, `transaction_timeout` and the two for idle clients.
//!
//! They cover the same as PostgreSQL's. A statement's time begins with its message; in the extended protocol it begins
//! with the first of Parse, Bind and Execute, and runs until an Execute completes or Sync comes. It ends before the
//! statement's commit: a commit that waits for the disk has happened and cannot be cancelled. A limit that is reached
//! while the session waits for the next message of a pipeline fails that message. Each wait for a lock has its own
//! time.
//!
//! # Invariants
//! - K1. While `timing`, the alarm holds the current generation; [`Session::stop_clock`] ends that generation, so that
//!   no timer set for it can cancel later work.
//! - K2. With both limits (statement and transaction) at 0, a statement pays one branch at its beginning and one at its
//!   end.
//!
//! Checked by the clients' tests of time limits (`tests/clients/tests/time_limits.rs`).

use std::{
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use collie_engine::{Blocker, CancelHandle, CancelReason, EngineError};
use collie_sync::thread_waker;

use crate::{
    error::{Result, SqlError, SqlState},
    exec::cancelled,
    session::{Database, Session, timer::Alarm, transaction::Block},
};

/// The nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The limits that are set, in milliseconds; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct TimeLimits {
    pub(in crate::session) statement_ms: u64,
    pub(in crate::session) lock_ms: u64,
    pub(in crate::session) transaction_ms: u64,
    pub(in crate::session) idle_in_transaction_ms: u64,
    pub(in crate::session) idle_session_ms: u64,
}

/// The clock of a session.
#[derive(Debug)]
pub(super) struct Limits {
    alarm: Arc<Alarm>,
    /// Whether a statement's time is running.
    timing: bool,
    /// The start of the transaction's time, by the timer's clock; `None` before the first statement under a limit.
    transaction_from: Option<u64>,
}

impl Limits {
    pub(super) fn new(cancel: CancelHandle) -> Self {
        Self { alarm: Alarm::new(cancel), timing: false, transaction_from: None }
    }

    /// Notes that the transaction has ended.
    pub(super) fn end_transaction(&mut self) {
        self.transaction_from = None;
    }
}

/// The time that a session may wait for its client. At its end, the owner of the session sends the error and drops the
/// session.
#[derive(Clone, Debug)]
pub struct IdleLimit {
    /// The time from now.
    pub after: Duration,
    /// The error for the client; it ends the session.
    pub error: SqlError,
}

impl Session {
    /// Fails if the time of a statement ran out while the session waited for the client's next message.
    pub(super) fn check_clock(&mut self) -> Result<()> {
        if self.limits.timing && self.cancel.reason() == Some(CancelReason::StatementTimeout) {
            self.stop_clock();
            return Err(cancelled(CancelReason::StatementTimeout));
        }
        Ok(())
    }

    /// Starts the time of a statement, unless it is running.
    pub(super) fn start_clock(&mut self) {
        let limits = self.settings.effective().limits;
        if limits.statement_ms | limits.transaction_ms == 0 || self.limits.timing {
            return;
        }
        let timer = &self.database.timer;
        let now = timer.now_ns();
        let generation = self.cancel.generation();
        let statement = (limits.statement_ms > 0).then(|| now + limits.statement_ms * MS);
        let transaction = (limits.transaction_ms > 0).then(|| {
            // Outside a block, the statement begins a transaction with its own time.
            if self.transaction.block == Block::None {
                self.limits.transaction_from = None;
            }
            *self.limits.transaction_from.get_or_insert(now) + limits.transaction_ms * MS
        });
        let (at, reason) = match (statement, transaction) {
            (Some(statement), Some(transaction)) if statement < transaction => {
                (statement, CancelReason::StatementTimeout)
            }
            (Some(statement), None) => (statement, CancelReason::StatementTimeout),
            (_, Some(transaction)) => (transaction, CancelReason::TransactionTimeout),
            (None, None) => return,
        };
        self.limits.timing = true;
        timer.limit_statement(&self.limits.alarm, at, generation, reason);
    }

    /// Ends the time of a statement: the limit cannot cancel later work.
    pub(super) fn stop_clock(&mut self) {
        if std::mem::take(&mut self.limits.timing) {
            self.cancel.settle();
            if self.is_told_to_end() {
                // The time limit may have come first and hidden the order to end.
                self.cancel.cancel();
            }
        }
    }

    /// Starts the time limit of a commit's wait for replicas.
    pub(super) fn limit_replicas(&self, timeout: Duration) {
        let timer = &self.database.timer;
        let at = timer.now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        timer.limit_statement(&self.limits.alarm, at, self.cancel.generation(), CancelReason::ReplicasTimeout);
    }

    /// Ends the time limit of a wait for replicas. `is_used_up`: a cancel ended the wait, and has no effect on later
    /// work.
    pub(super) fn end_replicas(&self, is_used_up: bool) {
        if is_used_up {
            self.cancel.clear();
        } else {
            self.cancel.settle();
        }
        if self.is_told_to_end() {
            self.cancel.cancel();
        }
    }

    /// Waits until the transaction may begin to write: a switchover of the primary holds it back.
    pub(super) async fn wait_to_begin(&self) -> Result<()> {
        match self.engine.wait_to_begin()? {
            None => Ok(()),
            Some(wait) => wait.await.map_err(|error| wait_failed(error, &self.cancel)),
        }
    }

    /// Waits until flushes leave room in the log for a statement that writes, and waits as [`Session::wait_to_begin`]
    /// does. This is no wait for a lock, so only the statement's time limit and a cancel end it.
    pub(super) async fn wait_for_room(&self) -> Result<()> {
        match self.engine.wait_for_room()? {
            None => Ok(()),
            Some(wait) => wait.await.map_err(|error| wait_failed(error, &self.cancel)),
        }
    }

    /// Waits for a lock, at most for `lock_timeout`.
    pub(super) async fn wait(&self, blocker: Blocker) -> Result<()> {
        let wait = self.engine.wait(blocker);
        let limit_ms = self.settings.effective().limits.lock_ms;
        if limit_ms > 0 {
            let timer = &self.database.timer;
            timer.limit_wait(&self.limits.alarm, timer.now_ns() + limit_ms * MS, wait.limit());
        }
        wait.await.map_err(|error| wait_failed(error, &self.cancel))
    }

    /// Returns how long the client may take until its next message. `asked`: whether the client got ReadyForQuery; in
    /// the middle of a pipeline only the time of the transaction counts.
    pub fn idle_limit(&self, asked: bool) -> Option<IdleLimit> {
        let limits = self.settings.effective().limits;
        let idle = match self.transaction.block {
            _ if !asked => None,
            Block::None | Block::Implicit => {
                Some((limits.idle_session_ms, SqlState::IDLE_SESSION_TIMEOUT, "idle-session"))
            }
            Block::Explicit | Block::Failed => {
                let state = SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
                Some((limits.idle_in_transaction_ms, state, "idle-in-transaction"))
            }
        };
        let idle_limit = idle.filter(|(ms, ..)| *ms > 0).map(|(ms, state, what)| IdleLimit {
            after: Duration::from_millis(ms),
            error: SqlError::new(state, format!("terminating connection due to {what} timeout")),
        });
        let open = matches!(self.transaction.block, Block::Implicit | Block::Explicit);
        let transaction_limit =
            self.limits.transaction_from.filter(|_| open && limits.transaction_ms > 0).map(|from| {
                let end = from + limits.transaction_ms * MS;
                IdleLimit {
                    after: Duration::from_nanos(end.saturating_sub(self.database.timer.now_ns())),
                    error: cancelled(CancelReason::TransactionTimeout),
                }
            });
        match (idle_limit, transaction_limit) {
            (Some(idle), Some(transaction)) if idle.after < transaction.after => Some(idle),
            (idle, None) => idle,
            (_, transaction) => transaction,
        }
    }
}

/// Returns the reason why a wait for a lock failed.
pub(super) fn wait_failed(error: EngineError, cancel: &CancelHandle) -> SqlError {
    match (error, cancel.reason()) {
        (EngineError::Cancelled, Some(reason)) => cancelled(reason),
        (error, _) => error.into(),
    }
}

/// Sleeps on this thread for `time`, or until the session is cancelled.
///
/// # Errors
/// Those of a cancelled statement.
pub(super) fn sleep(database: &Database, cancel: &CancelHandle, time: Duration) -> Result<()> {
    block_until(database, cancel, time, Duration::MAX, &mut |_| Poll::<()>::Pending).map(|_| ())
}

/// Blocks this thread until `look` is ready, at most for `time`; returns `None` after that. `look` is called again when
/// its context is woken, and every `every` otherwise.
///
/// # Errors
/// Those of a cancelled statement.
pub(super) fn block_until<T>(
    database: &Database,
    cancel: &CancelHandle,
    time: Duration,
    every: Duration,
    look: &mut dyn FnMut(&mut task::Context<'_>) -> Poll<T>,
) -> Result<Option<T>> {
    let waker = thread_waker();
    let mut cx = task::Context::from_waker(&waker);
    let end = database.timer.now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    loop {
        if let Poll::Ready(reason) = cancel.poll_cancelled(&mut cx) {
            return Err(cancelled(reason));
        }
        if let Poll::Ready(found) = look(&mut cx) {
            return Ok(Some(found));
        }
        match end.saturating_sub(database.timer.now_ns()) {
            0 => return Ok(None),
            left => std::thread::park_timeout(Duration::from_nanos(left).min(every)),
        }
    }
}
