//! Functions over numeric. `types::numeric` has the arithmetic, `compare` the comparisons.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{int, int4, numeric};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::numeric::Numeric;

macro_rules! functions {
    ($($name:ident: |$($arg:ident),*| $result:expr;)*) => {$(
        fn $name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let [$($arg),*] = args else { panic!("{} has other arguments (I3)", stringify!($name)) };
            $(let $arg = numeric($arg);)*
            Ok(Value::Numeric($result))
        }
    )*};
}

functions! {
    add: |a, b| a.add(b)?;
    subtract: |a, b| a.sub(b)?;
    multiply: |a, b| a.mul(b)?;
    divide: |a, b| a.div(b)?;
    divide_truncated: |a, b| a.div_trunc(b)?;
    remainder: |a, b| a.rem(b)?;
    power: |a, b| a.power(b)?;
    logarithm: |base, a| base.log(a)?;
    decimal_logarithm: |a| Numeric::from(10).log(a)?;
    natural_logarithm: |a| a.ln()?;
    exponential: |a| a.exp()?;
    square_root: |a| a.sqrt()?;
    negate: |a| a.neg();
    same: |a| a.clone();
    absolute: |a| a.abs();
    ceil: |a| a.ceil();
    floor: |a| a.floor();
    round_to_integer: |a| a.round(0);
    truncate_to_integer: |a| a.trunc(0);
}

fn sign(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = numeric(&args[0]);
    Ok(Value::Numeric(if a.is_nan() { a.clone() } else { Numeric::from(i64::from(a.signum())) }))
}

fn round(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Numeric(numeric(&args[0]).round(int4(&args[1]))))
}

fn truncate(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Numeric(numeric(&args[0]).trunc(int4(&args[1]))))
}

fn scale(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = numeric(&args[0]);
    Ok(if a.is_nan() || a.is_infinite() { Value::Null } else { Value::Int4(i32::from(a.scale())) })
}

fn from_int(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Numeric(Numeric::from(int(&args[0]))))
}

fn from_float4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Numeric(Numeric::from_f32(super::args::float4(&args[0]))))
}

fn from_float8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Numeric(Numeric::from_f64(super::args::float(&args[0]))))
}

fn to_int2(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    numeric(&args[0]).to_i16().map(Value::Int2)
}

fn to_int4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    numeric(&args[0]).to_i32().map(Value::Int4)
}

fn to_int8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    numeric(&args[0]).to_i64().map(Value::Int8)
}

#[cold]
fn too_large(number: &Numeric, type_name: &str) -> SqlError {
    let message = format!("\"{number}\" is out of range for type {type_name}");
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Converts through the decimal text, because conversion through double precision would round twice.
fn to_float4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = numeric(&args[0]);
    let single: f32 = a.to_string().parse().expect("the text of a numeric is a float's");
    if single.is_infinite() && !a.is_infinite() {
        return Err(too_large(a, "real"));
    }
    Ok(Value::Float4(single))
}

fn to_float8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let a = numeric(&args[0]);
    let double = a.to_f64();
    if double.is_infinite() && !a.is_infinite() {
        return Err(too_large(a, "double precision"));
    }
    Ok(Value::Float8(double))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "numeric_add" => add, "numeric_sub" => subtract, "numeric_mul" => multiply, "numeric_div" => divide,
    "numeric_div_trunc" => divide_truncated, "numeric_mod" => remainder, "numeric_power" => power,
    "numeric_log" => logarithm, "log(numeric)" => decimal_logarithm, "log10(numeric)" => decimal_logarithm,
    "numeric_ln" => natural_logarithm, "numeric_exp" => exponential, "numeric_sqrt" => square_root,
    "numeric_uminus" => negate, "numeric_uplus" => same, "numeric_abs" => absolute, "numeric_sign" => sign,
    "numeric_ceil" => ceil, "numeric_floor" => floor, "numeric_round" => round, "numeric_trunc" => truncate,
    "round(numeric)" => round_to_integer, "trunc(numeric)" => truncate_to_integer, "numeric_scale" => scale,
    "int2_numeric" => from_int, "int4_numeric" => from_int, "int8_numeric" => from_int,
    "float4_numeric" => from_float4, "float8_numeric" => from_float8,
    "numeric_int2" => to_int2, "numeric_int4" => to_int4, "numeric_int8" => to_int8,
    "numeric_float4" => to_float4, "numeric_float8" => to_float8,
}];
