//! The base protocol: turn black, take positions, copy, publish, turn white. The boundary waits for each worker in
//! between.
//!
//! The order of the statements is the protocol (`docs/design/commit-protocol.md` section 3; RULE-1, RULE-9, RULE-11).
//! The copy precedes publishing: until then the append can still fail, if the log stops while the append waits for
//! room.
//!
//! # Progress
//! Wait-free until the ring is full: one read-modify-write on a shared line (`glsn`) and one swap on the slot's own.

use std::mem::ManuallyDrop;

use collie_base::Lsn;
use collie_sync::mutant;

use crate::{WalError, append::ring::Ring};

use super::{Record, Room, slot_allocator::Slot, slots::Slots, words::Flag};

/// Appends one record; returns its position.
#[inline(never)]
pub(super) fn append<R: Room, F: FnOnce(Lsn)>(
    slots: &Slots,
    ring: &Ring,
    slot: &mut Slot,
    room: &R,
    record: &Record<'_>,
    publish: F,
) -> Result<Lsn, WalError> {
    if slot.stranded {
        return Err(room.refusal(slots.state()));
    }
    slots.blacken(slot); // W1
    let Ok(start) = slots.reserve(slot, record.bytes()) else { return Err(room.refusal(slots.state())) }; // W2
    let end = start.plus(record.bytes());
    let mut window = Window { slots, ring, slot, room, record, start, has_room: false };
    if end.bytes_since(room.durable()) > ring.len_bytes() {
        window.wait_for_room(end)?;
    }
    window.has_room = true;
    // SAFETY: ring R1: only this append has the positions, and everything a ring before them is durable.
    unsafe { ring.write_record(start, record) }; // W4
    if mutant!("PUBLISH_AFTER_WHITE") {
        let mut window = ManuallyDrop::new(window);
        slots.leave_black(window.slot, Flag::white(end));
        publish(start);
        return Ok(start);
    }
    publish(start); // W3
    let mut window = ManuallyDrop::new(window);
    slots.leave_black(window.slot, Flag::white(end)); // W5
    Ok(start)
}

/// A worker between its reservation and white. It is dropped only if the append cannot finish.
struct Window<'a, R: Room> {
    slots: &'a Slots,
    ring: &'a Ring,
    slot: &'a mut Slot,
    room: &'a R,
    record: &'a Record<'a>,
    start: Lsn,
    has_room: bool,
}

impl<R: Room> Window<'_, R> {
    /// Waits until everything a ring before `end` is durable.
    #[cold]
    #[inline(never)]
    fn wait_for_room(&mut self, end: Lsn) -> Result<(), WalError> {
        if !mutant!("RAISE_LEFT_OUT") {
            self.slots.raise(self.slot, self.start);
        }
        let until = Lsn::new(end.get() - self.ring.len_bytes());
        while self.room.durable() < until {
            self.room.wait_durable(until)?;
        }
        Ok(())
    }

    /// Ends an append that cannot finish. With room the record becomes a VOID one, and the log goes on. Without room
    /// the log has stopped or stops now, since these positions can never be filled.
    #[cold]
    #[inline(never)]
    fn void(&mut self) {
        let end = self.start.plus(self.record.bytes());
        if self.has_room {
            // SAFETY: ring R1: only this append has the positions, and everything a ring before them is durable.
            unsafe { self.ring.write(self.start, self.record.head.void().as_slice()) };
            self.slots.leave_black(self.slot, Flag::white(end));
            return;
        }
        self.slot.stranded = true;
        if std::thread::panicking() {
            self.room.poison();
        }
    }
}

impl<R: Room> Drop for Window<'_, R> {
    fn drop(&mut self) {
        self.void();
    }
}
