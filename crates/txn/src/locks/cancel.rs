//! `CancelHandle`: asks a session, from any thread, to stop its work; ends its lock wait at once.
//!
//! It does not close a connection: the connection's owner does that, after it reads the [`CancelReason`].
//!
//! # Invariants
//! - N1. The first reason stands until the session itself clears it.
//! - N2. A request for a generation that is over does nothing: it sets no reason and ends no wait.
//!
//! Checked by `tests/cancel.rs` and the models of cancelling in `loom_tests.rs`.
//!
//! | site | ordering | pairs with |
//! |---|---|---|
//! | `state` compare-exchange in `stop` | `AcqRel` | loads in `begin_wait`, `reason`: they see the stores before it |
//! | `state` store in `clear` | `Release` | load in `stop`, under `watch`: finds no wait of a later generation |

use crate::{
    error::TxnError,
    locks::advisory::AdvisoryHeld,
    locks::wait::{Waiter, Wakes},
    locks::waits::Locks,
};
use collie_sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    mutant,
};
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Number of low bits of the state, which hold the reason.
const REASON_BITS: u32 = 8;
const REASON_MASK: u64 = (1 << REASON_BITS) - 1;

/// Why a session is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// A user asked for it.
    User,
    /// Its statement reached its time limit.
    StatementTimeout,
    /// Its transaction reached its time limit.
    TransactionTimeout,
    /// Its commit reached the time limit for replicas.
    ReplicasTimeout,
}

impl CancelReason {
    const fn bits(self) -> u64 {
        match self {
            Self::User => 1,
            Self::StatementTimeout => 2,
            Self::TransactionTimeout => 3,
            Self::ReplicasTimeout => 4,
        }
    }

    const fn of(state: u64) -> Option<Self> {
        match state & REASON_MASK {
            0 => None,
            2 => Some(Self::StatementTimeout),
            3 => Some(Self::TransactionTimeout),
            4 => Some(Self::ReplicasTimeout),
            _ => Some(Self::User),
        }
    }
}

/// The part of a session that other threads access: its cancel state and its current wait.
#[derive(Debug)]
pub(crate) struct Owner {
    // Constant.
    pub(crate) locks: Arc<Locks>,
    slot: usize,
    /// The generation, and in its low bits the reason of a cancel; 0 for none.
    state: AtomicU64,
    watch: Mutex<Watch>,
    /// Whether a row queue may hold a place of the session; only the session's own calls change it.
    pub(crate) queued: AtomicBool,
    // Used by the session's own calls only: models need not watch them.
    /// The open transaction, or the last one: the [`OwnerId`](crate::desc::OwnerId) that waits.
    pub(crate) current: std::sync::atomic::AtomicU64,
    /// Position of the session's last commit.
    pub(crate) last_commit: std::sync::atomic::AtomicU64,
    /// The newest commit that came before the session took its advisory locks.
    pub(crate) after: std::sync::atomic::AtomicU64,
    /// Whether the open transaction may have taken advisory locks for itself.
    pub(crate) takes_advisory: std::sync::atomic::AtomicBool,
    pub(crate) advisory: Mutex<AdvisoryHeld>,
}

/// The waits that a cancel ends.
#[derive(Debug, Default)]
struct Watch {
    waiting: Option<Arc<Waiter>>,
    waker: Option<Waker>,
}

impl Owner {
    pub(crate) fn new(locks: Arc<Locks>, slot: usize) -> Self {
        Self {
            locks,
            slot,
            state: AtomicU64::new(0),
            watch: Mutex::new(Watch::default()),
            queued: AtomicBool::new(false),
            current: std::sync::atomic::AtomicU64::new(0),
            last_commit: std::sync::atomic::AtomicU64::new(0),
            after: std::sync::atomic::AtomicU64::new(0),
            takes_advisory: std::sync::atomic::AtomicBool::new(false),
            advisory: Mutex::new(AdvisoryHeld::default()),
        }
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// Makes `waiter` the one that a cancel ends; if a cancel came first, ends it here.
    pub(crate) fn begin_wait(&self, waiter: &Arc<Waiter>, wakes: &mut Wakes) {
        let early = mutant!("CANCEL_LOOKED_FOR_FIRST").then(|| self.state.load(Ordering::Acquire));
        self.watch.lock().waiting = Some(Arc::clone(waiter));
        // After the lock above: a cancel either finds the waiter there or stored its reason before.
        if CancelReason::of(early.unwrap_or_else(|| self.state.load(Ordering::Acquire))).is_some() {
            waiter.complete(Err(TxnError::Cancelled), wakes);
        }
    }

    pub(crate) fn end_wait(&self) {
        self.watch.lock().waiting = None;
    }
}

/// Asks a session to stop. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct CancelHandle(pub(crate) Arc<Owner>);

impl CancelHandle {
    /// Requests a stop for [`CancelReason::User`] and ends a lock wait with [`TxnError::Cancelled`].
    pub fn cancel(&self) {
        self.stop(None, CancelReason::User);
    }

    /// Requests a stop for `reason` unless `generation` is over (N2), as a timer set in that generation does. Returns
    /// whether the reason was set.
    pub fn cancel_in(&self, generation: u64, reason: CancelReason) -> bool {
        self.stop(Some(generation), reason)
    }

    pub(crate) fn stop(&self, generation: Option<u64>, reason: CancelReason) -> bool {
        let mut seen = self.0.state.load(Ordering::Acquire);
        let stopped = loop {
            let over = generation.is_some_and(|generation| generation != seen >> REASON_BITS);
            if over || CancelReason::of(seen).is_some() {
                return false;
            }
            let wanted = seen | reason.bits();
            match self.0.state.compare_exchange(seen, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break wanted,
                Err(now) => seen = now,
            }
        };
        let mut wakes = Wakes::default();
        let mut watch = self.0.watch.lock();
        // The session may have cleared it since; then its current wait belongs to another generation.
        if mutant!("GENERATION_NOT_ASKED_AGAIN") || self.0.state.load(Ordering::Acquire) == stopped {
            if let Some(waiter) = &watch.waiting {
                waiter.complete(Err(TxnError::Cancelled), &mut wakes);
            }
            wakes.add(watch.waker.take());
        }
        drop(watch);
        wakes.run();
        true
    }

    /// Returns whether a cancel was requested and not cleared. Long statements check this from time to time.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns why the session should stop, if it should. One load.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        CancelReason::of(self.0.state.load(Ordering::Acquire))
    }

    /// Returns ready once a cancel was requested; otherwise a cancel will wake the task of `cx`.
    pub fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<CancelReason> {
        let early = mutant!("CANCEL_LOOKED_FOR_FIRST").then(|| self.reason());
        self.0.watch.lock().waker = Some(cx.waker().clone());
        // After the lock above: a cancel either finds the waker there or stored its reason before.
        early.unwrap_or_else(|| self.reason()).map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns whether the session is waiting for a lock.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.watch.lock().waiting.as_ref().is_some_and(|waiter| waiter.is_open())
    }

    /// Returns the slot by which locks identify the session ([`LockOwner`](crate::LockOwner)). Another session may get
    /// it once this one is closed.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.0.slot
    }

    /// Returns the current generation, which [`CancelHandle::clear`] or [`CancelHandle::settle`] began.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.state.load(Ordering::Relaxed) >> REASON_BITS
    }

    /// Clears an earlier cancel and begins a generation, before the next statement. Only the session itself may call
    /// it.
    pub fn clear(&self) {
        let next = self.generation().wrapping_add(1) << REASON_BITS;
        self.0.state.store(next, Ordering::Release);
    }

    /// Begins a generation: drops the time limits of the previous one, but keeps a user's request. Only the session
    /// itself may call it.
    pub fn settle(&self) {
        let mut seen = self.0.state.load(Ordering::Acquire);
        loop {
            let asked = if CancelReason::of(seen) == Some(CancelReason::User) { CancelReason::User.bits() } else { 0 };
            let next = (seen >> REASON_BITS).wrapping_add(1) << REASON_BITS | asked;
            match self.0.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
