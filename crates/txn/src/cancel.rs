//! `CancelHandle`: asks a session, from any thread, to stop what it does; ends its lock wait at once.

use crate::{
    error::TxnError,
    wait::{Waiter, Wakes},
    waits::Locks,
};
use collie_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::sync::Arc;

/// The part of a session that others reach: its cancel flag and its current wait.
#[derive(Debug)]
pub(crate) struct Owner {
    // Constant.
    pub(crate) locks: Arc<Locks>,
    slot: usize,
    cancelled: AtomicBool,
    waiting: Mutex<Option<Arc<Waiter>>>,
    /// A row queue may hold a place of the session; only the session's own calls change it.
    pub(crate) queued: AtomicBool,
}

impl Owner {
    pub(crate) fn new(locks: Arc<Locks>, slot: usize) -> Self {
        Self {
            locks,
            slot,
            cancelled: AtomicBool::new(false),
            waiting: Mutex::new(None),
            queued: AtomicBool::new(false),
        }
    }

    /// Makes `waiter` the one that a cancel ends; a cancel that came first ends it here.
    pub(crate) fn begin_wait(&self, waiter: &Arc<Waiter>, wakes: &mut Wakes) {
        *self.waiting.lock() = Some(Arc::clone(waiter));
        // After the lock above: a cancel either finds the waiter there or stored its flag before.
        if self.cancelled.load(Ordering::Acquire) {
            waiter.complete(Err(TxnError::Cancelled), wakes);
        }
    }

    pub(crate) fn end_wait(&self) {
        *self.waiting.lock() = None;
    }
}

/// Asks a session to stop. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct CancelHandle(pub(crate) Arc<Owner>);

impl CancelHandle {
    /// Sets the flag and ends a lock wait with [`TxnError::Cancelled`].
    pub fn cancel(&self) {
        let mut wakes = Wakes::default();
        self.0.cancelled.store(true, Ordering::Release);
        if let Some(waiter) = self.0.waiting.lock().as_ref() {
            waiter.complete(Err(TxnError::Cancelled), &mut wakes);
        }
        wakes.run();
    }

    /// Returns whether a cancel was asked for and not cleared. Long statements look now and then.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Returns whether the session waits for a lock now.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.waiting.lock().as_ref().is_some_and(|waiter| waiter.is_open())
    }

    /// Returns the slot by which locks know the session ([`LockOwner`](crate::LockOwner)). Another session may have it
    /// once this one is closed.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.0.slot
    }

    /// Forgets an earlier cancel, before the next statement.
    pub fn clear(&self) {
        self.0.cancelled.store(false, Ordering::Release);
    }
}
