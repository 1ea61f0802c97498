//! Accessors that return a function's argument as the Rust type that it must have, and errors that many functions
//! share. A mismatch is a bug of the caller (`implementation` I3) and panics.

use collie_base::Lsn;

use crate::error::{SqlError, SqlState};
use crate::types::numeric::Numeric;
use crate::types::{Array, Interval, Value};

#[cold]
#[inline(never)]
fn mismatch(want: &str, value: &Value) -> ! {
    panic!("a built-in function wants {want} and got {value:?} (I3)")
}

pub(super) fn boolean(value: &Value) -> bool {
    match value {
        Value::Bool(b) => *b,
        other => mismatch("bool", other),
    }
}

/// Returns the value of any integer type.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int2(i) => i64::from(*i),
        Value::Int4(i) => i64::from(*i),
        Value::Int8(i) => *i,
        other => mismatch("an integer", other),
    }
}

pub(super) fn int4(value: &Value) -> i32 {
    match value {
        Value::Int4(i) => *i,
        other => mismatch("int4", other),
    }
}

/// Returns the value of either float type, widened.
pub(super) fn float(value: &Value) -> f64 {
    match value {
        Value::Float8(f) => *f,
        Value::Float4(f) => f64::from(*f),
        other => mismatch("a float", other),
    }
}

pub(super) fn float4(value: &Value) -> f32 {
    match value {
        Value::Float4(f) => *f,
        other => mismatch("float4", other),
    }
}

pub(super) fn numeric(value: &Value) -> &Numeric {
    match value {
        Value::Numeric(n) => n,
        other => mismatch("numeric", other),
    }
}

pub(super) fn text(value: &Value) -> &str {
    match value {
        Value::Text(t) => t,
        other => mismatch("text", other),
    }
}

pub(super) fn bytea(value: &Value) -> &[u8] {
    match value {
        Value::Bytea(b) => b,
        other => mismatch("bytea", other),
    }
}

pub(super) fn oid(value: &Value) -> u32 {
    match value {
        Value::Oid(o) => *o,
        other => mismatch("oid", other),
    }
}

pub(super) fn pg_lsn(value: &Value) -> Lsn {
    match value {
        Value::PgLsn(lsn) => *lsn,
        other => mismatch("pg_lsn", other),
    }
}

pub(super) fn char(value: &Value) -> u8 {
    match value {
        Value::Char(c) => *c,
        other => mismatch("\"char\"", other),
    }
}

pub(super) fn date(value: &Value) -> i32 {
    match value {
        Value::Date(d) => *d,
        other => mismatch("date", other),
    }
}

/// Returns the microseconds of a time, timestamp or timestamptz.
pub(super) fn micros(value: &Value) -> i64 {
    match value {
        Value::Timestamp(t) | Value::TimestampTz(t) | Value::Time(t) => *t,
        other => mismatch("a time or timestamp", other),
    }
}

pub(super) fn interval(value: &Value) -> Interval {
    match value {
        Value::Interval(i) => *i,
        other => mismatch("interval", other),
    }
}

pub(super) fn array(value: &Value) -> &Array {
    match value {
        Value::Array(a) => a,
        other => mismatch("an array", other),
    }
}

/// Makes a text value.
pub(super) fn new_text(text: impl Into<std::sync::Arc<str>>) -> Value {
    Value::Text(text.into())
}

/// Makes the 22003 error for a type: "integer out of range".
#[cold]
pub(super) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}

/// Makes the 22012 error.
#[cold]
pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Makes a 22023 error.
#[cold]
pub(super) fn invalid_parameter(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
