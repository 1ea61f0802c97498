//! Binary forms, big-endian, as in PostgreSQL's send and receive functions.
//!
//! | type | bytes |
//! |------|-------|
//! | bool, `"char"` | 1 |
//! | int2, int4, int8, oid, float4, float8 | 2, 4, 8, 4, 4, 8 |
//! | date, time, timestamp, timestamptz | i32 days; i64 microseconds; from 2000-01-01 |
//! | interval | i64 microseconds, i32 days, i32 months |
//! | pg_lsn | u64 |
//! | string types, bytea | the bytes |
//! | numeric | see `numeric/text.rs` |
//! | arrays, vectors | i32 dimensions, i32 has NULL, u32 element type; per dimension i32 length, i32 lower bound; per element i32 length (-1 is NULL) and bytes |
//! | records | i32 columns; per column u32 type, i32 length, bytes |
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::Lsn;

use super::{no_form, text_from_utf8, truncate_name};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::MAX_DIMS;
use crate::types::{Array, ArrayDim, Interval, Numeric, SqlType, Value, datetime, oid, typmod};

fn malformed(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// Reads exactly the bytes of a fixed-length value.
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        malformed(if bytes.len() < N { "insufficient data left in message" } else { "incorrect binary data format" })
    })
}

/// Reads the binary form of a value of type `oid`, then applies `typmod` as an assignment does.
///
/// # Errors
/// 22P03 for bytes that are not a value of the type; 42804 for an array of another element type; 22021 for text that is
/// not UTF-8; 22008 for dates and times out of range; 0A000 for a type without a binary form here; those of the typmod.
pub fn binary_in(oid: u32, typmod: i32, bytes: &[u8]) -> Result<Value> {
    let value = match oid {
        oid::INT4 => return Ok(Value::Int4(i32::from_be_bytes(fixed(bytes)?))),
        oid::INT8 => return Ok(Value::Int8(i64::from_be_bytes(fixed(bytes)?))),
        oid::INT2 => return Ok(Value::Int2(i16::from_be_bytes(fixed(bytes)?))),
        oid::BOOL => {
            let [byte] = fixed(bytes)?;
            return Ok(Value::Bool(byte != 0));
        }
        oid::CHAR => {
            let [byte] = fixed(bytes)?;
            return Ok(Value::Char(byte));
        }
        oid::FLOAT4 => return Ok(Value::Float4(f32::from_be_bytes(fixed(bytes)?))),
        oid::FLOAT8 => return Ok(Value::Float8(f64::from_be_bytes(fixed(bytes)?))),
        oid::NUMERIC => Value::Numeric(Numeric::from_wire(bytes)?),
        oid::NAME => return text_from_utf8(bytes).map(|text| Value::text(truncate_name(text))),
        oid::BYTEA => return Ok(Value::bytea(bytes)),
        oid::DATE => return datetime::check_date(i32::from_be_bytes(fixed(bytes)?)).map(Value::Date),
        oid::TIME => Value::Time(datetime::check_time(i64::from_be_bytes(fixed(bytes)?))?),
        oid::TIMESTAMP => Value::Timestamp(datetime::check_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        oid::TIMESTAMPTZ => Value::TimestampTz(datetime::check_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        oid::INTERVAL => {
            let mut rest = &fixed::<16>(bytes)?[..];
            let micros = i64::from_be_bytes(take(&mut rest)?);
            let (days, months) = (i32::from_be_bytes(take(&mut rest)?), i32::from_be_bytes(take(&mut rest)?));
            Value::Interval(Interval { months, days, micros })
        }
        oid::PG_LSN => return Ok(Value::PgLsn(Lsn::new(u64::from_be_bytes(fixed(bytes)?)))),
        _ if oid::is_oid_like(oid) => return Ok(Value::Oid(u32::from_be_bytes(fixed(bytes)?))),
        _ if SqlType::new(oid).is_string_like() => Value::text(text_from_utf8(bytes)?),
        _ => match oid::element_of(oid) {
            Some(element) => return read_array(element, typmod, bytes),
            None => return Err(no_form("reading the binary form of", oid)),
        },
    };
    typmod::apply(value, SqlType::with_typmod(oid, typmod), false)
}

/// Reads an `N`-byte word from the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (word, after) = rest.split_first_chunk().ok_or_else(|| malformed("insufficient data left in message"))?;
    *rest = after;
    Ok(*word)
}

fn read_array(element: u32, typmod: i32, bytes: &[u8]) -> Result<Value> {
    let mut rest = bytes;
    let count = i32::from_be_bytes(take(&mut rest)?);
    let flags = i32::from_be_bytes(take(&mut rest)?);
    let stated = u32::from_be_bytes(take(&mut rest)?);
    let Some(count) = usize::try_from(count).ok().filter(|&count| count <= MAX_DIMS) else {
        return Err(malformed("invalid number of dimensions"));
    };
    if !matches!(flags, 0 | 1) {
        return Err(malformed("invalid array flags"));
    }
    if stated != element {
        let message = format!(
            "binary data has array element type {stated} ({}) instead of expected {element} ({})",
            SqlType::new(stated).name(),
            SqlType::new(element).name()
        );
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut dims = Vec::with_capacity(count);
    // Each element takes at least its length word, so there cannot be more elements than bytes.
    let mut total = usize::from(count > 0);
    for _ in 0..count {
        let len = i32::from_be_bytes(take(&mut rest)?);
        let lower = i32::from_be_bytes(take(&mut rest)?);
        let len = u32::try_from(len).map_err(|_| malformed("invalid array dimension length"))?;
        total = usize::try_from(len).ok().and_then(|len| total.checked_mul(len)).unwrap_or(usize::MAX);
        if total > bytes.len() {
            return Err(malformed("insufficient data left in message"));
        }
        dims.push(ArrayDim { len, lower });
    }
    let mut values = Vec::with_capacity(total);
    for _ in 0..total {
        let len = i32::from_be_bytes(take(&mut rest)?);
        if len == -1 {
            values.push(Value::Null);
            continue;
        }
        let len = usize::try_from(len).map_err(|_| malformed("insufficient data left in message"))?;
        let (item, after) = rest.split_at_checked(len).ok_or_else(|| malformed("insufficient data left in message"))?;
        rest = after;
        values.push(binary_in(element, typmod, item)?);
    }
    if !rest.is_empty() {
        return Err(malformed("incorrect binary data format"));
    }
    if values.is_empty() {
        dims.clear();
    }
    let array = Array { element_oid: element, dims, values };
    array.check_bounds()?;
    Ok(Value::Array(array.into()))
}

/// Appends the binary form of a value of type `oid`; appends nothing for NULL, which the caller marks.
pub fn binary_out(value: &Value, oid: u32, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Char(value) => out.push(*value),
        Value::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int4(value) | Value::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::TimestampTz(value) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Interval(value) => {
            out.extend_from_slice(&value.micros.to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        }
        Value::PgLsn(value) => out.extend_from_slice(&value.get().to_be_bytes()),
        Value::Numeric(value) => value.write_wire(out),
        Value::Text(value) if oid == oid::INET => write_inet(value, out),
        Value::Text(value) => out.extend_from_slice(value.as_bytes()),
        Value::Bytea(value) => out.extend_from_slice(value),
        Value::Array(array) => write_array(array, oid, out),
        Value::Record(values) => {
            put_len(values.len(), out);
            for value in values.iter() {
                out.extend_from_slice(&value.natural_oid().to_be_bytes());
                put_item(value, value.natural_oid(), out);
            }
        }
    }
}

fn put_len(len: usize, out: &mut Vec<u8>) {
    let len = i32::try_from(len).expect("values are below 2 GiB");
    out.extend_from_slice(&len.to_be_bytes());
}

/// Appends the value's length, or -1 for NULL, and then the value.
fn put_item(value: &Value, oid: u32, out: &mut Vec<u8>) {
    if value.is_null() {
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        return;
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    binary_out(value, oid, out);
    let len = i32::try_from(out.len().saturating_sub(start)).expect("values are below 2 GiB");
    if let Some(slot) = out.get_mut(at..start) {
        slot.copy_from_slice(&len.to_be_bytes());
    }
}

/// Writes an address, which is stored as its text: family, bits, whether it is a network, and the bytes.
fn write_inet(text: &str, out: &mut Vec<u8>) {
    let octets = match text.parse() {
        Ok(std::net::IpAddr::V4(address)) => address.octets().to_vec(),
        Ok(std::net::IpAddr::V6(address)) => address.octets().to_vec(),
        // No other text is ever stored as an address.
        Err(_) => return,
    };
    let (family, bits, length) = if octets.len() == 4 { (2, 32, 4) } else { (3, 128, 16) };
    out.extend_from_slice(&[family, bits, 0, length]);
    out.extend_from_slice(&octets);
}

fn write_array(array: &Array, oid: u32, out: &mut Vec<u8>) {
    // PostgreSQL sends an empty vector with one dimension of length 0, but an empty array with no dimension.
    let vector = oid == oid::INT2VECTOR || oid == oid::OIDVECTOR;
    let empty_vector = [ArrayDim { len: 0, lower: 0 }];
    let dims = if vector && array.dims.is_empty() { &empty_vector[..] } else { &array.dims };
    put_len(dims.len(), out);
    let has_null = i32::from(array.values.iter().any(Value::is_null));
    out.extend_from_slice(&has_null.to_be_bytes());
    out.extend_from_slice(&array.element_oid.to_be_bytes());
    for dim in dims {
        out.extend_from_slice(&dim.len.to_be_bytes());
        out.extend_from_slice(&dim.lower.to_be_bytes());
    }
    for value in &array.values {
        put_item(value, array.element_oid, out);
    }
}
