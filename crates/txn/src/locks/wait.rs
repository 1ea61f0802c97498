//! `Wait`: the wait of one session for one blocker, as a future and as a blocking call.
//!
//! # Invariants
//! - A1. A waiter gets one outcome, from the first of the grant, a cancel, a time limit and the detector.
//! - A2. A wait that ends without a grant leaves its queue and hands on; so does one that is dropped.

use crate::{desc::OwnerId, error::TxnError, locks::cancel::Owner, locks::waits::WaitFor};
use collie_sync::{Condvar, Mutex};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Wakers to call once every lock is released: a waker may run the waiter immediately.
#[derive(Default)]
#[must_use]
pub(crate) struct Wakes(Vec<Waker>);

impl Wakes {
    pub(crate) fn add(&mut self, waker: Option<Waker>) {
        self.0.extend(waker);
    }

    pub(crate) fn run(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Waiter {
    state: Mutex<WaiterState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct WaiterState {
    outcome: Option<Result<(), TxnError>>,
    waker: Option<Waker>,
}

impl Waiter {
    /// Ends the wait; `false` if it had already ended (A1).
    pub(crate) fn complete(&self, outcome: Result<(), TxnError>, wakes: &mut Wakes) -> bool {
        let mut state = self.state.lock();
        if state.outcome.is_some() {
            return false;
        }
        state.outcome = Some(outcome);
        wakes.0.extend(state.waker.take());
        drop(state);
        self.ended.notify_all();
        true
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().outcome.is_none()
    }
}

/// Ends one wait when its time is over, from any thread. It cannot end a later wait of the same session.
#[derive(Clone, Debug)]
pub struct WaitLimit(Arc<Waiter>);

impl WaitLimit {
    /// Ends the wait with [`TxnError::LockTimeout`]; does nothing if it has already ended (A1).
    pub fn expire(&self) {
        let mut wakes = Wakes::default();
        self.0.complete(Err(TxnError::LockTimeout), &mut wakes);
        wakes.run();
    }
}

/// The wait for a [`Blocker`](crate::Blocker). `Ok` means for a row: look again, it is probably free; for a table lock:
/// it is granted, and [`Session::lock_table`](crate::Session::lock_table) will say so.
///
/// # Cancel safety
/// Dropping it leaves the queue and hands on; nothing is held. A granted place in a row's queue is kept until the
/// statement ends or the session waits elsewhere.
///
/// # Errors
/// [`TxnError::Deadlock`], [`TxnError::Cancelled`], and [`TxnError::LockTimeout`] by its [`WaitLimit`] or the limit of
/// the blocking form.
#[derive(Debug)]
#[must_use = "a wait that is dropped leaves the queue"]
pub struct Wait {
    owner: Arc<Owner>,
    id: OwnerId,
    waiter: Arc<Waiter>,
    for_what: WaitFor,
    ahead: usize,
    ended: bool,
}

impl Wait {
    pub(crate) fn new(owner: Arc<Owner>, id: OwnerId, waiter: Arc<Waiter>, for_what: WaitFor, ahead: usize) -> Self {
        Self { owner, id, waiter, for_what, ahead, ended: false }
    }

    /// Returns how many other sessions were in the row's queue when this wait began; 0 for a table.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// Returns a handle that ends this wait when its time is over.
    #[must_use]
    pub fn limit(&self) -> WaitLimit {
        WaitLimit(Arc::clone(&self.waiter))
    }

    /// Blocks the thread until the wait ends or `limit` passes.
    ///
    /// # Errors
    /// As for the future, and [`TxnError::LockTimeout`].
    pub fn block(mut self, limit: Option<Duration>) -> Result<(), TxnError> {
        let mut state = self.waiter.state.lock();
        let outcome = loop {
            if let Some(outcome) = state.outcome.clone() {
                break outcome;
            }
            state = match limit {
                None => self.waiter.ended.wait(state),
                Some(limit) => {
                    let (mut state, timed_out) = self.waiter.ended.wait_for(state, limit);
                    if timed_out.0 && state.outcome.is_none() {
                        state.outcome = Some(Err(TxnError::LockTimeout));
                    }
                    state
                }
            };
        };
        drop(state);
        self.end(&outcome);
        outcome
    }

    fn end(&mut self, outcome: &Result<(), TxnError>) {
        self.ended = true;
        self.owner.end_wait();
        if outcome.is_err() {
            self.owner.locks.abandon(self.id, &self.for_what, &self.waiter);
        }
    }
}

impl Future for Wait {
    type Output = Result<(), TxnError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = {
            let mut state = self.waiter.state.lock();
            match &state.outcome {
                Some(outcome) => outcome.clone(),
                None => {
                    state.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        };
        self.end(&outcome);
        Poll::Ready(outcome)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut wakes = Wakes::default();
        // A wait that was granted and then dropped counts as granted: its session still has the lock or the place.
        self.waiter.complete(Err(TxnError::Cancelled), &mut wakes);
        let outcome = self.waiter.state.lock().outcome.clone().unwrap_or(Ok(()));
        self.end(&outcome);
    }
}
