//! Decodes keys to values; `key.rs` describes the layout.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::Lsn;

use super::damaged;
use super::key::{KeyColumn, NOT_NULL, NULL_FIRST, NULL_LAST, WIDE_EXPONENT_BIAS, class};
use crate::error::Result;
use crate::types::{Interval, Numeric, SqlType, Value, oid};

/// Reads bytes from the front of a key and undoes the inversion of descending columns and negative numbers.
struct Reader<'a> {
    rest: &'a [u8],
    /// 0xFF while the bytes are inverted, otherwise 0x00.
    flip: u8,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| damaged("a key ends early"))?;
        self.rest = rest;
        Ok(first ^ self.flip)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| damaged("a key ends early"))?;
        self.rest = rest;
        Ok(first.map(|byte| byte ^ self.flip))
    }

    /// Reads the bytes before the end byte, and skips that byte.
    fn until_end(&mut self) -> Result<Vec<u8>> {
        let at = self.rest.iter().position(|&byte| byte == self.flip);
        let at = at.ok_or_else(|| damaged("text in a key does not end"))?;
        let (bytes, rest) = self.rest.split_at_checked(at).ok_or_else(|| damaged("a key ends early"))?;
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(bytes.iter().map(|byte| byte ^ self.flip).collect())
    }
}

/// Decodes a whole key to one value per column. If a type [is not lossless](super::key::is_lossless), the value equals
/// the encoded one but may print differently.
///
/// # Errors
/// XX001 for bytes that are not a key of these columns.
pub fn decode_key(bytes: &[u8], columns: &[KeyColumn]) -> Result<Vec<Value>> {
    let mut reader = Reader { rest: bytes, flip: 0 };
    let mut values = Vec::with_capacity(columns.len());
    for column in columns {
        values.push(decode_column(&mut reader, column)?);
    }
    if reader.rest.is_empty() { Ok(values) } else { Err(damaged("bytes after the end of a key")) }
}

fn decode_column(reader: &mut Reader<'_>, column: &KeyColumn) -> Result<Value> {
    reader.flip = 0;
    if column.nullable {
        match (reader.byte()?, column.nulls_first) {
            (NOT_NULL, _) => {}
            (NULL_FIRST, true) | (NULL_LAST, false) => return Ok(Value::Null),
            _ => return Err(damaged("null byte of a key")),
        }
    }
    if column.desc {
        reader.flip = 0xFF;
    }
    decode_body(reader, column.oid)
}

fn signed_4(reader: &mut Reader<'_>) -> Result<i32> {
    Ok((u32::from_be_bytes(reader.fixed()?) ^ 1 << 31).cast_signed())
}

fn signed_8(reader: &mut Reader<'_>) -> Result<i64> {
    Ok((u64::from_be_bytes(reader.fixed()?) ^ 1 << 63).cast_signed())
}

fn decode_body(reader: &mut Reader<'_>, type_oid: u32) -> Result<Value> {
    Ok(match type_oid {
        oid::INT4 => Value::Int4(signed_4(reader)?),
        oid::INT8 => Value::Int8(signed_8(reader)?),
        oid::INT2 => Value::Int2((u16::from_be_bytes(reader.fixed()?) ^ 1 << 15).cast_signed()),
        oid::DATE => Value::Date(signed_4(reader)?),
        oid::TIME => Value::Time(signed_8(reader)?),
        oid::TIMESTAMP => Value::Timestamp(signed_8(reader)?),
        oid::TIMESTAMPTZ => Value::TimestampTz(signed_8(reader)?),
        oid::INTERVAL => {
            let span_us = (u128::from_be_bytes(reader.fixed()?) ^ 1 << 127).cast_signed();
            Value::Interval(Interval::from_span_us(span_us).ok_or_else(|| damaged("interval in a key"))?)
        }
        oid::PG_LSN => Value::PgLsn(Lsn::new(u64::from_be_bytes(reader.fixed()?))),
        oid::BOOL => match reader.byte()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return Err(damaged("boolean in a key")),
        },
        oid::CHAR => Value::Char(reader.byte()?),
        oid::FLOAT8 => {
            let bits = u64::from_be_bytes(reader.fixed()?);
            Value::Float8(f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }))
        }
        oid::FLOAT4 => {
            let bits = u32::from_be_bytes(reader.fixed()?);
            Value::Float4(f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }))
        }
        oid::BYTEA => decode_bytea(reader)?,
        oid::NUMERIC => Value::Numeric(decode_numeric(reader)?),
        _ if oid::is_oid_like(type_oid) => Value::Oid(u32::from_be_bytes(reader.fixed()?)),
        _ if SqlType::new(type_oid).is_string_like() => {
            let text = String::from_utf8(reader.until_end()?).map_err(|_| damaged("text in a key is not UTF-8"))?;
            Value::from(text)
        }
        _ => return Err(damaged("a key column of a type that has no order")),
    })
}

fn decode_bytea(reader: &mut Reader<'_>) -> Result<Value> {
    let mut bytes = Vec::new();
    loop {
        match reader.byte()? {
            0 => match reader.byte()? {
                0 => return Ok(Value::bytea(&bytes)),
                0xFF => bytes.push(0),
                _ => return Err(damaged("bytea in a key")),
            },
            byte => bytes.push(byte),
        }
    }
}

fn decode_numeric(reader: &mut Reader<'_>) -> Result<Numeric> {
    let negative = match reader.byte()? {
        class::NEG_INFINITY => return Ok(Numeric::NEG_INFINITY),
        class::NEGATIVE => true,
        class::ZERO => return Ok(Numeric::ZERO),
        class::POSITIVE => false,
        class::INFINITY => return Ok(Numeric::INFINITY),
        class::NAN => return Ok(Numeric::NAN),
        _ => return Err(damaged("class of a number in a key")),
    };
    if negative {
        reader.flip = !reader.flip;
    }
    let bad = || damaged("number in a key");
    let places = match reader.byte()? {
        0x00 | 0xFF => {
            let [a, b, c] = reader.fixed()?;
            i32::from_be_bytes([0, a, b, c]).wrapping_sub(WIDE_EXPONENT_BIAS)
        }
        byte @ 0x40..=0xBF => i32::from(byte).wrapping_sub(0x80),
        _ => return Err(bad()),
    };
    let mut digits = Vec::new();
    for pair in reader.until_end()? {
        let pair = pair.checked_sub(1).filter(|&pair| pair < 100).ok_or_else(bad)?;
        digits.extend([pair / 10, pair % 10].map(|digit| digit | b'0'));
    }
    let exponent = places.checked_mul(2).ok_or_else(bad)?;
    Numeric::from_significant_digits(negative, &digits, exponent).ok_or_else(bad)
}
