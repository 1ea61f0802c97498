//! Keys: bytes that compare like the values that they encode.
//!
//! Encoding loses some details: the scale of a `numeric`, -0 and the bits of NaN in floats, the padding of `char(n)`,
//! and the difference between a month and 30 days in an `interval`; see [`is_lossless`]. A key does not contain its
//! columns' types.
//!
//! # Layout
//! Columns follow one another. Each consists of:
//!
//! | bytes | when | what |
//! |-------|------|------|
//! | 1     | only if the column is nullable | 0x00 NULL sorted first, 0x01 a value, 0x02 NULL sorted last |
//! | body  | if not NULL | see below; each byte inverted if the column descends |
//!
//! | type | body |
//! |------|------|
//! | `bool` | 1 byte, 0 or 1 |
//! | `"char"` | 1 byte |
//! | `int2`, `int4`, `int8`, `date`, `time`, `timestamp`, `timestamptz` | big-endian, sign bit flipped |
//! | `pg_lsn` | 8 bytes big-endian |
//! | `oid`, `reg*` | 4 bytes big-endian |
//! | `float4`, `float8` | big-endian bits; negative: all inverted, else: sign bit flipped; -0 as 0, one NaN above all |
//! | `text`, `varchar`, `name` | bytes, then 0x00 |
//! | `char(n)` | bytes without blanks at the end, then 0x00 |
//! | `bytea` | bytes with 0x00 as 0x00 0xFF, then 0x00 0x00 |
//! | `interval` | 16 bytes big-endian, sign bit flipped: microseconds, with months of 30 days and days of 24 hours |
//! | `numeric` | class: 0 -Infinity, 1 negative, 2 zero, 3 positive, 4 Infinity, 5 NaN; for 1 and 3 exponent, digits, end |
//!
//! Numbers are `0.d1d2d3.. * 100^exponent` with base-100 digits, where d1 is not 0. An exponent from -64 to 63 is one
//! byte, 0x80 + exponent. A smaller one is 0x00 and a larger one 0xFF, each followed by exponent + 2^23 as 3 bytes
//! big-endian. Each digit is a byte, digit + 1; trailing zero digits are left out, and 0x00 ends the digits. Exponent,
//! digits and end are inverted in class 1.
//!
//! # Invariants
//! - K1. For keys of the same columns, byte order is the order of `Value::compare`, column by column.
//! - K2. No key is a prefix of another key of the same columns. So the key of the first columns' values is a prefix of
//!   exactly the keys that begin with those values.
//!
//! Checked by properties in `key_tests.rs`.

use std::cmp::Ordering;

use super::wrong_kind;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Numeric, SqlType, Value, oid};

pub use super::key_read::decode_key;

/// Maximum length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 65_531;

pub(super) const NULL_FIRST: u8 = 0x00;
pub(super) const NOT_NULL: u8 = 0x01;
pub(super) const NULL_LAST: u8 = 0x02;

/// Classes of numbers, in their order.
pub(super) mod class {
    pub(in crate::codec) const NEG_INFINITY: u8 = 0;
    pub(in crate::codec) const NEGATIVE: u8 = 1;
    pub(in crate::codec) const ZERO: u8 = 2;
    pub(in crate::codec) const POSITIVE: u8 = 3;
    pub(in crate::codec) const INFINITY: u8 = 4;
    pub(in crate::codec) const NAN: u8 = 5;
}

/// Bias that is added to an exponent of 3 bytes.
pub(super) const WIDE_EXPONENT_BIAS: i32 = 1 << 23;

/// The encoding of one column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's type.
    pub oid: u32,
    /// Whether the column is descending: then the bytes of the body are inverted.
    pub desc: bool,
    /// Whether NULL sorts before all values, in either direction.
    pub nulls_first: bool,
    /// Whether the column may hold NULL; otherwise it has no null byte.
    pub nullable: bool,
}

impl KeyColumn {
    /// Makes an ascending column that is never NULL.
    pub const fn not_null(oid: u32) -> Self {
        Self { oid, desc: false, nulls_first: false, nullable: false }
    }

    /// Makes an ascending column with NULL last.
    pub const fn nullable(oid: u32) -> Self {
        Self { oid, desc: false, nulls_first: false, nullable: true }
    }

    /// Orders two values like their keys.
    pub fn compare(&self, left: &Value, right: &Value) -> Ordering {
        match (left.is_null(), right.is_null()) {
            (false, false) if self.desc => right.compare(left, self.oid),
            (false, false) => left.compare(right, self.oid),
            (true, true) => Ordering::Equal,
            (left_null, _) => {
                if left_null == self.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

/// Returns whether values of the type can be in keys.
pub fn has_key_form(type_oid: u32) -> bool {
    matches!(
        type_oid,
        oid::BOOL
            | oid::CHAR
            | oid::INT2
            | oid::INT4
            | oid::INT8
            | oid::FLOAT4
            | oid::FLOAT8
            | oid::NUMERIC
            | oid::BYTEA
            | oid::DATE
            | oid::TIME
            | oid::TIMESTAMP
            | oid::TIMESTAMPTZ
            | oid::INTERVAL
            | oid::PG_LSN
    ) || oid::is_oid_like(type_oid)
        || (SqlType::new(type_oid).is_string_like() && type_oid != oid::VOID)
}

/// Returns whether a key decodes to exactly the encoded value, so that the row need not hold it again.
pub fn is_lossless(type_oid: u32) -> bool {
    has_key_form(type_oid)
        && !matches!(type_oid, oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC | oid::BPCHAR | oid::INTERVAL)
}

/// Appends the key of `values` to `out`. Fewer values than columns give the prefix of all keys that begin with them.
///
/// # Errors
/// 54000 beyond [`KEY_BYTES_MAX`]; 23502 for NULL in a column that is not nullable; 42704 for a type without an order;
/// 22021 for text with NUL; XX000 for a value of another type than its column's.
///
/// # Panics
/// With more values than columns.
pub fn encode_key(out: &mut Vec<u8>, columns: &[KeyColumn], values: &[Value]) -> Result<()> {
    assert!(values.len() <= columns.len(), "a key has at most one value per column");
    let start = out.len();
    for (column, value) in columns.iter().zip(values) {
        encode_column(out, column, value)?;
    }
    let bytes = out.len() - start;
    if bytes > KEY_BYTES_MAX {
        let message = format!("key size {bytes} exceeds maximum {KEY_BYTES_MAX}");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(())
}

/// Appends one column of a key.
///
/// # Errors
/// As for [`encode_key`], except that the length is not limited.
pub fn encode_column(out: &mut Vec<u8>, column: &KeyColumn, value: &Value) -> Result<()> {
    if column.nullable {
        out.push(match (value.is_null(), column.nulls_first) {
            (false, _) => NOT_NULL,
            (true, true) => NULL_FIRST,
            (true, false) => NULL_LAST,
        });
    }
    if value.is_null() {
        return if column.nullable {
            Ok(())
        } else {
            Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, "null value in a key column that is not nullable"))
        };
    }
    let start = out.len();
    encode_body(out, column.oid, value)?;
    if column.desc {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

fn encode_body(out: &mut Vec<u8>, type_oid: u32, value: &Value) -> Result<()> {
    match (type_oid, value) {
        (oid::INT4, Value::Int4(value)) | (oid::DATE, Value::Date(value)) => {
            out.extend_from_slice(&(value.cast_unsigned() ^ 1 << 31).to_be_bytes());
        }
        (oid::INT8, Value::Int8(value))
        | (oid::TIME, Value::Time(value))
        | (oid::TIMESTAMP, Value::Timestamp(value))
        | (oid::TIMESTAMPTZ, Value::TimestampTz(value)) => {
            out.extend_from_slice(&(value.cast_unsigned() ^ 1 << 63).to_be_bytes());
        }
        (oid::INTERVAL, Value::Interval(value)) => {
            out.extend_from_slice(&(value.span_us().cast_unsigned() ^ 1 << 127).to_be_bytes());
        }
        (oid::PG_LSN, Value::PgLsn(value)) => out.extend_from_slice(&value.get().to_be_bytes()),
        (oid::INT2, Value::Int2(value)) => {
            out.extend_from_slice(&(value.cast_unsigned() ^ 1 << 15).to_be_bytes());
        }
        (oid::BPCHAR, Value::Text(text)) => encode_text(out, text.trim_end_matches(' '))?,
        (_, Value::Text(text)) if has_key_form(type_oid) && SqlType::new(type_oid).is_string_like() => {
            encode_text(out, text)?;
        }
        (oid::BOOL, Value::Bool(value)) => out.push(u8::from(*value)),
        (oid::CHAR, Value::Char(value)) => out.push(*value),
        (_, Value::Oid(value)) if oid::is_oid_like(type_oid) => out.extend_from_slice(&value.to_be_bytes()),
        (oid::FLOAT8, Value::Float8(value)) => {
            let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
            let mask = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
            out.extend_from_slice(&(bits ^ mask).to_be_bytes());
        }
        (oid::FLOAT4, Value::Float4(value)) => {
            let bits = if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() };
            let mask = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            out.extend_from_slice(&(bits ^ mask).to_be_bytes());
        }
        (oid::BYTEA, Value::Bytea(bytes)) => {
            for &byte in bytes.iter() {
                out.push(byte);
                if byte == 0 {
                    out.push(0xFF);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
        (oid::NUMERIC, Value::Numeric(number)) => encode_numeric(out, number),
        _ if !has_key_form(type_oid) => {
            let name = SqlType::new(type_oid).name();
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("data type {name} has no default operator class for access method \"btree\""),
            )
            .hint("You must specify an operator class for the index or define a default operator class for the data type."));
        }
        _ => return Err(wrong_kind(type_oid)),
    }
    Ok(())
}

fn encode_text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    // A NUL in the text would end the column early and break K2.
    let text = crate::types::io::checked_text(text)?;
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    Ok(())
}

fn encode_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let signum = number.signum();
    let class = match signum {
        _ if number.is_nan() => class::NAN,
        1 if number.is_infinite() => class::INFINITY,
        -1 if number.is_infinite() => class::NEG_INFINITY,
        1 => class::POSITIVE,
        -1 => class::NEGATIVE,
        _ => class::ZERO,
    };
    out.push(class);
    if !matches!(class, class::POSITIVE | class::NEGATIVE) {
        return;
    }
    let start = out.len();
    let mut digits = Vec::with_capacity(40);
    let exponent = number.significant_digits(&mut digits).expect("not zero and a number");
    // 0.ddd * 10^exponent becomes 0.DD * 100^places; an odd exponent needs a leading zero.
    let places = (exponent + 1).div_euclid(2);
    if exponent.rem_euclid(2) == 1 {
        digits.insert(0, b'0');
    }
    match u8::try_from(places + 0x80) {
        Ok(byte @ 0x40..=0xBF) => out.push(byte),
        _ => {
            out.push(if places < 0 { 0x00 } else { 0xFF });
            let [_, wide @ ..] = (places + WIDE_EXPONENT_BIAS).to_be_bytes();
            out.extend_from_slice(&wide);
        }
    }
    for pair in digits.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(b'0');
        out.push((pair[0] - b'0') * 10 + (low - b'0') + 1);
    }
    out.push(0);
    if class == class::NEGATIVE {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Returns the smallest byte string that is above every string with this prefix; `None` if there is none (all 0xFF).
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut bytes = prefix[..=kept].to_vec();
    bytes[kept] += 1;
    Some(bytes)
}
