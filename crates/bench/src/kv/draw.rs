//! Keys, values and random numbers, made as db_bench makes them.

/// Random numbers from a seed: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). They are not db_bench's numbers, but are
/// used in the same way.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the sequence of thread `thread`.
    pub(crate) fn new(seed: u64, thread: u32) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(thread) << 32))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

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
            let part: Vec<u8> = (0..raw).map(|_| b' ' + random.next().to_le_bytes()[0] % 95).collect();
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
