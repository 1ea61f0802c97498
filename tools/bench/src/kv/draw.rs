//! Keys and values, made as db_bench makes them. The random numbers are not db_bench's, but are used in the same way.

use collie_workload::Random;

/// Writes the key of `number`: 8 bytes big-endian, then `0` characters.
pub(super) fn key_into(key: &mut [u8], number: u64) {
    let (head, tail) = key.split_at_mut(8);
    head.copy_from_slice(&number.to_be_bytes());
    tail.fill(b'0');
}

/// Values that a compressor would shrink to `ratio`: slices of a mebibyte of data, in which each piece of 100 bytes
/// repeats a random part.
#[derive(Clone, Debug)]
pub(super) struct Values {
    data: Vec<u8>,
    at: usize,
}

impl Values {
    pub(super) fn new(ratio: f64, size: usize, random: &mut Random) -> Self {
        const PIECE: usize = 100;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 100 bytes")]
        let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        let mut data = Vec::with_capacity((1 << 20) + PIECE);
        while data.len() < size.max(1 << 20) {
            // Printable, as in db_bench.
            let part: Vec<u8> = (0..raw).map(|_| b' ' + random.draw().to_le_bytes()[0] % 95).collect();
            data.extend(part.iter().cycle().take(PIECE));
        }
        Self { data, at: 0 }
    }

    /// Returns the next value of `size` bytes.
    pub(super) fn next(&mut self, size: usize) -> &[u8] {
        if self.at + size > self.data.len() {
            self.at = 0;
        }
        self.at += size;
        &self.data[self.at - size..self.at]
    }
}
