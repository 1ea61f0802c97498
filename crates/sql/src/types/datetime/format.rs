//! Dates and times as text, in the styles of DateStyle. Years before 1 end in ` BC`.
//!
//! | style | timestamp with time zone | date |
//! |---|---|---|
//! | ISO | `1999-01-08 04:05:06.789+01` | `1999-01-08` |
//! | Postgres | `Fri Jan 08 04:05:06.789 1999 CET`, DMY: `Fri 08 Jan ...` | `01-08-1999`, DMY: `08-01-1999` |
//! | SQL | `01/08/1999 04:05:06.789 CET`, DMY: `08/01/1999 ...` | `01/08/1999`, DMY: `08/01/1999` |
//! | German | `08.01.1999 04:05:06.789 CET` | `08.01.1999` |

use std::io::Write;

use super::{DAY_US, DateOrder, DateStyle, SECOND_US, civil_from_days, timestamp_to_date, timestamp_to_time};
use crate::types::io::TextContext;

const WEEKDAYS: [&str; 7] = ["Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Maximum length of a zone's name in a value.
const ZONE_SHOWN_MAX: usize = 10;

/// Writes an infinity; returns false if the value is finite.
fn write_infinity(negative: bool, positive: bool, out: &mut Vec<u8>) -> bool {
    if negative {
        out.extend_from_slice(b"-infinity");
    } else if positive {
        out.extend_from_slice(b"infinity");
    }
    negative || positive
}

fn two(value: i64, out: &mut Vec<u8>) {
    let digit = |value: i64| b'0' + u8::try_from(value % 10).expect("a digit");
    out.extend_from_slice(&[digit(value / 10), digit(value)]);
}

/// Returns the year as shown, and whether ` BC` must follow.
fn shown_year(year: i32) -> (i32, bool) {
    if year <= 0 { (1 - year, true) } else { (year, false) }
}

/// Writes year, month and day as numbers; returns whether ` BC` must follow.
fn write_day(date: i32, context: &TextContext, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(date);
    let (year, before_christ) = shown_year(year);
    let (month, day) = (i64::from(month), i64::from(day));
    let mut write = |first: i64, separator: u8, second: i64| {
        two(first, out);
        out.push(separator);
        two(second, out);
        out.push(separator);
        write!(out, "{year:04}").expect("a Vec takes every write");
    };
    match (context.date_style, context.date_order) {
        (DateStyle::Iso, _) => {
            write!(out, "{year:04}-").expect("a Vec takes every write");
            two(month, out);
            out.push(b'-');
            two(day, out);
        }
        (DateStyle::German, _) => write(day, b'.', month),
        (DateStyle::Sql, DateOrder::Dmy) => write(day, b'/', month),
        (DateStyle::Sql, _) => write(month, b'/', day),
        (DateStyle::Postgres, DateOrder::Dmy) => write(day, b'-', month),
        (DateStyle::Postgres, _) => write(month, b'-', day),
    }
    before_christ
}

/// Writes day and time of a timestamp; returns whether ` BC` must follow.
fn write_moment(timestamp: i64, context: &TextContext, out: &mut Vec<u8>) -> bool {
    let (date, time) = (timestamp_to_date(timestamp), timestamp_to_time(timestamp));
    if context.date_style != DateStyle::Postgres {
        let before_christ = write_day(date, context, out);
        out.push(b' ');
        write_time(time, out);
        return before_christ;
    }
    let (year, month, day) = civil_from_days(date);
    let (year, before_christ) = shown_year(year);
    // 2000-01-01 was a Saturday.
    let weekday = usize::try_from(date.rem_euclid(7)).expect("0 to 6");
    let month = MONTHS[usize::try_from(month - 1).expect("1 to 12")];
    out.extend_from_slice(WEEKDAYS[weekday].as_bytes());
    match context.date_order {
        DateOrder::Dmy => write!(out, " {day:02} {month} "),
        DateOrder::Mdy | DateOrder::Ymd => write!(out, " {month} {day:02} "),
    }
    .expect("a Vec takes every write");
    write_time(time, out);
    write!(out, " {year:04}").expect("a Vec takes every write");
    before_christ
}

fn write_era(before_christ: bool, out: &mut Vec<u8>) {
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a date.
pub fn write_date(date: i32, context: &TextContext, out: &mut Vec<u8>) {
    if !write_infinity(date == i32::MIN, date == i32::MAX, out) {
        let before_christ = write_day(date, context, out);
        write_era(before_christ, out);
    }
}

/// Appends a time of day; its fraction has only as many digits as it needs.
pub fn write_time(time: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (time / SECOND_US, time % SECOND_US);
    two(seconds / 3_600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    write_fraction(fraction, out);
}

/// Appends a fraction of a second, given in microseconds, with its point and only as many digits as it needs; nothing
/// for 0.
pub(in crate::types) fn write_fraction(fraction_us: i64, out: &mut Vec<u8>) {
    if fraction_us > 0 {
        write!(out, ".{fraction_us:06}").expect("a Vec takes every write");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends a timestamp.
pub fn write_timestamp(timestamp: i64, context: &TextContext, out: &mut Vec<u8>) {
    if !write_infinity(timestamp == i64::MIN, timestamp == i64::MAX, out) {
        let before_christ = write_moment(timestamp, context, out);
        write_era(before_christ, out);
    }
}

/// Appends a timestamptz in the local time of the session's zone.
pub fn write_timestamptz(timestamp: i64, context: &TextContext, out: &mut Vec<u8>) {
    if write_infinity(timestamp == i64::MIN, timestamp == i64::MAX, out) {
        return;
    }
    let offset = context.zone.east_s;
    // The local time can exceed the limits, but must not exceed 64 bits.
    let local = timestamp.saturating_add(i64::from(offset) * SECOND_US).clamp(i64::MIN + DAY_US, i64::MAX - DAY_US);
    let before_christ = write_moment(local, context, out);
    if context.date_style == DateStyle::Iso {
        write_offset(offset, out);
    } else {
        let name = context.zone.name.as_str();
        out.push(b' ');
        out.extend_from_slice(&name.as_bytes()[..name.len().min(ZONE_SHOWN_MAX)]);
    }
    write_era(before_christ, out);
}

fn write_offset(offset: i32, out: &mut Vec<u8>) {
    out.push(if offset < 0 { b'-' } else { b'+' });
    let seconds = i64::from(offset.unsigned_abs());
    two(seconds / 3_600, out);
    if seconds % 3_600 != 0 {
        out.push(b':');
        two(seconds / 60 % 60, out);
    }
    if seconds % 60 != 0 {
        out.push(b':');
        two(seconds % 60, out);
    }
}
