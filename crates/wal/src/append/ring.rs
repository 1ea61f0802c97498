//! `Ring`: the bytes of the log that are not on disk yet, addressed by position.
//!
//! It is not a queue: it stores neither head nor tail. The reservation determines which thread may write where, and the
//! in-flight flush which positions are read.
//!
//! # Invariants
//! - R1. A byte is written only by the holder of the reservation that covers it, and only while its position is below
//!   `durable + len` (LOG-4), so no two live positions share a byte. With the helping protocol `recycle` takes the
//!   place of `durable`: no slot that is not white holds a position a ring below.
//! - R2. A byte is read only by the flush that takes it, and only at positions from `durable` to the boundary, which
//!   was loaded with Acquire after the writer stored it with Release: the writer is done and no other writer comes
//!   (R1). Positions of a record that is still staged are not read here.
//!
//! Checked by the crash and concurrency tests, which compare every record that is read back, and by the models, in
//! which every byte is a cell that reports simultaneous accesses.

#[cfg(not(any(loom, shuttle)))]
use std::cell::UnsafeCell;

use collie_base::Lsn;
#[cfg(any(loom, shuttle))]
use collie_sync::UnsafeCell;

use crate::{
    append::ring_file::Home,
    append::{Place, Record},
};

/// A byte that R1 and R2 give to one thread at a time.
pub(crate) type RingByte = UnsafeCell<u8>;

/// The ring: a power-of-two number of bytes.
pub(crate) struct Ring {
    bytes: Place<[RingByte]>,
    mask: u64,
}

// SAFETY: by R1 and R2 one thread at a time accesses a byte; the boundary's Release and Acquire hand it to the flush,
// and `durable`'s Release and Acquire hand it back.
unsafe impl Sync for Ring {}

impl Ring {
    /// Allocates `len_bytes`, a power of two, and touches every page.
    pub(crate) fn new(home: &Home, len_bytes: u64) -> Self {
        assert!(len_bytes.is_power_of_two(), "Options::validate checks this");
        let len = usize::try_from(len_bytes).expect("a ring fits into memory");
        Self { bytes: home.ring(len), mask: len_bytes - 1 }
    }

    /// Returns the size.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.mask + 1
    }

    /// Copies a record to position `at`: the head in one store and each part in one copy, unless it wraps.
    ///
    /// # Safety
    /// As [`Ring::write`].
    #[inline(always)]
    pub(crate) unsafe fn write_record(&self, at: Lsn, record: &Record<'_>) {
        #[cfg(not(any(loom, shuttle)))]
        if let Some(target) = self.contiguous(at, record.bytes()) {
            // SAFETY: `target` has room for the whole record, which the caller may write.
            return unsafe { record.copy_to(target) };
        }
        // SAFETY: the caller fulfils the contract.
        unsafe { self.write_parts(at, record) };
    }

    /// Copies a record part by part, around the end of the ring.
    ///
    /// # Safety
    /// As [`Ring::write`].
    #[cold]
    #[inline(never)]
    unsafe fn write_parts(&self, at: Lsn, record: &Record<'_>) {
        let mut at = at;
        for part in record.parts() {
            // SAFETY: the caller fulfils the contract.
            unsafe { self.write(at, part) };
            at = at.plus(part.len() as u64);
        }
    }

    /// Returns the address of position `at`, if `bytes` from there on do not wrap.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    fn contiguous(&self, at: Lsn, bytes: u64) -> Option<*mut u8> {
        let from = at.get() & self.mask;
        // `bytes` is the length of something in memory, so this does not overflow.
        if from + bytes > self.mask + 1 {
            return None;
        }
        let from = usize::try_from(from).expect("below the length");
        // SAFETY: below the length of the allocation.
        Some(unsafe { UnsafeCell::raw_get(self.bytes.as_ptr()).add(from) })
    }

    /// Returns the offset of `at`, the number of bytes up to the end of the ring, and the number that wraps to its
    /// front.
    fn split(&self, at: Lsn, len: usize) -> (usize, usize, usize) {
        let from = usize::try_from(at.get() & self.mask).expect("below the length");
        assert!(len <= self.bytes.len(), "a reservation is at most the ring");
        let first = len.min(self.bytes.len() - from);
        (from, first, len - first)
    }

    /// Copies `source` to position `at`.
    ///
    /// # Safety
    /// The caller holds the reservation of these positions (R1).
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) unsafe fn write(&self, at: Lsn, source: &[u8]) {
        let (from, first, second) = self.split(at, source.len());
        let base = UnsafeCell::raw_get(self.bytes.as_ptr());
        // SAFETY: `split` keeps both ranges inside the allocation; R1: no other thread accesses them now.
        unsafe {
            std::ptr::copy_nonoverlapping(source.as_ptr(), base.add(from), first);
            std::ptr::copy_nonoverlapping(source.as_ptr().add(first), base, second);
        }
    }

    /// Appends the `len` bytes from position `at` on to `target`.
    ///
    /// # Safety
    /// The caller is the flush that takes these positions, which lie between `durable` and a boundary that it loaded
    /// with Acquire (R2).
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) unsafe fn read_into(&self, at: Lsn, len: usize, target: &mut Vec<u8>) {
        let (from, first, second) = self.split(at, len);
        let base = UnsafeCell::raw_get(self.bytes.as_ptr()).cast_const();
        // SAFETY: `split` keeps both ranges inside the allocation; R2: they are not written during the read.
        let (head, tail) =
            unsafe { (std::slice::from_raw_parts(base.add(from), first), std::slice::from_raw_parts(base, second)) };
        target.extend_from_slice(head);
        target.extend_from_slice(tail);
    }

    /// Copies `source` to position `at`, in cells that a model watches.
    ///
    /// # Safety
    /// The caller holds the reservation of these positions (R1).
    #[cfg(any(loom, shuttle))]
    pub(crate) unsafe fn write(&self, at: Lsn, source: &[u8]) {
        let (from, first, _) = self.split(at, source.len());
        for (offset, byte) in source.iter().enumerate() {
            let index = if offset < first { from + offset } else { offset - first };
            // SAFETY: R1, which the model checks.
            self.bytes[index].with_mut(|cell| unsafe { *cell = *byte });
        }
    }

    /// Appends the `len` bytes from position `at` on to `target`, from cells that a model watches.
    ///
    /// # Safety
    /// The caller is the flush that takes these positions (R2).
    #[cfg(any(loom, shuttle))]
    pub(crate) unsafe fn read_into(&self, at: Lsn, len: usize, target: &mut Vec<u8>) {
        let (from, first, _) = self.split(at, len);
        for offset in 0..len {
            let index = if offset < first { from + offset } else { offset - first };
            // SAFETY: R2, which the model checks.
            target.push(self.bytes[index].with(|cell| unsafe { *cell }));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: bytes that wrap around the end are read back whole. Method: every start in a ring of 16.
    #[test]
    fn ring_wraps() {
        let ring = Ring::new(&Home::Private, 16);
        for start in 0..40 {
            let at = Lsn::new(start);
            // SAFETY: one thread.
            unsafe { ring.write(at, b"0123456789") };
            let mut back = Vec::new();
            // SAFETY: one thread.
            unsafe { ring.read_into(at, 10, &mut back) };
            assert_eq!(back, b"0123456789", "start {start}");
        }
    }
}
