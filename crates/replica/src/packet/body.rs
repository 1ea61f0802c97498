//! Writing of fields: little-endian, one after the other.

use super::History;

/// The bytes of a packet that is being written.
pub(super) struct Body<'a>(pub(super) &'a mut Vec<u8>);

impl Body<'_> {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Writes a count that its type's bounds keep small.
    pub(super) fn count16(&mut self, count: usize) -> &mut Self {
        self.u16(u16::try_from(count).expect("counts of packets are bounded below 2^16"))
    }

    /// Writes a count that its type's bounds keep small.
    pub(super) fn count32(&mut self, count: usize) -> &mut Self {
        self.u32(u32::try_from(count).expect("counts of packets are bounded below 2^32"))
    }

    pub(super) fn history(&mut self, history: &History) -> &mut Self {
        self.u64(history.term.get()).u64(history.id.get()).u64(history.start.get()).u64(history.prev_end.get())
    }
}
