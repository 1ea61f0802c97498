//! `JoinedSlot`: WiredTiger's way: threads join the active slot by compare-and-swap and release it by `fetch_add`.
//!
//! A slot is a range of positions whose length is decided when it is closed. Its word counts the bytes joined and the
//! bytes released; a thread that joins gets the offset before its own bytes. A slot is closed by a thread whose record
//! no longer fits, or by one that wants the boundary; the next slot starts at its end. Slots complete in any order, and
//! the boundary passes them in order.
//!
//! # Invariants
//! - J1. Slot number n is `slots[n mod SLOTS]` from `open` until the boundary has passed it. A thread that has joined
//!   keeps it from being passed, so values that it then reads from the slot belong to the number that it joined.
//! - J2. `active`, `oldest` and a slot's `start` change only under `switch`.
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `word` Release, opener | `word` AcqRel, joiner | `start` of the slot |
//! | `word` AcqRel, releaser | `word` Acquire, boundary | the record's bytes |

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::yield_now,
};

use collie_sync::Padded;
use parking_lot::Mutex;

use super::Protocol;

/// The size of WiredTiger's pool.
const SLOTS: u64 = 128;
/// The size of WiredTiger's slot buffer: no thread joins beyond it.
const SLOT_BYTES: u64 = 256 << 10;
const CLOSED: u64 = 1 << 63;
const RELEASED_BITS: u32 = 32;
const RELEASED: u64 = (1 << RELEASED_BITS) - 1;

#[derive(Debug)]
pub(crate) struct Slot {
    /// `CLOSED`, then 31 bits for the bytes joined, then 32 bits for the bytes released.
    word: AtomicU64,
    start: AtomicU64,
}

fn joined(word: u64) -> u64 {
    (word & !CLOSED) >> RELEASED_BITS
}

#[derive(Debug)]
pub(crate) struct JoinedSlot {
    slots: Box<[Padded<Slot>]>,
    slot_bytes: u64,
    active: Padded<AtomicU64>,
    /// The number of the oldest slot that the boundary has not passed.
    switch: Mutex<u64>,
    boundary: Padded<AtomicU64>,
}

impl JoinedSlot {
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[usize::try_from(number % SLOTS).expect("below the number of slots")]
    }

    /// Moves the boundary over the closed slots that are completely released.
    fn pass(&self, oldest: &mut u64) {
        while *oldest < self.active.load(Ordering::Acquire) {
            let slot = self.slot(*oldest);
            let word = slot.word.load(Ordering::Acquire);
            if joined(word) != word & RELEASED {
                return;
            }
            self.boundary.store(slot.start.load(Ordering::Relaxed) + joined(word), Ordering::Release);
            *oldest += 1;
        }
    }

    /// Closes slot `number` if it is the active one, and opens the next. Leaves the slot open if it is empty, or if the
    /// pool is used up.
    fn close(&self, number: u64) {
        let mut oldest = self.switch.lock();
        self.pass(&mut oldest);
        if self.active.load(Ordering::Relaxed) != number || number + 1 - *oldest >= SLOTS {
            return;
        }
        let slot = self.slot(number);
        if joined(slot.word.load(Ordering::Relaxed)) == 0 {
            return;
        }
        let word = slot.word.fetch_or(CLOSED, Ordering::AcqRel);
        let next = self.slot(number + 1);
        next.start.store(slot.start.load(Ordering::Relaxed) + joined(word), Ordering::Relaxed);
        next.word.store(0, Ordering::Release);
        self.active.store(number + 1, Ordering::Release);
        self.pass(&mut oldest);
    }
}

// SAFETY: K1: the offset is the joined count before a compare-and-swap that raised it, so no two joiners share bytes,
// and the next slot starts where the closed one ended (J2). K2: `pass` passes in order only slots whose joined bytes
// are all released, and only `finish` releases.
unsafe impl Protocol for JoinedSlot {
    type Handle = ();
    type Turn<'a> = &'a Slot;

    fn new(start: u64, _threads: usize, ring_bytes: u64) -> Self {
        let slot = |number: u64| {
            let word = if number == 0 { 0 } else { CLOSED };
            Padded::new(Slot { word: AtomicU64::new(word), start: AtomicU64::new(start) })
        };
        Self {
            slots: (0..SLOTS).map(slot).collect(),
            // A slot completes as a whole, so all of it must fit into the ring.
            slot_bytes: SLOT_BYTES.min(ring_bytes / 4),
            active: Padded::default(),
            switch: Mutex::new(0),
            boundary: Padded::new(AtomicU64::new(start)),
        }
    }

    fn handle(&self, _thread: usize) {}

    fn begin<'a>(&'a self, _handle: &mut (), bytes: u64) -> (u64, &'a Slot) {
        loop {
            let number = self.active.load(Ordering::Acquire);
            let slot = self.slot(number);
            let mut word = slot.word.load(Ordering::Acquire);
            loop {
                if word & CLOSED != 0 {
                    // Another thread is opening the next one.
                    yield_now();
                    break;
                }
                let offset = joined(word);
                if offset > 0 && offset + bytes > self.slot_bytes {
                    self.close(number);
                    if self.active.load(Ordering::Acquire) == number {
                        // The pool is used up: the oldest slot is not released yet.
                        yield_now();
                    }
                    break;
                }
                let more = word + (bytes << RELEASED_BITS);
                match slot.word.compare_exchange_weak(word, more, Ordering::AcqRel, Ordering::Acquire) {
                    // J1: this thread has joined, so `start` belongs to the slot that it joined, whatever is active by
                    // now.
                    Ok(_) => return (slot.start.load(Ordering::Relaxed) + offset, slot),
                    Err(now) => word = now,
                }
            }
        }
    }

    fn finish<'a>(&'a self, _handle: &mut (), turn: &'a Slot, start: u64, end: u64) {
        turn.word.fetch_add(end - start, Ordering::AcqRel);
    }

    fn reserved(&self) -> u64 {
        loop {
            let number = self.active.load(Ordering::Acquire);
            let slot = self.slot(number);
            let at = slot.start.load(Ordering::Acquire) + joined(slot.word.load(Ordering::Acquire));
            if self.active.load(Ordering::Acquire) == number {
                return at;
            }
        }
    }

    fn boundary(&self) -> u64 {
        self.close(self.active.load(Ordering::Acquire));
        self.boundary.load(Ordering::Acquire)
    }
}
