//! `Reserve`: hands out positions and moves the boundary. The oracle protocol: one short mutex around taking the
//! position, copying, publishing and moving the boundary.
//!
//! The seam for the lock-free protocols: they replace this type, and nothing else asks how a position is taken.
//!
//! # Invariants
//! - P1. `boundary` is the end of a record and only grows; every record below it is complete in the ring.
//! - P2. `publish` of a record runs before the boundary passes it, in the order of positions.
//! - P3. Nothing is reserved once the state is not open: what fails later was reserved before.
//!
//! # Ordering
//! | store                        | pairs with              | carries                                  |
//! |------------------------------|-------------------------|------------------------------------------|
//! | `boundary` Release, appender | `boundary` Acquire, all | the record's bytes and what publish did  |
//!
//! # Progress
//! `append` blocks on the mutex (held for one copy of at most a piece) and, when the ring is full, on the flush.

use std::sync::atomic::{AtomicU64, Ordering};

use collie_base::Lsn;
use parking_lot::Mutex;

use crate::ring::Ring;

/// Whether appends are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Poisoned,
    Closed,
}

/// What became of a try to append.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// The record has its place.
    Done { start: Lsn, end: Lsn },
    /// The ring has room once `durable` has reached this.
    RingFull { until: Lsn },
    /// Nothing is appended any more.
    Refused(State),
}

#[derive(Debug)]
struct Tail {
    next: Lsn,
    state: State,
}

/// Padded to two cache lines, so that the words do not share one with their neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Word(pub(crate) AtomicU64);

impl Word {
    pub(crate) fn new(lsn: Lsn) -> Self {
        Self(AtomicU64::new(lsn.get()))
    }

    pub(crate) fn load(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, lsn: Lsn) {
        self.0.store(lsn.get(), Ordering::Release);
    }
}

/// The appending side of the log.
#[derive(Debug)]
pub(crate) struct Reserve {
    ring: Ring,
    ring_bytes: u64,
    tail: Mutex<Tail>,
    boundary: Word,
}

impl Reserve {
    /// Starts handing out positions at `next`.
    pub(crate) fn new(ring_bytes: u64, next: Lsn) -> Self {
        Self {
            ring: Ring::new(ring_bytes),
            ring_bytes,
            tail: Mutex::new(Tail { next, state: State::Open }),
            boundary: Word::new(next),
        }
    }

    /// Returns the boundary; with this protocol also the next free position.
    pub(crate) fn boundary(&self) -> Lsn {
        self.boundary.load()
    }

    /// Appends one record made of `parts`, calling `publish` with its position while nobody can be between.
    pub(crate) fn append<F: FnOnce(Lsn)>(&self, durable: &Word, parts: &[&[u8]], publish: &mut Option<F>) -> Try {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let mut tail = self.tail.lock();
        if tail.state != State::Open {
            return Try::Refused(tail.state);
        }
        let (start, end) = (tail.next, tail.next.plus(len));
        if end.bytes_since(durable.load()) > self.ring_bytes {
            return Try::RingFull { until: Lsn::new(end.get() - self.ring_bytes) };
        }
        let mut at = start;
        for part in parts {
            // SAFETY: ring R1: the mutex makes us the only writer, and `end` is within a ring of `durable`.
            unsafe { self.ring.write(at, part) };
            at = at.plus(part.len() as u64);
        }
        if let Some(publish) = publish.take() {
            publish(start);
        }
        tail.next = end;
        self.boundary.store(end);
        Try::Done { start, end }
    }

    /// Stops taking appends; the first reason stays.
    pub(crate) fn stop(&self, state: State) {
        let mut tail = self.tail.lock();
        if tail.state == State::Open {
            tail.state = state;
        }
    }

    /// Copies the bytes from `from` to `to` to the end of `target`.
    ///
    /// # Safety
    /// As [`Ring::read_into`].
    pub(crate) unsafe fn read_into(&self, from: Lsn, to: Lsn, target: &mut Vec<u8>) {
        let len = usize::try_from(to.bytes_since(from)).expect("at most the ring");
        // SAFETY: the caller's.
        unsafe { self.ring.read_into(from, len, target) };
    }
}
