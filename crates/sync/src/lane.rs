//! Lane: carries plain records from one writer to one reader, in order, through a ring on which neither side waits.
//!
//! It is not a queue for many writers, and not a channel: it wakes no thread. A full lane gives the record back.
//!
//! # Invariants
//! - L1. `head <= tail <= head + capacity`; both only grow (64 bits: no wrap in the lifetime of a process).
//! - L2. Slots `head..tail` (modulo the capacity) hold a record; every other slot is free.
//! - L3. Only the [`LaneWriter`] stores `tail` and `closed`, only the [`LaneReader`] stores `head`, each from its own
//!   counter; neither end can be copied. `closed` is stored once, after the last `tail`.
//!
//! # Ordering
//! | store              | pairs with           | carries                                               |
//! |--------------------|----------------------|-------------------------------------------------------|
//! | `tail` Release W   | `tail` Acquire R     | the record: a reader that sees `tail` sees it         |
//! | `head` Release R   | `head` Acquire W     | the free slot: the reader has copied its record       |
//! | `closed` Release W | `closed` Acquire R   | the last `tail`: if empty then, empty from then on    |
//!
//! # Progress
//! `push`, `pop`, `is_over`: wait-free (no loop).
//!
//! Checked by `lane_loom.rs` (each weakened ordering makes it fail) and by the tests below.

use std::mem::MaybeUninit;

use crate::atomic::{AtomicBool, AtomicU64};
use crate::{Arc, Padded, UnsafeCell, ord};

struct Lane<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Writer only.
    tail: Padded<AtomicU64>,
    /// Writer only.
    closed: AtomicBool,
    /// Reader only.
    head: Padded<AtomicU64>,
}

// SAFETY: by L2 and L3 only one side at a time accesses a slot; the table above orders the transfer. Records are plain
// values that may move between threads.
unsafe impl<T: Send> Sync for Lane<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Lane<T> {}

impl<T> Lane<T> {
    fn slot(&self, at: u64) -> &UnsafeCell<MaybeUninit<T>> {
        let mask = self.slots.len() - 1;
        let at = usize::try_from(at).expect("64-bit positions");
        &self.slots[at & mask]
    }
}

/// The writing end. Dropping it closes the lane; records already in it can still be taken out.
pub struct LaneWriter<T> {
    lane: Arc<Lane<T>>,
    tail: u64,
}

/// The reading end.
pub struct LaneReader<T> {
    lane: Arc<Lane<T>>,
    head: u64,
}

/// Creates a lane for `capacity` records and returns its two ends. Memory of slots that were never used is not touched.
///
/// # Panics
/// If the capacity is not a power of two.
#[must_use]
pub fn lane<T: Copy + Send>(capacity: usize) -> (LaneWriter<T>, LaneReader<T>) {
    assert!(capacity.is_power_of_two(), "a lane has a power of two of slots");
    let lane = Arc::new(Lane {
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        tail: Padded::new(AtomicU64::new(0)),
        closed: AtomicBool::new(false),
        head: Padded::new(AtomicU64::new(0)),
    });
    (LaneWriter { lane: Arc::clone(&lane), tail: 0 }, LaneReader { lane, head: 0 })
}

impl<T: Copy + Send> LaneWriter<T> {
    /// Appends `record`.
    ///
    /// # Errors
    /// The record, if every slot is taken.
    #[inline]
    pub fn push(&mut self, record: T) -> Result<(), T> {
        let (lane, tail) = (&*self.lane, self.tail); // L3: our own counter, so no load
        if tail - lane.head.load(ord!("LANE_HEAD_LOAD", Acquire)) == lane.slots.len() as u64 {
            return Err(record);
        }
        lane.slot(tail).with_mut(|slot| {
            // SAFETY: slot `tail` is outside `head..tail`, so free (L2), and there is no other writer (L3).
            unsafe { (*slot).write(record) };
        });
        self.tail = tail + 1;
        lane.tail.store(self.tail, ord!("LANE_TAIL_STORE", Release));
        Ok(())
    }
}

impl<T: Copy + Send> LaneReader<T> {
    /// Takes the oldest record, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let (lane, head) = (&*self.lane, self.head); // L3: our own counter, so no load
        if lane.tail.load(ord!("LANE_TAIL_LOAD", Acquire)) == head {
            return None;
        }
        let record = lane.slot(head).with(|slot| {
            // SAFETY: slot `head` is inside `head..tail`, so it holds a record that was written before `tail` was
            // stored (L2), and the writer does not touch it until `head` has passed it.
            unsafe { (*slot).assume_init() }
        });
        self.head = head + 1;
        lane.head.store(self.head, ord!("LANE_HEAD_STORE", Release));
        Some(record)
    }

    /// Returns whether the writer is gone and every record of it was taken.
    pub fn is_over(&self) -> bool {
        // The order matters: a tail loaded after `closed` is the last one.
        self.lane.closed.load(ord!("LANE_CLOSED_LOAD", Acquire))
            && self.lane.tail.load(ord!("LANE_TAIL_LOAD", Acquire)) == self.head
    }
}

impl<T> Drop for LaneWriter<T> {
    fn drop(&mut self) {
        self.lane.closed.store(true, ord!("LANE_CLOSED_STORE", Release));
    }
}

impl<T> std::fmt::Debug for LaneWriter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneWriter").field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for LaneReader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneReader").field("head", &self.head).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: records come out in order, a full lane gives a record back, and a closed one is over when it is empty.
    /// Method: one thread, a lane of two.
    #[test]
    fn lane_keeps_order_and_says_full_and_over() {
        let (mut writer, mut reader) = lane(2);
        assert_eq!([writer.push(1), writer.push(2), writer.push(3)], [Ok(()), Ok(()), Err(3)]);
        assert_eq!(reader.pop(), Some(1));
        assert_eq!(writer.push(4), Ok(()));
        drop(writer);
        assert!(!reader.is_over(), "two records are left");
        assert_eq!([reader.pop(), reader.pop(), reader.pop()], [Some(2), Some(4), None]);
        assert!(reader.is_over());
    }

    /// Goal: no record is lost, repeated or torn between two threads. Method: many records of equal numbers through few
    /// slots.
    #[test]
    fn lane_carries_every_record_once_between_threads() {
        const RECORDS: u64 = 50_000;
        let (mut writer, mut reader) = lane(64);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..RECORDS {
                    while writer.push([number; 4]).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while !reader.is_over() {
                match reader.pop() {
                    Some(record) => {
                        assert_eq!(record, [next; 4]);
                        next += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
            assert_eq!(next, RECORDS);
        });
    }
}
