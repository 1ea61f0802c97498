//! The mutex protocol: one short mutex around taking the position, copying, publishing and raising the boundary. It is
//! the reference for the lock-free protocols.
//!
//! # Invariants
//! - O1. The boundary is the next free position, so everything below it is complete and published.
//!
//! # Ordering
//! | store                        | pairs with              | carries                                  |
//! |------------------------------|-------------------------|------------------------------------------|
//! | `boundary` Release, appender | `boundary` Acquire, all | the record's bytes and what publish did  |
//!
//! # Progress
//! `append` blocks on the mutex (held for one copy of at most a piece) and, if the ring is full, on the flush.

use collie_base::Lsn;
use collie_sync::Mutex;

use crate::{
    WalError,
    append::ring::Ring,
    append::ring_file::{Home, WordAt},
};

use super::{Place, Record, Room, State, words::Word};

#[derive(Debug)]
struct Tail {
    next: Lsn,
    state: State,
}

/// The words of a log with the mutex protocol.
#[derive(Debug)]
pub(super) struct MutexProtocol {
    tail: Mutex<Tail>,
    boundary: Place<Word>,
}

impl MutexProtocol {
    pub(super) fn new(home: &Home, next: Lsn) -> Self {
        let boundary = home.word(WordAt::Boundary, || Word::new(next));
        Self { tail: Mutex::new(Tail { next, state: State::Open }), boundary }
    }

    pub(super) fn boundary(&self) -> Lsn {
        self.boundary.load()
    }

    /// Appends one record; returns its position. A panic in `publish` leaves nothing behind.
    #[inline(never)]
    pub(super) fn append<R: Room, F: FnOnce(Lsn)>(
        &self,
        ring: &Ring,
        room: &R,
        record: &Record<'_>,
        publish: F,
    ) -> Result<Lsn, WalError> {
        loop {
            let mut tail = self.tail.lock();
            if tail.state != State::Open {
                return Err(room.refusal(tail.state));
            }
            let (start, end) = (tail.next, tail.next.plus(record.bytes()));
            if end.bytes_since(room.durable()) > ring.len_bytes() {
                drop(tail);
                room.wait_durable(Lsn::new(end.get() - ring.len_bytes()))?;
                continue;
            }
            // SAFETY: ring R1: the mutex makes this thread the only writer, and `end` is within a ring of `durable`.
            unsafe { ring.write_record(start, record) };
            publish(start);
            tail.next = end;
            self.boundary.store(end);
            return Ok(start);
        }
    }

    /// Takes whole records of another log as they are; returns where they begin.
    pub(super) fn take_received<R: Room>(&self, ring: &Ring, room: &R, records: &[u8]) -> Result<Lsn, WalError> {
        loop {
            let mut tail = self.tail.lock();
            if tail.state != State::Open {
                return Err(room.refusal(tail.state));
            }
            let (start, end) = (tail.next, tail.next.plus(records.len() as u64));
            if end.bytes_since(room.durable()) > ring.len_bytes() {
                drop(tail);
                room.wait_durable(Lsn::new(end.get() - ring.len_bytes()))?;
                continue;
            }
            // SAFETY: ring R1: the mutex makes this thread the only writer, and `end` is within a ring of `durable`.
            unsafe { ring.write(start, records) };
            tail.next = end;
            self.boundary.store(end);
            return Ok(start);
        }
    }

    /// Continues at `next`: everything before it is written, and no thread appends.
    pub(super) fn jump(&self, next: Lsn) {
        let mut tail = self.tail.lock();
        assert!(tail.next <= next, "positions only grow");
        tail.next = next;
        self.boundary.store(next);
    }

    /// Returns the next free position; waits for a thread that is about to take it.
    pub(super) fn next(&self) -> Lsn {
        self.tail.lock().next
    }

    /// Waits for the thread that holds the mutex: after that its published record lies below the boundary.
    pub(super) fn wait(&self) {
        drop(self.tail.lock());
    }

    /// Stops accepting appends; the first reason stays.
    pub(super) fn stop(&self, state: State) {
        let mut tail = self.tail.lock();
        if tail.state == State::Open {
            tail.state = state;
        }
    }
}
