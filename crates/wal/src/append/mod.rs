//! `Reserve`: hands out positions, takes bytes into the ring and raises the boundary, by one of three protocols.
//!
//! No code outside this folder depends on which protocol runs. The protocols know no files; an append that needs room
//! in the ring asks [`Room`].
//!
//! # Invariants
//! - P1. `boundary` is the end of a record and only grows; every record below it is complete: in the ring, or, with the
//!   helping protocol, in a staging buffer that the flush reads.
//! - P2. `publish` of a record runs before the boundary passes it. With the mutex protocol the calls run in the order
//!   of positions.
//! - P3. Nothing is reserved once the state is not open: a record that fails later was reserved before.
//! - P4. At most a ring and one record per slot are reserved beyond what is durable (LOG-1).
//!
//! | file       | holds                                                         |
//! |------------|---------------------------------------------------------------|
//! | `mutex`    | the mutex protocol                                            |
//! | `base`     | the append without helping                                    |
//! | `help`     | the append with staging, and how the flush reads staged bytes |
//! | `slots`    | flags, scan, wake-ups                                         |
//! | `staging`  | the copy of a record that is not in the ring yet              |
//! | `slot_allocator`    | the slot allocator                                            |
//! | `boundary_waiters` | the boundary waiters                                          |
//! | `words`    | the layout of the shared words                                |
//! | `ring`, `ring_file` | the bytes that are not on disk yet; in memory that outlives the process |
//! | `place`    | a shared value in this process or in a ring that outlives it  |
//!
//! Under `--cfg loom` there is `model_log` too: all this without files, for models of code that is built on a log.

pub(crate) mod ring;
pub(crate) mod ring_file;

use std::{task::Waker, time::Duration};

use collie_base::Lsn;
use collie_obs::{BoundaryScan, Span};
use collie_sync::mutant;

use crate::options::SHARED_SLOTS;
use crate::{
    Options, Protocol, WalError, append::ring::Ring, append::ring_file::Home, format::RecordHead,
    options::RECORD_OVERHEAD,
};

mod base;
mod boundary_waiters;
mod help;
mod mutex;
mod place;
mod slot_allocator;
mod slots;
mod staging;
mod words;

#[cfg(any(loom, all(test, shuttle)))]
mod bell;
#[cfg(test)]
#[cfg(not(loom))]
mod dead_scan_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod freeze_tests;
#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(loom)]
mod model_log;
#[cfg(test)]
#[cfg(all(shuttle, not(loom)))]
mod shuttle_tests;

#[cfg(loom)]
pub use model_log::{ModelLog, ModelSink, ModelWriter};
pub(crate) use place::Place;
pub(crate) use slot_allocator::{Slot, SlotAllocator, Turn};
pub(crate) use slots::is_closed;
pub(crate) use words::{Colour, Flag, Word};

use help::Helping;
use mutex::MutexProtocol;
use slots::{Limit, Slots};

/// The positions of an appended record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position of the record; of a long one, that of its last piece.
    pub start: Lsn,
    /// The position after it, which is the one to wait for.
    pub end: Lsn,
}

/// A log that would continue above this position does not open: the words have 61 bits for one, and some room is kept.
pub(crate) const POSITION_MAX: u64 = 1 << 60;

/// The state of a log, which says whether appends are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Poisoned,
    Closed,
}

/// The services of the flush that an append needs.
pub(crate) trait Room {
    /// Returns the position below which everything is on disk.
    fn durable(&self) -> Lsn;
    /// Flushes, or waits for a flush of another thread, until `until` may be durable; the implementation counts the
    /// call.
    fn wait_durable(&self, until: Lsn) -> Result<(), WalError>;
    /// Returns whether nothing will become durable any more.
    fn has_stopped(&self) -> bool;
    /// Stops the log, because a reservation can never be completed.
    fn poison(&self);
    /// Returns the error of a log that takes no more records.
    fn refusal(&self, state: State) -> WalError;
}

/// A record to append: its head and the parts of its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    head: RecordHead,
    body: &'a [&'a [u8]],
    bytes: u64,
}

impl<'a> Record<'a> {
    pub(crate) fn new(head: RecordHead, body: &'a [&'a [u8]]) -> Self {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        Self { head, body, bytes: (head.as_slice().len() + body_bytes) as u64 }
    }

    /// Returns the size of the whole record.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the parts, head first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.head.as_slice()).chain(self.body.iter().copied())
    }

    /// Copies the whole record to `target`.
    ///
    /// # Safety
    /// `target` is valid for writes of [`Record::bytes`] bytes, which no other thread accesses.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    pub(crate) unsafe fn copy_to(&self, target: *mut u8) {
        let mut target = target;
        // SAFETY: the parts add up to `bytes`, so each stays within the caller's target.
        unsafe {
            target = self.head.copy_to(target, self.bytes);
            for part in self.body {
                std::ptr::copy_nonoverlapping(part.as_ptr(), target, part.len());
                target = target.add(part.len());
            }
        }
    }

    /// Returns the VOID record of the same size.
    fn void(&self) -> Self {
        Self { head: self.head.void(), ..*self }
    }
}

/// Raises the boundary as far as possible, and records the measured scan.
#[cold]
fn advance_measured(slots: &Slots, span: Span<BoundaryScan>) -> Lsn {
    let mut about = BoundaryScan::default();
    let scan = slots.scan_noting(Limit::Next, None, |colour| {
        about.slots += 1;
        match colour {
            Colour::Black => about.black += 1,
            Colour::Staged => about.staged += 1,
            Colour::White => {}
        }
    });
    span.stop_with(scan.boundary, about, []);
    scan.boundary
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per log; a box would put a load in front of every word")]
enum Rule {
    Mutex(MutexProtocol),
    Base(Slots),
    Help(Slots, Helping),
}

/// The appending side of the log.
#[derive(Debug)]
pub(crate) struct Reserve {
    ring: Ring,
    slot_allocator: SlotAllocator,
    rule: Rule,
}

impl Reserve {
    /// Starts handing out positions at `next`.
    pub(crate) fn new(home: &Home, options: &Options, next: Lsn) -> Self {
        let slots = (options.slots + SHARED_SLOTS) as usize;
        let rule = match options.protocol {
            Protocol::Mutex => Rule::Mutex(MutexProtocol::new(home, next)),
            Protocol::Base => Rule::Base(Slots::new(home, slots, next)),
            Protocol::Help => {
                let record_bytes_max = options.chunk_bytes + RECORD_OVERHEAD;
                Rule::Help(Slots::new(home, slots, next), Helping::new(home, slots, record_bytes_max, next))
            }
        };
        Self { ring: Ring::new(home, options.ring_bytes), slot_allocator: SlotAllocator::new(options.slots), rule }
    }

    fn slots(&self) -> Option<&Slots> {
        match &self.rule {
            Rule::Mutex(_) => None,
            Rule::Base(slots) | Rule::Help(slots, _) => Some(slots),
        }
    }

    /// Returns the known boundary, by one load.
    pub(crate) fn boundary(&self) -> Lsn {
        match &self.rule {
            Rule::Mutex(mutex) => mutex.boundary(),
            Rule::Base(slots) | Rule::Help(slots, _) => slots.boundary(),
        }
    }

    /// Returns the largest number of writers that had a slot of their own at one time.
    pub(crate) fn writers(&self) -> u64 {
        self.slot_allocator.own()
    }

    /// Returns the next free position; at least that of any record whose `publish` has begun.
    pub(crate) fn next(&self) -> Lsn {
        match &self.rule {
            Rule::Mutex(mutex) => mutex.next(),
            Rule::Base(slots) | Rule::Help(slots, _) => slots.next(),
        }
    }

    /// Returns whether a record may end at `lsn`, so that waiting for it makes sense.
    pub(crate) fn has_reserved(&self, lsn: Lsn) -> bool {
        lsn <= self.boundary() || lsn <= self.next()
    }

    /// Returns the slot that holds the boundary back, and the bound that it holds.
    pub(crate) fn blocker(&self) -> Option<(usize, Lsn)> {
        self.slots().and_then(|slots| slots.scan(Limit::Next, None).blocker()).filter(|(_, bound)| *bound < self.next())
    }

    /// Raises the boundary as far as possible and returns it.
    pub(crate) fn advance(&self) -> Lsn {
        let Some(slots) = self.slots() else { return self.boundary() };
        match collie_obs::start::<BoundaryScan>() {
            None => slots.scan(Limit::Next, None).boundary,
            Some(span) => advance_measured(slots, span),
        }
    }

    /// Returns whether the log is complete up to `lsn`; scans every slot in use, unless that is known already.
    pub(crate) fn is_complete(&self, lsn: Lsn) -> bool {
        mutant!("COMPLETE_UNSEEN") || self.boundary() >= lsn || self.advance() >= lsn
    }

    /// Appends one record and returns its position; calls `publish` with it before the boundary passes it.
    ///
    /// If it fails, nothing was published.
    #[inline]
    pub(crate) fn append<R: Room, F: FnOnce(Lsn)>(
        &self,
        slot: &mut Slot,
        room: &R,
        record: &Record<'_>,
        publish: F,
    ) -> Result<Lsn, WalError> {
        match &self.rule {
            Rule::Mutex(mutex) => mutex.append(&self.ring, room, record, publish),
            Rule::Base(slots) => base::append(slots, &self.ring, slot, room, record, publish),
            Rule::Help(slots, helping) => help::append((slots, helping), &self.ring, slot, room, record, publish),
        }
    }

    /// Takes whole records of another log as they are, at most a ring of them; returns where they begin. For a
    /// follower, which has the mutex protocol: no other thread appends.
    pub(crate) fn take_received<R: Room>(&self, room: &R, records: &[u8]) -> Result<Lsn, WalError> {
        self.mutex().take_received(&self.ring, room, records)
    }

    /// Continues at `next`, where positions jump to; everything before it is written.
    pub(crate) fn jump(&self, next: Lsn) {
        self.mutex().jump(next);
    }

    fn mutex(&self) -> &MutexProtocol {
        let Rule::Mutex(mutex) = &self.rule else {
            unreachable!("a log that follows is opened with the mutex protocol")
        };
        mutex
    }

    fn register(&self) -> impl FnOnce(usize) {
        |index| {
            if let Rule::Help(_, helping) = &self.rule {
                helping.register(index);
            }
            if let Some(slots) = self.slots() {
                slots.register(index);
            }
        }
    }

    /// Gives a writer a slot of its own; returns `None` if all are taken.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        self.slot_allocator.take(self.register())
    }

    /// Takes a writer's slot back.
    pub(crate) fn give_back(&self, slot: Slot) {
        self.slot_allocator.give_back(slot);
    }

    /// Waits for a turn at one of the slots that the other writers share.
    pub(crate) fn shared_slot(&self) -> Turn<'_> {
        self.slot_allocator.shared(self.register())
    }

    /// Blocks until the boundary is at `lsn`, at most the next free position, or for about `limit`; returns whether it
    /// is there.
    ///
    /// # Errors
    /// The state because of which it will not get there.
    pub(crate) fn wait_boundary(&self, lsn: Lsn, limit: Option<Duration>) -> Result<bool, State> {
        match &self.rule {
            Rule::Mutex(mutex) => {
                mutex.wait();
                Ok(true)
            }
            Rule::Base(slots) | Rule::Help(slots, _) => slots.wait(lsn, Limit::Next, None, limit),
        }
    }

    /// Blocks until the boundary has passed the last record of `slot`, which ends at `end`.
    ///
    /// # Errors
    /// As [`Reserve::wait_boundary`].
    pub(crate) fn wait_own(&self, slot: &Slot, end: Lsn) -> Result<(), State> {
        let Some(slots) = self.slots() else { return Ok(()) };
        slots.wait(end, Limit::End(end), Some(Slots::own(slot)), None).map(|_there| ())
    }

    /// Checks once whether the boundary is at `lsn`, and else registers `waker`; `number` is the waiter's, from its
    /// last call.
    ///
    /// # Errors
    /// As [`Reserve::wait_boundary`].
    pub(crate) fn park(&self, lsn: Lsn, number: &mut Option<u64>, waker: &Waker) -> Result<bool, State> {
        match &self.rule {
            Rule::Mutex(mutex) => {
                mutex.wait();
                Ok(true)
            }
            Rule::Base(slots) | Rule::Help(slots, _) => slots.park(lsn, Limit::Next, None, number, waker),
        }
    }

    /// Removes a boundary waiter.
    pub(crate) fn forget(&self, lsn: Lsn, number: u64) {
        if let Some(slots) = self.slots() {
            slots.forget(lsn, number);
        }
    }

    /// Stops accepting appends; the first reason stays. Appends in progress finish, or fail if they wait for room.
    pub(crate) fn stop(&self, state: State) {
        match &self.rule {
            Rule::Mutex(mutex) => mutex.stop(state),
            Rule::Base(slots) | Rule::Help(slots, _) => slots.close(state),
        }
    }

    /// Fails every wait for the boundary from now on.
    pub(crate) fn end(&self, state: State) {
        if let Some(slots) = self.slots() {
            slots.end(state);
        }
    }

    /// Returns the number of records that were flushed from a staging buffer.
    pub(crate) fn staged_taken(&self) -> u64 {
        if let Rule::Help(_, helping) = &self.rule { helping.taken() } else { 0 }
    }

    /// Appends the bytes from `from` to `to` to `target`. `boundary` is at least `to` and was returned by
    /// [`Reserve::advance`] before this call.
    ///
    /// # Safety
    /// As [`Ring::read_into`].
    pub(crate) unsafe fn read_into(&self, from: Lsn, to: Lsn, boundary: Lsn, target: &mut Vec<u8>) {
        if let Rule::Help(slots, helping) = &self.rule {
            // SAFETY: the caller fulfils the contract.
            return unsafe { helping.read_into(slots, &self.ring, [from, to], boundary, target) };
        }
        let len = usize::try_from(to.bytes_since(from)).expect("at most the ring");
        // SAFETY: the caller fulfils the contract.
        unsafe { self.ring.read_into(from, len, target) };
    }
}
