//! CRC-32C (Castagnoli), the checksum of everything Collie writes to disk.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(bytes);
    crc.finish()
}

/// A CRC-32C computed piece by piece.
#[derive(Clone, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Starts an empty checksum.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Starts a checksum that differs for each `seed`, by covering the seed's 4 little-endian bytes first.
    pub fn with_seed(seed: u32) -> Self {
        let mut crc = Self::new();
        crc.update(&seed.to_le_bytes());
        crc
    }

    /// Covers `bytes` next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes covered.
    #[expect(clippy::cast_possible_truncation, reason = "a CRC-32 fits 32 bits; the digest type is shared with CRC-64")]
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the checksum is the published CRC-32C. Method: its check value, and pieces against the whole.
    #[test]
    fn crc32c_equals_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        let mut pieces = Crc32c::new();
        pieces.update(b"1234");
        pieces.update(b"56789");
        assert_eq!(pieces.finish(), 0xE306_9283);
        assert_ne!(Crc32c::with_seed(1).finish(), Crc32c::with_seed(2).finish());
    }
}
