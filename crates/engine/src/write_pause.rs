//! `WritePause`: transactions that have not written yet wait before they do, while a primary hands over to one of its replicas.
//!
//! | state | a transaction that has not written | one that has | the log |
//! |---|---|---|---|
//! | open | writes | goes on | takes records |
//! | paused | waits | goes on, and may end | takes records, until it is held (`EngineLog::hold`) |
//! | over | is refused | does not commit | takes what it took before |
//!
//! Not what keeps records out of the log: that is `EngineLog::hold`. This only sees to it that few are refused there.
//!
//! # Invariants
//! - Z1. Who waits is noted under the lock under which the state was `paused`; whoever changes the state takes all who are noted, under
//!   that lock, and wakes them. So nobody sleeps through it.
//! - Z2. Over stays over.
//!
//! `state` Release pairs with Acquire in [`WritePause::is_open`]; it carries nothing: who reads an old one writes once more.
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
    /// By the slots of their sessions.
    waiting: Mutex<BTreeMap<usize, Waker>>,
}

impl WritePause {
    /// Returns whether whoever wants to may begin to write. One load.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Acquire) == OPEN
    }

    /// Returns whether nobody may begin to write any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Acquire) == OVER
    }

    /// Has transactions wait that begin to write.
    pub(crate) fn pause(&self) {
        self.turn(PAUSED);
    }

    /// Lets them write.
    pub(crate) fn resume(&self) {
        self.turn(OPEN);
    }

    /// Refuses them for good.
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

    /// Ready once the session in `slot` may begin to write, or never may; else notes that it waits (Z1).
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

    /// Takes back that a session waits.
    pub(crate) fn leave(&self, slot: usize) {
        self.waiting.lock().remove(&slot);
    }
}
