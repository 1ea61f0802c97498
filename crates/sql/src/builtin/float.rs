//! Arithmetic, functions and conversions of float4 and float8. Comparisons are in `compare`.
//!
//! An operation on finite values never gives an infinity or a zero silently: overflow and underflow are 22003.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{division_by_zero, float, float4, int, out_of_range};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

#[cold]
fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
fn underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

#[cold]
fn bad_input() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

#[cold]
fn bad_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

/// Returns a result unless it is an infinity without an infinite operand, or a zero that the operation cannot give.
fn checked(result: f64, infinite_input: bool, zero_allowed: bool) -> Result<Value> {
    if result.is_infinite() && !infinite_input {
        return Err(overflow());
    }
    if result == 0.0 && !zero_allowed {
        return Err(underflow());
    }
    Ok(Value::Float8(result))
}

/// Does the same as [`checked`] in single precision.
fn checked4(result: f32, infinite_input: bool, zero_allowed: bool) -> Result<Value> {
    match checked(f64::from(result), infinite_input, zero_allowed) {
        Ok(_) => Ok(Value::Float4(result)),
        Err(error) => Err(error),
    }
}

macro_rules! arithmetic {
    ($($double:ident, $single:ident = |$a:ident, $b:ident| $result:expr, zero if $zero:expr, error if $zero_division:expr;)*) => {$(
        fn $double(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let ($a, $b) = (float(&args[0]), float(&args[1]));
            if $zero_division {
                return Err(division_by_zero());
            }
            checked($result, $a.is_infinite() || $b.is_infinite(), $zero)
        }

        fn $single(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let ($a, $b) = (float4(&args[0]), float4(&args[1]));
            if $zero_division {
                return Err(division_by_zero());
            }
            checked4($result, $a.is_infinite() || $b.is_infinite(), $zero)
        }
    )*};
}

arithmetic! {
    add, add4 = |a, b| a + b, zero if true, error if false;
    subtract, subtract4 = |a, b| a - b, zero if true, error if false;
    multiply, multiply4 = |a, b| a * b, zero if a == 0.0 || b == 0.0, error if false;
    divide, divide4 = |a, b| a / b, zero if a == 0.0 || b.is_infinite(), error if b == 0.0 && !a.is_nan();
}

fn negate(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(-float(&args[0])))
}

fn negate4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float4(-float4(&args[0])))
}

fn same(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(args[0].clone())
}

fn absolute(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).abs()))
}

fn absolute4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float4(float4(&args[0]).abs()))
}

fn round(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).round_ties_even()))
}

fn ceil(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).ceil()))
}

fn floor(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).floor()))
}

fn truncate(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).trunc()))
}

fn sign(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    Ok(Value::Float8(if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        0.0
    }))
}

fn square_root(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    if a < 0.0 {
        return Err(bad_power("cannot take square root of a negative number"));
    }
    checked(a.sqrt(), a.is_infinite(), a == 0.0)
}

fn cube_root(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    checked(a.cbrt(), a.is_infinite(), a == 0.0)
}

fn power(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (float(&args[0]), float(&args[1]));
    if a.is_nan() || b.is_nan() {
        return Ok(Value::Float8(if a == 1.0 || b == 0.0 { 1.0 } else { f64::NAN }));
    }
    if a == 0.0 && b < 0.0 {
        return Err(bad_power("zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        return Err(bad_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let infinite = a.is_infinite() || b.is_infinite();
    checked(a.powf(b), infinite, infinite || a == 0.0)
}

fn exponential(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    checked(a.exp(), a.is_infinite(), a == f64::NEG_INFINITY)
}

fn logarithm(a: f64, of: impl Fn(f64) -> f64) -> Result<Value> {
    if a == 0.0 {
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero"));
    }
    if a < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
            "cannot take logarithm of a negative number",
        ));
    }
    checked(of(a), a.is_infinite(), a == 1.0)
}

fn natural_logarithm(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    logarithm(float(&args[0]), f64::ln)
}

fn decimal_logarithm(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    logarithm(float(&args[0]), f64::log10)
}

fn pi(_: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(std::f64::consts::PI))
}

fn degrees(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    checked(a / (std::f64::consts::PI / 180.0), a.is_infinite(), a == 0.0)
}

fn radians(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    checked(a * (std::f64::consts::PI / 180.0), a.is_infinite(), a == 0.0)
}

macro_rules! trigonometric {
    ($($name:ident = $function:ident, wants $a:ident: $domain:expr;)*) => {$(
        fn $name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let $a = float(&args[0]);
            if !$a.is_nan() && !$domain {
                return Err(bad_input());
            }
            Ok(Value::Float8($a.$function()))
        }
    )*};
}

trigonometric! {
    sine = sin, wants a: a.is_finite();
    cosine = cos, wants a: a.is_finite();
    tangent = tan, wants a: a.is_finite();
    arc_sine = asin, wants a: (-1.0..=1.0).contains(&a);
    arc_cosine = acos, wants a: (-1.0..=1.0).contains(&a);
    arc_tangent = atan, wants a: true;
}

fn arc_tangent2(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0]).atan2(float(&args[1]))))
}

fn to_float4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = float(&args[0]);
    #[expect(clippy::cast_possible_truncation, reason = "rounding to single precision is what is asked for")]
    let single = a as f32;
    checked4(single, a.is_infinite(), a == 0.0)
}

fn to_float8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(float(&args[0])))
}

fn int_to_float4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float4(int(&args[0]) as f32))
}

fn int_to_float8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Float8(int(&args[0]) as f64))
}

/// Rounds half to even. `below` is the first value that is too large, its negative the first value that fits.
fn to_integer(args: &[Value], below: f64, type_name: &str) -> Result<i64> {
    let rounded = float(&args[0]).round_ties_even();
    if !(rounded >= -below && rounded < below) {
        return Err(out_of_range(type_name));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked against the bounds above; it has no fraction")]
    Ok(rounded as i64)
}

fn to_int2(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let wide = to_integer(args, 32_768.0, "smallint")?;
    i16::try_from(wide).map(Value::Int2).map_err(|_| out_of_range("smallint"))
}

fn to_int4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let wide = to_integer(args, 2_147_483_648.0, "integer")?;
    i32::try_from(wide).map(Value::Int4).map_err(|_| out_of_range("integer"))
}

fn to_int8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    to_integer(args, 9_223_372_036_854_775_808.0, "bigint").map(Value::Int8)
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "float8pl" => add, "float48pl" => add, "float84pl" => add, "float4pl" => add4,
    "float8mi" => subtract, "float48mi" => subtract, "float84mi" => subtract, "float4mi" => subtract4,
    "float8mul" => multiply, "float48mul" => multiply, "float84mul" => multiply, "float4mul" => multiply4,
    "float8div" => divide, "float48div" => divide, "float84div" => divide, "float4div" => divide4,
    "float8um" => negate, "float4um" => negate4, "float8up" => same, "float4up" => same,
    "float8abs" => absolute, "float4abs" => absolute4,
    "dround" => round, "dceil" => ceil, "dfloor" => floor, "dtrunc" => truncate, "dsign" => sign,
    "dsqrt" => square_root, "dcbrt" => cube_root, "dpow" => power, "dexp" => exponential,
    "dlog1" => natural_logarithm, "dlog10" => decimal_logarithm,
    "dpi" => pi, "degrees" => degrees, "radians" => radians,
    "dsin" => sine, "dcos" => cosine, "dtan" => tangent,
    "dasin" => arc_sine, "dacos" => arc_cosine, "datan" => arc_tangent, "datan2" => arc_tangent2,
    "dtof" => to_float4, "ftod" => to_float8,
    "i2tof" => int_to_float4, "i4tof" => int_to_float4, "i8tof" => int_to_float4,
    "i2tod" => int_to_float8, "i4tod" => int_to_float8, "i8tod" => int_to_float8,
    "ftoi2" => to_int2, "dtoi2" => to_int2, "ftoi4" => to_int4, "dtoi4" => to_int4,
    "ftoi8" => to_int8, "dtoi8" => to_int8,
}];
