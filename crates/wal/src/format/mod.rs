//! The bytes on disk: constants and writers. Only `decode` reads them.
//!
//! A segment file is a header block, then frames at multiples of 4096. All integers are little-endian.
//!
//! | segment header | bytes | | frame header | bytes |
//! |---|---|---|---|---|
//! | 0 | 8 magic `COLLIEWL` | | 0 | 4 magic `CLF1` |
//! | 8 | 4 crc32c of bytes 12..4096 | | 4 | 4 crc32c of bytes 8..end of payload, seeded with the low half of the salt |
//! | 12 | 2 format version | | 8 | 8 salt of this segment |
//! | 14 | 2 block size / 512 | | 16 | 8 frame number |
//! | 16 | 16 log id | | 24 | 8 start LSN |
//! | 32 | 8 segment number = file name | | 32 | 8 durable LSN when this write was issued |
//! | 40 | 8 salt | | 40 | 4 payload bytes stored |
//! | 48 | 8 segment bytes | | 44 | 4 stream bytes covered |
//! | 56 | zeros | | 48 | 4 crc of the previous frame |
//! | | | | 52 | 2 header bytes, 64 or 128 |
//! | | | | 54 | 2 flags |
//! | | | | 56 | 8 term |
//! | | | | 64 | LINK only: 8 incarnation, 8 previous end LSN, 8 skip, 2 reason, 2 copies required, 2 copies configured, 2 policy, 4 change |
//!
//! A record is `len` varint | kind (low 3 bits) and tag (high 5 bits) | payload.
//!
//! Checked by the tests of `decode`, which reads back what this writes.

pub(crate) mod decode;

use collie_base::{
    Lsn,
    checksum::{Crc32c, crc32c},
    codec::{put_varint, varint_len},
};

/// Unit of placement in a segment.
pub const BLOCK_BYTES: u64 = 4096;
/// [`BLOCK_BYTES`] for slices.
pub(crate) const BLOCK: usize = 4096;
/// First bytes of a segment.
pub const SEGMENT_MAGIC: &[u8; 8] = b"COLLIEWL";
/// First bytes of a frame.
pub const FRAME_MAGIC: &[u8; 4] = b"CLF1";
/// The format version that this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;
/// Bytes of a frame header without LINK.
pub(crate) const HEADER: usize = 64;
/// Bytes of a frame header with LINK.
pub(crate) const LINK_HEADER: usize = 128;
/// Largest payload of a frame in bytes; readers check it before they read the payload.
pub const FRAME_PAYLOAD_MAX: u32 = 4 << 20;
/// Largest frame that this program writes in bytes, header and padding included.
pub(crate) const FRAME_BYTES_MAX: u32 = 2 << 20;
/// The frame says from which frame the chain continues; its header is the long one.
pub(crate) const FLAG_LINK: u16 = 1;
/// The log was closed cleanly here.
pub(crate) const FLAG_END: u16 = 2;
/// Flags that this version reads.
pub(crate) const FLAGS_KNOWN: u16 = FLAG_LINK | FLAG_END;

/// Reason of a LINK frame: the segment before is full.
pub(crate) const REASON_ROTATION: u16 = 1;
/// The first frame of a new incarnation.
pub(crate) const REASON_OPEN: u16 = 2;
/// The following frames were written again; they count once a LINK of another reason follows in the same segment.
pub(crate) const REASON_REWRITE: u16 = 3;
/// The log was cut here; the records behind are void.
pub(crate) const REASON_TRUNCATE: u16 = 4;
/// A copy of the log left or came back: the counts in this LINK apply from here on.
pub(crate) const REASON_COPIES: u16 = 5;
/// A log that follows another was opened: the next records continue the log, unfinished records included.
pub(crate) const REASON_FOLLOW: u16 = 7;

/// Kind of a record (low 3 bits): one payload.
pub(crate) const KIND_DATA: u8 = 1;
/// A piece, not the last, of a payload larger than a chunk.
pub(crate) const KIND_PART: u8 = 2;
/// The last piece.
pub(crate) const KIND_LAST: u8 = 3;
/// A reservation without a payload.
pub(crate) const KIND_VOID: u8 = 4;
/// Marks a write that was not logged.
pub(crate) const KIND_UNLOGGED: u8 = 5;
/// Largest tag.
pub const TAG_MAX: u8 = 31;

/// The content of a segment's header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log_id: [u8; 16],
    pub(crate) number: u64,
    pub(crate) salt: u64,
    pub(crate) segment_bytes: u64,
}

impl SegmentHeader {
    /// Returns the header block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.extend_from_slice(SEGMENT_MAGIC);
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        block.extend_from_slice(&8_u16.to_le_bytes());
        block.extend_from_slice(&self.log_id);
        block.extend_from_slice(&self.number.to_le_bytes());
        block.extend_from_slice(&self.salt.to_le_bytes());
        block.extend_from_slice(&self.segment_bytes.to_le_bytes());
        block.resize(BLOCK, 0);
        let crc = crc32c(&block[12..]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        block
    }
}

/// The number of copies of the log that count from a LINK on. Logs from before copies existed have zeros, read as one
/// copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyCounts {
    /// How many copies hold everything durable: the live ones, or a majority of the configured ones.
    pub(crate) required: u16,
    pub(crate) configured: u16,
    /// Whether `required` is a majority of the configured copies; otherwise it counts all live ones.
    pub(crate) quorum: bool,
    /// Number of changes of the live copies since the log was opened.
    pub(crate) change: u32,
}

impl CopyCounts {
    /// The counts of a log in one directory.
    pub(crate) const ONE: Self = Self { required: 1, configured: 1, quorum: false, change: 0 };
}

/// The additional fields of a LINK frame: the frame from which the chain continues, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) incarnation: u64,
    pub(crate) previous_end: Lsn,
    pub(crate) skip: u64,
    pub(crate) reason: u16,
    pub(crate) copies: CopyCounts,
}

/// The fields of a frame header, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) salt: u64,
    pub(crate) number: u64,
    pub(crate) start: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) payload_bytes: u32,
    pub(crate) previous_crc: u32,
    pub(crate) end_mark: bool,
    pub(crate) link: Option<Link>,
}

impl FrameHeader {
    /// Returns the size of the header in bytes.
    pub(crate) fn header_bytes(&self) -> usize {
        if self.link.is_some() { LINK_HEADER } else { HEADER }
    }

    /// Returns the size of header and payload in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.header_bytes() + self.payload_bytes as usize
    }

    /// Returns the size of the frame in the file in bytes.
    pub(crate) fn padded_bytes(&self) -> u64 {
        (self.bytes() as u64).next_multiple_of(BLOCK_BYTES)
    }

    /// Returns the position after the last record.
    pub(crate) fn end(&self) -> Lsn {
        self.start.plus(u64::from(self.payload_bytes))
    }

    /// Writes the header over the first bytes of `frame` (space for the header, then the payload), pads `frame` to
    /// whole blocks and returns the checksum.
    pub(crate) fn seal(&self, frame: &mut Vec<u8>) -> u32 {
        assert_eq!(frame.len(), self.bytes(), "a frame is its header and its payload");
        let header_bytes = u16::try_from(self.header_bytes()).expect("64 or 128");
        let flags = if self.link.is_some() { FLAG_LINK } else { 0 } | if self.end_mark { FLAG_END } else { 0 };
        frame[..4].copy_from_slice(FRAME_MAGIC);
        frame[8..16].copy_from_slice(&self.salt.to_le_bytes());
        frame[16..24].copy_from_slice(&self.number.to_le_bytes());
        frame[24..32].copy_from_slice(&self.start.get().to_le_bytes());
        frame[32..40].copy_from_slice(&self.durable.get().to_le_bytes());
        frame[40..44].copy_from_slice(&self.payload_bytes.to_le_bytes());
        frame[44..48].copy_from_slice(&self.payload_bytes.to_le_bytes());
        frame[48..52].copy_from_slice(&self.previous_crc.to_le_bytes());
        frame[52..54].copy_from_slice(&header_bytes.to_le_bytes());
        frame[54..56].copy_from_slice(&flags.to_le_bytes());
        frame[56..64].fill(0);
        if let Some(link) = self.link {
            frame[64..72].copy_from_slice(&link.incarnation.to_le_bytes());
            frame[72..80].copy_from_slice(&link.previous_end.get().to_le_bytes());
            frame[80..88].copy_from_slice(&link.skip.to_le_bytes());
            frame[88..90].copy_from_slice(&link.reason.to_le_bytes());
            frame[90..92].copy_from_slice(&link.copies.required.to_le_bytes());
            frame[92..94].copy_from_slice(&link.copies.configured.to_le_bytes());
            frame[94..96].copy_from_slice(&u16::from(link.copies.quorum).to_le_bytes());
            frame[96..100].copy_from_slice(&link.copies.change.to_le_bytes());
            frame[100..128].fill(0);
        }
        let crc = frame_crc(self.salt, &frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        frame.resize(frame.len().next_multiple_of(BLOCK), 0);
        crc
    }
}

/// Returns the checksum of a frame from its byte 8 on.
#[expect(clippy::cast_possible_truncation, reason = "the seed is the low half of the salt")]
pub(crate) fn frame_crc(salt: u64, covered: &[u8]) -> u32 {
    let mut crc = Crc32c::with_seed(salt as u32);
    crc.update(covered);
    crc.finish()
}

/// The first bytes of a record: length and kind, in place, without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    bytes: [u8; 4],
    len: usize,
}

impl RecordHead {
    /// Builds the head of a record with `payload_bytes`, at most 2^21 - 1.
    #[inline]
    pub(crate) fn new(payload_bytes: usize, kind: u8, tag: u8) -> Self {
        assert!(tag <= TAG_MAX, "a tag has 5 bits");
        let payload = u32::try_from(payload_bytes).ok().filter(|payload| *payload < 1 << 21);
        let payload = payload.expect("pieces are at most 1 MiB and a few bytes");
        // One word: a load of bytes that were stored one by one would have to wait for the stores.
        let kind = u32::from(kind | tag << 3);
        let (low, middle, high) = (payload & 0x7F, payload >> 7 & 0x7F, payload >> 14);
        let (word, len) = match payload {
            0..0x80 => (low | kind << 8, 2),
            0x80..0x4000 => (low | 0x80 | middle << 8 | kind << 16, 3),
            _ => (low | 0x80 | (middle | 0x80) << 8 | high << 16 | kind << 24, 4),
        };
        Self { bytes: word.to_le_bytes(), len }
    }

    /// Returns the bytes of the head.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Copies the head of a record of `record_bytes` to its start at `target`; returns the start of its body.
    ///
    /// # Safety
    /// `target` is valid for writes of `record_bytes`; the body is written afterwards.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    pub(crate) unsafe fn copy_to(&self, target: *mut u8, record_bytes: u64) -> *mut u8 {
        // A single store of a fixed size if there is room for it: the body overwrites the surplus.
        let len = if record_bytes >= self.bytes.len() as u64 { self.bytes.len() } else { self.len };
        // SAFETY: the caller guarantees it: `len` is at most `record_bytes`.
        unsafe {
            if len == self.bytes.len() {
                target.cast::<[u8; 4]>().write_unaligned(self.bytes);
            } else {
                std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), target, len);
            }
            target.add(self.len)
        }
    }

    /// Returns the head of a VOID record of the same size.
    pub(crate) fn void(&self) -> Self {
        let mut void = *self;
        void.bytes[self.len - 1] = KIND_VOID;
        void
    }
}

/// Returns the bytes before a piece's content: the slot and the number of the piece.
pub(crate) fn piece_head(slot: u32, piece: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(varint_len(u64::from(slot)) + varint_len(piece));
    put_varint(&mut head, u64::from(slot));
    put_varint(&mut head, piece);
    head
}

/// Returns the file name of segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:020}.wal")
}

/// Returns the number in a segment's file name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    if digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}
