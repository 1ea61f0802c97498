//! Functions over dates, times and timestamps: arithmetic, conversions, `extract` and `date_trunc`. `types::datetime`
//! has the text forms, `datetime_format` has `to_char`.
//!
//! # Invariants
//! - D1. Every result lies within PostgreSQL's range of its type, or is an infinity (22008 otherwise).
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use collie_base::EPOCH_2000_US;

use super::args::{date, float, int4, micros, text};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::datetime::{
    DAY_US, civil_from_days, date_to_timestamp, days_from_civil, parse_zone, timestamp_to_date, timestamp_to_time,
};
use crate::types::numeric::Numeric;

/// 4714-11-24 BC, the first day of dates and of timestamps.
const DATE_MIN: i32 = -2_451_545;
/// The day after 5874897-12-31.
const DATE_END: i32 = 2_145_031_949;
/// The first microsecond of a timestamp.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The microsecond after the last timestamp.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// The Julian day of 2000-01-01.
pub(super) const JULIAN_2000: i32 = 2_451_545;

/// Returns the microseconds by which the session's clock is ahead of UTC.
pub(super) fn zone_micros(context: &EvalContext<'_>) -> i64 {
    i64::from(context.text.zone.east_s) * 1_000_000
}

#[cold]
fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn is_infinite_date(date: i32) -> bool {
    date == i32::MIN || date == i32::MAX
}

pub(super) fn is_infinite(at: i64) -> bool {
    at == i64::MIN || at == i64::MAX
}

fn checked_date(days: Option<i32>) -> Result<Value> {
    match days {
        Some(days) if (DATE_MIN..DATE_END).contains(&days) => Ok(Value::Date(days)),
        _ => Err(out_of_range("date")),
    }
}

pub(super) fn checked_timestamp(at: Option<i64>) -> Result<i64> {
    at.filter(|at| (TIMESTAMP_MIN..TIMESTAMP_END).contains(at)).ok_or_else(|| out_of_range("timestamp"))
}

/// Moves a timestamp unless it is an infinity (D1).
pub(super) fn moved(at: i64, by: i64) -> Result<i64> {
    if is_infinite(at) { Ok(at) } else { checked_timestamp(at.checked_add(by)) }
}

/// Converts a timestamp with time zone to the session's local time.
pub(super) fn to_local(at: i64, context: &EvalContext<'_>) -> Result<i64> {
    moved(at, zone_micros(context))
}

fn date_plus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let days = date(&args[0]);
    if is_infinite_date(days) { Ok(args[0].clone()) } else { checked_date(days.checked_add(int4(&args[1]))) }
}

fn plus_date(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    date_plus(&[args[1].clone(), args[0].clone()], context)
}

fn date_minus(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let days = date(&args[0]);
    if is_infinite_date(days) { Ok(args[0].clone()) } else { checked_date(days.checked_sub(int4(&args[1]))) }
}

fn date_difference(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (date(&args[0]), date(&args[1]));
    if is_infinite_date(a) || is_infinite_date(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
    }
    Ok(Value::Int4(a - b))
}

fn date_and_time(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    moved(date_to_timestamp(date(&args[0]))?, micros(&args[1])).map(Value::Timestamp)
}

fn time_and_date(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    date_and_time(&[args[1].clone(), args[0].clone()], context)
}

fn date_to_local(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    date_to_timestamp(date(&args[0])).map(Value::Timestamp)
}

fn date_to_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    moved(date_to_timestamp(date(&args[0]))?, -zone_micros(context)).map(Value::TimestampTz)
}

fn local_to_date(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Date(timestamp_to_date(micros(&args[0]))))
}

fn instant_to_date(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Date(timestamp_to_date(to_local(micros(&args[0]), context)?)))
}

fn local_to_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    moved(micros(&args[0]), -zone_micros(context)).map(Value::TimestampTz)
}

fn instant_to_local(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    to_local(micros(&args[0]), context).map(Value::Timestamp)
}

fn time_of(at: i64) -> Value {
    if is_infinite(at) { Value::Null } else { Value::Time(timestamp_to_time(at)) }
}

fn local_to_time(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(time_of(micros(&args[0])))
}

fn instant_to_time(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(time_of(to_local(micros(&args[0]), context)?))
}

/// Computes `timestamp AT TIME ZONE zone`.
fn local_in_zone(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if is_infinite(micros(&args[1])) {
        return Ok(Value::TimestampTz(micros(&args[1])));
    }
    moved(micros(&args[1]), -i64::from(parse_zone(text(&args[0]))?) * 1_000_000).map(Value::TimestampTz)
}

/// Computes `timestamptz AT TIME ZONE zone`.
fn instant_in_zone(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if is_infinite(micros(&args[1])) {
        return Ok(Value::Timestamp(micros(&args[1])));
    }
    moved(micros(&args[1]), i64::from(parse_zone(text(&args[0]))?) * 1_000_000).map(Value::Timestamp)
}

fn now(_: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::TimestampTz(context.transaction_time))
}

fn statement_timestamp(_: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::TimestampTz(context.statement_time))
}

fn clock_timestamp(_: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::TimestampTz((context.clock_time)()))
}

fn is_finite(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(match &args[0] {
        Value::Date(days) => !is_infinite_date(*days),
        other => !is_infinite(micros(other)),
    }))
}

fn make_date(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (year, month, day) = (int4(&args[0]), int4(&args[1]), int4(&args[2]));
    // Year -1 is 1 BC, which is year 0 of the astronomical calendar.
    let astronomical = if year < 0 { year.saturating_add(1) } else { year };
    let bad = || {
        let message = format!("date field value out of range: {astronomical}-{month:02}-{day:02}");
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    };
    let (Ok(m), Ok(d)) = (u32::try_from(month), u32::try_from(day)) else { return Err(bad()) };
    if year == 0 || !(-4800..=5_874_897).contains(&year) || !(1..=12).contains(&m) || !(1..=31).contains(&d) {
        return Err(bad());
    }
    let days = days_from_civil(astronomical, m, d);
    if civil_from_days(days) != (astronomical, m, d) {
        return Err(bad());
    }
    checked_date(Some(days))
}

/// Converts seconds since 1970 to a timestamp with time zone.
fn from_unix(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let seconds = float(&args[0]);
    if seconds.is_nan() {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Value::TimestampTz(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    let micros = (seconds - 946_684_800.0) * 1e6;
    if !(-2.2e17..9.3e18).contains(&micros) {
        let shown = super::cast::text_of(&args[0], crate::types::oid::FLOAT8, context)?;
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{shown}\"")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked against the bounds above; it is rounded")]
    checked_timestamp(Some(micros.round_ties_even() as i64)).map(Value::TimestampTz)
}

/// A part of a date or time that `extract` and `date_trunc` can name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    Julian,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

#[cold]
pub(super) fn unit_error(state: SqlState, unit: &str, what: &str, type_name: &str) -> SqlError {
    SqlError::new(state, format!("unit \"{unit}\" not {what} for type {type_name}"))
}

pub(super) fn unsupported_unit(unit: &str, type_name: &str) -> SqlError {
    unit_error(SqlState::FEATURE_NOT_SUPPORTED, &unit.to_ascii_lowercase(), "supported", type_name)
}

/// Finds the field that a unit names, by the abbreviations of PostgreSQL.
pub(super) fn field(unit: &str, type_name: &str) -> Result<Field> {
    let unit = unit.to_ascii_lowercase();
    Ok(match unit.as_str() {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Field::Microseconds,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Field::Milliseconds,
        "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
        "d" | "day" | "days" => Field::Day,
        "w" | "week" | "weeks" => Field::Week,
        "mon" | "mons" | "month" | "months" => Field::Month,
        "qtr" | "quarter" => Field::Quarter,
        "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
        "dec" | "decs" | "decade" | "decades" => Field::Decade,
        "c" | "cent" | "century" | "centuries" => Field::Century,
        "mil" | "mils" | "millennium" | "millennia" => Field::Millennium,
        "isoyear" => Field::IsoYear,
        "j" | "jd" | "julian" => Field::Julian,
        "epoch" => Field::Epoch,
        "dow" => Field::DayOfWeek,
        "isodow" => Field::IsoDayOfWeek,
        "doy" => Field::DayOfYear,
        "timezone" => Field::Timezone,
        "timezone_h" | "timezone_hour" => Field::TimezoneHour,
        "timezone_m" | "timezone_minute" => Field::TimezoneMinute,
        _ => return Err(unit_error(SqlState::INVALID_PARAMETER_VALUE, &unit, "recognized", type_name)),
    })
}

/// The result of `extract`.
pub(super) enum Part {
    /// mantissa * 10^-scale
    Number(i128, u16),
    /// Julian day and microseconds of that day.
    Julian(i64, i64),
    /// The field of an infinity that grows with time; it has the sign of the infinity.
    Infinite(i64),
    Null,
}

impl Part {
    pub(super) fn numeric(self) -> Result<Value> {
        Ok(Value::Numeric(match self {
            Self::Number(mantissa, scale) => Numeric::from_i128(mantissa, scale),
            Self::Julian(day, time) => Numeric::from(time).div(&Numeric::from(DAY_US))?.add(&Numeric::from(day))?,
            Self::Infinite(i64::MAX) => Numeric::INFINITY,
            Self::Infinite(_) => Numeric::NEG_INFINITY,
            Self::Null => return Ok(Value::Null),
        }))
    }

    pub(super) fn double(self) -> Value {
        Value::Float8(match self {
            Self::Number(mantissa, scale) => mantissa as f64 / 10_f64.powi(i32::from(scale)),
            Self::Julian(day, time) => day as f64 + time as f64 / DAY_US as f64,
            Self::Infinite(i64::MAX) => f64::INFINITY,
            Self::Infinite(_) => f64::NEG_INFINITY,
            Self::Null => return Value::Null,
        })
    }
}

/// Returns the weekday; Sunday is 0. 2000-01-01 was a Saturday.
pub(super) fn day_of_week(days: i32) -> i32 {
    (days.rem_euclid(7) + 6) % 7
}

/// Returns the day's number in its year, from 1.
pub(super) fn day_of_year(days: i32) -> i32 {
    days - days_from_civil(civil_from_days(days).0, 1, 1) + 1
}

/// Returns the ISO 8601 year and week: weeks start on Monday, and week 1 holds the year's first Thursday.
pub(super) fn iso_week(days: i32) -> (i32, i32) {
    let thursday = days - (day_of_week(days) + 6) % 7 + 3;
    let year = civil_from_days(thursday).0;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// Returns the Monday that starts the ISO week of a day.
fn monday(days: i32) -> i32 {
    days - (day_of_week(days) + 6) % 7
}

/// Returns a year in the common count, which has no year 0.
pub(super) fn counted_year(astronomical: i32) -> i32 {
    if astronomical > 0 { astronomical } else { astronomical - 1 }
}

/// Returns the number of the block of `years` years that a year lies in, counted from 1, and backwards from -1.
fn block(year: i32, years: i32) -> i32 {
    if year > 0 { (year + years - 1) / years } else { -((years - 1 - (year - 1)) / years) }
}

/// Returns a field that days have.
fn date_field(field: Field, days: i32) -> Option<i32> {
    let (year, month, day) = civil_from_days(days);
    let (month, day) = (month.cast_signed(), day.cast_signed());
    Some(match field {
        Field::Day => day,
        Field::Month => month,
        Field::Quarter => (month - 1) / 3 + 1,
        Field::Week => iso_week(days).1,
        Field::IsoYear => counted_year(iso_week(days).0),
        Field::Year => counted_year(year),
        Field::Decade => year.div_euclid(10),
        Field::Century => block(year, 100),
        Field::Millennium => block(year, 1000),
        Field::DayOfWeek => day_of_week(days),
        Field::IsoDayOfWeek => (day_of_week(days) + 6) % 7 + 1,
        Field::DayOfYear => day_of_year(days),
        _ => return None,
    })
}

/// Returns a field that a time of day has.
fn time_field(field: Field, time: i64) -> Option<Part> {
    let in_minute = i128::from(time % 60_000_000);
    Some(match field {
        Field::Microseconds => Part::Number(in_minute, 0),
        Field::Milliseconds => Part::Number(in_minute, 3),
        Field::Second => Part::Number(in_minute, 6),
        Field::Minute => Part::Number(i128::from(time / 60_000_000 % 60), 0),
        Field::Hour => Part::Number(i128::from(time / 3_600_000_000), 0),
        _ => return None,
    })
}

/// Returns the field of an infinity: NULL unless the field grows with time.
fn infinite_field(field: Field, sign: i64) -> Part {
    let grows = matches!(
        field,
        Field::Year
            | Field::Decade
            | Field::Century
            | Field::Millennium
            | Field::IsoYear
            | Field::Julian
            | Field::Epoch
    );
    if grows { Part::Infinite(sign) } else { Part::Null }
}

/// Returns the field of a timestamp. `local` is the local time, `instant` the time from which the epoch is computed,
/// and `zone_s` the offset, which timestamps without time zone do not have.
fn timestamp_field(unit: &str, local: i64, instant: i64, zone_s: Option<i32>) -> Result<Part> {
    let name = if zone_s.is_some() { "timestamp with time zone" } else { "timestamp without time zone" };
    let field = field(unit, name)?;
    let zone = |divide: fn(i32) -> i32| match zone_s {
        Some(seconds) => Ok(Part::Number(i128::from(divide(seconds)), 0)),
        None => Err(unsupported_unit(unit, name)),
    };
    if is_infinite(local) {
        return Ok(infinite_field(field, local));
    }
    let (days, time) = (timestamp_to_date(local), timestamp_to_time(local));
    if let Some(number) = date_field(field, days) {
        return Ok(Part::Number(i128::from(number), 0));
    }
    if let Some(part) = time_field(field, time) {
        return Ok(part);
    }
    match field {
        Field::Timezone => zone(|seconds| seconds),
        Field::TimezoneHour => zone(|seconds| seconds / 3600),
        Field::TimezoneMinute => zone(|seconds| seconds / 60 % 60),
        Field::Epoch => Ok(Part::Number(i128::from(instant) + i128::from(EPOCH_2000_US), 6)),
        _ => Ok(Part::Julian(i64::from(days) + i64::from(JULIAN_2000), time)),
    }
}

fn local_field(args: &[Value]) -> Result<Part> {
    let at = micros(&args[1]);
    timestamp_field(text(&args[0]), at, at, None)
}

fn instant_field(args: &[Value], context: &EvalContext<'_>) -> Result<Part> {
    let at = micros(&args[1]);
    timestamp_field(text(&args[0]), to_local(at, context)?, at, Some(context.text.zone.east_s))
}

fn day_field(args: &[Value]) -> Result<Part> {
    let (unit, days) = (text(&args[0]), date(&args[1]));
    let field = field(unit, "date")?;
    let grows_by = |number: i128| Part::Number(number, 0);
    let part = match field {
        Field::Epoch => grows_by(i128::from(days) * 86_400 + i128::from(EPOCH_2000_US / 1_000_000)),
        Field::Julian => grows_by(i128::from(days) + i128::from(JULIAN_2000)),
        field => match date_field(field, if is_infinite_date(days) { 0 } else { days }) {
            Some(number) => grows_by(i128::from(number)),
            None => return Err(unsupported_unit(unit, "date")),
        },
    };
    Ok(match days {
        i32::MIN => infinite_field(field, i64::MIN),
        i32::MAX => infinite_field(field, i64::MAX),
        _ => part,
    })
}

fn clock_field(args: &[Value]) -> Result<Part> {
    const NAME: &str = "time without time zone";
    let (unit, time) = (text(&args[0]), micros(&args[1]));
    match field(unit, NAME)? {
        Field::Epoch => Ok(Part::Number(i128::from(time), 6)),
        field => time_field(field, time).ok_or_else(|| unsupported_unit(unit, NAME)),
    }
}

fn extract_local(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    local_field(args)?.numeric()
}

fn extract_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    instant_field(args, context)?.numeric()
}

fn extract_day(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    day_field(args)?.numeric()
}

fn extract_clock(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    clock_field(args)?.numeric()
}

fn part_of_local(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(local_field(args)?.double())
}

fn part_of_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(instant_field(args, context)?.double())
}

/// Returns a part of a date, which counts as its midnight here and so has an hour.
fn part_of_day(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    part_of_local(&[args[0].clone(), Value::Timestamp(date_to_timestamp(date(&args[1]))?)], context)
}

fn part_of_clock(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(clock_field(args)?.double())
}

/// Sets everything below a field to its start.
fn truncated(unit: &str, at: i64, type_name: &str) -> Result<i64> {
    if is_infinite(at) {
        return Ok(at);
    }
    let field = field(unit, type_name)?;
    let days = timestamp_to_date(at);
    let (year, month, _) = civil_from_days(days);
    let unit_us = match field {
        Field::Microseconds => 1,
        Field::Milliseconds => 1_000,
        Field::Second => 1_000_000,
        Field::Minute => 60_000_000,
        Field::Hour => 3_600_000_000,
        _ => 0,
    };
    if unit_us > 0 {
        return Ok(at - at.rem_euclid(unit_us));
    }
    // The first year of a block of years that starts at year 1.
    let block_start = |years: i32| (year - 1).div_euclid(years) * years + 1;
    let start = match field {
        Field::Day => days,
        Field::Week => monday(days),
        Field::Month => days_from_civil(year, month, 1),
        Field::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Field::Year => days_from_civil(year, 1, 1),
        Field::Decade => days_from_civil(year.div_euclid(10) * 10, 1, 1),
        Field::Century => days_from_civil(block_start(100), 1, 1),
        Field::Millennium => days_from_civil(block_start(1000), 1, 1),
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => {
            return Err(unsupported_unit(unit, type_name));
        }
        _ => {
            let unit = unit.to_ascii_lowercase();
            return Err(unit_error(SqlState::INVALID_PARAMETER_VALUE, &unit, "recognized", type_name));
        }
    };
    checked_timestamp(i64::from(start).checked_mul(DAY_US))
}

fn truncate_local(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    truncated(text(&args[0]), micros(&args[1]), "timestamp without time zone").map(Value::Timestamp)
}

fn truncate_in(args: &[Value], zone_us: i64) -> Result<Value> {
    let local = truncated(text(&args[0]), moved(micros(&args[1]), zone_us)?, "timestamp with time zone")?;
    moved(local, -zone_us).map(Value::TimestampTz)
}

fn truncate_instant(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    truncate_in(args, zone_micros(context))
}

fn truncate_in_zone(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if is_infinite(micros(&args[1])) {
        return Ok(args[1].clone());
    }
    truncate_in(args, i64::from(parse_zone(text(&args[2]))?) * 1_000_000)
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "date_pli" => date_plus, "date_mii" => date_minus, "date_mi" => date_difference,
    "integer_pl_date(integer, date)" => plus_date,
    "datetime_timestamp" => date_and_time, "timedate_pl(time without time zone, date)" => time_and_date,
    "date_timestamp" => date_to_local, "date_timestamptz" => date_to_instant,
    "timestamp_date" => local_to_date, "timestamptz_date" => instant_to_date,
    "timestamp_timestamptz" => local_to_instant, "timestamptz_timestamp" => instant_to_local,
    "timestamp_time" => local_to_time, "timestamptz_time" => instant_to_time,
    "timestamp_zone" => local_in_zone, "timestamptz_zone" => instant_in_zone,
    "now" => now, "statement_timestamp" => statement_timestamp, "clock_timestamp" => clock_timestamp,
    "date_finite" => is_finite, "timestamp_finite" => is_finite, "make_date" => make_date,
    "float8_timestamptz" => from_unix,
    "extract_timestamp" => extract_local, "extract_timestamptz" => extract_instant, "extract_date" => extract_day,
    "extract_time" => extract_clock,
    "timestamp_part" => part_of_local, "timestamptz_part" => part_of_instant, "time_part" => part_of_clock,
    "date_part(text, date)" => part_of_day,
    "timestamp_trunc" => truncate_local, "timestamptz_trunc" => truncate_instant,
    "timestamptz_trunc_zone" => truncate_in_zone,
}];
