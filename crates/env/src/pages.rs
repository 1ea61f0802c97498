//! `Pages`: the content of a simulated region of memory.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
const WORD: usize = 8;

#[derive(Debug)]
#[repr(C, align(4096))]
struct Page([AtomicU64; PAGE / WORD]);

/// The content of a region.
#[derive(Debug)]
pub(crate) struct Pages {
    pages: Box<[Page]>,
    len: usize,
}

impl Pages {
    pub(crate) fn zeros(len: usize) -> Self {
        let page = || Page(std::array::from_fn(|_| AtomicU64::new(0)));
        Self { pages: (0..len.div_ceil(PAGE)).map(|_| page()).collect(), len }
    }

    /// Returns the start address. All bytes may be written through it, because they are atomics.
    pub(crate) fn address(&self) -> NonNull<u8> {
        NonNull::from(&*self.pages).cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.pages.iter().flat_map(|page| &page.0)
    }

    /// Returns the bytes. Writers that use anything but atomics must have finished.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes()).collect();
        bytes.truncate(self.len);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let pages = Self::zeros(bytes.len());
        for (word, value) in pages.words().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..value.len()].copy_from_slice(value);
            word.store(u64::from_le_bytes(whole), Ordering::Release);
        }
        pages
    }
}
