//! Time limits of a session: `statement_timeout`, `lock_timeout`, `transaction_timeout` and the two for idle clients.
//!
//! What PostgreSQL's cover: a statement's time begins with its message (in the extended protocol with the first of Parse,
//! Bind and Execute, and runs until an Execute completes or Sync comes), and ends before its commit: a commit that
//! waits for the disk has happened and cannot be cancelled. A limit that comes while the next message of a pipeline is
//! waited for fails that message. Each wait for a lock has a time of its own.
//!
//! # Invariants
//! - K1. While `timing`, the alarm holds the present generation; [`Session::stop_clock`] ends that generation, so that no
//!   timer set for it can end what comes after.
//! - K2. With both limits at 0 a statement pays one branch at its beginning and one at its end.
//!
//! Checked by the clients' tests of time limits (`tests/clients/tests/time_limits.rs`).

use std::{
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use collie_engine::{Blocker, CancelHandle, CancelReason, EngineError};

use crate::{
    error::{Result, SqlError, SqlState},
    exec::cancelled,
    session::{Database, Session, timer::Alarm, transaction::Block},
};

/// Nanoseconds of a millisecond.
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

/// A session's clock.
#[derive(Debug)]
pub(super) struct Limits {
    alarm: Arc<Alarm>,
    /// Whether a statement's time runs.
    timing: bool,
    /// Since when the transaction's time runs, by the timer's clock; `None` before the first statement under a limit.
    transaction_from: Option<u64>,
}

impl Limits {
    pub(super) fn new(cancel: CancelHandle) -> Self {
        Self { alarm: Alarm::new(cancel), timing: false, transaction_from: None }
    }

    /// Notes that the transaction is over.
    pub(super) fn end_transaction(&mut self) {
        self.transaction_from = None;
    }
}

/// How long a session may wait for its client, and what happens then: its owner tells the client and drops it.
#[derive(Clone, Debug)]
pub struct IdleLimit {
    /// Time from now.
    pub after: Duration,
    /// What the client is told; it ends the session.
    pub error: SqlError,
}

impl Session {
    /// Fails if the time of a statement ran out while the client's next message was waited for.
    pub(super) fn check_clock(&mut self) -> Result<()> {
        if self.limits.timing && self.cancel.reason() == Some(CancelReason::StatementTimeout) {
            self.stop_clock();
            return Err(cancelled(CancelReason::StatementTimeout));
        }
        Ok(())
    }

    /// Begins the time of a statement, unless it runs.
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

    /// Ends the time of a statement: what it does from here on cannot be cancelled by it.
    pub(super) fn stop_clock(&mut self) {
        if std::mem::take(&mut self.limits.timing) {
            self.cancel.settle();
            if self.is_told_to_end() {
                // The reason of the time limit may have stood in the way of the order.
                self.cancel.cancel();
            }
        }
    }

    /// Begins the time that a commit waits for replicas.
    pub(super) fn limit_replicas(&self, timeout: Duration) {
        let timer = &self.database.timer;
        let at = timer.now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        timer.limit_statement(&self.limits.alarm, at, self.cancel.generation(), CancelReason::ReplicasTimeout);
    }

    /// Ends that time; `is_used_up`: what was asked of the session by then was asked of the wait.
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

    /// Waits until the transaction may begin to write: a primary that hands over keeps it from that.
    pub(super) async fn wait_to_begin(&self) -> Result<()> {
        match self.engine.wait_to_begin()? {
            None => Ok(()),
            Some(wait) => wait.await.map_err(|error| wait_failed(error, &self.cancel)),
        }
    }

    /// Waits until flushes leave room in the log for a statement that writes, and as [`Session::wait_to_begin`] does. No lock is
    /// waited for, so only the statement's time ends it, and a cancel.
    pub(super) async fn wait_for_room(&self) -> Result<()> {
        match self.engine.wait_for_room()? {
            None => Ok(()),
            Some(wait) => wait.await.map_err(|error| wait_failed(error, &self.cancel)),
        }
    }

    /// Waits for a lock, for `lock_timeout` at the most.
    pub(super) async fn wait(&self, blocker: Blocker) -> Result<()> {
        let wait = self.engine.wait(blocker);
        let limit_ms = self.settings.effective().limits.lock_ms;
        if limit_ms > 0 {
            let timer = &self.database.timer;
            timer.limit_wait(&self.limits.alarm, timer.now_ns() + limit_ms * MS, wait.limit());
        }
        wait.await.map_err(|error| wait_failed(error, &self.cancel))
    }

    /// Returns how long the client may take until its next message. `asked` says whether it was told that the session is
    /// ready: in the middle of a pipeline only the time of the transaction counts.
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

/// Returns why a wait for a lock ended without it.
pub(super) fn wait_failed(error: EngineError, cancel: &CancelHandle) -> SqlError {
    match (error, cancel.reason()) {
        (EngineError::Cancelled, Some(reason)) => cancelled(reason),
        (error, _) => error.into(),
    }
}

/// Sleeps on this thread for `time`, or until the session is asked to stop.
///
/// # Errors
/// As a statement that is cancelled.
pub(super) fn sleep(database: &Database, cancel: &CancelHandle, time: Duration) -> Result<()> {
    block_until(database, cancel, time, Duration::MAX, &mut |_| Poll::<()>::Pending).map(|_| ())
}

/// Blocks this thread until `look` is ready, for `time` at the most: `None` then. It is asked again when its context is woken, and after
/// `every` without that.
///
/// # Errors
/// As a statement that is cancelled.
pub(super) fn block_until<T>(
    database: &Database,
    cancel: &CancelHandle,
    time: Duration,
    every: Duration,
    look: &mut dyn FnMut(&mut task::Context<'_>) -> Poll<T>,
) -> Result<Option<T>> {
    struct Unpark(std::thread::Thread);
    impl task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
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
