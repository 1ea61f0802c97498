//! Keys of rows and of index entries, and rows in and out of frames.
//!
//! | family | key | value |
//! |---|---|---|
//! | table with a primary key | encoded primary key columns | row |
//! | table without one | row id, 8 bytes big-endian | row |
//! | unique index | encoded index columns; the table's key after them when one is NULL | key of the table's row |
//! | other index | encoded index columns, then the table's key | empty |
//!
//! # Invariants
//! - N1. An entry's key is a function of the row and its key alone, what is computed of the row included, so that the
//!   entry of an old row can be found again.
//! - N2. A row has an entry in every index but the partial ones whose predicate is not true of it.

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

/// Puts a row into the slots of its table.
pub(crate) fn load_row(target: &Target, bytes: &[u8], frame: &mut [Value]) -> Result<()> {
    let out = &mut frame[target.base..target.base + target.relation.columns.len()];
    decode_row(&target.relation, bytes, &target.columns, out)
}

/// A row as one of its table's indexes sees it.
#[derive(Clone, Copy)]
pub(crate) enum Keyed<'a> {
    /// By its columns: the index is over nothing else.
    Row(&'a [Value]),
    /// By the values of the index key's columns, which were computed.
    Computed(&'a [Value]),
}

impl<'a> Keyed<'a> {
    /// Returns the columns of the index key, each with its value.
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

/// Returns whether the row's key in the index has a NULL, and so equals no other.
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

/// Longest key the store takes.
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

/// How the key of the table's row is taken out of an index entry.
#[derive(Clone, Debug)]
pub(crate) enum TableKeyPlace {
    /// It is the entry's value.
    Value,
    /// It is the last bytes of the entry's key.
    Suffix(usize),
    /// It follows columns of varying length: these are decoded, and the last `usize` of them encoded again.
    Columns(Box<[KeyColumn]>, usize),
}

impl TableKeyPlace {
    /// Returns where entries of `index` keep the key of their row.
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

    /// Appends the key of the table's row that the entry names.
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

/// Returns the bytes of a key column when all its values have the same number.
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
