//! Functions over intervals alone: arithmetic, normal forms, making an interval, and times of day. `moments` applies
//! intervals to timestamps, `interval_fields` has their fields, and `types::interval` does the arithmetic.
//!
//! # Invariants
//! - D1. A result that does not fit is 22008, never a wrong interval.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{float, int4, interval, micros};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::Result;
use crate::types::datetime::DAY_US;
use crate::types::interval::{HOUR_US, MINUTE_US, YEAR_MONTHS, modifier, out_of_range};
use crate::types::{Interval, Value};

fn plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).checked_add(interval(&args[1])).map(Value::Interval)
}

fn minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).checked_sub(interval(&args[1])).map(Value::Interval)
}

fn negated(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).checked_neg().map(Value::Interval)
}

fn times(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).checked_mul(float(&args[1])).map(Value::Interval)
}

fn factor_times(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[1]).checked_mul(float(&args[0])).map(Value::Interval)
}

fn divided(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).checked_div(float(&args[1])).map(Value::Interval)
}

/// Returns the smaller interval; of equal ones the second, as PostgreSQL does.
fn smaller(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (interval(&args[0]), interval(&args[1]));
    Ok(Value::Interval(if a < b { a } else { b }))
}

fn larger(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (interval(&args[0]), interval(&args[1]));
    Ok(Value::Interval(if a > b { a } else { b }))
}

fn justify_hours(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).justify_hours().map(Value::Interval)
}

fn justify_days(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).justify_days().map(Value::Interval)
}

fn justify(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    interval(&args[0]).justify_interval().map(Value::Interval)
}

/// Returns true, since there are no infinite intervals.
fn is_finite(_: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(true))
}

/// Makes an interval of years, months, weeks, days, hours, minutes and seconds; missing arguments are 0.
fn make(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let field = |place: usize| args.get(place).map_or(0, int4);
    let seconds = args.get(6).map_or(0.0, float);
    let second_us = (seconds * 1e6).round_ties_even();
    if !second_us.is_finite() || second_us.abs() >= i64::MAX as f64 {
        return Err(out_of_range());
    }
    let made = || {
        let clock_us = i64::from(field(4)) * HOUR_US + i64::from(field(5)) * MINUTE_US;
        #[expect(clippy::cast_possible_truncation, reason = "checked against the bound above")]
        let micros = clock_us.checked_add(second_us as i64)?;
        Some(Interval {
            months: field(0).checked_mul(YEAR_MONTHS)?.checked_add(field(1))?,
            days: field(2).checked_mul(7)?.checked_add(field(3))?,
            micros,
        })
    };
    made().map(Value::Interval).ok_or_else(out_of_range)
}

/// Casts an interval to one with a modifier.
fn scale(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Interval(modifier::apply(interval(&args[0]), int4(&args[1]))))
}

fn time_to_interval(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Interval(Interval::of_micros(micros(&args[0]))))
}

/// Returns the part below whole days, counted forwards.
fn interval_to_time(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Time(interval(&args[0]).micros.rem_euclid(DAY_US)))
}

/// Moves a time of day by the microseconds alone, over midnight if necessary.
fn moved_time(time: i64, by_us: i128) -> Value {
    let at = (i128::from(time) + by_us).rem_euclid(i128::from(DAY_US));
    Value::Time(i64::try_from(at).expect("below the microseconds of a day"))
}

fn time_plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(moved_time(micros(&args[0]), interval(&args[1]).micros.into()))
}

fn plus_time(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(moved_time(micros(&args[1]), interval(&args[0]).micros.into()))
}

fn time_minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(moved_time(micros(&args[0]), -i128::from(interval(&args[1]).micros)))
}

fn time_difference(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Interval(Interval::of_micros(micros(&args[0]) - micros(&args[1]))))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "interval_pl" => plus, "interval_mi" => minus, "interval_um" => negated, "interval_mul" => times,
    "mul_d_interval" => factor_times, "interval_div" => divided,
    "interval_smaller" => smaller, "interval_larger" => larger,
    "interval_justify_hours" => justify_hours, "interval_justify_days" => justify_days,
    "interval_justify_interval" => justify, "interval_finite" => is_finite, "make_interval" => make,
    "interval_scale" => scale, "time_interval" => time_to_interval, "interval_time" => interval_to_time,
    "time_pl_interval" => time_plus, "interval_pl_time(interval, time without time zone)" => plus_time,
    "time_mi_interval" => time_minus, "time_mi_time" => time_difference,
}];
