//! `Record`: one change of the LSM levels, as a frame of MANIFEST carries it.
//!
//! | kind | record | fields |
//! |---|---|---|
//! | 1 | `Next` | lowest tree id never given out, varint |
//! | 2 | `Tree` | tree varint, flush LSN u64, live keys u64, ceiling u64, families, dropped families (each a varint count and varints, ascending) |
//! | 3 | `Begin` | tree varint, f u64, live keys after it u64 |
//! | 4 | `Done` | tree varint, f u64, live keys u64 |
//! | 5 | `Settled` | tree varint, live keys u64 |
//! | 6 | `TreeDropped` | tree varint |
//! | 7 | `FamilyDropped` | tree varint, family varint |
//! | 8 | `LogStart` | LSN u64, carried bytes (varint count) |
//! | 9 | `FamilyAdded` | tree varint, family varint |
//!
//! Integers are little-endian. Checked by the tests below and by the fuzz target `manifest`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::{
    CfId, Lsn,
    codec::{DecodeError, Reader, put_length_prefixed, put_varint},
};

use crate::levels::TreeId;

/// Maximum length of a record: above what [`super::CARRY_BYTES_MAX`] and a group of thousands of families need.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Tree ids below this one were given out.
    Next(TreeId),
    /// The state of a tree: a new one, or one carried over by a rewrite.
    Tree(Tree),
    /// A flush is about to add tables.
    Begin(TreeId, Flush),
    /// The tables of a flush are durable, and no earlier flush is in doubt.
    Done(TreeId, Flush),
    /// Loading counted the live keys: it is known what a crash left.
    Settled(TreeId, u64),
    /// The tree's directory may be removed.
    TreeDropped(TreeId),
    /// The family's keys in the tree are garbage.
    FamilyDropped(TreeId, CfId),
    /// The log below the position may be released; the bytes are what its owner needs from it.
    LogStart(Lsn, Vec<u8>),
    /// A family joins the tree of its atomic group, with no key in it yet.
    FamilyAdded(TreeId, CfId),
}

/// The outcome of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Every commit below this position is in the tables.
    pub(crate) lsn: Lsn,
    /// Number of keys with a value after the flush.
    pub(crate) live_keys: u64,
}

impl Tree {
    /// Returns a tree without entries.
    pub(crate) const fn empty(id: TreeId, cfs: Vec<CfId>) -> Self {
        let flush = Flush { lsn: Lsn::ZERO, live_keys: 0 };
        Self { id, flush, ceiling: Lsn::ZERO, cfs, dropped: Vec::new() }
    }

    /// Returns whether its tables may hold keys of the family.
    pub(crate) fn has_or_had(&self, cf: CfId) -> bool {
        self.cfs.binary_search(&cf).is_ok() || self.dropped.binary_search(&cf).is_ok()
    }
}

/// The known state of a tree, apart from flushes that may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) id: TreeId,
    /// The last flush recorded; `Lsn::ZERO` and no keys before the first.
    pub(crate) flush: Flush,
    /// No table holds an entry at or above this position; higher than `flush` if a later flush was interrupted.
    pub(crate) ceiling: Lsn,
    /// Ascending, without dropped ones.
    pub(crate) cfs: Vec<CfId>,
    /// Dropped families whose keys may still be in the tables.
    pub(crate) dropped: Vec<CfId>,
}

impl Record {
    /// Returns the payload of a frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Next(tree) => put_tree(&mut out, 1, *tree),
            Self::Tree(tree) => {
                put_tree(&mut out, 2, tree.id);
                put_flush(&mut out, tree.flush);
                out.extend_from_slice(&tree.ceiling.get().to_le_bytes());
                put_cfs(&mut out, &tree.cfs);
                put_cfs(&mut out, &tree.dropped);
            }
            Self::Begin(tree, flush) => {
                put_tree(&mut out, 3, *tree);
                put_flush(&mut out, *flush);
            }
            Self::Done(tree, flush) => {
                put_tree(&mut out, 4, *tree);
                put_flush(&mut out, *flush);
            }
            Self::Settled(tree, live_keys) => {
                put_tree(&mut out, 5, *tree);
                out.extend_from_slice(&live_keys.to_le_bytes());
            }
            Self::TreeDropped(tree) => put_tree(&mut out, 6, *tree),
            Self::FamilyDropped(tree, cf) => {
                put_tree(&mut out, 7, *tree);
                put_varint(&mut out, u64::from(cf.get()));
            }
            Self::FamilyAdded(tree, cf) => {
                put_tree(&mut out, 9, *tree);
                put_varint(&mut out, u64::from(cf.get()));
            }
            Self::LogStart(lsn, carry) => {
                out.push(8);
                out.extend_from_slice(&lsn.get().to_le_bytes());
                put_length_prefixed(&mut out, carry);
            }
        }
        out
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// If the payload is not one that [`Record::encode`] writes.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let record = match reader.u8()? {
            1 => Self::Next(tree_id(&mut reader)?),
            2 => Self::Tree(Tree {
                id: tree_id(&mut reader)?,
                flush: flush(&mut reader)?,
                ceiling: Lsn::new(reader.u64()?),
                cfs: cfs(&mut reader)?,
                dropped: cfs(&mut reader)?,
            }),
            3 => Self::Begin(tree_id(&mut reader)?, flush(&mut reader)?),
            4 => Self::Done(tree_id(&mut reader)?, flush(&mut reader)?),
            5 => Self::Settled(tree_id(&mut reader)?, reader.u64()?),
            6 => Self::TreeDropped(tree_id(&mut reader)?),
            7 => Self::FamilyDropped(tree_id(&mut reader)?, CfId::new(id(&mut reader)?)),
            8 => Self::LogStart(Lsn::new(reader.u64()?), reader.length_prefixed()?.to_vec()),
            9 => Self::FamilyAdded(tree_id(&mut reader)?, CfId::new(id(&mut reader)?)),
            _ => return Err(DecodeError { what: "kind of record" }),
        };
        reader.finish()?;
        Ok(record)
    }
}

fn put_tree(out: &mut Vec<u8>, kind: u8, tree: TreeId) {
    out.push(kind);
    put_varint(out, u64::from(tree.get()));
}

fn put_flush(out: &mut Vec<u8>, flush: Flush) {
    out.extend_from_slice(&flush.lsn.get().to_le_bytes());
    out.extend_from_slice(&flush.live_keys.to_le_bytes());
}

fn put_cfs(out: &mut Vec<u8>, cfs: &[CfId]) {
    put_varint(out, u64::try_from(cfs.len()).expect("a slice is shorter than 2^64"));
    for cf in cfs {
        put_varint(out, u64::from(cf.get()));
    }
}

fn id(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    u32::try_from(reader.varint()?).map_err(|_| DecodeError { what: "id" })
}

fn tree_id(reader: &mut Reader<'_>) -> Result<TreeId, DecodeError> {
    id(reader).map(TreeId::new)
}

fn flush(reader: &mut Reader<'_>) -> Result<Flush, DecodeError> {
    Ok(Flush { lsn: Lsn::new(reader.u64()?), live_keys: reader.u64()? })
}

fn cfs(reader: &mut Reader<'_>) -> Result<Vec<CfId>, DecodeError> {
    let count = reader.varint()?;
    let mut cfs: Vec<CfId> = Vec::new();
    for _ in 0..count {
        let cf = CfId::new(id(reader)?);
        if cfs.last().is_some_and(|last| *last >= cf) {
            return Err(DecodeError { what: "order of families" });
        }
        cfs.push(cf);
    }
    Ok(cfs)
}

/// Returns one record of each kind.
#[cfg(test)]
pub(crate) fn samples() -> Vec<Record> {
    let (tree, flush) = (TreeId::new(300), Flush { lsn: Lsn::new(1 << 40), live_keys: 7 });
    vec![
        Record::Next(TreeId::new(301)),
        Record::Tree(Tree {
            id: tree,
            flush,
            ceiling: Lsn::new(1 << 41),
            cfs: vec![CfId::new(1), CfId::new(16)],
            dropped: vec![CfId::new(3)],
        }),
        Record::Begin(tree, flush),
        Record::Done(tree, flush),
        Record::Settled(tree, 9),
        Record::FamilyDropped(tree, CfId::new(16)),
        Record::TreeDropped(tree),
        Record::LogStart(Lsn::new(8192), b"carried".to_vec()),
        Record::FamilyAdded(tree, CfId::new(17)),
    ]
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the bytes are the test's own")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goal: every record is read as written and has one form. Method: a record of each kind, complete, cut, and with
    /// an extra byte.
    #[test]
    fn record_round_trips_and_cut_or_longer_bytes_are_refused() {
        for record in samples() {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record.clone()));
            for len in 0..bytes.len() {
                assert!(Record::decode(&bytes[..len]).is_err(), "{record:?} cut to {len}");
            }
            assert!(Record::decode(&[&bytes[..], &[0]].concat()).is_err(), "{record:?}");
        }
    }

    proptest! {
        /// Goal: garbage is refused or canonical. Method: decode random bytes, encode again, compare.
        #[test]
        fn record_of_garbage_is_refused_or_canonical(kind in 0_u8..11, rest: Vec<u8>) {
            let bytes = [&[kind][..], &rest].concat();
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
