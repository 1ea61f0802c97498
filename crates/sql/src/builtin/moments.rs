//! Functions that combine intervals and timestamps: sums, differences, `age`, bins, and zones given as an interval.
//!
//! Months and days move a timestamp on the calendar of the session's clock; microseconds move it afterwards. A day that
//! the new month does not have becomes the month's last day.
//!
//! # Invariants
//! - D1. Every result, and every intermediate result, lies within PostgreSQL's range of its type or is an infinity
//!   (22008 otherwise).
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{date, interval, micros};
use super::context::EvalContext;
use super::datetime::{checked_timestamp, is_infinite, moved, to_local, zone_micros};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::datetime::{
    DAY_US, SECOND_US, civil_from_days, date_to_timestamp, days_from_civil, days_in_month, timestamp_to_date,
    timestamp_to_time,
};
use crate::types::interval::{YEAR_MONTHS, out_of_range};
use crate::types::{Interval, Value, oid};

#[cold]
fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Moves a day by months on the calendar.
fn plus_months(days: i32, months: i32) -> Option<i32> {
    let (year, month, day) = civil_from_days(days);
    let sum = i64::from(year) * i64::from(YEAR_MONTHS) + i64::from(month) - 1 + i64::from(months);
    let year = i32::try_from(sum.div_euclid(i64::from(YEAR_MONTHS))).ok()?;
    let month = u32::try_from(sum.rem_euclid(i64::from(YEAR_MONTHS))).ok()? + 1;
    Some(days_from_civil(year, month, day.min(days_in_month(year, month))))
}

/// Moves a timestamp by an interval, on the calendar of a clock that is `zone_us` ahead of it.
///
/// # Errors
/// 22008 if a result or an intermediate result leaves the range of timestamps (D1).
pub(super) fn shifted(at: i64, by: Interval, zone_us: i64) -> Result<i64> {
    if is_infinite(at) {
        return Ok(at);
    }
    let on_calendar = |at: i64, shift: &dyn Fn(i32) -> Option<i32>| {
        let local = at.checked_add(zone_us)?;
        let days = shift(timestamp_to_date(local))?;
        i64::from(days).checked_mul(DAY_US)?.checked_add(timestamp_to_time(local))?.checked_sub(zone_us)
    };
    let mut at = at;
    if by.months != 0 {
        at = checked_timestamp(on_calendar(at, &|days| plus_months(days, by.months)))?;
    }
    if by.days != 0 {
        at = checked_timestamp(on_calendar(at, &|days| days.checked_add(by.days)))?;
    }
    checked_timestamp(at.checked_add(by.micros))
}

fn local_plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[0]), interval(&args[1]), 0).map(Value::Timestamp)
}

fn plus_local(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[1]), interval(&args[0]), 0).map(Value::Timestamp)
}

fn local_minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[0]), interval(&args[1]).checked_neg()?, 0).map(Value::Timestamp)
}

fn instant_plus(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[0]), interval(&args[1]), zone_micros(context)).map(Value::TimestampTz)
}

fn plus_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[1]), interval(&args[0]), zone_micros(context)).map(Value::TimestampTz)
}

fn instant_minus(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    shifted(micros(&args[0]), interval(&args[1]).checked_neg()?, zone_micros(context)).map(Value::TimestampTz)
}

fn date_plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(date_to_timestamp(date(&args[0]))?, interval(&args[1]), 0).map(Value::Timestamp)
}

fn plus_date(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(date_to_timestamp(date(&args[1]))?, interval(&args[0]), 0).map(Value::Timestamp)
}

fn date_minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    shifted(date_to_timestamp(date(&args[0]))?, interval(&args[1]).checked_neg()?, 0).map(Value::Timestamp)
}

/// Returns the time between two timestamps, as days of 24 hours and the rest.
fn difference(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (micros(&args[0]), micros(&args[1]));
    if is_infinite(a) || is_infinite(b) {
        return Err(refused("cannot subtract infinite timestamps"));
    }
    let us = a.checked_sub(b).ok_or_else(out_of_range)?;
    Interval::of_micros(us).justify_hours().map(Value::Interval)
}

/// Returns the time between two local timestamps in years, months, days and time of day.
fn age_between(later: i64, earlier: i64) -> Result<Value> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(refused("timestamp out of range"));
    }
    let negative = later < earlier;
    let (later, earlier) = if negative { (earlier, later) } else { (later, earlier) };
    let (year, month, day) = civil_from_days(timestamp_to_date(later));
    let (from_year, from_month, from_day) = civil_from_days(timestamp_to_date(earlier));
    let mut us = timestamp_to_time(later) - timestamp_to_time(earlier);
    let mut days = i64::from(day) - i64::from(from_day);
    let month_number = |year: i32, month: u32| i64::from(year) * i64::from(YEAR_MONTHS) + i64::from(month);
    let mut months = month_number(year, month) - month_number(from_year, from_month);
    if us < 0 {
        (us, days) = (us + DAY_US, days - 1);
    }
    while days < 0 {
        // The incomplete month is that of the earlier timestamp.
        (days, months) = (days + i64::from(days_in_month(from_year, from_month)), months - 1);
    }
    let small = |count: i64| i32::try_from(count).map_err(|_| out_of_range());
    let age = Interval { months: small(months)?, days: small(days)?, micros: us };
    Ok(Value::Interval(if negative { age.checked_neg()? } else { age }))
}

fn local_age(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    age_between(micros(&args[0]), micros(&args[1]))
}

fn instant_age(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    age_between(to_local(micros(&args[0]), context)?, to_local(micros(&args[1]), context)?)
}

/// Returns midnight of the transaction's day on the session's clock.
fn today(context: &EvalContext<'_>) -> Result<i64> {
    date_to_timestamp(timestamp_to_date(to_local(context.transaction_time, context)?))
}

fn local_age_today(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    age_between(today(context)?, micros(&args[0]))
}

fn instant_age_today(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    age_between(today(context)?, to_local(micros(&args[0]), context)?)
}

/// Returns the start of the bin that holds a timestamp: bins are a stride long, and one starts at the origin.
fn bin_start(args: &[Value]) -> Result<i64> {
    let (stride, at, origin) = (interval(&args[0]), micros(&args[1]), micros(&args[2]));
    if is_infinite(at) {
        return Ok(at);
    }
    if is_infinite(origin) {
        return Err(refused("origin out of range"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let stride_us = stride.span_us();
    if stride_us <= 0 {
        return Err(refused("stride must be greater than zero"));
    }
    let (at, origin) = (i128::from(at), i128::from(origin));
    checked_timestamp(i64::try_from(origin + (at - origin).div_euclid(stride_us) * stride_us).ok())
}

fn local_bin(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    bin_start(args).map(Value::Timestamp)
}

fn instant_bin(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    bin_start(args).map(Value::TimestampTz)
}

/// Returns the microseconds east of UTC of a zone that is given as an interval.
fn zone_of(value: &Value, context: &EvalContext<'_>) -> Result<i64> {
    let zone = interval(value);
    if zone.months != 0 || zone.days != 0 {
        let shown = super::cast::text_of(value, oid::INTERVAL, context)?;
        let message = format!("interval time zone \"{shown}\" must not include months or days");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(zone.micros / SECOND_US * SECOND_US)
}

/// Computes `timestamp AT TIME ZONE interval`.
fn local_in_zone(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let at = micros(&args[1]);
    if is_infinite(at) {
        return Ok(Value::TimestampTz(at));
    }
    moved(at, -zone_of(&args[0], context)?).map(Value::TimestampTz)
}

/// Computes `timestamptz AT TIME ZONE interval`.
fn instant_in_zone(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let at = micros(&args[1]);
    if is_infinite(at) {
        return Ok(Value::Timestamp(at));
    }
    moved(at, zone_of(&args[0], context)?).map(Value::Timestamp)
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "timestamp_pl_interval" => local_plus, "timestamp_mi_interval" => local_minus,
    "interval_pl_timestamp(interval, timestamp without time zone)" => plus_local,
    "timestamptz_pl_interval" => instant_plus, "timestamptz_mi_interval" => instant_minus,
    "interval_pl_timestamptz(interval, timestamp with time zone)" => plus_instant,
    "date_pl_interval" => date_plus, "date_mi_interval" => date_minus, "interval_pl_date(interval, date)" => plus_date,
    "timestamp_mi" => difference, "timestamp_age" => local_age, "timestamptz_age" => instant_age,
    "age(timestamp without time zone)" => local_age_today, "age(timestamp with time zone)" => instant_age_today,
    "timestamp_bin" => local_bin, "timestamptz_bin" => instant_bin,
    "timestamp_izone" => local_in_zone, "timestamptz_izone" => instant_in_zone,
}];
