//! `generate_series` over integers, numeric and timestamps. Rows are made on demand.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{int, interval, invalid_parameter, micros, numeric};
use super::context::{EvalContext, Rows};
use super::datetime::zone_micros;
use super::implementation::{Entry, entries};
use super::moments::shifted;
use crate::error::Result;
use crate::types::numeric::Numeric;
use crate::types::{Interval, Value};

/// Counts from the first argument to the second, both included; ends early if the next step would overflow.
fn integers(args: &[Value], of: impl Fn(i64) -> Value + Send + 'static) -> Result<Rows> {
    let (first, last, step) = (int(&args[0]), int(&args[1]), args.get(2).map_or(1, int));
    if step == 0 {
        return Err(invalid_parameter("step size cannot equal zero"));
    }
    let inside = move |at: &i64| if step > 0 { *at <= last } else { *at >= last };
    let all = std::iter::successors(Some(first).filter(inside), move |at| at.checked_add(step).filter(inside));
    Ok(Box::new(all.map(move |at| Ok(of(at)))))
}

fn int4_series(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    integers(args, |at| Value::Int4(i32::try_from(at).expect("it lies between two int4 values")))
}

fn int8_series(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    integers(args, Value::Int8)
}

fn numeric_series(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    let step = args.get(2).map_or_else(|| Numeric::from(1), |step| numeric(step).clone());
    let (mut next, last) = (Some(numeric(&args[0]).clone()), numeric(&args[1]).clone());
    for (what, number) in [("start", numeric(&args[0])), ("stop", &last), ("step size", &step)] {
        if number.is_nan() || number.is_infinite() {
            let kind = if number.is_nan() { "NaN" } else { "infinity" };
            return Err(invalid_parameter(format!("{what} value cannot be {kind}").replace("size value", "size")));
        }
    }
    if step.is_zero() {
        return Err(invalid_parameter("step size cannot equal zero"));
    }
    let inside = move |at: &Numeric, step: &Numeric| if step.signum() > 0 { *at <= last } else { *at >= last };
    Ok(Box::new(std::iter::from_fn(move || {
        let at = next.take().filter(|at| inside(at, &step))?;
        match at.add(&step) {
            Ok(sum) => next = Some(sum),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(Value::Numeric(at)))
    })))
}

/// Steps by an interval, on the calendar of a clock that is `zone_us` ahead of the timestamps.
fn moments(args: &[Value], zone_us: i64, of: fn(i64) -> Value) -> Result<Rows> {
    let (mut next, last, step) = (Some(micros(&args[0])), micros(&args[1]), interval(&args[2]));
    if step == Interval::ZERO {
        return Err(invalid_parameter("step size cannot equal zero"));
    }
    let inside = move |at: &i64| if step > Interval::ZERO { *at <= last } else { *at >= last };
    Ok(Box::new(std::iter::from_fn(move || {
        let at = next.take().filter(inside)?;
        match shifted(at, step, zone_us) {
            Ok(moment) => next = Some(moment),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(of(at)))
    })))
}

fn local_series(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    moments(args, 0, Value::Timestamp)
}

fn instant_series(args: &[Value], context: &EvalContext<'_>) -> Result<Rows> {
    moments(args, zone_micros(context), Value::TimestampTz)
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Set:
    "generate_series_int4" => int4_series, "generate_series_step_int4" => int4_series,
    "generate_series_int8" => int8_series, "generate_series_step_int8" => int8_series,
    "generate_series_numeric" => numeric_series, "generate_series_step_numeric" => numeric_series,
    "generate_series_timestamp" => local_series, "generate_series_timestamptz" => instant_series,
}];
