//! `extract`, `date_part` and `date_trunc` of intervals.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{interval, text};
use super::context::EvalContext;
use super::datetime::{Field, Part, field, unit_error, unsupported_unit};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlState};
use crate::types::interval::{HOUR_US, MINUTE_US, YEAR_MONTHS};
use crate::types::{Interval, Value, datetime};

const NAME: &str = "interval";
/// Seconds in a day.
const DAY_SECONDS: i64 = 86_400;
/// Days in four years, one of which is a leap year.
const FOUR_YEAR_DAYS: i64 = 4 * 365 + 1;
/// Days in a month that is not part of a whole year.
const MONTH_DAYS: i64 = 30;

/// Returns the microseconds of the interval, with years of 365.25 days and the remaining months of 30.
fn epoch_us(interval: Interval) -> i128 {
    let (years, months) = (i64::from(interval.months / YEAR_MONTHS), i64::from(interval.months % YEAR_MONTHS));
    // Counts quarters of a day, since a year has an odd one.
    let quarters = i128::from(FOUR_YEAR_DAYS * years + 4 * MONTH_DAYS * months + 4 * i64::from(interval.days));
    quarters * i128::from(DAY_SECONDS / 4 * datetime::SECOND_US) + i128::from(interval.micros)
}

fn part(unit: &str, interval: Interval) -> Result<Part> {
    let parts = interval.parts();
    let number = |number: i64| Part::Number(i128::from(number), 0);
    let second_us = parts.seconds * datetime::SECOND_US + parts.micros;
    Ok(match field(unit, NAME)? {
        Field::Microseconds => number(second_us),
        Field::Milliseconds => Part::Number(second_us.into(), 3),
        Field::Second => Part::Number(second_us.into(), 6),
        Field::Minute => number(parts.minutes),
        Field::Hour => number(parts.hours),
        Field::Day => number(parts.days.into()),
        Field::Month => number(parts.months.into()),
        Field::Quarter => number(i64::from(parts.months / 3) + 1),
        Field::Year => number(parts.years.into()),
        Field::Decade => number((parts.years / 10).into()),
        Field::Century => number((parts.years / 100).into()),
        Field::Millennium => number((parts.years / 1_000).into()),
        Field::Epoch => Part::Number(epoch_us(interval), 6),
        _ => return Err(unsupported_unit(unit, NAME)),
    })
}

fn extract(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    part(text(&args[0]), interval(&args[1]))?.numeric()
}

fn part_of(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(part(text(&args[0]), interval(&args[1]))?.double())
}

/// Sets everything below a field to zero.
fn truncate(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (unit, whole) = (text(&args[0]), interval(&args[1]));
    let Interval { months, days, micros } = whole;
    let clock = |unit_us: i64| Interval { micros: micros / unit_us * unit_us, ..whole };
    let years = |unit: i32| Interval { months: months / (unit * YEAR_MONTHS) * (unit * YEAR_MONTHS), ..Interval::ZERO };
    let cut = match field(unit, NAME)? {
        Field::Microseconds => whole,
        Field::Milliseconds => clock(1_000),
        Field::Second => clock(datetime::SECOND_US),
        Field::Minute => clock(MINUTE_US),
        Field::Hour => clock(HOUR_US),
        Field::Day => Interval { months, days, micros: 0 },
        Field::Month => Interval { months, ..Interval::ZERO },
        Field::Quarter => Interval { months: months / 3 * 3, ..Interval::ZERO },
        Field::Year => years(1),
        Field::Decade => years(10),
        Field::Century => years(100),
        Field::Millennium => years(1_000),
        Field::Week => {
            return Err(unsupported_unit(unit, NAME).detail("Months usually have fractional weeks."));
        }
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => return Err(unsupported_unit(unit, NAME)),
        _ => {
            let unit = unit.to_ascii_lowercase();
            return Err(unit_error(SqlState::INVALID_PARAMETER_VALUE, &unit, "recognized", NAME));
        }
    };
    Ok(Value::Interval(cut))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "extract_interval" => extract, "interval_part" => part_of, "interval_trunc" => truncate,
}];
