//! Dates and times as text, in ISO style: `1999-01-08 04:05:06.789+01`, years before 1 with ` BC` behind.

use std::io::Write;

use super::{DAY_US, SECOND_US, civil_from_days, timestamp_to_date, timestamp_to_time};

/// Writes an infinity, or says that the value is none.
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

/// Writes year, month and day; returns whether ` BC` must follow.
fn write_day(date: i32, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(date);
    let before_christ = year <= 0;
    let shown = if before_christ { 1 - year } else { year };
    write!(out, "{shown:04}-").expect("a Vec takes every write");
    two(i64::from(month), out);
    out.push(b'-');
    two(i64::from(day), out);
    before_christ
}

fn write_era(before_christ: bool, out: &mut Vec<u8>) {
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a date.
pub fn write_date(date: i32, out: &mut Vec<u8>) {
    if !write_infinity(date == i32::MIN, date == i32::MAX, out) {
        let before_christ = write_day(date, out);
        write_era(before_christ, out);
    }
}

/// Appends a time of day, with only as many digits of its fraction as it needs.
pub fn write_time(time: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (time / SECOND_US, time % SECOND_US);
    two(seconds / 3_600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    write_fraction(fraction, out);
}

/// Appends a fraction of a second, in microseconds, with its point and only as many digits as it needs; none for 0.
pub(in crate::types) fn write_fraction(fraction_us: i64, out: &mut Vec<u8>) {
    if fraction_us > 0 {
        write!(out, ".{fraction_us:06}").expect("a Vec takes every write");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends a timestamp.
pub fn write_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    if !write_infinity(timestamp == i64::MIN, timestamp == i64::MAX, out) {
        let before_christ = write_day(timestamp_to_date(timestamp), out);
        out.push(b' ');
        write_time(timestamp_to_time(timestamp), out);
        write_era(before_christ, out);
    }
}

/// Appends a timestamptz as the clock of a zone `offset` seconds east of UTC shows it.
pub fn write_timestamptz(timestamp: i64, offset: i32, out: &mut Vec<u8>) {
    if write_infinity(timestamp == i64::MIN, timestamp == i64::MAX, out) {
        return;
    }
    // A zone can show a time beyond the limits, but not beyond 64 bits.
    let local = timestamp.saturating_add(i64::from(offset) * SECOND_US).clamp(i64::MIN + DAY_US, i64::MAX - DAY_US);
    let before_christ = write_day(timestamp_to_date(local), out);
    out.push(b' ');
    write_time(timestamp_to_time(local), out);
    write_offset(offset, out);
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
