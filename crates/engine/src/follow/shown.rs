//! `Shown`: the read horizon of a replica, below which its sessions see every commit.
//!
//! # Invariants
//! - S1. It is min(`applied`, `show`): every commit below is complete here (REPL-4), and the primary allows it to be
//!   seen.
//! - S2. Both only grow, so it only grows.
//! - S3. A caller that waits for a position registers, then looks; a thread that moves a word stores it, then wakes (W2
//!   of `collie_sync::Waiters`).
//! - S4. The position moves a few instructions before new snapshots begin there (`Shared::shown_moved`). A caller that
//!   learned that it has reached `lsn` takes no snapshot below: the wait itself makes snapshots begin there.
//! - S5. It begins at the end of the own log, all of which a primary that counts replicas may not have allowed to be
//!   seen yet: that is known only once the primary has sent a `show` at or above that position ([`Shown::is_settled`]).
//!
//! `show` carries no other data: its Release pairs with the Acquire of readers, `applied` brings the rows.

use std::sync::Arc;
use std::task::{Poll, Waker};

use collie_base::Lsn;
use collie_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use collie_sync::{Ticket, Waiters, mutant};

use crate::EngineError;
use crate::follow::lanes::Applying;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Shown {
    applying: Arc<Applying>,
    show: AtomicU64,
    /// The initial value of `show` (S5).
    start: Lsn,
    is_settled: AtomicBool,
    waiters: Waiters,
    is_closed: AtomicBool,
}

impl Shown {
    /// Returns a horizon with `show` at `start`.
    pub(crate) fn new(applying: Arc<Applying>, start: Lsn) -> Arc<Self> {
        let (show, is_settled, is_closed) =
            (AtomicU64::new(start.get()), AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { applying, show, start, is_settled, waiters: Waiters::new(), is_closed })
    }

    /// Returns the position below which sessions see every commit.
    pub(crate) fn position(&self) -> Lsn {
        self.applied().min(self.show())
    }

    /// Returns the position below which every commit is applied.
    pub(crate) fn applied(&self) -> Lsn {
        self.applying.applied()
    }

    /// Returns the position up to which the primary allows commits to be seen.
    pub(crate) fn show(&self) -> Lsn {
        Lsn::new(self.show.load(Ordering::Acquire))
    }

    /// Notes that the primary allows everything below `show` to be seen.
    pub(crate) fn told(&self, show: Lsn) {
        self.raise(show);
        if show >= self.start {
            self.is_settled.store(true, Ordering::Release);
        }
    }

    /// Returns whether the primary has allowed the visible state to be seen, including that of the opening (S5).
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire) || mutant!("OPENED_UNSETTLED")
    }

    /// Raises `show`.
    pub(crate) fn raise(&self, show: Lsn) {
        self.show.fetch_max(show.get(), Ordering::AcqRel);
    }

    /// Wakes the waiters for the position; called after one of its words was moved.
    pub(crate) fn wake(&self) {
        self.waiters.wake_through(self.position().get());
    }

    /// Wakes all waiters: nothing is applied any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.waiters.wake_through(u64::MAX);
    }

    /// Forgets a waiter.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.waiters.forget(ticket);
    }

    /// Ready once `lsn` is visible.
    pub(crate) fn poll(&self, lsn: Lsn, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Result<(), EngineError>> {
        if self.position() >= lsn {
            return Poll::Ready(Ok(()));
        }
        if ticket.as_ref().is_none_or(|ticket| !self.waiters.replace(*ticket, waker)) {
            *ticket = Some(self.waiters.register(lsn.get(), waker.clone()));
        }
        if self.position() >= lsn {
            return Poll::Ready(Ok(())); // S3
        }
        if self.is_closed.load(Ordering::Acquire) || self.applying.is_broken() {
            return Poll::Ready(Err(EngineError::ReplayStopped));
        }
        Poll::Pending
    }
}
