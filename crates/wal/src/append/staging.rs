//! `Staging`: a copy of the record that a worker is about to append, so that the flush need not wait for the copy into
//! the ring.
//!
//! There is one buffer per slot, written by the slot's owner and read by flushes. The two may overlap: the words are
//! atomic, and a reader discards what it read unless the flag is the same before and afterwards. The end of a record is
//! unique, so the flag is the sequence number.
//!
//! # Ordering
//! | store                                        | pairs with                        | carries                        |
//! |----------------------------------------------|-----------------------------------|--------------------------------|
//! | staged swap, owner (`slots`)                 | flag Acquire before the words     | the words                      |
//! | fence Release before the words, owner        | fence Acquire after them, reader  | the white before this record   |
//!
//! The second row: a reader that saw a word of a newer record finds at its second look that the flag has changed.

use std::sync::OnceLock;

use collie_base::Lsn;
use collie_sync::{
    atomic::{AtomicU64, Ordering, fence},
    mutant,
};

use crate::append::ring_file::Home;

use super::{Place, Record};

const WORD: usize = 8;

#[derive(Debug)]
struct Buffer {
    bytes: Place<AtomicU64>,
    words: Place<[AtomicU64]>,
}

impl Buffer {
    fn of((bytes, words): (Place<AtomicU64>, Place<[AtomicU64]>)) -> Self {
        Self { bytes, words }
    }
}

/// The staging buffer of one slot, made when the slot is first used; in a shared ring it exists from the start.
#[derive(Debug, Default)]
pub(super) struct Staging(OnceLock<Buffer>);

/// Bytes that a reader took; the first one has the position `start`.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) start: Lsn,
    pub(super) bytes: Vec<u8>,
}

impl Staging {
    /// Makes room for records of up to `bytes` and touches every page of it.
    pub(super) fn prepare(&self, bytes: usize) {
        self.0.get_or_init(|| Buffer::of(Home::Private.staging(0, bytes)));
    }

    /// Uses a buffer that has its place already.
    pub(super) fn over(placed: (Place<AtomicU64>, Place<[AtomicU64]>)) -> Self {
        Self(OnceLock::from(Buffer::of(placed)))
    }

    fn buffer(&self) -> &Buffer {
        self.0.get().expect("prepared when the slot was registered")
    }

    /// Stores a record. The slot's flag is not staged, so no reader takes the record yet.
    pub(super) fn put(&self, record: &Record<'_>) {
        let buffer = self.buffer();
        if !mutant!("NO_WRITER_FENCE") {
            // RULE-10: the words below stay behind the slot's last white.
            fence(Ordering::Release);
        }
        buffer.bytes.store(record.bytes(), Ordering::Relaxed);
        let mut words = Words { of: &buffer.words, at: 0, word: 0, bits: 0 };
        record.parts().for_each(|part| words.push(part));
        words.finish();
    }

    /// Takes a copy of the record that ends at `end`; it counts only if `unchanged` returns true afterwards.
    pub(super) fn take(&self, end: Lsn, unchanged: impl FnOnce() -> bool) -> Option<Staged> {
        let buffer = self.buffer();
        // This may be the length of a newer record: it is bounded by the buffer, and the copy is discarded below.
        let len = usize::try_from(buffer.bytes.load(Ordering::Relaxed)).expect("a record fits into its buffer");
        let mut bytes = Vec::with_capacity(len.next_multiple_of(WORD));
        for word in &buffer.words[..len.div_ceil(WORD)] {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.truncate(len);
        if !mutant!("NO_READER_FENCE") {
            fence(Ordering::Acquire);
        }
        (unchanged() || mutant!("NO_SECOND_LOOK")).then(|| Staged { start: Lsn::new(end.get() - len as u64), bytes })
    }
}

/// A packer of bytes into whole words.
struct Words<'a> {
    of: &'a [AtomicU64],
    at: usize,
    /// Bits of the word that is not full yet; always fewer than 64.
    word: u64,
    bits: u32,
}

impl Words<'_> {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let (target, bits) = (&self.of[self.at..self.at + whole.len()], self.bits);
        for (target, bytes) in target.iter().zip(whole) {
            let value = u64::from_le_bytes(*bytes);
            target.store(self.word | value << bits, Ordering::Relaxed);
            // In two steps, since a shift by all 64 bits is not defined.
            self.word = value >> 1 >> (u64::BITS - 1 - bits);
        }
        self.at += whole.len();
        for byte in rest {
            self.word |= u64::from(*byte) << self.bits;
            self.bits += u8::BITS;
            if self.bits == u64::BITS {
                self.store();
            }
        }
    }

    fn store(&mut self) {
        self.of[self.at].store(self.word, Ordering::Relaxed);
        (self.at, self.word, self.bits) = (self.at + 1, 0, 0);
    }

    fn finish(mut self) {
        if self.bits > 0 {
            self.store();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::format::{KIND_DATA, RecordHead};

    /// Goal: a record is taken as it was put, however its parts fall into words. Method: sizes around multiples of a
    /// word, each cut into two parts at every place.
    #[test]
    fn staged_record_is_taken_whole() {
        let staging = Staging::default();
        staging.prepare(64);
        for len in 0..40_usize {
            let body: Vec<u8> = (1..=40).take(len).collect();
            for cut in 0..=len {
                let parts = [&body[..cut], &body[cut..]];
                let record = Record::new(RecordHead::new(len, KIND_DATA, 3), &parts);
                staging.put(&record);
                let taken = staging.take(Lsn::new(10_000), || true).unwrap();
                assert_eq!(taken.start.get() + taken.bytes.len() as u64, 10_000);
                assert_eq!(taken.bytes, record.parts().flatten().copied().collect::<Vec<u8>>());
                assert!(staging.take(Lsn::new(10_000), || false).is_none());
            }
        }
    }
}
