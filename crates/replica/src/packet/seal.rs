//! The seal of a packet: the check byte of its head and the checksum behind it.
//!
//! # Invariants
//! - A1. Up to three flipped bits of a head (type, length, check byte) are noticed before the payload is waited for: no length is
//!   believed that only a fault made, which a quiet connection could take hours to fill.
//! - A2. A packet whose bytes differ from those that were sealed is handed out with a chance of 2^-32 at the most, and never when
//!   it differs in at most three bits, or in a run of at most 32.
//!
//! TCP's own checksum is 16 bits of a sum, taken anew by whatever passes packets on; it covers neither their memory nor the nodes'.
//! Checked by `packet_tests`: every bit of every packet flipped, and pairs of bits of heads.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::checksum::Crc32c;

/// Bytes of the type, the length and its check byte.
pub(super) const HEAD_BYTES: usize = 5;

/// Bytes of the checksum behind the payload.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// Smallest value of a length field: itself, its check byte and the checksum.
pub(super) const LENGTH_MIN: u32 = 8;

/// Lengths are below it: three bytes.
const LENGTH_LIMIT: u32 = 1 << 24;

/// Returns the check byte of a head: CRC-8 (polynomial 0x07, begun with 0xFF) of the type and the three bytes of the length. It
/// notices any three flipped bits of up to 119.
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
    /// The check byte, and what it must be.
    pub(super) check: [u8; 2],
}

/// Reads a length field.
pub(super) fn length(letter: u8, [a, b, c, stored]: [u8; 4]) -> Length {
    Length { bytes: u32::from_le_bytes([a, b, c, 0]), check: [stored, check_byte(letter, [a, b, c])] }
}

/// Returns the checksum in the last four bytes of a packet, and what it must be.
pub(super) fn checksum(packet: &[u8]) -> Option<[u32; 2]> {
    let (covered, stored) = packet.split_last_chunk::<CHECKSUM_BYTES>()?;
    let mut crc = Crc32c::new();
    crc.update(covered);
    Some([u32::from_le_bytes(*stored), crc.finish()])
}

/// Fills in length, check byte and checksum of a packet, for which four bytes each are left behind the type and at the end.
///
/// # Panics
/// When it is shorter than these, or has 16 MiB.
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
