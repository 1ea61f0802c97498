//! [`Tags`]: the seals of the packets of one direction of one connection.
//!
//! A seal is the first [`TAG_BYTES`] bytes of HMAC-SHA-256 over the packet's number in its direction (8 bytes,
//! from 0) and the packet.
//!
//! # Invariants
//! - G1. A seal is valid for one packet, at one place of one direction of one connection: a packet that is
//!   changed, left out, sent twice, moved, or taken from another connection is not delivered, except with a
//!   probability of 2^-128.
//! - G2. Seals are compared in a time that does not depend on where they differ.
//!
//! Checked by the tests here and by `packet_tests`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Bytes of a seal.
pub const TAG_BYTES: usize = 16;

/// See the module's documentation.
#[derive(Clone)]
pub struct Tags {
    /// Initialized with the key.
    mac: Hmac<Sha256>,
    /// The number of the next packet.
    next: u64,
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tags").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Tags {
    /// Begins a direction with the key `key`.
    pub fn new(key: &[u8; 32]) -> Self {
        Self { mac: Hmac::new_from_slice(key).expect("HMAC takes a key of any length"), next: 0 }
    }

    fn of_next(&mut self, packet: &[u8]) -> Hmac<Sha256> {
        let number = self.next;
        self.passed();
        self.mac.clone().chain_update(number.to_le_bytes()).chain_update(packet)
    }

    /// Returns the seal of the next packet.
    pub fn seal(&mut self, packet: &[u8]) -> [u8; TAG_BYTES] {
        let whole = self.of_next(packet).finalize().into_bytes();
        *whole.first_chunk().expect("SHA-256 has 32 bytes")
    }

    /// Returns whether `seal` is that of the next packet (G1, G2).
    #[must_use]
    pub fn holds(&mut self, packet: &[u8], seal: &[u8]) -> bool {
        seal.len() == TAG_BYTES && self.of_next(packet).verify_truncated_left(seal).is_ok()
    }

    /// Counts a packet whose seal is not checked.
    pub fn passed(&mut self) {
        // At one packet per nanosecond the number wraps after 500 years.
        self.next = self.next.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: G1. Method: packets in order, then one changed, left out, sent twice, and of another direction. The
    /// tests of `handshake` check HMAC itself against RFC 4231.
    #[test]
    fn a_seal_holds_for_one_packet_at_one_place() {
        let (mut out, into) = (Tags::new(&[7; 32]), Tags::new(&[7; 32]));
        let seals = [&b"one"[..], b"two", b"two"].map(|packet| out.seal(packet));
        assert_ne!(seals[1], seals[2], "the same bytes at another place");
        let mut in_order = into.clone();
        assert!(
            in_order.holds(b"one", &seals[0]) && in_order.holds(b"two", &seals[1]) && in_order.holds(b"two", &seals[2])
        );
        let mut twice = into.clone();
        assert!(twice.holds(b"one", &seals[0]) && !twice.holds(b"one", &seals[0]));
        assert!(!into.clone().holds(b"two", &seals[1]), "the first was left out");
        assert!(!into.clone().holds(b"onf", &seals[0]) && !into.clone().holds(b"one", &seals[0][..15]));
        assert!(!into.clone().holds(b"one", &[]));
        assert!(!Tags::new(&[8; 32]).holds(b"one", &seals[0]));
        let mut passed = into;
        passed.passed();
        assert!(passed.holds(b"two", &seals[1]));
        assert!(!format!("{passed:?}").contains('7'), "{passed:?}");
    }
}
