//! The seal of a packet: the check byte of its head and the checksum after it.
//!
//! # Invariants
//! - A1. Up to three flipped bits of a head (type, length, check byte) are detected before the payload is awaited:
//!   no length that a fault produced is used, for a quiet connection could take hours to deliver that many bytes.
//! - A2. A packet whose bytes differ from the sealed ones is delivered with a probability of at most 2^-32, and
//!   never if it differs in at most three bits, or in a run of at most 32.
//!
//! TCP's own checksum is a 16-bit sum, recomputed by every device that forwards packets; it covers neither the
//! memory of these devices nor that of the nodes. Checked by `packet_tests`: every bit of every packet flipped,
//! and pairs of bits of heads.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::checksum::Crc32c;

/// Bytes of the type, the length and its check byte.
pub(super) const HEAD_BYTES: usize = 5;

/// Bytes of the checksum after the payload.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// The smallest value of a length field: itself, its check byte and the checksum.
pub(super) const LENGTH_MIN: u32 = 8;

/// Lengths are below this limit: three bytes.
const LENGTH_LIMIT: u32 = 1 << 24;

/// Returns the check byte of a head: CRC-8 (polynomial 0x07, initial value 0xFF) of the type and the three bytes
/// of the length. It detects any three flipped bits of up to 119.
fn check_byte(letter: u8, length: [u8; 3]) -> u8 {
    let mut crc = 0xFF_u8;
    for byte in [&[letter][..], &length].concat() {
        crc ^= byte;
        for _ in 0..8 {
            crc = if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
        }
    }
    crc
}

/// A length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// Bytes from the length field to the end of the packet.
    pub(super) bytes: u32,
    /// The stored check byte, and the computed one.
    pub(super) check: [u8; 2],
}

/// Reads a length field.
pub(super) fn length(letter: u8, [a, b, c, stored]: [u8; 4]) -> Length {
    Length { bytes: u32::from_le_bytes([a, b, c, 0]), check: [stored, check_byte(letter, [a, b, c])] }
}

/// Returns the stored checksum in the last four bytes of a packet, and the computed one.
pub(super) fn checksum(packet: &[u8]) -> Option<[u32; 2]> {
    let (covered, stored) = packet.split_last_chunk::<CHECKSUM_BYTES>()?;
    let mut crc = Crc32c::new();
    crc.update(covered);
    Some([u32::from_le_bytes(*stored), crc.finish()])
}

/// Fills in the length, check byte and checksum of a packet that has four bytes free after the type and four at
/// the end.
///
/// # Panics
/// When the packet is shorter than these, or has 16 MiB.
pub fn seal(packet: &mut [u8]) {
    let length = packet.len().checked_sub(1).and_then(|length| u32::try_from(length).ok());
    let length = length.filter(|length| (LENGTH_MIN..LENGTH_LIMIT).contains(length)).expect("packets are bounded");
    let [a, b, c, _] = length.to_le_bytes();
    if let Some((letter, rest)) = packet.split_first_mut()
        && let Some(field) = rest.first_chunk_mut()
    {
        *field = [a, b, c, check_byte(*letter, [a, b, c])];
    }
    let [_, computed] = checksum(packet).expect("it has room for a checksum");
    if let Some(stored) = packet.last_chunk_mut() {
        *stored = computed.to_le_bytes();
    }
}
