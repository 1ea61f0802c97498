//! Decodes columns of stored rows; `row.rs` describes the layout.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::row::{FORMAT, HEADER_BYTES, RowLayout, Slot, WIDE};
use super::{damaged, value_bytes};
use crate::error::Result;
use crate::types::Value;

/// The checked header of a row.
#[derive(Clone, Copy)]
struct Header {
    wide: bool,
    ncols: usize,
}

/// Position of a column's bytes in its row.
enum Found<'a> {
    Bytes(&'a [u8]),
    Null,
    /// The column was added after the row was written.
    Later,
}

/// Adds offsets within a slice. It saturates, so that the following look-up refuses a sum that is too large.
fn sum(parts: [usize; 3]) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}

fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl RowLayout {
    fn header(&self, bytes: &[u8]) -> Result<Header> {
        let Some(([format, flags, low, high], _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(damaged("a row is shorter than its header"));
        };
        if *format != FORMAT {
            return Err(damaged(&format!("row format {format}, but only {FORMAT} is known")));
        }
        if flags & !WIDE != 0 {
            return Err(damaged("flags of a row"));
        }
        let ncols = usize::from(u16::from_le_bytes([*low, *high]));
        if ncols > self.columns.len() {
            return Err(damaged("a row has more columns than its relation"));
        }
        Ok(Header { wide: flags & WIDE != 0, ncols })
    }

    fn find<'a>(&self, header: Header, bytes: &'a [u8], column: usize) -> Result<(Found<'a>, Slot)> {
        let slot = *self.columns.get(column).expect("the caller asks for columns of the layout");
        if column >= header.ncols {
            return Ok((Found::Later, slot));
        }
        let bad = || damaged("a row is shorter than its columns");
        let bitmap_bytes = header.ncols.div_ceil(8);
        let bits = bytes.get(sum([HEADER_BYTES, column / 8, 0])).ok_or_else(bad)?;
        if bits >> (column % 8) & 1 == 1 {
            return Ok((Found::Null, slot));
        }
        let fixed = sum([HEADER_BYTES, bitmap_bytes, 0]);
        if let Some(width) = slot.width {
            let from = sum([fixed, index(slot.place), 0]);
            let found = bytes.get(from..sum([from, usize::from(width), 0])).ok_or_else(bad)?;
            return Ok((Found::Bytes(found), slot));
        }
        let totals = self.prefixes.get(header.ncols).expect("the header's ncols is within the layout");
        let offsets = sum([fixed, index(totals.fixed_bytes), 0]);
        let count = index(totals.variable_columns);
        let offset_bytes = if header.wide { 4_usize } else { 2 };
        let variable = sum([offsets, count.saturating_mul(offset_bytes), 0]);
        let end_of = |nth: usize| -> Result<usize> {
            let at = sum([offsets, nth.saturating_mul(offset_bytes), 0]);
            let rest = bytes.get(at..).ok_or_else(bad)?;
            if header.wide {
                rest.first_chunk().map(|word| index(u32::from_le_bytes(*word))).ok_or_else(bad)
            } else {
                rest.first_chunk().map(|word| usize::from(u16::from_le_bytes(*word))).ok_or_else(bad)
            }
        };
        let nth = index(slot.place);
        let from = match nth.checked_sub(1) {
            Some(before) => end_of(before)?,
            None => 0,
        };
        let end = end_of(nth)?;
        let found = bytes.get(sum([variable, from, 0])..sum([variable, end, 0]));
        Ok((Found::Bytes(found.ok_or_else(|| damaged("end offsets of a row"))?), slot))
    }

    /// Returns the number of columns that the row was written with. Later columns have the default with which they were
    /// added.
    ///
    /// # Errors
    /// XX001 for a malformed header.
    pub fn stored_columns(&self, bytes: &[u8]) -> Result<usize> {
        self.header(bytes).map(|header| header.ncols)
    }

    /// Decodes one column; `None` if it was added after the row was written.
    ///
    /// Cost: independent of the other columns.
    ///
    /// # Errors
    /// XX001 for malformed bytes.
    ///
    /// # Panics
    /// If the layout has no such column.
    pub fn decode_column(&self, bytes: &[u8], column: usize) -> Result<Option<Value>> {
        let header = self.header(bytes)?;
        match self.find(header, bytes, column)? {
            (Found::Bytes(found), slot) => value_bytes::decode(found, slot.oid).map(Some),
            (Found::Null, _) => Ok(Some(Value::Null)),
            (Found::Later, _) => Ok(None),
        }
    }

    /// Decodes the `wanted` columns, each into `out[column]`. A column that was added after the row was written keeps
    /// its value in `out`: the caller puts its default there first.
    ///
    /// # Errors
    /// XX001 for malformed bytes; then some of `out` may be overwritten.
    ///
    /// # Panics
    /// If the layout or `out` has no such column.
    pub fn decode_into(&self, bytes: &[u8], wanted: &[usize], out: &mut [Value]) -> Result<()> {
        let header = self.header(bytes)?;
        for &column in wanted {
            let target = out.get_mut(column).expect("the caller has room for each wanted column");
            match self.find(header, bytes, column)? {
                (Found::Bytes(found), slot) => *target = value_bytes::decode(found, slot.oid)?,
                (Found::Null, _) => *target = Value::Null,
                (Found::Later, _) => {}
            }
        }
        Ok(())
    }

    /// Returns the stored bytes of a column, which for text are UTF-8; `None` if it is NULL or was added later.
    ///
    /// # Errors
    /// XX001 for malformed bytes.
    ///
    /// # Panics
    /// If the layout has no such column.
    pub fn column_bytes<'a>(&self, bytes: &'a [u8], column: usize) -> Result<Option<&'a [u8]>> {
        let header = self.header(bytes)?;
        match self.find(header, bytes, column)?.0 {
            Found::Bytes(found) => Ok(Some(found)),
            Found::Null | Found::Later => Ok(None),
        }
    }
}
