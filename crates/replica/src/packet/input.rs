//! `Input`: turns bytes from a peer into packets.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::{
    From, Packet, PacketError, PacketFault,
    decode::decode,
    kind::{self, UNKNOWN_BYTES_MAX},
    seal::{self, CHECKSUM_BYTES, HEAD_BYTES, LENGTH_MIN, Length},
};
use super::{TAG_BYTES, Tags};

/// Bytes from a peer that are not decoded yet.
#[derive(Debug)]
pub struct Input {
    from: From,
    bytes: Vec<u8>,
    /// Start of the first packet that was not delivered.
    start: usize,
    /// Bytes still to arrive of a packet that is skipped.
    skip: usize,
    /// Whether only the types that an unidentified peer may send are accepted: at most 16 KiB each.
    first: bool,
    /// The seals that follow the packets; `None` where packets have no seals.
    tags: Option<Tags>,
}

/// A complete packet in the buffer.
struct Frame {
    letter: u8,
    body: usize,
    end: usize,
}

impl Input {
    /// Creates the input of a peer that has not identified itself: it accepts only greetings, terms and errors,
    /// until [`Input::known`].
    pub fn hello(from: From) -> Self {
        Self { from, bytes: Vec::new(), start: 0, skip: 0, first: true, tags: None }
    }

    /// Requires a valid seal after every packet.
    #[must_use]
    pub fn sealed_by(self, tags: Tags) -> Self {
        Self { tags: Some(tags), ..self }
    }

    /// Creates the input of a peer that is known.
    pub fn stream(from: From) -> Self {
        Self { first: false, ..Self::hello(from) }
    }

    /// Accepts every packet of the peer's side from here on.
    pub fn known(&mut self) {
        self.first = false;
    }

    /// Appends bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer().extend_from_slice(bytes);
    }

    /// Lends the buffer to a reader that appends arriving bytes.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Returns the number of buffered bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.start)
    }

    /// Returns whether a complete packet is buffered, or an error that `next` would report.
    pub fn has_packet(&mut self) -> bool {
        !matches!(self.frame(), Ok(None))
    }

    fn refuse<T>(&self, kind: u8, fault: PacketFault) -> Result<T, PacketError> {
        Err(PacketError { kind, fault })
    }

    fn tag_bytes(&self) -> usize {
        if self.tags.is_some() { TAG_BYTES } else { 0 }
    }

    /// Drops the buffered bytes of a packet that is skipped.
    fn skip(&mut self) {
        let now = self.skip.min(self.held_bytes());
        self.start = self.start.saturating_add(now);
        self.skip = self.skip.saturating_sub(now);
    }

    /// Finds the next packet that is not skipped (P1).
    fn frame(&mut self) -> Result<Option<Frame>, PacketError> {
        loop {
            self.skip();
            let rest = self.bytes.get(self.start..).unwrap_or_default();
            let Some((&letter, rest)) = rest.split_first() else { return Ok(None) };
            let known = kind::of(letter);
            match known {
                Some(kind) if kind.may_come(self.from) && (kind.first || !self.first) => {}
                None if letter.is_ascii_lowercase() => {}
                _ => return self.refuse(letter, PacketFault::Type),
            }
            let Some(length) = rest.first_chunk() else { return Ok(None) };
            let Length { bytes, check: [stored, computed] } = seal::length(letter, *length);
            if stored != computed {
                let (stored, computed) = (stored.into(), computed.into());
                return self.refuse(letter, PacketFault::Checksum { stored, computed });
            }
            let bytes_max = known.map_or(UNKNOWN_BYTES_MAX, |kind| kind.bytes_max);
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            if bytes < LENGTH_MIN || length > bytes_max {
                return self.refuse(letter, PacketFault::Length { bytes, bytes_max });
            }
            let whole = length.saturating_add(1);
            if known.is_none() {
                self.skip = whole.saturating_add(self.tag_bytes());
                // The skipped packet is counted, so inserting or removing one breaks the seal of the next packet.
                self.tags.iter_mut().for_each(Tags::passed);
                continue;
            }
            let end = self.start.saturating_add(whole);
            let body = self.start.saturating_add(HEAD_BYTES);
            let is_there = self.bytes.len() >= end.saturating_add(self.tag_bytes());
            return Ok(is_there.then_some(Frame { letter, body, end }));
        }
    }

    /// Returns the next complete packet, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`PacketError`]: no byte after it can be read.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the input, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, PacketError> {
        let Some(Frame { letter, body, end }) = self.frame()? else { return Ok(None) };
        let whole = self.bytes.get(self.start..end).unwrap_or_default();
        // The checksum and the seal are verified before the payload is decoded.
        match seal::checksum(whole) {
            Some([stored, computed]) if stored == computed => {}
            sums => {
                let [stored, computed] = sums.unwrap_or_default();
                return self.refuse(letter, PacketFault::Checksum { stored, computed });
            }
        }
        let tag_end = end.saturating_add(self.tag_bytes());
        if let Some(tags) = &mut self.tags
            && !tags.holds(whole, self.bytes.get(end..tag_end).unwrap_or_default())
        {
            return self.refuse(letter, PacketFault::Seal);
        }
        self.start = tag_end;
        let payload = self.bytes.get(body..end.saturating_sub(CHECKSUM_BYTES)).unwrap_or_default();
        decode(letter, self.from, payload).map(Some).map_err(|fault| PacketError { kind: letter, fault })
    }
}
