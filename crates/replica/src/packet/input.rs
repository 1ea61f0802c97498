//! `Input`: bytes from a peer, in; packets, out.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::{
    From, Packet, PacketError, PacketFault,
    decode::decode,
    kind::{self, UNKNOWN_BYTES_MAX},
    seal::{self, CHECKSUM_BYTES, HEAD_BYTES, LENGTH_MIN, Length},
};
use crate::key::{TAG_BYTES, Tags};

/// Bytes from a peer that are not decoded yet.
#[derive(Debug)]
pub struct Input {
    from: From,
    bytes: Vec<u8>,
    /// Start of the first packet that was not handed out.
    start: usize,
    /// Bytes still to come of a packet that is passed over.
    skip: usize,
    /// Whether only what may come first is taken: at most 16 KiB of a peer that nobody knows.
    first: bool,
    /// Every packet is followed by a seal of these; `None` where packets are looked at by themselves.
    tags: Option<Tags>,
}

/// A whole packet in the buffer.
struct Frame {
    letter: u8,
    body: usize,
    end: usize,
}

impl Input {
    /// Makes the input of a peer that has not said who it is: only greetings, terms and errors are taken, until
    /// [`Input::known`].
    pub fn hello(from: From) -> Self {
        Self { from, bytes: Vec::new(), start: 0, skip: 0, first: true, tags: None }
    }

    /// Has every packet be followed by a seal, which must hold.
    #[must_use]
    pub fn sealed_by(self, tags: Tags) -> Self {
        Self { tags: Some(tags), ..self }
    }

    /// Makes the input of a peer that is known.
    pub fn stream(from: From) -> Self {
        Self { first: false, ..Self::hello(from) }
    }

    /// Takes every packet of the peer's side from here on.
    pub fn known(&mut self) {
        self.first = false;
    }

    /// Takes bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer().extend_from_slice(bytes);
    }

    /// Gives the buffer to a reader that appends what arrives, and takes it back by its return.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Returns how many bytes wait.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.start)
    }

    /// Returns whether a whole packet waits, or an error that `next` would report.
    pub fn has_packet(&mut self) -> bool {
        !matches!(self.frame(), Ok(None))
    }

    fn refuse<T>(&self, kind: u8, fault: PacketFault) -> Result<T, PacketError> {
        Err(PacketError { kind, fault })
    }

    fn tag_bytes(&self) -> usize {
        if self.tags.is_some() { TAG_BYTES } else { 0 }
    }

    /// Drops what has come of a packet that is passed over.
    fn skip(&mut self) {
        let now = self.skip.min(self.held_bytes());
        self.start = self.start.saturating_add(now);
        self.skip = self.skip.saturating_sub(now);
    }

    /// Finds the next packet that is not passed over (P1).
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
                // Whoever puts one between others, or takes one away, breaks the seal of the next.
                self.tags.iter_mut().for_each(Tags::passed);
                continue;
            }
            let end = self.start.saturating_add(whole);
            let body = self.start.saturating_add(HEAD_BYTES);
            let is_there = self.bytes.len() >= end.saturating_add(self.tag_bytes());
            return Ok(is_there.then_some(Frame { letter, body, end }));
        }
    }

    /// Returns the next whole packet, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`PacketError`]: nothing behind it can be read.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the input, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, PacketError> {
        let Some(Frame { letter, body, end }) = self.frame()? else { return Ok(None) };
        let whole = self.bytes.get(self.start..end).unwrap_or_default();
        // Before anything of it is looked at.
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
