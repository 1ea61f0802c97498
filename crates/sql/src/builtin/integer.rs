//! Arithmetic, bit operations and conversions of int2, int4, int8, oid and bool. Comparisons are in `compare`.
//!
//! No arithmetic wraps: every result is checked against its type (22003, 22012).
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{boolean, char, division_by_zero, int, int4, oid, out_of_range};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::Result;
use crate::types::Value;

/// An integer type of SQL.
trait Integer: Sized + Copy {
    /// The type's name in messages.
    const NAME: &'static str;
    /// Returns `value` as this type, if it fits.
    fn narrow(value: i64) -> Option<Self>;
    /// Makes a SQL value of it.
    fn value(self) -> Value;
}

macro_rules! integer {
    ($rust:ty, $variant:ident, $name:literal) => {
        impl Integer for $rust {
            const NAME: &'static str = $name;
            #[inline]
            fn narrow(value: i64) -> Option<Self> {
                Self::try_from(value).ok()
            }
            #[inline]
            fn value(self) -> Value {
                Value::$variant(self)
            }
        }
    };
}
integer!(i16, Int2, "smallint");
integer!(i32, Int4, "integer");
integer!(i64, Int8, "bigint");

/// Returns a result that was computed in 64 bits as `T`, or 22003 if it did not fit there or does not fit `T`.
#[inline]
fn fit<T: Integer>(value: Option<i64>) -> Result<Value> {
    value.and_then(T::narrow).map(T::value).ok_or_else(|| out_of_range(T::NAME))
}

fn add<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(int(&args[0]).checked_add(int(&args[1])))
}

fn subtract<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(int(&args[0]).checked_sub(int(&args[1])))
}

fn multiply<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(int(&args[0]).checked_mul(int(&args[1])))
}

fn divide<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    match int(&args[1]) {
        0 => Err(division_by_zero()),
        b => fit::<T>(int(&args[0]).checked_div(b)),
    }
}

fn remainder<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    match int(&args[1]) {
        0 => Err(division_by_zero()),
        // MIN % -1 is 0 although MIN / -1 does not fit.
        b => fit::<T>(Some(int(&args[0]).wrapping_rem(b))),
    }
}

fn negate<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(int(&args[0]).checked_neg())
}

fn absolute<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(int(&args[0]).checked_abs())
}

/// Returns the argument as `T`; also converts between the integer types.
fn same<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(Some(int(&args[0])))
}

fn bit_and<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(Some(int(&args[0]) & int(&args[1])))
}

fn bit_or<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(Some(int(&args[0]) | int(&args[1])))
}

fn bit_xor<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(Some(int(&args[0]) ^ int(&args[1])))
}

fn bit_not<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    fit::<T>(Some(!int(&args[0])))
}

/// Shifts as PostgreSQL does: bits that leave the type are lost, and the distance counts modulo the machine's width.
fn shift(args: &[Value], left: bool) -> Value {
    let distance = int4(&args[1]).cast_unsigned();
    match &args[0] {
        Value::Int2(a) => {
            let a = i32::from(*a);
            let wide = if left { a.wrapping_shl(distance) } else { a.wrapping_shr(distance) };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "bits shifted out of a smallint are lost by definition"
            )]
            Value::Int2(wide as i16)
        }
        Value::Int4(a) => Value::Int4(if left { a.wrapping_shl(distance) } else { a.wrapping_shr(distance) }),
        other => {
            let a = int(other);
            Value::Int8(if left { a.wrapping_shl(distance) } else { a.wrapping_shr(distance) })
        }
    }
}

fn shift_left(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(shift(args, true))
}

fn shift_right(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(shift(args, false))
}

/// Returns the greatest common divisor, which is never negative.
fn divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let gcd = divisor(i128::from(int(&args[0])), i128::from(int(&args[1])));
    fit::<T>(i64::try_from(gcd).ok())
}

fn lcm<T: Integer>(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (i128::from(int(&args[0])), i128::from(int(&args[1])));
    let lcm = if a == 0 || b == 0 { 0 } else { (a / divisor(a, b) * b).abs() };
    fit::<T>(i64::try_from(lcm).ok())
}

fn int4_to_bool(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(int4(&args[0]) != 0))
}

fn bool_to_int4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(i32::from(boolean(&args[0]))))
}

fn char_to_int4(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(i32::from(char(&args[0]).cast_signed())))
}

fn int4_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    match i8::try_from(int4(&args[0])) {
        Ok(c) => Ok(Value::Char(c.cast_unsigned())),
        Err(_) => Err(out_of_range("\"char\"")),
    }
}

fn int8_to_oid(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    u32::try_from(int(&args[0])).map(Value::Oid).map_err(|_| out_of_range("OID"))
}

fn oid_to_int8(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int8(i64::from(oid(&args[0]))))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "int2pl" => add::<i16>, "int24pl" => add::<i32>, "int28pl" => add::<i64>,
    "int42pl" => add::<i32>, "int4pl" => add::<i32>, "int48pl" => add::<i64>,
    "int82pl" => add::<i64>, "int84pl" => add::<i64>, "int8pl" => add::<i64>,
    "int2mi" => subtract::<i16>, "int24mi" => subtract::<i32>, "int28mi" => subtract::<i64>,
    "int42mi" => subtract::<i32>, "int4mi" => subtract::<i32>, "int48mi" => subtract::<i64>,
    "int82mi" => subtract::<i64>, "int84mi" => subtract::<i64>, "int8mi" => subtract::<i64>,
    "int2mul" => multiply::<i16>, "int24mul" => multiply::<i32>, "int28mul" => multiply::<i64>,
    "int42mul" => multiply::<i32>, "int4mul" => multiply::<i32>, "int48mul" => multiply::<i64>,
    "int82mul" => multiply::<i64>, "int84mul" => multiply::<i64>, "int8mul" => multiply::<i64>,
    "int2div" => divide::<i16>, "int24div" => divide::<i32>, "int28div" => divide::<i64>,
    "int42div" => divide::<i32>, "int4div" => divide::<i32>, "int48div" => divide::<i64>,
    "int82div" => divide::<i64>, "int84div" => divide::<i64>, "int8div" => divide::<i64>,
    "int2mod" => remainder::<i16>, "int4mod" => remainder::<i32>, "int8mod" => remainder::<i64>,
    "int2um" => negate::<i16>, "int4um" => negate::<i32>, "int8um" => negate::<i64>,
    "int2up" => same::<i16>, "int4up" => same::<i32>, "int8up" => same::<i64>,
    "int2abs" => absolute::<i16>, "int4abs" => absolute::<i32>, "int8abs" => absolute::<i64>,
    "int2and" => bit_and::<i16>, "int4and" => bit_and::<i32>, "int8and" => bit_and::<i64>,
    "int2or" => bit_or::<i16>, "int4or" => bit_or::<i32>, "int8or" => bit_or::<i64>,
    "int2xor" => bit_xor::<i16>, "int4xor" => bit_xor::<i32>, "int8xor" => bit_xor::<i64>,
    "int2not" => bit_not::<i16>, "int4not" => bit_not::<i32>, "int8not" => bit_not::<i64>,
    "int2shl" => shift_left, "int4shl" => shift_left, "int8shl" => shift_left,
    "int2shr" => shift_right, "int4shr" => shift_right, "int8shr" => shift_right,
    "int4gcd" => gcd::<i32>, "int8gcd" => gcd::<i64>,
    "int4lcm" => lcm::<i32>, "int8lcm" => lcm::<i64>,
    "i4toi2" => same::<i16>, "int82" => same::<i16>,
    "i2toi4" => same::<i32>, "int84" => same::<i32>,
    "int28" => same::<i64>, "int48" => same::<i64>,
    "int4_bool" => int4_to_bool, "bool_int4" => bool_to_int4,
    "chartoi4" => char_to_int4, "i4tochar" => int4_to_char,
    "i8tooid" => int8_to_oid, "oidtoi8" => oid_to_int8,
}];
