//! The helping protocol: stage, turn black, take positions, publish, turn staged, copy, turn white. The boundary passes
//! a worker that stalls in its copy; a flush takes the record from the staging buffer.
//!
//! The order of the statements is the protocol (`docs/design/commit-protocol.md` section 3; RULE-1, RULE-10, RULE-12).
//! Staging precedes black, so nothing can fail between taking positions and staged; after publishing nothing is taken
//! back (COMMIT-4).
//!
//! # Invariants
//! - K1. The bytes of a record below the boundary are in the ring if its slot has left staged, else in the slot's
//!   staging buffer.
//! - K2. No ring byte is written while a slot that is not white may still copy an older record there: `recycle` is at
//!   most the start of each such record, and `recycle <= durable`.
//!
//! # Ordering
//! | store                        | pairs with                | carries                                     |
//! |------------------------------|---------------------------|---------------------------------------------|
//! | white Release, owner         | flag Acquire, `recycle`   | the end of the owner's copy into the ring   |
//! | `recycle` fetch_max AcqRel   | `recycle` Acquire, owner  | what `recycle` was computed from            |
//!
//! # Progress
//! Wait-free until the ring is full: one read-modify-write on a shared line (`glsn`) and one swap on the slot's own.

use std::{mem::ManuallyDrop, sync::atomic::Ordering::Relaxed, time::Duration};

use collie_base::Lsn;
use collie_sync::{Padded, atomic::AtomicU64, mutant, ord};

use crate::{WalError, append::ring::Ring, append::ring_file::Home};

use super::{
    Record, Room,
    slot_allocator::Slot,
    slots::Slots,
    staging::{Staged, Staging},
    words::{Colour, Flag},
};

/// Interval of a worker's looks while only another worker's copy is in its way: turning white notifies no thread.
const STRAGGLER_LOOK: Duration = Duration::from_micros(100);

/// The state of the helping protocol in addition to the flags.
#[derive(Debug)]
pub(super) struct Helping {
    staging: Box<[Staging]>,
    record_bytes_max: u64,
    /// Ring bytes of positions below may be overwritten.
    recycle: Padded<AtomicU64>,
    taken: std::sync::atomic::AtomicU64,
}

impl Helping {
    pub(super) fn new(home: &Home, slots: usize, record_bytes_max: u64, next: Lsn) -> Self {
        let bytes = usize::try_from(record_bytes_max).expect("checked by Options");
        let staging = |index| match home {
            Home::Private => Staging::default(),
            Home::Shared(_) => Staging::over(home.staging(index, bytes)),
        };
        Self {
            staging: (0..slots).map(staging).collect(),
            record_bytes_max,
            recycle: Padded::new(AtomicU64::new(next.get())),
            taken: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Makes the staging buffer of slot `index`, before the slot's first record.
    pub(super) fn register(&self, index: usize) {
        self.staging[index].prepare(usize::try_from(self.record_bytes_max).expect("checked by Options"));
    }

    /// Returns the number of records that were flushed from a staging buffer.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Returns the staging buffer of a slot.
    pub(super) fn staging_of(&self, slot: &Slot) -> &Staging {
        &self.staging[slot.index]
    }

    fn recycle(&self) -> Lsn {
        Lsn::new(self.recycle.load(ord!("RECYCLE_LOAD", Acquire)))
    }

    /// Raises `recycle` as far as `durable`, loaded before, and the slots allow (K2).
    fn move_recycle(&self, slots: &Slots, durable: Lsn) -> Lsn {
        let mut recycle = durable;
        for index in 0..slots.used() {
            let flag = slots.flag(index);
            let bound = match flag.colour() {
                Colour::White => continue,
                Colour::Black => flag.lsn(),
                Colour::Staged if mutant!("RECYCLE_PASSES_STAGED") => continue,
                Colour::Staged => Lsn::new(flag.lsn().get().saturating_sub(self.record_bytes_max)),
            };
            recycle = recycle.min(bound);
        }
        let before = self.recycle.fetch_max(recycle.get(), ord!("RECYCLE_MAX", AcqRel));
        recycle.max(Lsn::new(before))
    }

    /// Appends the records of `range`, from its first position to its second, to `target`; `boundary`, at least the
    /// second, came from a scan before this call (RULE-12).
    ///
    /// # Safety
    /// As [`Ring::read_into`], for the positions that no staged record covers.
    pub(super) unsafe fn read_into(
        &self,
        slots: &Slots,
        ring: &Ring,
        range: [Lsn; 2],
        boundary: Lsn,
        target: &mut Vec<u8>,
    ) {
        let [from, _] = range;
        let staged = self.staged(slots, from, boundary);
        self.taken.fetch_add(staged.len() as u64, Relaxed);
        // SAFETY: the caller fulfils the contract.
        unsafe { Self::assemble(ring, range, &staged, target) };
    }

    /// Appends the records from `from` to `to` to `target`: those in `staged` from there, the others from the ring.
    ///
    /// # Safety
    /// As [`Helping::read_into`].
    pub(super) unsafe fn assemble(ring: &Ring, [from, to]: [Lsn; 2], staged: &[Staged], target: &mut Vec<u8>) {
        let mut at = from;
        let ring_to = |at: Lsn, end: Lsn, target: &mut Vec<u8>| {
            let len = usize::try_from(end.bytes_since(at)).expect("at most the ring");
            // SAFETY: the caller fulfils the contract; K1: no slot holds these bytes staged, so the ring has them.
            unsafe { ring.read_into(at, len, target) };
        };
        for record in staged.iter().filter(|record| record.start < to) {
            ring_to(at, record.start, target);
            let len = usize::try_from(to.bytes_since(record.start)).unwrap_or(usize::MAX).min(record.bytes.len());
            target.extend_from_slice(&record.bytes[..len]);
            at = record.start.plus(len as u64);
        }
        ring_to(at, to, target);
    }

    /// Returns the staged records that end in `(from, boundary]`, in order.
    pub(super) fn staged(&self, slots: &Slots, from: Lsn, boundary: Lsn) -> Vec<Staged> {
        let take = |index: usize| {
            let flag = slots.flag(index);
            let end = flag.lsn();
            if flag.colour() != Colour::Staged || end <= from || end > boundary {
                return None;
            }
            self.staging[index].take(end, || slots.flag(index) == flag)
        };
        let mut staged: Vec<Staged> = (0..slots.used()).filter_map(take).collect();
        staged.sort_unstable_by_key(|record| record.start);
        staged
    }
}

#[cfg(not(any(loom, shuttle)))]
fn look_again_soon() {
    std::thread::park_timeout(STRAGGLER_LOOK);
}

/// Yields: a model has no time.
#[cfg(any(loom, shuttle))]
fn look_again_soon() {
    let _ = STRAGGLER_LOOK;
    collie_sync::thread::yield_now();
}

/// Appends one record; returns its position.
#[inline(never)]
pub(super) fn append<R: Room, F: FnOnce(Lsn)>(
    (slots, helping): (&Slots, &Helping),
    ring: &Ring,
    slot: &mut Slot,
    room: &R,
    record: &Record<'_>,
    publish: F,
) -> Result<Lsn, WalError> {
    if slot.stranded {
        return Err(room.refusal(slots.state()));
    }
    helping.staging_of(slot).put(record); // S0
    if mutant!("RESTAGE_BEFORE_WHITE") && slot.end > Lsn::ZERO {
        slots.whiten_staged(slot);
    }
    slots.blacken(slot); // W1
    let Ok(start) = slots.reserve(slot, record.bytes()) else { return Err(room.refusal(slots.state())) }; // W2
    let window = Window { slots, helping, ring, slot, room, record, start };
    if mutant!("STAGED_BEFORE_PUBLISH") {
        ManuallyDrop::new(window).finish(record);
        publish(start);
        return Ok(start);
    }
    publish(start); // W3
    ManuallyDrop::new(window).finish(record);
    Ok(start)
}

/// A worker between its reservation and staged. It is dropped only if publishing panics.
struct Window<'a, R: Room> {
    slots: &'a Slots,
    helping: &'a Helping,
    ring: &'a Ring,
    slot: &'a mut Slot,
    room: &'a R,
    record: &'a Record<'a>,
    start: Lsn,
}

impl<R: Room> Window<'_, R> {
    /// Takes a published record to white. A staged record stands whatever happens here: if the log stops first, the
    /// slot stays staged, and a wait for the record's durability returns how it ended. Always inlined:
    /// `tests/assembly.rs` counts its exchange in `append`, wherever the compiler splits the crate.
    #[inline(always)]
    fn finish(&mut self, record: &Record<'_>) {
        let end = self.start.plus(record.bytes());
        self.slots.leave_black(self.slot, Flag::staged(end)); // W3b
        let has_room = end.bytes_since(self.helping.recycle()) <= self.ring.len_bytes() || self.wait_for_room(end);
        if !has_room {
            return;
        }
        // SAFETY: ring R1: only this append has the positions, and no thread copies or flushes what lies a ring before
        // them (K2).
        unsafe { self.ring.write_record(self.start, record) }; // W4
        if !mutant!("RESTAGE_BEFORE_WHITE") {
            self.slots.whiten_staged(self.slot); // W5
        }
    }

    /// Waits until `recycle` allows a write up to `end`; returns `false` if the log has stopped.
    #[cold]
    #[inline(never)]
    fn wait_for_room(&mut self, end: Lsn) -> bool {
        let until = Lsn::new(end.get() - self.ring.len_bytes());
        loop {
            let durable = self.room.durable();
            if self.helping.move_recycle(self.slots, durable) >= until {
                return true;
            }
            let stopped =
                if durable < until { self.room.wait_durable(until).is_err() } else { self.room.has_stopped() };
            if stopped {
                self.slot.stranded = true;
                return false;
            }
            if durable >= until {
                look_again_soon();
            }
        }
    }

    /// Turns the record into a VOID one: no flush takes the staged words while the slot is black.
    #[cold]
    #[inline(never)]
    fn void(&mut self) {
        let void = self.record.void();
        self.helping.staging_of(self.slot).put(&void);
        self.finish(&void);
    }
}

impl<R: Room> Drop for Window<'_, R> {
    fn drop(&mut self) {
        self.void();
    }
}
