//! Bytes of one value in a row; `row.rs` describes the layout.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::Lsn;
use collie_base::codec::{Reader, put_varint};

use super::{damaged, wrong_kind};
use crate::error::{Result, SqlError};
use crate::types::array::MAX_DIMS;
use crate::types::numeric::Parts;
use crate::types::{Array, ArrayDim, Interval, Numeric, SqlType, Value, oid};

const SMALL: u8 = 0;
const LARGE: u8 = 2;
const NAN: u8 = 4;
const INFINITY: u8 = 5;
const NEG_INFINITY: u8 = 6;

/// Returns the number of bytes of each value of the type; `None` if it varies.
pub(super) fn fixed_width(type_oid: u32) -> Option<u8> {
    match type_oid {
        oid::BOOL | oid::CHAR => Some(1),
        oid::INT2 => Some(2),
        oid::INT4 | oid::FLOAT4 | oid::DATE => Some(4),
        oid::INT8 | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::PG_LSN => Some(8),
        oid::INTERVAL => Some(16),
        _ if oid::is_oid_like(type_oid) => Some(4),
        _ => None,
    }
}

/// Writes a value of fixed width to its bytes; returns false if the value is of another type.
#[must_use]
pub(super) fn write_fixed(value: &Value, type_oid: u32, target: &mut [u8]) -> bool {
    match (type_oid, value) {
        (oid::BOOL, Value::Bool(value)) => target.copy_from_slice(&[u8::from(*value)]),
        (oid::CHAR, Value::Char(value)) => target.copy_from_slice(&[*value]),
        (oid::INT2, Value::Int2(value)) => target.copy_from_slice(&value.to_le_bytes()),
        (oid::INT4, Value::Int4(value)) | (oid::DATE, Value::Date(value)) => {
            target.copy_from_slice(&value.to_le_bytes());
        }
        (oid::INT8, Value::Int8(value))
        | (oid::TIME, Value::Time(value))
        | (oid::TIMESTAMP, Value::Timestamp(value))
        | (oid::TIMESTAMPTZ, Value::TimestampTz(value)) => target.copy_from_slice(&value.to_le_bytes()),
        (oid::INTERVAL, Value::Interval(value)) => target.copy_from_slice(&interval_bytes(*value)),
        (oid::PG_LSN, Value::PgLsn(value)) => target.copy_from_slice(&value.get().to_le_bytes()),
        (oid::FLOAT4, Value::Float4(value)) => target.copy_from_slice(&value.to_le_bytes()),
        (oid::FLOAT8, Value::Float8(value)) => target.copy_from_slice(&value.to_le_bytes()),
        (_, Value::Oid(value)) if oid::is_oid_like(type_oid) => target.copy_from_slice(&value.to_le_bytes()),
        _ => return false,
    }
    true
}

/// Encodes an interval: microseconds, days, months.
fn interval_bytes(value: Interval) -> [u8; 16] {
    let ([a, b, c, d, e, f, g, h], [i, j, k, l]) = (value.micros.to_le_bytes(), value.days.to_le_bytes());
    let [m, n, o, p] = value.months.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

fn interval_of([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]: [u8; 16]) -> Interval {
    Interval {
        months: i32::from_le_bytes([m, n, o, p]),
        days: i32::from_le_bytes([i, j, k, l]),
        micros: i64::from_le_bytes([a, b, c, d, e, f, g, h]),
    }
}

/// Appends the bytes of a value of variable width.
pub(super) fn append_variable(value: &Value, type_oid: u32, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Text(text) if is_text(type_oid) => out.extend_from_slice(text.as_bytes()),
        Value::Bytea(bytes) if type_oid == oid::BYTEA => out.extend_from_slice(bytes),
        Value::Numeric(number) if type_oid == oid::NUMERIC => append_numeric(number, out),
        Value::Array(array) if oid::element_of(type_oid) == Some(array.element_oid) => append_array(array, out)?,
        Value::Record(_) => return Err(SqlError::unsupported("storing a row value")),
        _ => return Err(wrong_kind(type_oid)),
    }
    Ok(())
}

fn is_text(type_oid: u32) -> bool {
    SqlType::new(type_oid).is_string_like() || matches!(type_oid, oid::JSON)
}

fn append_numeric(number: &Numeric, out: &mut Vec<u8>) {
    match number.parts() {
        Parts::NaN => out.push(NAN),
        Parts::Infinity { negative } => out.push(if negative { NEG_INFINITY } else { INFINITY }),
        Parts::Small { scale, mantissa } => {
            out.push(SMALL | u8::from(mantissa < 0));
            put_varint(out, u64::from(scale));
            let bytes = mantissa.unsigned_abs().to_le_bytes();
            let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last.saturating_add(1));
            out.extend_from_slice(bytes.get(..used).unwrap_or_default());
        }
        Parts::Big { negative, scale, limbs } => {
            out.push(LARGE | u8::from(negative));
            put_varint(out, u64::from(scale));
            limbs.iter().for_each(|limb| out.extend_from_slice(&limb.to_le_bytes()));
        }
    }
}

fn append_array(array: &Array, out: &mut Vec<u8>) -> Result<()> {
    put_varint(out, u64::from(array.element_oid));
    put_varint(out, u64::try_from(array.dims.len()).expect("at most MAX_DIMS"));
    for dim in &array.dims {
        put_varint(out, u64::from(dim.len));
        out.extend_from_slice(&dim.lower.to_le_bytes());
    }
    let mut item = Vec::new();
    for value in &array.values {
        if value.is_null() {
            out.push(0);
            continue;
        }
        item.clear();
        match fixed_width(array.element_oid) {
            Some(width) => {
                item.resize(usize::from(width), 0);
                if !write_fixed(value, array.element_oid, &mut item) {
                    return Err(wrong_kind(array.element_oid));
                }
            }
            None => append_variable(value, array.element_oid, &mut item)?,
        }
        put_varint(out, u64::try_from(item.len()).expect("a length fits").saturating_add(1));
        out.extend_from_slice(&item);
    }
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| damaged("a value has the wrong length"))
}

/// Decodes the bytes of a value that is not NULL.
pub(super) fn decode(bytes: &[u8], type_oid: u32) -> Result<Value> {
    Ok(match type_oid {
        oid::INT4 => Value::Int4(i32::from_le_bytes(fixed(bytes)?)),
        oid::INT8 => Value::Int8(i64::from_le_bytes(fixed(bytes)?)),
        oid::INT2 => Value::Int2(i16::from_le_bytes(fixed(bytes)?)),
        oid::BOOL => match fixed(bytes)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return Err(damaged("boolean")),
        },
        oid::CHAR => {
            let [byte] = fixed(bytes)?;
            Value::Char(byte)
        }
        oid::FLOAT4 => Value::Float4(f32::from_le_bytes(fixed(bytes)?)),
        oid::FLOAT8 => Value::Float8(f64::from_le_bytes(fixed(bytes)?)),
        oid::DATE => Value::Date(i32::from_le_bytes(fixed(bytes)?)),
        oid::TIME => Value::Time(i64::from_le_bytes(fixed(bytes)?)),
        oid::TIMESTAMP => Value::Timestamp(i64::from_le_bytes(fixed(bytes)?)),
        oid::TIMESTAMPTZ => Value::TimestampTz(i64::from_le_bytes(fixed(bytes)?)),
        oid::INTERVAL => Value::Interval(interval_of(fixed(bytes)?)),
        oid::PG_LSN => Value::PgLsn(Lsn::new(u64::from_le_bytes(fixed(bytes)?))),
        oid::NUMERIC => Value::Numeric(decode_numeric(bytes)?),
        oid::BYTEA => Value::bytea(bytes),
        _ if oid::is_oid_like(type_oid) => Value::Oid(u32::from_le_bytes(fixed(bytes)?)),
        _ if is_text(type_oid) => Value::text(std::str::from_utf8(bytes).map_err(|_| damaged("text is not UTF-8"))?),
        _ => match oid::element_of(type_oid) {
            Some(element) => decode_array(bytes, element)?,
            None => return Err(damaged(&format!("a column of type {type_oid}, which cannot be stored"))),
        },
    })
}

fn decode_numeric(bytes: &[u8]) -> Result<Numeric> {
    let bad = || damaged("numeric");
    let (class, rest) = bytes.split_first().ok_or_else(bad)?;
    match (*class, rest) {
        (NAN, []) => return Ok(Numeric::NAN),
        (INFINITY, []) => return Ok(Numeric::INFINITY),
        (NEG_INFINITY, []) => return Ok(Numeric::NEG_INFINITY),
        (SMALL..=3, _) => {}
        _ => return Err(bad()),
    }
    let negative = class & 1 == 1;
    let mut reader = Reader::new(rest);
    let scale = reader.varint().ok().and_then(|scale| u16::try_from(scale).ok()).ok_or_else(bad)?;
    let digits = reader.rest();
    if class & LARGE == 0 {
        let mut word = [0_u8; 8];
        word.get_mut(..digits.len()).ok_or_else(bad)?.copy_from_slice(digits);
        let magnitude = i128::from(u64::from_le_bytes(word));
        if scale > crate::types::numeric::SCALE_MAX {
            return Err(bad());
        }
        return Ok(Numeric::from_i128(if negative { magnitude.saturating_neg() } else { magnitude }, scale));
    }
    let (limbs, rest) = digits.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(bad());
    }
    let limbs = limbs.iter().map(|limb| u32::from_le_bytes(*limb)).collect();
    Numeric::from_limbs(negative, scale, limbs).ok_or_else(bad)
}

fn decode_array(bytes: &[u8], element: u32) -> Result<Value> {
    let bad = || damaged("array");
    let mut reader = Reader::new(bytes);
    let varint = |reader: &mut Reader<'_>| reader.varint().map_err(|_| bad());
    if varint(&mut reader)? != u64::from(element) {
        return Err(bad());
    }
    let count = varint(&mut reader)?;
    let count = usize::try_from(count).ok().filter(|&count| count <= MAX_DIMS).ok_or_else(bad)?;
    let mut dims = Vec::with_capacity(count);
    let mut total = usize::from(count > 0);
    for _ in 0..count {
        let len = u32::try_from(varint(&mut reader)?).map_err(|_| bad())?;
        let lower = i32::from_le_bytes(fixed(reader.bytes(4).map_err(|_| bad())?)?);
        // Each element takes at least one byte, so a larger product cannot be true.
        total = usize::try_from(len).ok().and_then(|len| total.checked_mul(len)).ok_or_else(bad)?;
        if len == 0 || total > bytes.len() {
            return Err(bad());
        }
        dims.push(ArrayDim { len, lower });
    }
    let mut values = Vec::with_capacity(total);
    for _ in 0..total {
        values.push(match varint(&mut reader)?.checked_sub(1) {
            None => Value::Null,
            Some(len) => {
                let len = usize::try_from(len).map_err(|_| bad())?;
                decode(reader.bytes(len).map_err(|_| bad())?, element)?
            }
        });
    }
    reader.finish().map_err(|_| bad())?;
    Ok(Value::Array(Array { element_oid: element, dims, values }.into()))
}
