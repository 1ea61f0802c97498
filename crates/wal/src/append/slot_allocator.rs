//! `SlotAllocator`: the slot allocator. A slot moves with its handle from one writer to the next.
//!
//! # Invariants
//! - T1. A slot has one handle, and a handle one user at a time: the writer that has it, or the thread that holds the
//!   mutex of a shared slot. So only one thread at a time stores into a slot's flag.
//! - T2. Slots are numbered in the order of their first use, so a scan reads only as many as were ever in use at one
//!   time.
//! - T3. A stranded slot (its record can never be completed, because the log stopped) is not given out again.

use crate::options::SHARED_SLOTS;
use std::sync::atomic::{AtomicU64, Ordering};

use collie_base::Lsn;
use collie_sync::{Mutex, MutexGuard};

/// The handle of a slot: the state that its owner has without reading shared memory.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) index: usize,
    /// End of the last record appended here.
    pub(super) end: Lsn,
    /// It was asked to notify when it could not yet: it drains when it leaves black.
    pub(super) owes: bool,
    /// Its last record can never be completed.
    pub(super) stranded: bool,
}

impl Slot {
    pub(super) fn new(index: usize) -> Self {
        Self { index, end: Lsn::ZERO, owes: false, stranded: false }
    }

    /// Returns the number of the slot.
    pub(crate) fn number(&self) -> u32 {
        u32::try_from(self.index).expect("at most 1026 slots")
    }
}

#[derive(Debug)]
struct Free {
    slots: Vec<Slot>,
    next: usize,
}

/// The slot allocator of a log.
#[derive(Debug)]
pub(crate) struct SlotAllocator {
    free: Mutex<Free>,
    own_max: usize,
    /// The number of slots that have, or had, a writer of their own.
    own: AtomicU64,
    shared: [Mutex<Option<Slot>>; SHARED_SLOTS as usize],
    next_shared: AtomicU64,
}

/// A shared slot in use.
#[derive(Debug)]
pub(crate) struct Turn<'a>(MutexGuard<'a, Option<Slot>>);

impl Turn<'_> {
    pub(crate) fn slot(&mut self) -> &mut Slot {
        self.0.as_mut().expect("filled when the turn was taken")
    }
}

impl SlotAllocator {
    pub(super) fn new(own_max: u32) -> Self {
        Self {
            free: Mutex::new(Free { slots: Vec::new(), next: 0 }),
            own_max: own_max as usize,
            own: AtomicU64::new(0),
            shared: [Mutex::new(None), Mutex::new(None)],
            next_shared: AtomicU64::new(0),
        }
    }

    /// Gives out a slot; calls `register` with its number if it was never in use. Returns `None` if all are taken.
    pub(super) fn take(&self, register: impl FnOnce(usize)) -> Option<Slot> {
        let mut free = self.free.lock();
        if let Some(slot) = free.slots.pop() {
            return Some(slot);
        }
        if self.own.load(Ordering::Relaxed) >= self.own_max as u64 {
            return None;
        }
        self.own.fetch_add(1, Ordering::Relaxed);
        Some(Self::make(&mut free, register))
    }

    fn make(free: &mut Free, register: impl FnOnce(usize)) -> Slot {
        let index = free.next;
        free.next += 1;
        // Under the lock, so that the number of registered slots only grows.
        register(index);
        Slot::new(index)
    }

    /// Returns the number of slots that have, or had, a writer of their own.
    pub(super) fn own(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    /// Takes a slot back.
    pub(super) fn give_back(&self, slot: Slot) {
        if !slot.stranded {
            self.free.lock().slots.push(slot);
        }
    }

    /// Waits for a turn at a shared slot.
    pub(super) fn shared(&self, register: impl FnOnce(usize)) -> Turn<'_> {
        let free_now = self.shared.iter().find_map(Mutex::try_lock);
        let mut slot = free_now.unwrap_or_else(|| {
            let number = self.next_shared.fetch_add(1, Ordering::Relaxed) % u64::from(SHARED_SLOTS);
            self.shared[usize::from(number == 1)].lock()
        });
        if slot.is_none() {
            *slot = Some(Self::make(&mut self.free.lock(), register));
        }
        Turn(slot)
    }
}
