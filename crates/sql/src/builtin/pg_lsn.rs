//! Log positions as values: `pg_lsn`, its order and its arithmetic in bytes.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use collie_base::Lsn;

use super::args::{invalid_parameter, numeric, pg_lsn};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Numeric, Value};

/// Makes the 0A000 error for a numeric value that no position can have.
fn refused(text: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
}

fn to_numeric(lsn: Lsn) -> Numeric {
    Numeric::from_i128(i128::from(lsn.get()), 0)
}

/// Converts a number to a position, rounded to a whole byte.
fn from_numeric(number: &Numeric) -> Result<Value> {
    if number.is_nan() {
        return Err(refused("cannot convert NaN to pg_lsn"));
    }
    if number.is_infinite() {
        return Err(refused("cannot convert infinity to pg_lsn"));
    }
    let position = number.round(0).to_string().parse().map_err(|_| invalid_parameter("pg_lsn out of range"))?;
    Ok(Value::PgLsn(Lsn::new(position)))
}

fn convert(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    from_numeric(numeric(&args[0]))
}

fn minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let bytes = i128::from(pg_lsn(&args[0]).get()) - i128::from(pg_lsn(&args[1]).get());
    Ok(Value::Numeric(Numeric::from_i128(bytes, 0)))
}

fn plus_bytes(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    add(pg_lsn(&args[0]), numeric(&args[1]))
}

fn bytes_plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    add(pg_lsn(&args[1]), numeric(&args[0]))
}

fn add(lsn: Lsn, bytes: &Numeric) -> Result<Value> {
    if bytes.is_nan() {
        return Err(refused("cannot add NaN to pg_lsn"));
    }
    from_numeric(&to_numeric(lsn).add(bytes)?)
}

fn minus_bytes(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let bytes = numeric(&args[1]);
    if bytes.is_nan() {
        return Err(refused("cannot subtract NaN from pg_lsn"));
    }
    from_numeric(&to_numeric(pg_lsn(&args[0])).sub(bytes)?)
}

fn larger(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::PgLsn(pg_lsn(&args[0]).max(pg_lsn(&args[1]))))
}

fn smaller(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::PgLsn(pg_lsn(&args[0]).min(pg_lsn(&args[1]))))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "numeric_pg_lsn" => convert, "pg_lsn_mi" => minus, "pg_wal_lsn_diff" => minus, "pg_lsn_pli" => plus_bytes,
    "numeric_pl_pg_lsn(numeric, pg_lsn)" => bytes_plus, "pg_lsn_mii" => minus_bytes, "pg_lsn_larger" => larger,
    "pg_lsn_smaller" => smaller,
}];
