//! Text and binary forms of values, which clients send and receive, read and printed exactly as by PostgreSQL 15.
//!
//! `reg*` types are read and printed as numbers here; code that knows the catalog handles names first. `codec` has the
//! bytes at rest.
//!
//! Input is untrusted: reading refuses bad input, never panics, and allocates nothing by a count that was only
//! announced. Writing appends to a buffer and, for the common types, allocates nothing else.

mod array;
mod binary;
mod scalar;

#[cfg(test)]
mod io_tests;

use super::datetime::{self, DateOrder, DateStyle, Zone};
use super::{IntervalStyle, Numeric, SqlType, Value, XidSnapshot, interval, oid, typmod};
use crate::error::{Result, SqlError, SqlState};

pub use binary::{binary_in, binary_out};

/// Maximum length of a `name` in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The form in which bytea prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteaOutput {
    /// `\x` and hexadecimal digits.
    #[default]
    Hex,
    /// Printable bytes as they are, others as `\ooo`.
    Escape,
}

/// The setting `extra_float_digits`. If it is above 0, floats print in the shortest form that reads back unchanged;
/// otherwise with this many digits more than the 15 (float4: 6) that are always exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatDigits(pub i8);

impl Default for FloatDigits {
    fn default() -> Self {
        Self(1)
    }
}

/// The settings that reading and printing values depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TextContext {
    /// The order of the fields of an ambiguous date such as 01/02/03.
    pub date_order: DateOrder,
    /// The style in which dates and timestamps print.
    pub date_style: DateStyle,
    /// The session's time zone.
    pub zone: Zone,
    /// The transaction's time, for 'now', 'today' and the like: microseconds since 2000-01-01 UTC.
    pub now: i64,
    /// The form in which bytea prints.
    pub bytea_output: ByteaOutput,
    /// The number of digits with which floats print.
    pub float_digits: FloatDigits,
    /// The style in which intervals print, and the meaning of a leading sign on input.
    pub interval_style: IntervalStyle,
}

/// Reads the text form of a value of type `oid`, then applies `typmod` as an assignment does.
///
/// # Errors
/// 22P02, 22003, 22007, 22008 and others with PostgreSQL's texts; 0A000 for a type without a text form here.
pub fn text_in(oid: u32, typmod: i32, text: &str, context: &TextContext) -> Result<Value> {
    let value = match oid {
        oid::INT4 => return scalar::parse_integer(text, "integer").map(Value::Int4),
        oid::INT8 => return scalar::parse_integer(text, "bigint").map(Value::Int8),
        oid::XID8 => return scalar::parse_xid8(text).map(Value::Int8),
        oid::PG_LSN => return scalar::parse_lsn(text).map(Value::PgLsn),
        oid::PG_SNAPSHOT | oid::TXID_SNAPSHOT => {
            let snapshot = XidSnapshot::parse(text, SqlType::new(oid).name().as_ref())?;
            return Ok(Value::text(&snapshot.to_string()));
        }
        oid::INT2 => return scalar::parse_integer(text, "smallint").map(Value::Int2),
        oid::BOOL => return scalar::parse_bool(text).map(Value::Bool),
        oid::FLOAT4 => return scalar::parse_float4(text).map(Value::Float4),
        oid::FLOAT8 => return scalar::parse_float8(text).map(Value::Float8),
        oid::NUMERIC => Value::Numeric(Numeric::parse(text)?),
        oid::NAME => return checked_text(text).map(|text| Value::text(truncate_name(text))),
        oid::CHAR => return scalar::parse_char(text).map(Value::Char),
        oid::BYTEA => return scalar::parse_bytea(text).map(|bytes| Value::bytea(&bytes)),
        oid::DATE => return datetime::parse_date(text, context).map(Value::Date),
        oid::TIME => Value::Time(datetime::parse_time(text, context)?),
        oid::TIMESTAMP => Value::Timestamp(datetime::parse_timestamp(text, context)?),
        oid::TIMESTAMPTZ => Value::TimestampTz(datetime::parse_timestamptz(text, context)?),
        oid::INTERVAL => Value::Interval(interval::parse_interval(text, typmod, context.interval_style)?),
        oid::INT2VECTOR | oid::OIDVECTOR => return array::parse_vector(oid, text),
        _ if oid::is_oid_like(oid) => return scalar::parse_oid(text).map(Value::Oid),
        _ if SqlType::new(oid).is_string_like() => Value::text(checked_text(text)?),
        _ => match oid::element_of(oid) {
            Some(element) => return array::parse_array(element, typmod, text, context),
            None => return Err(no_form("reading", oid)),
        },
    };
    typmod::apply(value, SqlType::with_typmod(oid, typmod), false)
}

/// Appends the text form of a value of type `oid`; appends nothing for NULL, which the caller marks.
pub fn text_out(value: &Value, oid: u32, context: &TextContext, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(if *value { b't' } else { b'f' }),
        Value::Int2(value) => scalar::write_i64(i64::from(*value), out),
        Value::Int4(value) => scalar::write_i64(i64::from(*value), out),
        Value::Int8(value) => scalar::write_i64(*value, out),
        Value::Float4(value) => scalar::write_float4_with(*value, context.float_digits.0, out),
        Value::Float8(value) => scalar::write_float8_with(*value, context.float_digits.0, out),
        Value::Numeric(value) => value.write_text(out),
        Value::Text(value) => out.extend_from_slice(value.as_bytes()),
        Value::Bytea(value) => scalar::write_bytea(value, context.bytea_output, out),
        Value::Date(value) => datetime::write_date(*value, context, out),
        Value::Time(value) => datetime::write_time(*value, out),
        Value::Timestamp(value) => datetime::write_timestamp(*value, context, out),
        Value::TimestampTz(value) => datetime::write_timestamptz(*value, context, out),
        Value::Interval(value) => interval::write_interval(*value, context.interval_style, out),
        Value::Oid(0) if oid != oid::OID && oid != oid::XID && oid != oid::CID && oid::is_oid_like(oid) => {
            out.push(b'-');
        }
        Value::Oid(value) => scalar::write_i64(i64::from(*value), out),
        Value::Char(value) => scalar::write_char(*value, out),
        Value::PgLsn(value) => scalar::write_lsn(*value, out),
        Value::Array(value) if oid == oid::INT2VECTOR || oid == oid::OIDVECTOR => array::write_vector(value, out),
        Value::Array(value) => array::write_array(value, context, out),
        Value::Record(values) => array::write_record(values, context, out),
    }
}

/// Returns the text form as a string. It allocates, so it is for messages and tests.
pub fn to_text(value: &Value, oid: u32, context: &TextContext) -> String {
    let mut out = Vec::new();
    text_out(value, oid, context, &mut out);
    String::from_utf8(out).expect("text forms are UTF-8")
}

/// Cuts a name to [`NAME_BYTES_MAX`] bytes, between characters.
pub fn truncate_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Refuses text that contains a NUL character (T2).
///
/// # Errors
/// 22021.
pub fn checked_text(text: &str) -> Result<&str> {
    if text.as_bytes().contains(&0) { Err(bad_encoding(&[0])) } else { Ok(text) }
}

/// Reads a client's bytes as text.
///
/// # Errors
/// 22021 for bytes that are not UTF-8, and for NUL.
pub fn text_from_utf8(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let rest = bytes.get(error.valid_up_to()..).unwrap_or_default();
        let expected = match rest.first() {
            Some(0xC0..=0xDF) => 2,
            Some(0xE0..=0xEF) => 3,
            Some(0xF0..=0xF7) => 4,
            _ => 1,
        };
        bad_encoding(rest.get(..expected).unwrap_or(rest))
    })?;
    checked_text(text)
}

fn bad_encoding(bytes: &[u8]) -> SqlError {
    let listed: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", listed.join(" ")),
    )
}

fn no_form(doing: &str, oid: u32) -> SqlError {
    SqlError::unsupported(format_args!("{doing} a value of type {}", SqlType::new(oid).name()))
}

fn invalid(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}
