//! Names of column families: rows of the catalog family that belong to the engine.
//!
//! Keys that begin with byte 0 are the engine's, all others the caller's (SQL's kinds of rows begin at 1). Integers
//! in keys are big-endian, `varint` is unsigned LEB128.
//!
//! | key after the byte 0 | value after the version byte (1) |
//! |---|---|
//! | u8 1, name | id varint, name of its atomic group with its length (empty: none) |
//! | u8 2 | id varint: the ids of named families are below it |
//! | u8 3, id u32 | nothing: the family was dropped, and the log may still have rows of it |
//!
//! A family without a name is left to its creator. SQL finds its families by their names `sql:OID` and by its own
//! definitions, which are written in one transaction.
//!
//! # Invariants
//! - F1. A name row is written in the transaction that creates the family, and deleted in the transaction that
//!   drops it.
//! - F2. An id that a row here ever named is never assigned again: row 2 outlives the names.
//! - F3. After an opening every named family is in memory, even without rows, and no dropped family is.
//! - F4. A row 3 is deleted only after an opening that found no row of its family, neither in the log nor in the
//!   levels.
//!
//! Checked by `crates/kv/tests/families_by_name.rs`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ops::{Bound, ControlFlow};

use collie_base::codec::{DecodeError, Reader, put_length_prefixed, put_varint};
use collie_base::{CfId, Lsn};
use collie_store::{Resolve, ScanRequest, TxnStatus, View, Word};

use crate::EngineError;
use crate::families::Families;
use crate::families::key_range::KeyRange;

/// Version of every value written.
const FORMAT: u8 = 1;
/// First byte of the engine's keys.
const ENGINE: u8 = 0;
const NAME: u8 = 1;
const NEXT_ID: u8 = 2;
const DROPPED: u8 = 3;

/// First part of the names of SQL's families: `sql:` and the OID of the table or index.
const SQL_PREFIX: &str = "sql:";

/// Returns whether a family of this name is a table or an index of SQL.
pub fn is_sql_name(name: &str) -> bool {
    name.starts_with(SQL_PREFIX)
}

/// Returns the range of the catalog family that is not the engine's: a caller that keeps its own catalog there
/// scans it.
pub fn foreign_rows() -> KeyRange {
    KeyRange { start: Bound::Included(vec![ENGINE + 1]), end: Bound::Unbounded }
}

/// Returns the range of the keys of name rows.
pub(crate) fn name_rows() -> KeyRange {
    KeyRange::prefix(&[ENGINE, NAME])
}

/// Returns key and value of the row that names the family of SQL's table or index `oid`, for the transaction that
/// defines it.
pub fn sql_name_row(oid: u32, cf: CfId) -> (Vec<u8>, Vec<u8>) {
    let name = format!("{SQL_PREFIX}{oid}");
    (name_key(&name), name_value(cf, ""))
}

/// Returns the key of the row for `name`.
pub(crate) fn name_key(name: &str) -> Vec<u8> {
    [&[ENGINE, NAME], name.as_bytes()].concat()
}

/// Returns the value of a name row: the family, and the name of its atomic group, which may be empty.
pub(crate) fn name_value(cf: CfId, group: &str) -> Vec<u8> {
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(cf.get()));
    put_length_prefixed(&mut value, group.as_bytes());
    value
}

/// Returns the key of the row that bounds the ids.
pub(crate) fn next_id_key() -> Vec<u8> {
    vec![ENGINE, NEXT_ID]
}

/// Returns the value of the row that bounds the ids.
pub(crate) fn next_id_value(next: u32) -> Vec<u8> {
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(next));
    value
}

/// Returns the key of the row for a dropped family.
pub(crate) fn dropped_key(cf: CfId) -> Vec<u8> {
    [&[ENGINE, DROPPED], &cf.get().to_be_bytes()[..]].concat()
}

/// Returns the value of the row for a dropped family.
pub(crate) fn dropped_value() -> Vec<u8> {
    vec![FORMAT]
}

/// A row of the engine's part of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameRow {
    /// A family has this name; `group` is empty if the family is in no atomic group.
    Named { name: String, cf: CfId, group: String },
    /// The ids of named families are below this.
    NextId(u32),
    /// A family was dropped.
    Dropped(CfId),
}

/// Decodes a row of the engine's part.
///
/// # Errors
/// For bytes that no row of a known format has.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<NameRow, DecodeError> {
    let bad_key = DecodeError { what: "key of a family's name" };
    let bad_id = |_| DecodeError { what: "column family id" };
    let mut reader = Reader::new(value);
    if reader.u8()? != FORMAT {
        return Err(DecodeError { what: "family name of another format version" });
    }
    let row = match key {
        [ENGINE, NAME, name @ ..] => {
            let name = std::str::from_utf8(name).map_err(|_| bad_key)?.to_owned();
            let cf = CfId::new(u32::try_from(reader.varint()?).map_err(bad_id)?);
            let group = std::str::from_utf8(reader.length_prefixed()?);
            let group = group.map_err(|_| DecodeError { what: "name of an atomic group" })?.to_owned();
            NameRow::Named { name, cf, group }
        }
        [ENGINE, NEXT_ID] => NameRow::NextId(u32::try_from(reader.varint()?).map_err(bad_id)?),
        [ENGINE, DROPPED, id @ ..] => {
            NameRow::Dropped(CfId::new(u32::from_be_bytes(id.try_into().map_err(|_| bad_key)?)))
        }
        _ => return Err(bad_key),
    };
    reader.finish()?;
    Ok(row)
}

/// Returns whether a key of the catalog family is the engine's.
pub(crate) fn is_engines(key: &[u8]) -> bool {
    key.first() == Some(&ENGINE)
}

/// Decodes a row of the engine's part.
///
/// # Errors
/// [`EngineError::BadName`] for a row that cannot be read.
pub(crate) fn read(key: &[u8], value: &[u8]) -> Result<NameRow, EngineError> {
    decode(key, value).map_err(|error| EngineError::BadName { key: key.to_vec(), what: error.what })
}

/// Every row is committed as long as no transaction has written yet.
struct Loaded;

impl Resolve for Loaded {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).unwrap_or(TxnStatus::Aborted)
    }
}

/// Returns the newest state of the engine's rows of the catalog, in a database to which only the replay of its log
/// writes.
///
/// # Errors
/// [`EngineError::BadName`] for a row that cannot be read.
pub(crate) fn rows_in(families: &Families) -> Result<Vec<NameRow>, EngineError> {
    let Some(catalog) = families.get(CfId::CATALOG) else { return Ok(Vec::new()) };
    let range = KeyRange::prefix(&[ENGINE]);
    let request = ScanRequest { span: range.span(None, false), limit: usize::MAX };
    let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
    let (mut rows, mut bad) = (Vec::new(), None);
    let _end = catalog.scan(request, &view, &Loaded, &mut |key, value| match decode(key, value) {
        Ok(row) => {
            rows.push(row);
            ControlFlow::Continue(())
        }
        Err(error) => {
            bad = Some(EngineError::BadName { key: key.to_vec(), what: error.what });
            ControlFlow::Break(())
        }
    });
    bad.map_or(Ok(rows), Err)
}

/// Establishes F2 and F3 after the log was applied and before any transaction reads. Returns the dropped families
/// whose rows 3 may be deleted (F4), and the bytes of old versions that were freed with the rows of the other
/// dropped families.
///
/// # Errors
/// [`EngineError::BadName`] for a row that cannot be read.
pub(crate) fn after_replay(families: &Families) -> Result<(Vec<CfId>, u64), EngineError> {
    let rows = rows_in(families)?;
    let (mut forgotten, mut bytes) = (Vec::new(), 0);
    for row in rows {
        match row {
            NameRow::Named { cf, group, .. } => {
                families.join(cf, &group);
                families.get_or_make(cf);
            }
            NameRow::NextId(next) => families.note_used(CfId::new(next.saturating_sub(1))),
            NameRow::Dropped(cf) => {
                families.note_used(cf);
                match families.remove(cf) {
                    Some(family) => bytes = family.clear().saturating_add(bytes),
                    None => forgotten.push(cf),
                }
            }
        }
    }
    Ok((forgotten, bytes))
}

#[cfg(test)]
#[cfg(not(loom))]
#[allow(clippy::indexing_slicing, reason = "the bytes are the test's own")]
mod tests {
    use super::*;

    /// Goal: name rows have their documented bytes and can be read back; other bytes are refused. Method: a row of
    /// each kind with bytes written out in the test, cut at every length, with a byte too many and of another
    /// version.
    #[test]
    fn name_rows_have_their_documented_bytes() {
        let cf = CfId::new(300);
        let cases = [
            (name_key("orders"), name_value(cf, ""), NameRow::Named { name: "orders".into(), cf, group: "".into() }),
            (name_key("lines"), name_value(cf, "g"), NameRow::Named { name: "lines".into(), cf, group: "g".into() }),
            (next_id_key(), next_id_value(7), NameRow::NextId(7)),
            (dropped_key(cf), dropped_value(), NameRow::Dropped(cf)),
        ];
        assert_eq!(cases[0].0, b"\x00\x01orders");
        assert_eq!(cases[0].1, [1, 0xAC, 2, 0]);
        assert_eq!(cases[1].1, [1, 0xAC, 2, 1, b'g']);
        assert_eq!((&cases[2].0[..], &cases[2].1[..]), (&[0, 2][..], &[1, 7][..]));
        assert_eq!((&cases[3].0[..], &cases[3].1[..]), (&[0, 3, 0, 0, 1, 44][..], &[1][..]));
        assert_eq!(sql_name_row(16_384, cf), (b"\x00\x01sql:16384".to_vec(), name_value(cf, "")));
        for (key, value, row) in cases {
            assert_eq!(decode(&key, &value), Ok(row.clone()));
            assert!(decode(&key, &[&value[..], &[0]].concat()).is_err(), "{row:?} with a byte too many");
            for len in 0..value.len() {
                assert!(decode(&key, &value[..len]).is_err(), "{row:?} cut to {len}");
            }
            let newer: Vec<u8> = [&[2], &value[1..]].concat();
            assert!(decode(&key, &newer).is_err(), "{row:?} of another version");
        }
        assert!(decode(&[0, 9], &[1]).is_err());
        assert!(decode(&[0, 3, 1], &[1]).is_err(), "half an id");
        assert!(decode(b"\x00\x01\xFF", &name_value(cf, "")).is_err(), "no text");
        assert!(decode(b"\x00\x01g", &[1, 5, 1, 0xFF]).is_err(), "a group that is no text");
    }
}
