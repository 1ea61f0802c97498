//! Intervals as text, in the four styles of the setting IntervalStyle.

use std::io::Write;

use super::{Interval, IntervalStyle, Parts};
use crate::types::datetime::write_fraction;

const TAKES: &str = "a Vec takes every write";

/// Appends an interval.
pub fn write_interval(interval: Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    let parts = interval.parts();
    match style {
        IntervalStyle::Postgres => write_postgres(parts, out),
        IntervalStyle::PostgresVerbose => write_verbose(parts, out),
        IntervalStyle::SqlStandard => write_sql(parts, out),
        IntervalStyle::Iso8601 => write_iso(parts, out),
    }
}

impl Parts {
    fn clock_is_zero(&self) -> bool {
        (self.hours, self.minutes, self.seconds, self.micros) == (0, 0, 0, 0)
    }

    /// Returns whether the time of day is below zero; its fields have the same sign.
    fn clock_is_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.micros < 0
    }

    /// Writes hours, minutes and seconds without a sign.
    fn write_clock(&self, hour_digits: usize, out: &mut Vec<u8>) {
        let (hours, minutes) = (self.hours.unsigned_abs(), self.minutes.unsigned_abs());
        write!(out, "{hours:0hour_digits$}:{minutes:02}:").expect(TAKES);
        self.write_seconds(2, out);
    }

    /// Writes the seconds with their fraction and without a sign.
    fn write_seconds(&self, digits: usize, out: &mut Vec<u8>) {
        write!(out, "{:0digits$}", self.seconds.unsigned_abs()).expect(TAKES);
        write_fraction(self.micros.abs(), out);
    }
}

/// Writes numbers with their units. After a negative field, the next field has a sign even if it is `+`.
fn write_postgres(parts: Parts, out: &mut Vec<u8>) {
    let (start, mut after_negative) = (out.len(), false);
    for (value, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if value != 0 {
            let blank = if out.len() > start { " " } else { "" };
            let sign = if after_negative && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            write!(out, "{blank}{sign}{value} {unit}{plural}").expect(TAKES);
            after_negative = value < 0;
        }
    }
    if out.len() == start || !parts.clock_is_zero() {
        let blank = if out.len() > start { " " } else { "" };
        let sign = match (parts.clock_is_negative(), after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        write!(out, "{blank}{sign}").expect(TAKES);
        parts.write_clock(2, out);
    }
}

/// Writes the sign of the first field as `ago`, and the signs of the other fields relative to it.
fn write_verbose(parts: Parts, out: &mut Vec<u8>) {
    out.push(b'@');
    let mut ago = None;
    let fields = [
        (i64::from(parts.years), "year"),
        (i64::from(parts.months), "mon"),
        (i64::from(parts.days), "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    for (value, unit) in fields.into_iter().filter(|(value, _)| *value != 0) {
        let turned = if *ago.get_or_insert(value < 0) { -value } else { value };
        write!(out, " {turned} {unit}{}", if turned == 1 { "" } else { "s" }).expect(TAKES);
    }
    if parts.seconds != 0 || parts.micros != 0 {
        let negative = parts.seconds < 0 || parts.micros < 0;
        out.extend_from_slice(if negative == *ago.get_or_insert(negative) { b" " } else { b" -" });
        parts.write_seconds(1, out);
        let single = parts.seconds.abs() == 1 && parts.micros == 0;
        out.extend_from_slice(if single { b" sec" } else { b" secs" });
    }
    if ago.is_none() {
        out.extend_from_slice(b" 0");
    }
    if ago == Some(true) {
        out.extend_from_slice(b" ago");
    }
}

/// Writes years and months, days, and time of day. An interval that has no form in SQL gets all of them, each with a
/// sign.
fn write_sql(parts: Parts, out: &mut Vec<u8>) {
    let (has_months, has_days) = (parts.years != 0 || parts.months != 0, parts.days != 0);
    let has_clock = !parts.clock_is_zero();
    let is_negative = [parts.years < 0 || parts.months < 0, parts.days < 0, parts.clock_is_negative()];
    let is_positive = [has_months && !is_negative[0], has_days && !is_negative[1], has_clock && !is_negative[2]];
    let any = |signs: [bool; 3]| signs.contains(&true);
    let (years, months, days) = (parts.years.unsigned_abs(), parts.months.unsigned_abs(), parts.days.unsigned_abs());
    if !has_months && !has_days && !has_clock {
        out.push(b'0');
        return;
    }
    if any(is_negative) && any(is_positive) || has_months && (has_days || has_clock) {
        let [year_sign, day_sign, clock_sign] = is_negative.map(|negative| if negative { '-' } else { '+' });
        write!(out, "{year_sign}{years}-{months} {day_sign}{days} {clock_sign}").expect(TAKES);
        return parts.write_clock(1, out);
    }
    if any(is_negative) {
        out.push(b'-');
    }
    if has_months {
        return write!(out, "{years}-{months}").expect(TAKES);
    }
    if has_days {
        write!(out, "{days} ").expect(TAKES);
    }
    parts.write_clock(1, out);
}

fn write_iso(parts: Parts, out: &mut Vec<u8>) {
    if parts.years == 0 && parts.months == 0 && parts.days == 0 && parts.clock_is_zero() {
        return out.extend_from_slice(b"PT0S");
    }
    out.push(b'P');
    let field = |value: i64, unit: char, out: &mut Vec<u8>| {
        if value != 0 {
            write!(out, "{value}{unit}").expect(TAKES);
        }
    };
    field(parts.years.into(), 'Y', out);
    field(parts.months.into(), 'M', out);
    field(parts.days.into(), 'D', out);
    if !parts.clock_is_zero() {
        out.push(b'T');
    }
    field(parts.hours, 'H', out);
    field(parts.minutes, 'M', out);
    if parts.seconds != 0 || parts.micros != 0 {
        if parts.seconds < 0 || parts.micros < 0 {
            out.push(b'-');
        }
        parts.write_seconds(1, out);
        out.push(b'S');
    }
}
