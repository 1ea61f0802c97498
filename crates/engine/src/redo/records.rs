//! Redo: the bytes of the log records that rebuild rows.
//!
//! A record's *tag* (5 bits, kept by the log next to the payload) states its kind. Every payload begins with a
//! version byte. A `varint` is an unsigned LEB128 integer in its shortest form; other integers are little-endian;
//! `bytes` is a varint count and the bytes.
//!
//! | tag | record | payload after the version byte (1) |
//! |---|---|---|
//! | 1 | COMMIT | xid varint, chunk count varint, first chunk LSN varint (0 without chunks), operations |
//! | 2 | CHUNK | xid varint, operations |
//! | 3 | ABORT | xid varint; only of a transaction with chunks |
//! | 4 | ROLLBACK_TO | xid varint, number of the first void operation varint (counted from 0 over all chunks) |
//! | 5 | RELOG | LSN of the re-log's beginning varint (0: this record), u8 1 in the last record and else 0, entries |
//! | 6 | ACTIVE | reserved |
//! | 7 | XID_LIMIT | xid varint: every assigned id is below |
//! | 8 | INCARNATION | term u64, history u64, previous term u64, previous history u64, reason u8, wall time i64 |
//! | 9 | UNLOGGED | column family varint |
//! | 10 | TIME | wall time i64, LSN varint: everything below it was appended before that time |
//! | 11 | QUORUM | flags u8, wall time i64, list bytes, node u64, configured list bytes, previous list bytes |
//!
//! | operation | fields |
//! |---|---|
//! | put | column family varint, 1 u8, key bytes, value bytes |
//! | delete | column family varint, 2 u8, key bytes |
//!
//! A wall time is in microseconds since 1970. The reason of an INCARNATION is 0 (created), 1 (opened after a crash)
//! or 2 (promoted). UNLOGGED, in a log record of that kind, states that rows of this family, and perhaps of
//! families of its atomic group with lower ids, were committed here that are not in the log. The flags of a QUORUM
//! are 1 (commits do not wait for replicas), 2 (the fields from `node` on follow; without it the record is
//! informational) and 4 (so does the last field); commits need the quorum of the list from here on, and with flag 4
//! that of the previous list too.
//!
//! An entry of a RELOG is the commit position of a row's state, a varint, and the operation that sets this state.
//! It stands for that commit, whose record may be gone; a later commit of the row wins, wherever its record is.
//! Readers of changes skip RELOG.
//!
//! A history starts at the position of its INCARNATION record; the previous one ends where the record before it
//! ends. An INCARNATION record ends every transaction that is open in the log. The position of a COMMIT is the
//! commit number of the transaction. Its chunks precede it, and it states their number, so that a missing chunk is
//! damage and is never taken for a smaller transaction.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::codec::{DecodeError, Reader, put_length_prefixed, put_varint};
use collie_base::{CfId, HistoryId, Lsn, Term, Xid};

use crate::redo::quorum_record::QuorumRedo;

/// The version byte of every payload.
pub(crate) const REDO_VERSION: u8 = 1;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65_531;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Number of transaction ids that one XID_LIMIT record covers.
pub(crate) const XID_BLOCK: u64 = 1 << 20;

/// The kinds of records, as tags of the log.
pub(crate) mod tag {
    /// The end of a transaction and its last operations.
    pub(crate) const COMMIT: u8 = 1;
    /// Operations of an unfinished transaction.
    pub(crate) const CHUNK: u8 = 2;
    /// The rollback of a transaction with chunks.
    pub(crate) const ABORT: u8 = 3;
    /// Makes operations void.
    pub(crate) const ROLLBACK_TO: u8 = 4;
    /// Row states logged a second time, so that older log can be released.
    pub(crate) const RELOG: u8 = 5;
    /// An upper bound of the assigned xids.
    pub(crate) const XID_LIMIT: u8 = 7;
    /// The start of a history.
    pub(crate) const INCARNATION: u8 = 8;
    /// The end of a transaction whose operations are not in the log.
    pub(crate) const UNLOGGED: u8 = 9;
    /// The time before which everything below a position was appended.
    pub(crate) const TIME: u8 = 10;
    /// The replicas whose confirmation commits need, and whether they wait for it.
    pub(crate) const QUORUM: u8 = 11;
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Version byte and three varints: the longest header before the operations of a COMMIT.
pub(crate) const HEADER_BYTES_MAX: usize = 31;

/// One row write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) cf: CfId,
    pub(crate) key: &'a [u8],
    /// `None` for a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> Op<'a> {
    /// Appends the operation to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.cf.get()));
        out.push(if self.value.is_some() { PUT } else { DELETE });
        put_length_prefixed(out, self.key);
        if let Some(value) = self.value {
            put_length_prefixed(out, value);
        }
    }

    /// Reads the next operation.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let cf = u32::try_from(reader.varint()?).map_err(|_| DecodeError { what: "column family id" })?;
        let kind = reader.u8()?;
        let key = reader.length_prefixed()?;
        let value = match kind {
            PUT => Some(reader.length_prefixed()?),
            DELETE => None,
            _ => return Err(DecodeError { what: "operation kind" }),
        };
        Ok(Self { cf: CfId::new(cf), key, value })
    }
}

/// The state of a row in a RELOG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relogged<'a> {
    /// The position of its commit.
    pub(crate) csn: Lsn,
    pub(crate) op: Op<'a>,
}

impl<'a> Relogged<'a> {
    /// Appends the entry to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.csn.get());
        self.op.encode(out);
    }

    /// Reads the next entry.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { csn: Lsn::new(reader.varint()?), op: Op::decode(reader)? })
    }
}

/// The content of a log record, as far as it concerns rows. `ops` must be decoded with [`Op::decode`], `entries`
/// with [`Relogged::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redo<'a> {
    Commit { xid: Xid, chunks: u64, first_chunk: Lsn, ops: &'a [u8] },
    Chunk { xid: Xid, ops: &'a [u8] },
    Abort { xid: Xid },
    RollbackTo { xid: Xid, first_void: u64 },
    Relog { begin: Lsn, last: bool, entries: &'a [u8] },
    XidLimit { limit: Xid },
    Incarnation(Incarnation),
    Unlogged { cf: CfId },
    Time { wall_us: i64, below: Lsn },
    Quorum(QuorumRedo<'a>),
}

/// The start of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    pub(crate) term: Term,
    pub(crate) history: HistoryId,
    pub(crate) previous_term: Term,
    pub(crate) previous_history: HistoryId,
    pub(crate) reason: u8,
    pub(crate) wall_us: i64,
}

impl<'a> Redo<'a> {
    /// Decodes the payload of a record.
    pub(crate) fn decode(record_tag: u8, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != REDO_VERSION {
            return Err(DecodeError { what: "redo version (written by a newer program?)" });
        }
        let redo = match record_tag {
            tag::COMMIT => Self::Commit {
                xid: Xid::new(reader.varint()?),
                chunks: reader.varint()?,
                first_chunk: Lsn::new(reader.varint()?),
                ops: reader.rest(),
            },
            tag::CHUNK => Self::Chunk { xid: Xid::new(reader.varint()?), ops: reader.rest() },
            tag::ABORT => Self::Abort { xid: Xid::new(reader.varint()?) },
            tag::ROLLBACK_TO => Self::RollbackTo { xid: Xid::new(reader.varint()?), first_void: reader.varint()? },
            tag::RELOG => Self::Relog {
                begin: Lsn::new(reader.varint()?),
                last: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError { what: "end of a re-log" }),
                },
                entries: reader.rest(),
            },
            tag::XID_LIMIT => Self::XidLimit { limit: Xid::new(reader.varint()?) },
            tag::INCARNATION => Self::Incarnation(Incarnation {
                term: Term::new(reader.u64()?),
                history: HistoryId::new(reader.u64()?),
                previous_term: Term::new(reader.u64()?),
                previous_history: HistoryId::new(reader.u64()?),
                reason: reader.u8()?,
                wall_us: reader.i64()?,
            }),
            tag::UNLOGGED => {
                let cf = u32::try_from(reader.varint()?).map_err(|_| DecodeError { what: "column family id" })?;
                Self::Unlogged { cf: CfId::new(cf) }
            }
            tag::TIME => Self::Time { wall_us: reader.i64()?, below: Lsn::new(reader.varint()?) },
            tag::QUORUM => Self::Quorum(QuorumRedo::decode(&mut reader)?),
            _ => return Err(DecodeError { what: "record tag" }),
        };
        if !matches!(redo, Self::Commit { .. } | Self::Chunk { .. } | Self::Relog { .. }) {
            reader.finish()?;
        }
        Ok(redo)
    }
}

/// Encodes the payload of a record that consists of integers.
pub(crate) fn encode_integers(integers: &[u64]) -> Vec<u8> {
    let mut out = vec![REDO_VERSION];
    integers.iter().for_each(|integer| put_varint(&mut out, *integer));
    out
}

/// Encodes the payload of a TIME record.
pub(crate) fn encode_time(wall_us: i64, below: Lsn) -> Vec<u8> {
    let mut out = vec![REDO_VERSION];
    out.extend_from_slice(&wall_us.to_le_bytes());
    put_varint(&mut out, below.get());
    out
}

/// Encodes the part of a RELOG before its entries; `begin` is zero in the record that begins the re-log.
pub(crate) fn encode_relog(begin: Lsn, last: bool) -> Vec<u8> {
    let mut out = encode_integers(&[begin.get()]);
    out.push(u8::from(last));
    out
}

impl Incarnation {
    /// Encodes the payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![REDO_VERSION];
        for word in [self.term.get(), self.history.get(), self.previous_term.get(), self.previous_history.get()] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.push(self.reason);
        out.extend_from_slice(&self.wall_us.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QuorumNote;
    use proptest::prelude::*;

    proptest! {
        /// Goal: decoding inverts encoding. Method: random operations and records through both.
        #[test]
        fn redo_round_trips(
            xid: u64, chunks: u64, first: u64, cf: u32, key: Vec<u8>, value: Option<Vec<u8>>, words: [u64; 4], reason: u8,
        ) {
            let op = Op { cf: CfId::new(cf), key: &key, value: value.as_deref() };
            let mut commit = encode_integers(&[xid, chunks, first]);
            prop_assert!(commit.len() <= HEADER_BYTES_MAX);
            op.encode(&mut commit);
            let Ok(Redo::Commit { xid: x, chunks: n, first_chunk, ops }) = Redo::decode(tag::COMMIT, &commit) else {
                panic!("a commit record")
            };
            prop_assert_eq!((x.get(), n, first_chunk.get()), (xid, chunks, first));
            let mut reader = Reader::new(ops);
            prop_assert_eq!(Op::decode(&mut reader), Ok(op));
            prop_assert!(reader.is_empty());
            let incarnation = Incarnation {
                term: Term::new(words[0]), history: HistoryId::new(words[1]),
                previous_term: Term::new(words[2]), previous_history: HistoryId::new(words[3]), reason, wall_us: -5,
            };
            let bytes = incarnation.encode();
            prop_assert_eq!(Redo::decode(tag::INCARNATION, &bytes), Ok(Redo::Incarnation(incarnation)));
            let mut bytes = encode_relog(Lsn::new(first), reason % 2 == 0);
            let entry = Relogged { csn: Lsn::new(xid), op };
            entry.encode(&mut bytes);
            let Ok(Redo::Relog { begin, last, entries }) = Redo::decode(tag::RELOG, &bytes) else { panic!("a re-log") };
            prop_assert_eq!((begin.get(), last), (first, reason % 2 == 0));
            let mut reader = Reader::new(entries);
            prop_assert_eq!(Relogged::decode(&mut reader), Ok(entry));
            prop_assert!(reader.is_empty());
            let (wall_us, below) = (words[0].cast_signed(), Lsn::new(first));
            let bytes = encode_time(wall_us, below);
            prop_assert_eq!(Redo::decode(tag::TIME, &bytes), Ok(Redo::Time { wall_us, below }));
            let before = (reason % 3 == 0).then(|| "ANY 1 (a)".to_owned());
            let (list, configured) = ("ANY 1 (a, b)".to_owned(), String::new());
            let note = QuorumNote { list, before, degraded: reason % 2 == 0, node: words[1], configured };
            let bytes = note.encode(wall_us);
            let Ok(Redo::Quorum(redo)) = Redo::decode(tag::QUORUM, &bytes) else { panic!("a note of the quorum") };
            prop_assert_eq!((redo.wall_us, redo.note()), (wall_us, Some(note)));
            let bytes = encode_integers(&[xid, chunks]);
            prop_assert_eq!(
                Redo::decode(tag::ROLLBACK_TO, &bytes),
                Ok(Redo::RollbackTo { xid: Xid::new(xid), first_void: chunks })
            );
        }

        /// Goal: a marker names its family, and a number that is no family is refused. Method: random numbers.
        #[test]
        fn marker_of_unlogged_writes_round_trips(number: u64) {
            let bytes = encode_integers(&[number]);
            match (u32::try_from(number), Redo::decode(tag::UNLOGGED, &bytes)) {
                (Ok(id), decoded) => prop_assert_eq!(decoded, Ok(Redo::Unlogged { cf: CfId::new(id) })),
                (Err(_), decoded) => prop_assert!(decoded.is_err()),
            }
        }

        /// Goal: garbage is refused without a panic. Method: random tags and bytes.
        #[test]
        fn redo_of_garbage_never_panics(tag in 0..32_u8, bytes: Vec<u8>) {
            if let Ok(Redo::Commit { ops, .. } | Redo::Chunk { ops, .. }) = Redo::decode(tag, &bytes) {
                let mut reader = Reader::new(ops);
                while !reader.is_empty() && Op::decode(&mut reader).is_ok() {}
            }
            if let Ok(Redo::Relog { entries, .. }) = Redo::decode(tag, &bytes) {
                let mut reader = Reader::new(entries);
                while !reader.is_empty() && Relogged::decode(&mut reader).is_ok() {}
            }
        }
    }
}
