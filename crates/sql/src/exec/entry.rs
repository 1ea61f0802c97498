//! Keys of rows and of index entries, and the transfer of rows to and from frames.
//!
//! | family | key | value |
//! |---|---|---|
//! | table with a primary key | encoded primary key columns | row |
//! | table without one | row id, 8 bytes big-endian | row |
//! | unique index | encoded index columns; then the table's key if one of them is NULL | key of the table's row |
//! | other index | encoded index columns, then the table's key | empty |
//!
//! # Invariants
//! - N1. The key of an entry is a function of the row and its key alone, including computed values, so that the entry
//!   of
//!   an old row can be found again.
//! - N2. A row has an entry in every index, except in partial indexes whose predicate is not true of it.

use crate::{
    catalog::relation::{Index, IndexColumn, KeyPart, Relation, TableKey},
    codec::key::{self, KeyColumn},
    error::{Result, SqlError, SqlState},
    plan::node::Target,
    types::{Value, oid},
};

/// Decodes columns of a row into `out`, one slot per column of the table.
pub(crate) fn decode_row(relation: &Relation, bytes: &[u8], wanted: &[usize], out: &mut [Value]) -> Result<()> {
    let stored = relation.layout.stored_columns(bytes)?;
    if stored < relation.columns.len() {
        for &column in wanted.iter().filter(|&&column| column >= stored) {
            out[column] = relation.columns[column].missing.clone();
        }
    }
    relation.layout.decode_into(bytes, wanted, out)
}

/// Loads a row into the slots of its table.
pub(crate) fn load_row(target: &Target, bytes: &[u8], frame: &mut [Value]) -> Result<()> {
    let out = &mut frame[target.base..target.base + target.relation.columns.len()];
    decode_row(&target.relation, bytes, &target.columns, out)
}

/// A row as one of its table's indexes sees it.
#[derive(Clone, Copy)]
pub(crate) enum Keyed<'a> {
    /// By its columns: the index computes nothing.
    Row(&'a [Value]),
    /// By the computed values of the index key's columns.
    Computed(&'a [Value]),
}

impl<'a> Keyed<'a> {
    /// Returns the columns of the index key with their values.
    pub(crate) fn columns(self, index: &'a Index) -> impl Iterator<Item = (&'a IndexColumn, &'a Value)> {
        index.columns.iter().enumerate().map(move |(at, column)| match (self, &column.part) {
            (Self::Row(row), KeyPart::Column(place)) => (column, &row[*place]),
            (Self::Computed(values), _) => (column, &values[at]),
            (Self::Row(_), KeyPart::Expression(_)) => panic!("the key of {} was not computed", index.name),
        })
    }
}

/// Appends the key of a row of a table with a primary key.
pub(crate) fn primary_key(index: &Index, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
    for (column, value) in Keyed::Row(row).columns(index) {
        key::encode_column(out, &column.key, value)?;
    }
    check_length(out)
}

/// Returns whether the row's key in the index has a NULL and is therefore equal to no other key.
pub(crate) fn has_null(index: &Index, row: Keyed<'_>) -> bool {
    row.columns(index).any(|(_, value)| value.is_null())
}

/// Appends the key of an index entry for the row at `table_key`.
pub(crate) fn entry_key(index: &Index, row: Keyed<'_>, table_key: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut has_null = false;
    for (column, value) in row.columns(index) {
        has_null |= value.is_null();
        key::encode_column(out, &column.key, value)?;
    }
    if !index.unique || has_null {
        out.extend_from_slice(table_key);
    }
    check_length(out)
}

/// Returns the value of an index entry for the row at `table_key`.
pub(crate) fn entry_value<'a>(index: &Index, table_key: &'a [u8]) -> &'a [u8] {
    if index.unique { table_key } else { &[] }
}

/// Maximal bytes of a key in the store.
const MAX_KEY_BYTES: usize = 65_531;

fn check_length(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("index row size {} exceeds the maximum of {MAX_KEY_BYTES} bytes", key.len()),
    ))
}

/// The place of the key of the table's row in an index entry.
#[derive(Clone, Debug)]
pub(crate) enum TableKeyPlace {
    /// It is the entry's value.
    Value,
    /// It is a suffix of the entry's key, of this length.
    Suffix(usize),
    /// It follows columns of varying length: all are decoded, and the last `usize` of them are encoded again.
    Columns(Box<[KeyColumn]>, usize),
}

impl TableKeyPlace {
    /// Returns the place of the row's key in the entries of `index`.
    pub(crate) fn of(relation: &Relation, index: &Index) -> Self {
        if index.unique {
            return Self::Value;
        }
        let (TableKey::Primary, Some(primary)) = (&relation.key, relation.primary_key()) else {
            return Self::Suffix(8);
        };
        let widths = primary.columns.iter().map(|column| fixed_width(&column.key));
        if let Some(total) = widths.sum::<Option<usize>>() {
            return Self::Suffix(total);
        }
        let columns = index.columns.iter().chain(&primary.columns).map(|column| column.key);
        Self::Columns(columns.collect(), primary.columns.len())
    }

    /// Appends the key of the table's row to which the entry belongs.
    pub(crate) fn read(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Value => out.extend_from_slice(value),
            Self::Suffix(bytes) => {
                let start = key.len().checked_sub(*bytes).ok_or_else(damaged)?;
                out.extend_from_slice(&key[start..]);
            }
            Self::Columns(columns, count) => {
                let values = key::decode_key(key, columns)?;
                let start = columns.len() - count;
                let tail = values.get(start..).ok_or_else(damaged)?;
                key::encode_key(out, &columns[start..], tail)?;
            }
        }
        Ok(())
    }
}

fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "an index entry is shorter than the key of its row")
}

/// Returns the number of bytes of a key column if it is the same for all values.
fn fixed_width(column: &KeyColumn) -> Option<usize> {
    if column.nullable {
        return None;
    }
    match column.oid {
        oid::INT2 => Some(2),
        oid::INT4 | oid::DATE => Some(4),
        oid::INT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME => Some(8),
        oid::INTERVAL => Some(16),
        _ => None,
    }
}
