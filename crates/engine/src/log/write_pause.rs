//! `WritePause`: makes transactions that have not written yet wait before their first write, during a switchover to a
//! replica.
//!
//! | state | a transaction that has not written | one that has | the log |
//! |---|---|---|---|
//! | open | writes | continues | takes records |
//! | paused | waits | continues, and may end | takes records, until it is held (`EngineLog::hold`) |
//! | over | is refused | does not commit | as before |
//!
//! `EngineLog::hold` keeps records out of the log. The pause only ensures that few are refused there.
//!
//! # Invariants
//! - Z1. A waiter is added under the lock under which the state was `paused`; a thread that changes the state takes all
//!   waiters under that lock, and wakes them. So no waiter sleeps through a change.
//! - Z2. The state `over` is final.
//!
//! `state` Release pairs with Acquire in [`WritePause::is_open`]; it carries nothing: a session that reads an old state
//! writes once more.
//!
//! Checked by the tests of `tests/handing_over.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::EngineError;

const OPEN: u8 = 0;
const PAUSED: u8 = 1;
const OVER: u8 = 2;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct WritePause {
    state: AtomicU8,
    /// Wakers by the slots of their sessions.
    waiting: Mutex<BTreeMap<usize, Waker>>,
}

impl WritePause {
    /// Returns whether transactions may begin to write. One load.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Acquire) == OPEN
    }

    /// Returns whether no transaction may begin to write any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Acquire) == OVER
    }

    /// Makes transactions wait before their first write.
    pub(crate) fn pause(&self) {
        self.turn(PAUSED);
    }

    /// Lets transactions write again.
    pub(crate) fn resume(&self) {
        self.turn(OPEN);
    }

    /// Refuses first writes for good.
    pub(crate) fn end(&self) {
        self.turn(OVER);
    }

    fn turn(&self, to: u8) {
        let mut waiting = self.waiting.lock();
        if self.is_over() {
            return; // Z2
        }
        self.state.store(to, Release);
        let woken = if to == PAUSED { BTreeMap::new() } else { std::mem::take(&mut *waiting) };
        drop(waiting);
        woken.into_values().for_each(Waker::wake);
    }

    /// Ready once the session in `slot` may begin to write, or never may; otherwise adds it to the waiters (Z1).
    pub(crate) fn poll(&self, slot: usize, waker: &Waker) -> Poll<Result<(), EngineError>> {
        let mut waiting = self.waiting.lock();
        match self.state.load(Acquire) {
            PAUSED => {
                waiting.insert(slot, waker.clone());
                Poll::Pending
            }
            OVER => Poll::Ready(Err(EngineError::Replica)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Removes a session from the waiters.
    pub(crate) fn leave(&self, slot: usize) {
        self.waiting.lock().remove(&slot);
    }
}
