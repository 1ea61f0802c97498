//! Keys and values, made as db_bench makes them. The random numbers are not db_bench's, but are used in the same way.

use collie_workload::Random;

use super::load::{KEY_BYTES, VALUE_BYTES};

/// Writes the key of `number`: 8 bytes big-endian, then `0` characters.
pub(super) fn key_into(key: &mut [u8; KEY_BYTES], number: u64) {
    let (head, tail) = key.split_at_mut(8);
    head.copy_from_slice(&number.to_be_bytes());
    tail.fill(b'0');
}

/// Values that a compressor would shrink to half: slices of a mebibyte of data, in which each piece of 100 bytes
/// repeats a random part.
#[derive(Clone, Debug)]
pub(super) struct Values {
    data: Vec<u8>,
    at: usize,
}

impl Values {
    pub(super) fn new(random: &mut Random) -> Self {
        const PIECE: usize = 100;
        let mut data = Vec::with_capacity((1 << 20) + PIECE);
        while data.len() < 1 << 20 {
            // Printable, as in db_bench.
            let part: Vec<u8> = (0..PIECE / 2).map(|_| b' ' + random.draw().to_le_bytes()[0] % 95).collect();
            data.extend(part.iter().cycle().take(PIECE));
        }
        Self { data, at: 0 }
    }

    /// Returns the next value.
    pub(super) fn next(&mut self) -> &[u8] {
        if self.at + VALUE_BYTES > self.data.len() {
            self.at = 0;
        }
        self.at += VALUE_BYTES;
        &self.data[self.at - VALUE_BYTES..self.at]
    }
}
