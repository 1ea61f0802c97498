//! `RedoBuffer`: the operations of one open transaction, until the log takes them.
//!
//! Operations are collected here and leave with the COMMIT record. If they do not fit into one piece of the log,
//! they leave earlier, in CHUNK records. The buffer is reused by the next transaction, so a small transaction
//! allocates nothing.
//!
//! # Invariants
//! - B1. `bytes` is room for a header, followed by the operations `chunked_ops..chunked_ops + ends.len()`.
//! - B2. When a COMMIT is built, the operations in the buffer fit into one piece: more of them were written as a
//!   chunk before.
//! - B3. `families` contains the family of every operation since the transaction began, voided ones included. The
//!   exception is unlogged operations, which are only counted.

use collie_base::{CfId, Lsn, Xid};

use crate::redo::{HEADER_BYTES_MAX, Op, encode_integers};

/// Most bytes of operations that stay for the COMMIT record: with the header they fit into a piece of the default
/// size.
const PIECE_BYTES_MAX: usize = (64 << 10) - 64;
/// The capacity above which the buffer is shrunk after a large transaction.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Bytes in chunks above which a transaction may write no further chunk.
const REDO_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct RedoBuffer {
    bytes: Vec<u8>,
    /// The end of each operation in `bytes`.
    ends: Vec<usize>,
    piece_bytes_max: usize,
    chunked_ops: u64,
    chunked_bytes: u64,
    chunks: u64,
    first_chunk: Lsn,
    families: Vec<CfId>,
}

impl RedoBuffer {
    /// Makes an empty buffer for a log whose pieces hold `chunk_bytes`.
    pub(crate) fn new(chunk_bytes: u64) -> Self {
        let limit = usize::try_from(chunk_bytes).unwrap_or(usize::MAX).saturating_sub(64);
        Self {
            bytes: vec![0; HEADER_BYTES_MAX],
            ends: Vec::new(),
            piece_bytes_max: limit.min(PIECE_BYTES_MAX),
            chunked_ops: 0,
            chunked_bytes: 0,
            chunks: 0,
            first_chunk: Lsn::ZERO,
            families: Vec::new(),
        }
    }

    /// Adds an operation.
    pub(crate) fn push(&mut self, op: &Op<'_>) {
        op.encode(&mut self.bytes);
        if self.families.last() != Some(&op.cf) && !self.families.contains(&op.cf) {
            self.families.push(op.cf);
        }
        self.ends.push(self.bytes.len());
    }

    /// Counts an operation that the log does not get.
    pub(crate) fn push_unlogged(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of operations so far, as a position for [`RedoBuffer::truncate`].
    pub(crate) fn position(&self) -> u64 {
        self.chunked_ops + u64::try_from(self.ends.len()).unwrap_or(u64::MAX)
    }

    /// Returns whether the transaction wrote nothing that must be committed by a record.
    pub(crate) const fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.chunks == 0
    }

    /// Returns the families of its operations (B3).
    pub(crate) fn families(&self) -> &[CfId] {
        &self.families
    }

    /// Returns the LSN of the first chunk; zero without one.
    pub(crate) const fn first_chunk(&self) -> Lsn {
        self.first_chunk
    }

    /// Returns the number of its chunks in the log.
    pub(crate) const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the bytes of its operations, including those in chunks.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.chunked_bytes + u64::try_from(self.ops().len()).unwrap_or(u64::MAX)
    }

    /// Returns whether the log has chunks of it.
    pub(crate) const fn has_chunks(&self) -> bool {
        self.chunks > 0
    }

    /// Returns whether the operations in the buffer must be written as a chunk before anything else happens.
    pub(crate) const fn must_flush(&self) -> bool {
        self.bytes.len() - HEADER_BYTES_MAX > self.piece_bytes_max
    }

    /// Returns whether the transaction has reached its limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.chunked_bytes > REDO_BYTES_MAX
    }

    /// Returns the operations in the buffer, for a CHUNK.
    pub(crate) fn ops(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES_MAX..]
    }

    /// Notes that the operations in the buffer are in the CHUNK at `lsn`.
    pub(crate) fn chunk_written(&mut self, lsn: Lsn) {
        if self.chunks == 0 {
            self.first_chunk = lsn;
        }
        self.chunks += 1;
        self.chunked_ops = self.position();
        self.chunked_bytes += u64::try_from(self.ops().len()).unwrap_or(u64::MAX);
        self.forget_ops();
    }

    /// Drops the operations from `position` on. Returns whether some of them are already in the log.
    pub(crate) fn truncate(&mut self, position: u64) -> bool {
        if position < self.chunked_ops {
            self.chunked_ops = position;
            self.forget_ops();
            return true;
        }
        let kept = usize::try_from(position - self.chunked_ops).unwrap_or(usize::MAX);
        self.ends.truncate(kept);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(HEADER_BYTES_MAX));
        false
    }

    /// Returns the payload of the COMMIT record.
    pub(crate) fn commit_record(&mut self, xid: Xid) -> &[u8] {
        assert!(!self.must_flush(), "B2: the rest of a transaction fits one piece");
        let header = encode_integers_into(xid, self.chunks, self.first_chunk);
        let start = HEADER_BYTES_MAX - header.1;
        self.bytes[start..HEADER_BYTES_MAX].copy_from_slice(&header.0[..header.1]);
        &self.bytes[start..]
    }

    /// Prepares the buffer for the next transaction.
    pub(crate) fn clear(&mut self) {
        self.forget_ops();
        self.families.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes.shrink_to(HEADER_BYTES_MAX);
        }
        (self.chunked_ops, self.chunked_bytes, self.chunks, self.first_chunk) = (0, 0, 0, Lsn::ZERO);
    }

    fn forget_ops(&mut self) {
        self.ends.clear();
        self.bytes.truncate(HEADER_BYTES_MAX);
    }
}

/// Encodes the header of a COMMIT without an allocation: the usual one has a dozen bytes.
fn encode_integers_into(xid: Xid, chunks: u64, first_chunk: Lsn) -> ([u8; HEADER_BYTES_MAX], usize) {
    let mut header = [0; HEADER_BYTES_MAX];
    let mut len = 1;
    header[0] = crate::redo::REDO_VERSION;
    for mut value in [xid.get(), chunks, first_chunk.get()] {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            header[len] = if value == 0 { low & 0x7F } else { low | 0x80 };
            len += 1;
            if value == 0 {
                break;
            }
        }
    }
    debug_assert_eq!(header[..len], encode_integers(&[xid.get(), chunks, first_chunk.get()])[..]);
    (header, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redo::{Redo, tag};
    use collie_base::CfId;

    fn op(key: &[u8]) -> Op<'_> {
        Op { cf: CfId::new(1), key, value: Some(b"value") }
    }

    /// Goal: the commit contains no operation that was rolled back, whether it was in the buffer or in a chunk.
    /// Method: push, chunk, truncate, build.
    #[test]
    fn redo_buffer_forgets_what_is_rolled_back() {
        let mut buffer = RedoBuffer::new(16 << 10);
        assert!(buffer.is_empty());
        buffer.push(&op(b"a"));
        let mark = buffer.position();
        buffer.push(&op(b"b"));
        assert!(!buffer.truncate(mark), "still in the buffer");
        buffer.push(&op(b"c"));
        buffer.chunk_written(Lsn::new(5000));
        buffer.push(&op(b"d"));
        assert!(!buffer.truncate(2), "the chunk stays");
        assert!(buffer.truncate(mark), "in the log");
        assert_eq!(buffer.position(), 1);
        buffer.push(&op(b"e"));
        let mut only_e = Vec::new();
        op(b"e").encode(&mut only_e);
        let record = buffer.commit_record(Xid::new(9)).to_vec();
        assert_eq!(
            Redo::decode(tag::COMMIT, &record),
            Ok(Redo::Commit { xid: Xid::new(9), chunks: 1, first_chunk: Lsn::new(5000), ops: &only_e })
        );
        buffer.clear();
        assert!(buffer.is_empty());
    }
}
