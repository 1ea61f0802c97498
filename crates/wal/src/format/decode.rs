//! The only decoder of the log: bytes to segment headers, frames and records. Recovery, readers, the command line and
//! the fuzz targets all use it.
//!
//! # Invariants
//! - D1. No input panics, and none sizes an allocation beyond [`FRAME_PAYLOAD_MAX`] and the caller's record limit.
//! - D2. What `format` writes is read back unchanged (property test in `decode/tests.rs`).
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

use collie_base::{Lsn, Map, checksum::crc32c, codec::Reader};

use crate::format::{
    BLOCK, CopyCounts, FLAG_END, FLAG_LINK, FLAGS_KNOWN, FORMAT_VERSION, FRAME_MAGIC, FRAME_PAYLOAD_MAX, FrameHeader,
    HEADER, KIND_DATA, KIND_LAST, KIND_PART, KIND_UNLOGGED, KIND_VOID, LINK_HEADER, Link, SEGMENT_MAGIC, SegmentHeader,
    frame_crc,
};

/// Positions above this are refused, so that sums of a position and a size cannot wrap.
const LSN_LIMIT: u64 = 1 << 61;

/// The two checksums of bytes that do not decode. They are equal if something else is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) stored: u32,
    pub(crate) computed: u32,
}

/// The kind of a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderBlock {
    /// A segment of this format.
    Segment(SegmentHeader),
    /// A segment of a newer format.
    Newer(u16),
    /// Something else, or a header that does not pass its checksum.
    Bad(Bad),
}

/// Reads the header block of a segment.
pub(crate) fn segment_header(block: &[u8]) -> HeaderBlock {
    let covered = block.get(12..BLOCK).unwrap_or(&[]);
    let mut bad = Bad { stored: 0, computed: crc32c(covered) };
    let mut parse = || {
        let mut reader = Reader::new(block);
        let magic_holds = reader.bytes(8).ok()? == SEGMENT_MAGIC;
        bad.stored = reader.u32().ok()?;
        if !magic_holds || bad.stored != bad.computed {
            return None;
        }
        let version = reader.u16().ok()?;
        if version > FORMAT_VERSION {
            return Some(HeaderBlock::Newer(version));
        }
        let _block_size = reader.u16().ok()?;
        let log_id = reader.bytes(16).ok()?.try_into().ok()?;
        let (number, salt, segment_bytes) = (reader.u64().ok()?, reader.u64().ok()?, reader.u64().ok()?);
        Some(HeaderBlock::Segment(SegmentHeader { log_id, number, salt, segment_bytes }))
    };
    parse().unwrap_or(HeaderBlock::Bad(bad))
}

/// A frame header whose fields are within bounds; its checksum is not compared yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) header: FrameHeader,
    pub(crate) stored: u32,
}

/// Returns whether `bytes` begins like a frame header. If not, [`frame_claim`] returns `None`.
#[inline]
pub(crate) fn begins_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(FRAME_MAGIC)
}

/// Reads a frame header; `None` if the magic or a bound is wrong.
pub(crate) fn frame_claim(bytes: &[u8]) -> Option<Claim> {
    if !begins_frame(bytes) {
        return None;
    }
    let mut reader = Reader::new(bytes.get(FRAME_MAGIC.len()..)?);
    let stored = reader.u32().ok()?;
    let (salt, number) = (reader.u64().ok()?, reader.u64().ok()?);
    let (start, durable) = (reader.u64().ok()?, reader.u64().ok()?);
    let (payload_bytes, stream_bytes) = (reader.u32().ok()?, reader.u32().ok()?);
    let previous_crc = reader.u32().ok()?;
    let (header_bytes, flags) = (reader.u16().ok()?, reader.u16().ok()?);
    let _term = reader.u64().ok()?;
    let has_link = flags & FLAG_LINK != 0;
    let expected_header = if has_link { LINK_HEADER } else { HEADER };
    let sized = payload_bytes <= FRAME_PAYLOAD_MAX && stream_bytes == payload_bytes;
    let fits = (sized || mistake!("LENGTH_TRUSTED"))
        && usize::from(header_bytes) == expected_header
        && flags & !FLAGS_KNOWN == 0
        && start < LSN_LIMIT
        && durable < LSN_LIMIT;
    if !fits {
        return None;
    }
    let link = if has_link {
        let incarnation = reader.u64().ok()?;
        let previous_end = Lsn::new(reader.u64().ok()?);
        let (skip, reason) = (reader.u64().ok()?, reader.u16().ok()?);
        let (required, configured) = (reader.u16().ok()?.max(1), reader.u16().ok()?.max(1));
        let (quorum, change) = (reader.u16().ok()? == 1, reader.u32().ok()?);
        let copies = CopyCounts { required, configured, quorum, change };
        (skip < LSN_LIMIT).then_some(Link { incarnation, previous_end, skip, reason, copies })
    } else {
        None
    };
    let (start, durable) = (Lsn::new(start), Lsn::new(durable));
    let end_mark = flags & FLAG_END != 0;
    let header = FrameHeader { salt, number, start, durable, payload_bytes, previous_crc, end_mark, link };
    (header.link.is_some() == has_link).then_some(Claim { header, stored })
}

/// Compares the checksum of a whole frame (header and payload) and returns the payload.
pub(crate) fn frame_payload<'a>(claim: &Claim, bytes: &'a [u8]) -> Result<&'a [u8], Bad> {
    let cut = bytes.get(..claim.header.bytes()).unwrap_or(&[]);
    let computed = frame_crc(claim.header.salt, cut.get(8..).unwrap_or(&[]));
    if computed != claim.stored && !mistake!("CRC_IGNORED") {
        return Err(Bad { stored: claim.stored, computed });
    }
    cut.get(claim.header.header_bytes()..).ok_or(Bad { stored: claim.stored, computed })
}

/// One record as it lies in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    pub(crate) kind: u8,
    pub(crate) tag: u8,
    pub(crate) payload: &'a [u8],
    /// Size of the record in the stream, in bytes.
    pub(crate) bytes: u64,
}

/// Reads the record at the front of `bytes`; `None` if there is no whole record of a known kind.
#[inline]
pub(crate) fn record(bytes: &[u8]) -> Option<RawRecord<'_>> {
    let mut reader = Reader::new(bytes);
    let payload_bytes = usize::try_from(reader.varint().ok()?).ok()?;
    let kind_and_tag = reader.u8().ok()?;
    let payload = reader.bytes(payload_bytes).ok()?;
    let (kind, tag) = (kind_and_tag & 7, kind_and_tag.checked_shr(3)?);
    let taken = bytes.len().checked_sub(reader.rest().len())?;
    let known = matches!(kind, KIND_DATA | KIND_PART | KIND_LAST | KIND_VOID | KIND_UNLOGGED);
    known.then_some(RawRecord { kind, tag, payload, bytes: u64::try_from(taken).ok()? })
}

/// Returns the length in bytes of the longest prefix of `bytes` that consists of whole records; `None` if `bytes` is
/// not empty and does not start with a whole record.
pub(crate) fn whole_records(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match record(rest) {
            Some(raw) => at = at.checked_add(usize::try_from(raw.bytes).ok()?)?,
            None if at > 0 => break,
            None => return None,
        }
    }
    Some(at)
}

/// What a record means to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A payload.
    Data,
    /// A hole: marks a write that was made without the log.
    Unlogged,
}

/// A complete payload.
#[derive(Debug)]
pub(crate) struct Joined<'a> {
    pub(crate) kind: RecordKind,
    /// Borrowed from the frame, or joined from pieces.
    pub(crate) body: Cow<'a, [u8]>,
    /// Position of its first piece.
    pub(crate) first: Lsn,
}

/// A payload whose last piece has not arrived yet.
#[derive(Debug)]
struct Unfinished {
    /// Position of piece 0.
    first: Lsn,
    /// Number of the next piece.
    expected: u64,
    body: Vec<u8>,
}

/// Joins pieces to payloads, for each slot.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    unfinished: Map<u64, Unfinished>,
    limit_bytes: usize,
}

impl Joiner {
    /// Creates a joiner for payloads of at most `limit_bytes`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { unfinished: Map::default(), limit_bytes }
    }

    /// Takes the next record, which starts at `lsn`; returns the payload that it completes, if any.
    #[inline]
    pub(crate) fn take<'a>(&mut self, raw: &RawRecord<'a>, lsn: Lsn) -> Option<Joined<'a>> {
        match raw.kind {
            KIND_DATA => Some(Joined { kind: RecordKind::Data, body: raw.payload.into(), first: lsn }),
            KIND_UNLOGGED => Some(Joined { kind: RecordKind::Unlogged, body: raw.payload.into(), first: lsn }),
            KIND_PART | KIND_LAST => self.piece(raw, lsn),
            _ => None,
        }
    }

    #[inline(never)]
    fn piece<'a>(&mut self, raw: &RawRecord<'a>, lsn: Lsn) -> Option<Joined<'a>> {
        let mut reader = Reader::new(raw.payload);
        let (slot, piece) = (reader.varint().ok()?, reader.varint().ok()?);
        let begun = self.unfinished.remove(&slot);
        let fresh = || Unfinished { first: lsn, expected: 0, body: Vec::new() };
        let Unfinished { first, expected, mut body } = if piece == 0 { fresh() } else { begun? };
        // A piece out of order belongs to a payload whose other pieces were never logged.
        let whole_bytes = body.len().checked_add(reader.rest().len())?;
        if piece != expected || whole_bytes > self.limit_bytes {
            return None;
        }
        body.extend_from_slice(reader.rest());
        if raw.kind == KIND_LAST {
            return Some(Joined { kind: RecordKind::Data, body: body.into(), first });
        }
        self.unfinished.insert(slot, Unfinished { first, expected: piece.checked_add(1)?, body });
        None
    }

    /// Returns the lowest position of a first piece among the unfinished payloads.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.unfinished.values().map(|begun| begun.first).min()
    }

    /// Drops all unfinished payloads.
    pub(crate) fn clear(&mut self) {
        self.unfinished.clear();
    }
}

#[cfg(test)]
mod tests;
