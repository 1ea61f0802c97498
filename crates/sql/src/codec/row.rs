//! Rows: one byte string per row, from which each column can be read without the others.
//!
//! A row does not describe itself: the column types come from the relation's version, as a [`RowLayout`] that is made
//! once.
//!
//! # Layout, little-endian
//! | bytes | what |
//! |-------|------|
//! | 1     | format, 1 |
//! | 1     | flags: bit 0 set: end offsets are u32, else u16; the other bits 0 |
//! | 2     | ncols: number of columns that the row was written with |
//! | (ncols + 7) / 8 | null bitmap: bit i % 8 of byte i / 8 set: column i is NULL; unused bits 0 |
//! | sum of widths | columns of fixed width among the first ncols, in order, without padding; NULL takes its width in zeros |
//! | 2 or 4 each | for each variable-width column among the first ncols: its end offset in the variable bytes |
//! | last offset | variable bytes, in column order |
//!
//! | type | width | bytes |
//! |------|-------|-------|
//! | `bool`, `"char"` | 1 | 0 or 1; the byte |
//! | `int2` | 2 | two's complement |
//! | `int4`, `date`, `oid`, `reg*`, `float4` | 4 | two's complement, days, number, bits |
//! | `int8`, `time`, `timestamp`, `timestamptz`, `float8`, `pg_lsn` | 8 | two's complement, microseconds, bits |
//! | `interval` | 16 | microseconds i64, days i32, months i32 |
//! | string types | variable | UTF-8; `char(n)` with its blanks |
//! | `bytea` | variable | the bytes |
//! | `numeric` | variable | see below |
//! | arrays, vectors | variable | see below |
//!
//! | numeric | what |
//! |---------|------|
//! | 1 byte  | class: 0 small, 2 large (each + 1: negative), 4 NaN, 5 Infinity, 6 -Infinity; nothing follows 4 to 6 |
//! | varint  | scale |
//! | rest    | small: mantissa, 0 to 8 bytes, the last not 0; large: base-10^9 limbs of 4 bytes, least significant first |
//!
//! | array | what |
//! |-------|------|
//! | varint | element type |
//! | varint | dimensions, 0 to 6; for each varint length, 4 bytes lower bound |
//! | per element | varint: 0 is NULL, otherwise length + 1; then the element's bytes as in a column |
//!
//! # Invariants
//! - R1. The position of a column's bytes follows from the layout, ncols, and at most two end offsets.
//! - R2. An ncols below the layout's means that columns were added later; the caller supplies their values.
//! - R3. Reading arbitrary bytes gives a value or XX001. Its allocations exceed the bytes by at most a constant factor.
//!
//! Checked by properties in `row/tests.rs`.

use super::{value_bytes, wrong_kind};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// The format that this module writes.
pub(super) const FORMAT: u8 = 1;
/// Flag: end offsets are u32.
pub(super) const WIDE: u8 = 1;
/// Bytes before the null bitmap.
pub(super) const HEADER_BYTES: usize = 4;
/// Maximum number of columns of a relation, as in PostgreSQL.
pub const COLUMNS_MAX: usize = 1_600;

/// Positions of the columns of one relation version. It is made once and read at every access.
#[derive(Clone, Debug)]
pub struct RowLayout {
    pub(super) columns: Vec<Slot>,
    /// `prefixes[n]` holds the totals of a row's first n columns.
    pub(super) prefixes: Vec<Prefix>,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) oid: u32,
    /// Width in bytes; `None` for a variable width.
    pub(super) width: Option<u8>,
    /// Offset in the fixed bytes, or index among the variable columns.
    pub(super) place: u32,
}

/// Totals over the first columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefix {
    pub(super) fixed_bytes: u32,
    pub(super) variable_columns: u32,
}

impl RowLayout {
    /// Makes the layout of rows whose columns have these types, in order.
    ///
    /// # Panics
    /// With more than [`COLUMNS_MAX`] columns.
    pub fn new(oids: &[u32]) -> Self {
        assert!(oids.len() <= COLUMNS_MAX, "the catalog refuses relations of more columns");
        let mut prefix = Prefix::default();
        let mut columns = Vec::with_capacity(oids.len());
        let mut prefixes = Vec::with_capacity(oids.len() + 1);
        prefixes.push(prefix);
        for &oid in oids {
            let width = value_bytes::fixed_width(oid);
            let place = if width.is_some() { prefix.fixed_bytes } else { prefix.variable_columns };
            columns.push(Slot { oid, width, place });
            match width {
                Some(width) => prefix.fixed_bytes += u32::from(width),
                None => prefix.variable_columns += 1,
            }
            prefixes.push(prefix);
        }
        Self { columns, prefixes }
    }

    /// Returns the number of columns.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Appends the row of `values`, one per column.
    ///
    /// Cost: one pass, two for a row above 64 KiB; grows `out` and allocates nothing else, except for arrays.
    ///
    /// # Errors
    /// 54000 for a row of 4 GiB or more; 0A000 for a row value; XX000 for a value of another type than its column's.
    /// After an error, `out` holds garbage beyond its old length.
    ///
    /// # Panics
    /// With another number of values than columns.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        assert_eq!(values.len(), self.columns.len(), "a row has one value per column");
        let totals = self.prefixes.last().copied().unwrap_or_default();
        // Narrow offsets suffice for most rows. If an offset does not fit, the row is written again with wide ones.
        let start = out.len();
        if !self.encode_as(values, totals, false, out)? {
            out.truncate(start);
            if !self.encode_as(values, totals, true, out)? {
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "row is too big: 4 GiB or more"));
            }
        }
        Ok(())
    }

    /// Writes the row; returns false if an offset does not fit.
    fn encode_as(&self, values: &[Value], totals: Prefix, wide: bool, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let ncols = u16::try_from(values.len()).expect("at most COLUMNS_MAX");
        let offset_bytes = if wide { 4 } else { 2 };
        let bitmap = start + HEADER_BYTES;
        let fixed = bitmap + values.len().div_ceil(8);
        let mut offsets = fixed + usize::try_from(totals.fixed_bytes).expect("32 bits fit");
        let variable = offsets + usize::try_from(totals.variable_columns).expect("32 bits fit") * offset_bytes;
        // Zeros fill the fixed columns and the end offsets; variable bytes are appended after them.
        out.resize(variable, 0);
        out[start] = FORMAT;
        out[start + 1] = if wide { WIDE } else { 0 };
        out[start + 2..bitmap].copy_from_slice(&ncols.to_le_bytes());
        for (at, (value, slot)) in values.iter().zip(&self.columns).enumerate() {
            if value.is_null() {
                out[bitmap + at / 8] |= 1 << (at % 8);
            }
            if let Some(width) = slot.width {
                let from = fixed + usize::try_from(slot.place).expect("32 bits fit");
                if !value.is_null() {
                    let target = &mut out[from..from + usize::from(width)];
                    if !value_bytes::write_fixed(value, slot.oid, target) {
                        return Err(wrong_kind(slot.oid));
                    }
                }
                continue;
            }
            if !value.is_null() {
                value_bytes::append_variable(value, slot.oid, out)?;
            }
            let end = out.len() - variable;
            let slot = &mut out[offsets..offsets + offset_bytes];
            match (u16::try_from(end), u32::try_from(end)) {
                (Ok(end), _) if !wide => slot.copy_from_slice(&end.to_le_bytes()),
                (_, Ok(end)) if wide => slot.copy_from_slice(&end.to_le_bytes()),
                _ => return Ok(false),
            }
            offsets += offset_bytes;
        }
        Ok(true)
    }
}
