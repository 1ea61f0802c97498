//! `Watch`: threads and futures that wait for the durable mark to move without asking for a flush: tails.
//!
//! A caller that asks for a flush waits in `flush`. A tail takes what comes, so it neither leads nor keeps the
//! background flusher awake.
//!
//! # Invariants
//! - V1. A thread that parks, and a future that leaves a waker, has seen under the mutex that there is nothing for it;
//!   a thread that moves the mark or ends the log does so before it takes the mutex and wakes all: no wake-up is lost.
//! - V2. No I/O and no waker's code runs under the mutex.
//!
//! Checked by `tests/tail.rs`.

use std::{collections::BTreeMap, task::Waker};

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
struct Inner {
    parked: usize,
    wakers: BTreeMap<u64, Waker>,
    next_id: u64,
}

/// Threads and futures that wait for news.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    inner: Mutex<Inner>,
    moved: Condvar,
}

impl Watch {
    /// Wakes all waiters: the durable mark has moved, or the log has ended.
    pub(crate) fn notify(&self) {
        let mut inner = self.inner.lock();
        if inner.parked > 0 {
            self.moved.notify_all();
        }
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Blocks until `news` returns true; it is called under the mutex, at first and after each [`Watch::notify`].
    pub(crate) fn wait(&self, news: impl Fn() -> bool) {
        let mut inner = self.inner.lock();
        inner.parked += 1;
        while !news() {
            self.moved.wait(&mut inner);
        }
        inner.parked -= 1;
    }

    /// Registers a waker for the next [`Watch::notify`] unless there is `news` already; returns whether there is. `id`
    /// is the waiter's number from its last call.
    pub(crate) fn register(&self, id: &mut Option<u64>, waker: &Waker, news: impl Fn() -> bool) -> bool {
        let waker = waker.clone();
        let mut inner = self.inner.lock();
        if news() {
            return true;
        }
        let number = *id.get_or_insert(inner.next_id);
        inner.next_id = inner.next_id.max(number + 1);
        let replaced = inner.wakers.insert(number, waker);
        drop(inner);
        drop(replaced);
        false
    }

    /// Removes the waker of a dropped future.
    pub(crate) fn forget(&self, id: u64) {
        let forgotten = self.inner.lock().wakers.remove(&id);
        drop(forgotten);
    }
}
