//! Dates and times: the calendar, their text forms, and their limits.
//!
//! `builtin` has `extract`, `date_trunc` and `to_char`. There is no clock: the caller passes the time of 'now'. Days
//! count from 2000-01-01 in the proleptic Gregorian calendar, microseconds from its midnight; every day has 86,400
//! seconds.
//!
//! # Invariants
//! - D1. Dates lie in 4714-11-24 BC to 5874897-12-31, timestamps in 4714-11-24 BC to 294276-12-31, or they are
//!   infinities.
//! - D2. A time of day is 0 to 24:00:00, both included.
//!
//! Time zones are offsets from UTC. Names of zones with daylight-saving rules are refused (22023).

mod format;
mod parse;
mod zone;

#[cfg(test)]
mod datetime_tests;

use crate::error::{Result, SqlError, SqlState};

pub(in crate::types) use format::write_fraction;
pub use format::{write_date, write_time, write_timestamp, write_timestamptz};
pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub use zone::{Zone, ZoneError, ZoneName, parse_zone};

/// Order of day, month and year in an ambiguous date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// The style in which dates and timestamps print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `1999-01-08 04:05:06+01`
    #[default]
    Iso,
    /// `Fri Jan 08 04:05:06 1999 CET`
    Postgres,
    /// `01/08/1999 04:05:06 CET`
    Sql,
    /// `08.01.1999 04:05:06 CET`
    German,
}

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds in a day.
pub const DAY_US: i64 = 86_400_000_000;
/// 4714-11-24 BC: Julian day 0.
pub const DATE_MIN: i32 = -2_451_545;
/// The day after 5874897-12-31.
pub const DATE_END: i32 = 2_145_031_949;
/// The first timestamp, in microseconds.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The microsecond after the last timestamp.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// 1970-01-01 in days from 2000-01-01.
pub const UNIX_EPOCH_DAYS: i32 = -10_957;

fn field_overflow(message: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Returns a date that is within its limits or an infinity.
///
/// # Errors
/// 22008 otherwise.
pub fn check_date(date: i32) -> Result<i32> {
    if (DATE_MIN..DATE_END).contains(&date) || date == i32::MIN || date == i32::MAX {
        Ok(date)
    } else {
        Err(field_overflow("date out of range"))
    }
}

/// Returns a time of day that is within a day.
///
/// # Errors
/// 22008 otherwise.
pub fn check_time(time: i64) -> Result<i64> {
    if (0..=DAY_US).contains(&time) { Ok(time) } else { Err(field_overflow("time out of range")) }
}

/// Returns a timestamp that is within its limits or an infinity.
///
/// # Errors
/// 22008 otherwise.
pub fn check_timestamp(timestamp: i64) -> Result<i64> {
    if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp) || timestamp == i64::MIN || timestamp == i64::MAX {
        Ok(timestamp)
    } else {
        Err(field_overflow("timestamp out of range"))
    }
}

/// Returns midnight of a date; infinities stay infinities.
///
/// # Errors
/// 22008 for a day beyond the last timestamp.
pub fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => i64::from(date)
            .checked_mul(DAY_US)
            .filter(|&us| us < TIMESTAMP_END)
            .ok_or_else(|| field_overflow("date out of range for timestamp")),
    }
}

/// Returns the day of a timestamp; infinities stay infinities.
pub fn timestamp_to_date(timestamp: i64) -> i32 {
    match timestamp {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        _ => i32::try_from(timestamp.div_euclid(DAY_US)).expect("2^63 microseconds are below 2^31 days"),
    }
}

/// Returns the time of day of a finite timestamp, in microseconds.
pub const fn timestamp_to_time(timestamp: i64) -> i64 {
    timestamp.rem_euclid(DAY_US)
}

/// Days from 0000-03-01 to 2000-01-01.
const MARCH_SHIFT: i64 = 730_425;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;

/// Returns the days from 2000-01-01 to a day of the calendar, clamped to 32 bits; year 0 is 1 BC.
///
/// The month must be 1 to 12. Days beyond the month's end continue into the next month.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i32 {
    // In years that start in March the leap day comes last, so months follow a fixed pattern.
    let (month, day) = (i64::from(month), i64::from(day));
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * ERA_DAYS + year * 365 + year / 4 - year / 100 + day_of_year - MARCH_SHIFT;
    i32::try_from(days).unwrap_or(if days < 0 { i32::MIN } else { i32::MAX })
}

/// Returns year (0 is 1 BC), month and day of a day counted from 2000-01-01.
pub fn civil_from_days(days: i32) -> (i32, u32, u32) {
    let days = i64::from(days) + MARCH_SHIFT;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12 + 1;
    let year = era * 400 + year + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).expect("1 to 31");
    (i32::try_from(year).expect("2^31 days are below 2^31 years"), small(month), small(day))
}

/// Returns the number of days of a month; year 0 is 1 BC.
pub const fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}
