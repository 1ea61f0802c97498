//! `Ring`: the memory into which every compared protocol copies its records.
//!
//! It has the same structure as the log's own ring: a power of two of bytes, addressed by position, read by one sink.
//!
//! # Invariants
//! - R1. A byte is written only by the holder of the turn that covers it ([`Protocol`](crate::protocols::Protocol),
//!   K1), and only while its position is below `sunk + len`: no two live positions share a byte.
//! - R2. Only the sink reads a byte, at positions from `sunk` to a boundary (K2): the writer is done, and by R1 the
//!   next writer waits until `sunk` has passed.
//!
//! Checked by `protocols_tests`, which sends every record through a small ring and compares the bytes that come out.

use std::cell::UnsafeCell;

use crate::record::Head;

/// A power-of-two number of bytes.
pub(crate) struct Ring {
    bytes: Box<[UnsafeCell<u8>]>,
    mask: u64,
}

// SAFETY: by R1 and R2 only one side accesses a byte at a time; the boundary and `sunk`, stored with Release and loaded
// with Acquire, transfer it between the sides.
unsafe impl Sync for Ring {}

impl Ring {
    /// Allocates `len_bytes`, a power of two, and touches every page.
    pub(crate) fn new(len_bytes: u64) -> Self {
        assert!(len_bytes.is_power_of_two(), "a ring is a power of two");
        let len = usize::try_from(len_bytes).expect("a ring fits into memory");
        let mut bytes = Vec::with_capacity(len);
        bytes.resize_with(len, || UnsafeCell::new(0));
        Self { bytes: bytes.into_boxed_slice(), mask: len_bytes - 1 }
    }

    /// Returns the number of bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.mask + 1
    }

    /// Returns the offset of `at`, and how many of `len` bytes fit before the end of the memory.
    fn split(&self, at: u64, len: usize) -> (usize, usize) {
        let from = usize::try_from(at & self.mask).expect("below the length");
        assert!(len <= self.bytes.len(), "a record is at most the ring");
        (from, len.min(self.bytes.len() - from))
    }

    /// Copies `source` to position `at`.
    ///
    /// # Safety
    /// The caller holds the turn of these positions (R1).
    pub(crate) unsafe fn write(&self, at: u64, source: &[u8]) {
        let (from, first) = self.split(at, source.len());
        let base = UnsafeCell::raw_get(self.bytes.as_ptr());
        // SAFETY: `split` keeps both ranges inside the allocation; R1: no other thread accesses them now.
        unsafe {
            std::ptr::copy_nonoverlapping(source.as_ptr(), base.add(from), first);
            std::ptr::copy_nonoverlapping(source.as_ptr().add(first), base, source.len() - first);
        }
    }

    /// Copies a head and a body to position `at`, as cheaply as the log's own ring does: the head in one store, the
    /// body in one copy, unless the record wraps.
    ///
    /// # Safety
    /// The caller holds the turn of these positions (R1), as for [`Ring::write`].
    #[inline(always)]
    pub(crate) unsafe fn write_record(&self, at: u64, head: &Head, body: &[u8]) {
        let (len, from) = (head.as_slice().len() + body.len(), at & self.mask);
        if body.len() < Head::STORED_BYTES || from + len as u64 > self.len_bytes() {
            // SAFETY: the caller's.
            return unsafe {
                self.write(at, head.as_slice());
                self.write(at + head.as_slice().len() as u64, body);
            };
        }
        let from = usize::try_from(from).expect("below the length");
        // SAFETY: the record does not wrap, so all of it lies inside the allocation; the body overwrites the surplus
        // bytes of the head's store. R1: no other thread accesses these positions now.
        unsafe {
            let target = UnsafeCell::raw_get(self.bytes.as_ptr()).add(from);
            target.cast::<[u8; Head::STORED_BYTES]>().write_unaligned(head.stored());
            std::ptr::copy_nonoverlapping(body.as_ptr(), target.add(head.as_slice().len()), body.len());
        }
    }

    /// Appends the bytes of the positions `from` to `to` to `target`.
    ///
    /// # Safety
    /// The caller is the only sink, and the positions lie between `sunk` and a boundary (R2).
    pub(crate) unsafe fn read_into(&self, from: u64, to: u64, target: &mut Vec<u8>) {
        let len = usize::try_from(to - from).expect("at most the ring");
        let (offset, first) = self.split(from, len);
        let base = UnsafeCell::raw_get(self.bytes.as_ptr()).cast_const();
        // SAFETY: `split` keeps both ranges inside the allocation; R2: they are not written during the read.
        let (head, tail) = unsafe {
            (std::slice::from_raw_parts(base.add(offset), first), std::slice::from_raw_parts(base, len - first))
        };
        target.extend_from_slice(head);
        target.extend_from_slice(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bytes that wrap around the end come back whole. Method: every start in a ring of 16.
    #[test]
    fn ring_wraps() {
        let ring = Ring::new(16);
        for start in 0..40 {
            // SAFETY: one thread.
            unsafe { ring.write(start, b"0123456789") };
            let mut back = Vec::new();
            // SAFETY: one thread.
            unsafe { ring.read_into(start, start + 10, &mut back) };
            assert_eq!(back, b"0123456789", "start {start}");
        }
    }

    /// Goal: a record written at once has the same bytes as its head and body written one by one. Method: every start
    /// in a ring of 256, bodies around the size of a head.
    #[test]
    fn ring_takes_a_record_at_once() {
        for (start, len) in (0..512).flat_map(|start| [0, 1, 3, 4, 5, 60, 130].map(|len| (start, len))) {
            let (ring, head, body) = (Ring::new(256), Head::new(len), vec![0x5A; len]);
            // SAFETY: one thread.
            unsafe { ring.write_record(start, &head, &body) };
            let expected = [head.as_slice(), &body].concat();
            let mut back = Vec::new();
            // SAFETY: one thread.
            unsafe { ring.read_into(start, start + expected.len() as u64, &mut back) };
            assert_eq!(back, expected, "{len} bytes at {start}");
        }
    }
}
