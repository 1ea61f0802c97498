//! CRC-32C (Castagnoli), the checksum of all bytes that Collie writes to disk.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(bytes);
    crc.finish()
}

/// A CRC-32C that is computed piece by piece.
#[derive(Clone, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Returns the checksum of no bytes.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Returns a checksum that differs for each `seed`: it covers the 4 little-endian bytes of the seed first.
    pub fn with_seed(seed: u32) -> Self {
        let mut crc = Self::new();
        crc.update(&seed.to_le_bytes());
        crc
    }

    /// Adds `bytes` to the covered bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all covered bytes.
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

    /// Goal: the checksum is the published CRC-32C. Method: the published check value; pieces against the whole.
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
