//! `BoundaryWaiters`: the boundary waiters, by position.
//!
//! They are not on the path of an append: only a waiter that must sleep and an owner that was asked to notify touch
//! them. NOTIFY (`slots`), not this list, ensures that no waiter sleeps forever.
//!
//! # Invariants
//! - E1. After `end` the list is empty and stays empty.
//! - E2. Wakers are called, copied and dropped outside the lock.

use std::{collections::BTreeMap, task::Waker};

use collie_base::Lsn;
use collie_sync::Mutex;

use super::State;

#[derive(Debug, Default)]
struct Inner {
    parked: BTreeMap<(Lsn, u64), Waker>,
    next: u64,
    ended: Option<State>,
}

/// Wakers that wait for the boundary.
#[derive(Debug, Default)]
pub(super) struct BoundaryWaiters(Mutex<Inner>);

impl BoundaryWaiters {
    /// Enters `waker` at `lsn`, under the number from its first call; fails with the reason if waits have ended.
    pub(super) fn enter(&self, lsn: Lsn, number: &mut Option<u64>, waker: &Waker) -> Result<(), State> {
        let waker = waker.clone();
        let mut inner = self.0.lock();
        if let Some(state) = inner.ended {
            return Err(state);
        }
        let number = *number.get_or_insert(inner.next);
        inner.next = inner.next.max(number + 1);
        let replaced = inner.parked.insert((lsn, number), waker);
        drop(inner);
        drop(replaced);
        Ok(())
    }

    /// Removes a waker.
    pub(super) fn leave(&self, lsn: Lsn, number: u64) {
        let left = self.0.lock().parked.remove(&(lsn, number));
        drop(left);
    }

    /// Wakes all at or below `boundary`; returns whether any waiter is left.
    pub(super) fn wake_through(&self, boundary: Lsn) -> bool {
        let mut inner = self.0.lock();
        let left = inner.parked.split_off(&(boundary.plus(1), 0));
        let woken = std::mem::replace(&mut inner.parked, left);
        let any_left = !inner.parked.is_empty();
        drop(inner);
        woken.into_values().for_each(Waker::wake);
        any_left
    }

    /// Fails every wait from now on; the first reason stays.
    pub(super) fn end(&self, state: State) {
        let mut inner = self.0.lock();
        inner.ended.get_or_insert(state);
        let woken = std::mem::take(&mut inner.parked);
        drop(inner);
        woken.into_values().for_each(Waker::wake);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::testing::asks_when_dropped;

    /// Goal: E2 for wakers that are dropped. Method: one that is replaced and one that is removed; while it is dropped,
    /// another thread takes the lock.
    #[test]
    fn wakers_go_outside_the_lock() {
        let (boundary_waiters, answered) = (Arc::new(BoundaryWaiters::default()), Arc::new(AtomicUsize::new(0)));
        let mut number = None;
        for _ in 0..2 {
            let others = boundary_waiters.clone();
            let waker = asks_when_dropped(&answered, move || others.leave(Lsn::MAX, u64::MAX));
            boundary_waiters.enter(Lsn::new(8), &mut number, &waker).unwrap();
        }
        assert_eq!(answered.swap(0, Ordering::Relaxed), 1, "the one that was replaced");
        boundary_waiters.leave(Lsn::new(8), number.unwrap());
        assert_eq!(answered.load(Ordering::Relaxed), 1, "the one that was taken out");
    }
}
