//! `to_char` of timestamps; `number_format` has that of numbers. Templates are PostgreSQL's; a field that is not built
//! is 0A000.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{micros, new_text, text};
use super::context::EvalContext;
use super::datetime::{JULIAN_2000, counted_year, day_of_week, day_of_year, iso_week, to_local};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError};
use crate::types::Value;
use crate::types::datetime::{Zone, civil_from_days, timestamp_to_date, timestamp_to_time};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The moment to print, split into fields.
struct Moment {
    year: i32,
    month: usize,
    day: i32,
    days: i32,
    /// Microseconds since midnight.
    time: i64,
    /// Only of timestamps with time zone.
    zone: Option<Zone>,
}

/// The case of a field's letters.
#[derive(Clone, Copy)]
enum Case {
    Upper,
    Capital,
    Lower,
}

impl Case {
    fn apply(self, word: &str) -> String {
        match self {
            Self::Upper => word.to_ascii_uppercase(),
            Self::Capital => word.to_owned(),
            Self::Lower => word.to_ascii_lowercase(),
        }
    }
}

/// A field of a template.
enum Item {
    /// A number with at least this many digits, unless `FM` is given.
    Number(i64, usize),
    /// A word, padded with blanks to this width unless `FM` is given.
    Word(String, usize),
}

fn ordinal_suffix(number: i64, case: Case) -> String {
    let number = number.abs();
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    case.apply(suffix)
}

impl Moment {
    /// Returns the field at the start of `template` and the length of its name. Longer names are tried first.
    fn item(&self, template: &str) -> Result<Option<(Item, usize)>> {
        let hour = self.time / 3_600_000_000;
        let half = (hour + 11) % 12 + 1;
        let year = i64::from(counted_year(self.year).abs());
        let iso_year = i64::from(counted_year(iso_week(self.days).0).abs());
        let second_us = self.time % 1_000_000;
        let (day_of_year, weekday) = (i64::from(day_of_year(self.days)), i64::from(day_of_week(self.days)));
        let number = |number: i64, width: usize, length: usize| Ok(Some((Item::Number(number, width), length)));
        let word = |word: String, width: usize, length: usize| Ok(Some((Item::Word(word, width), length)));
        let is = |name: &str| template.starts_with(name);
        let folded = |name: &str| template.get(..name.len()).is_some_and(|t| t.eq_ignore_ascii_case(name));
        // The case of a word is the case of its name's first two letters.
        let case = {
            let mut letters = template.bytes().filter(u8::is_ascii_alphabetic);
            match (letters.next(), letters.next()) {
                (Some(a), Some(b)) if a.is_ascii_uppercase() && b.is_ascii_uppercase() => Case::Upper,
                (Some(a), _) if a.is_ascii_uppercase() => Case::Capital,
                _ => Case::Lower,
            }
        };
        let weekday_name = DAYS[usize::try_from(weekday).expect("a weekday is 0 to 6")];
        let month_name = MONTHS[self.month - 1];
        let (noon, era) = (if hour >= 12 { "PM" } else { "AM" }, if self.year > 0 { "AD" } else { "BC" });
        let dotted = |word: &str| format!("{}.{}.", &word[..1], &word[1..]);
        if folded("month") {
            return word(case.apply(month_name), 9, 5);
        }
        if folded("mon") {
            return word(case.apply(&month_name[..3]), 0, 3);
        }
        if folded("day") {
            return word(case.apply(weekday_name), 9, 3);
        }
        if folded("dy") {
            return word(case.apply(&weekday_name[..3]), 0, 2);
        }
        for (name, value) in [("am", noon), ("pm", noon), ("ad", era), ("bc", era)] {
            let cased = if template.starts_with(|c: char| c.is_ascii_lowercase()) { Case::Lower } else { Case::Upper };
            if folded(name) {
                return word(cased.apply(value), 0, 2);
            }
            if folded(&dotted(name)) {
                return word(cased.apply(&dotted(value)), 0, 4);
            }
        }
        for (name, roman) in [("RM", true), ("rm", false)] {
            if is(name) {
                let month = ROMAN[self.month - 1];
                return word(if roman { month.to_owned() } else { month.to_ascii_lowercase() }, 4, 2);
            }
        }
        if folded("tzh") || folded("tzm") || folded("tz") || folded("of") {
            let zone = self.zone.map_or(0, |zone| zone.east_s);
            let (sign, hours, minutes) = (if zone < 0 { '-' } else { '+' }, zone.abs() / 3600, zone.abs() / 60 % 60);
            let offset = |always: bool| match minutes {
                0 if !always => format!("{sign}{hours:02}"),
                _ => format!("{sign}{hours:02}:{minutes:02}"),
            };
            return if folded("tzh") {
                word(format!("{sign}{hours:02}"), 0, 3)
            } else if folded("tzm") {
                word(format!("{minutes:02}"), 0, 3)
            } else if folded("of") {
                word(offset(false), 0, 2)
            } else {
                let name = self.zone.map_or_else(String::new, |zone| zone.name.as_str().to_owned());
                word(if is("tz") { name.to_ascii_lowercase() } else { name }, 0, 2)
            };
        }
        if folded("y,yyy") {
            return word(format!("{},{:03}", year / 1000, year % 1000), 0, 5);
        }
        for digits in 1..=6u32 {
            if folded(&format!("ff{digits}")) {
                let width = usize::try_from(digits).expect("6 fits");
                let shown = second_us / 10_i64.pow(6 - digits);
                return word(format!("{shown:0width$}"), 0, 3);
            }
        }
        let numbers: [(&str, i64, usize); 29] = [
            ("iyyy", iso_year, 4),
            ("iyy", iso_year % 1000, 3),
            ("iy", iso_year % 100, 2),
            ("iddd", i64::from(iso_day_of_year(self.days)), 3),
            ("id", (weekday + 6) % 7 + 1, 1),
            ("iw", i64::from(iso_week(self.days).1), 2),
            ("i", iso_year % 10, 1),
            ("yyyy", year, 4),
            ("yyy", year % 1000, 3),
            ("yy", year % 100, 2),
            ("y", year % 10, 1),
            ("cc", i64::from(century(self.year)), 2),
            ("ddd", day_of_year, 3),
            ("dd", i64::from(self.day), 2),
            ("d", weekday + 1, 1),
            ("hh24", hour, 2),
            ("hh12", half, 2),
            ("hh", half, 2),
            ("mi", self.time / 60_000_000 % 60, 2),
            ("mm", i64::try_from(self.month).expect("a month is 1 to 12"), 2),
            ("ms", second_us / 1000, 3),
            ("sssss", self.time / 1_000_000, 1),
            ("ssss", self.time / 1_000_000, 1),
            ("ss", self.time / 1_000_000 % 60, 2),
            ("us", second_us, 6),
            ("q", i64::try_from((self.month - 1) / 3 + 1).expect("a quarter is 1 to 4"), 1),
            ("ww", (day_of_year - 1) / 7 + 1, 2),
            ("w", (i64::from(self.day) - 1) / 7 + 1, 1),
            ("j", i64::from(self.days) + i64::from(JULIAN_2000), 1),
        ];
        for (name, value, width) in numbers {
            if folded(name) {
                return number(value, width, name.len());
            }
        }
        if is("SP") {
            return Err(SqlError::unsupported("to_char template SP"));
        }
        Ok(None)
    }
}

/// Returns the century, counted from 1, and backwards from -1.
fn century(year: i32) -> i32 {
    if year > 0 { (year + 99) / 100 } else { (year - 1).div_euclid(100).min(-1) }
}

/// Returns the number of the day in its ISO year, which starts with week 1.
fn iso_day_of_year(days: i32) -> i32 {
    (iso_week(days).1 - 1) * 7 + (day_of_week(days) + 6) % 7 + 1
}

/// Prints a moment by a template: replaces fields, and copies quoted text and all other text.
fn formatted(moment: &Moment, template: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |at| at + 1);
            out.push_str(&rest[1..end]);
            rest = rest.get(end + 1..).unwrap_or("");
            continue;
        }
        if c == '\\' && rest[1..].starts_with('"') {
            out.push('"');
            rest = &rest[2..];
            continue;
        }
        let mut field = rest;
        let mut fill = true;
        while let Some(prefix) = field.get(..2) {
            match prefix {
                "FM" | "fm" => fill = false,
                "FX" | "fx" | "TM" | "tm" => {}
                _ => break,
            }
            field = &field[2..];
        }
        let Some((item, length)) = moment.item(field)? else {
            // Prefixes without a field are dropped.
            if field.len() < rest.len() {
                rest = field;
                continue;
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = &field[length..];
        match item {
            Item::Number(number, width) => {
                // A sign needs one more place.
                let width = if fill { width + usize::from(number < 0) } else { 1 };
                out.push_str(&format!("{number:0width$}"));
                for (suffix, case) in [("TH", Case::Upper), ("th", Case::Lower)] {
                    if let Some(after) = rest.strip_prefix(suffix) {
                        out.push_str(&ordinal_suffix(number, case));
                        rest = after;
                    }
                }
            }
            Item::Word(word, width) => {
                let width = if fill { width } else { 0 };
                out.push_str(&format!("{word:<width$}"));
            }
        }
    }
    Ok(out)
}

fn to_char(local: i64, zone: Option<Zone>, template: &str) -> Result<Value> {
    if local == i64::MIN || local == i64::MAX || template.is_empty() {
        return Ok(Value::Null);
    }
    let days = timestamp_to_date(local);
    let (year, month, day) = civil_from_days(days);
    let month = usize::try_from(month).expect("a month is 1 to 12");
    let moment = Moment { year, month, day: day.cast_signed(), days, time: timestamp_to_time(local), zone };
    formatted(&moment, template).map(new_text)
}

fn local_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    to_char(micros(&args[0]), None, text(&args[1]))
}

fn instant_to_char(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    to_char(to_local(micros(&args[0]), context)?, Some(context.text.zone), text(&args[1]))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "timestamp_to_char" => local_to_char, "timestamptz_to_char" => instant_to_char,
}];
