//! Parses dates and times in common notations: `1999-01-08`, `1/8/1999`, `January 8, 1999 04:05 PM PST`, `epoch`.
//!
//! The parser first distinguishes words from numbers. Then each number becomes the field that is still open, by the
//! setting's order of day, month and year. Text that fits no rule is refused with 22007, a field beyond its bounds with
//! 22008.

use super::zone::{OffsetError, offset_of_name, parse_offset};
use super::{
    DATE_END, DATE_MIN, DAY_US, DateOrder, SECOND_US, TIMESTAMP_END, TIMESTAMP_MIN, UNIX_EPOCH_DAYS, days_from_civil,
    days_in_month, timestamp_to_date, timestamp_to_time,
};
use crate::error::{Result, SqlError, SqlState};
use crate::types::TextContext;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Maximum length of a text; PostgreSQL's work space is about as large.
const TEXT_MAX: usize = 128;

/// The reason why text is not a date or time. It becomes an error once the type's name is known.
#[derive(Debug)]
enum Refusal {
    /// 22007.
    Syntax,
    /// 22008: a field beyond its bounds.
    Field,
    /// 22008: a month or day beyond its bounds, perhaps because of the order of fields.
    MonthOrDay,
    /// 22009: an offset of more than 15 hours.
    Zone,
    /// 22023: a zone with daylight-saving rules.
    UnknownZone(String),
}

impl Refusal {
    fn report(self, type_name: &str, text: &str) -> SqlError {
        match self {
            Self::Syntax => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {type_name}: \"{text}\""),
            ),
            Self::Field | Self::MonthOrDay => {
                let message = format!("date/time field value out of range: \"{text}\"");
                let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
                match self {
                    Self::MonthOrDay => error.hint("Perhaps you need a different \"datestyle\" setting."),
                    _ => error,
                }
            }
            Self::Zone => {
                SqlError::new(SqlState(*b"22009"), format!("time zone displacement out of range: \"{text}\""))
            }
            Self::UnknownZone(name) => {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
            }
        }
    }
}

/// The fields that a text contains, before the target type is known.
#[derive(Debug, Default)]
struct Fields {
    special: Option<Special>,
    /// Year as written, and its number of digits.
    year: Option<(i32, usize)>,
    month: Option<u32>,
    month_by_name: bool,
    day: Option<u32>,
    /// Days from 2000-01-01, for a Julian day or a word such as today.
    date: Option<i32>,
    before_christ: bool,
    /// Hours, minutes, and microseconds within the minute.
    time: Option<(i64, i64, i64)>,
    /// Whether AM (false) or PM (true) was given.
    afternoon: Option<bool>,
    /// Seconds east of UTC.
    offset: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
enum Special {
    Infinity,
    NegInfinity,
    Epoch,
    Now,
}

/// Finds the first name that `word` equals, or that begins with it if `word` has three or four letters.
fn index_of(names: &[&str], word: &str) -> Option<usize> {
    names.iter().position(|name| *name == word || (word.len() >= 3 && name.starts_with(word) && word.len() <= 4))
}

/// Splits `text` after the bytes at its start that satisfy `wanted`.
fn span(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len()))
}

fn number<T: std::str::FromStr>(digits: &str) -> Result<T, Refusal> {
    digits.parse().map_err(|_| Refusal::Field)
}

impl Fields {
    fn read(text: &str, context: &TextContext) -> Result<Self, Refusal> {
        if text.len() > TEXT_MAX || !text.is_ascii() {
            return Err(Refusal::Syntax);
        }
        let lower = text.to_ascii_lowercase();
        let mut fields = Self::default();
        let mut rest = lower.as_str();
        let mut any = false;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',' || c == '\x0b');
            let Some(first) = rest.bytes().next() else { break };
            any = true;
            rest = match first {
                b'0'..=b'9' => fields.digits_first(rest, context)?,
                b'+' | b'-' => fields.sign_first(rest)?,
                b'a'..=b'z' => fields.word_first(rest, context)?,
                _ => return Err(Refusal::Syntax),
            };
        }
        if any { Ok(fields) } else { Err(Refusal::Syntax) }
    }

    fn has_date(&self) -> bool {
        self.date.is_some() || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    fn digits_first<'a>(&mut self, text: &'a str, context: &TextContext) -> Result<&'a str, Refusal> {
        let (digits, after) = span(text, |byte| byte.is_ascii_digit());
        match after.bytes().next() {
            Some(b':') => self.clock(text),
            Some(b'-' | b'/') if !self.has_date() => self.joined_date(text, context),
            Some(b'.') if !self.has_date() => self.joined_date(text, context),
            Some(b'.') => {
                // hhmmss.fff
                let (fraction, after) = span(&after[1..], |byte| byte.is_ascii_digit());
                if digits.len() != 6 {
                    return Err(Refusal::Syntax);
                }
                self.joined_digits(digits, fraction)?;
                Ok(after)
            }
            _ => {
                self.plain_number(digits, context)?;
                Ok(after)
            }
        }
    }

    /// Reads `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fff`.
    fn clock<'a>(&mut self, text: &'a str) -> Result<&'a str, Refusal> {
        let digit = |byte: u8| byte.is_ascii_digit();
        let (hours, rest) = span(text, digit);
        let (minutes, mut rest) = span(&rest[1..], digit);
        let (mut seconds, mut fraction) = ("0", "");
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = span(after, digit);
            if let Some(after) = rest.strip_prefix('.') {
                (fraction, rest) = span(after, digit);
            }
        }
        if minutes.is_empty() || seconds.is_empty() || self.time.is_some() {
            return Err(Refusal::Syntax);
        }
        self.set_time(number(hours)?, number(minutes)?, number(seconds)?, fraction)?;
        Ok(rest)
    }

    fn set_time(&mut self, hours: i64, minutes: i64, seconds: i64, fraction: &str) -> Result<(), Refusal> {
        // PostgreSQL reads the fraction as a float and rounds half to even; this does the same.
        let fraction: f64 = if fraction.is_empty() { 0.0 } else { number(&format!("0.{fraction}"))? };
        #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
        let us = (fraction * 1e6).round_ties_even() as i64;
        let total = (hours.min(25) * 60 + minutes.min(60)) * 60 + seconds.min(61);
        if hours > 24 || minutes > 59 || seconds > 60 || total * SECOND_US + us > DAY_US {
            return Err(Refusal::Field);
        }
        self.time = Some((hours, minutes, seconds * SECOND_US + us));
        Ok(())
    }

    /// Reads a date whose parts are joined by `-`, `/` or `.`; each part is a number or the name of a month.
    fn joined_date<'a>(&mut self, text: &'a str, context: &TextContext) -> Result<&'a str, Refusal> {
        let (token, _) = span(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/' | b'.'));
        // In 1999-01-08t04:05 and 1999-01-08 04:05-08 the date ends with its third part.
        let mut parts: [&str; 3] = [""; 3];
        let mut tail = token;
        let mut count = 0;
        while count < 3 {
            let letters = tail.starts_with(|c: char| c.is_ascii_alphabetic());
            let (part, after) =
                span(tail, |byte| if letters { byte.is_ascii_alphabetic() } else { byte.is_ascii_digit() });
            if part.is_empty() {
                return Err(Refusal::Syntax);
            }
            parts[count] = part;
            count += 1;
            tail = after;
            if count < 3 {
                match tail.strip_prefix(['-', '/', '.']) {
                    Some(after) => tail = after,
                    None => break,
                }
            }
        }
        let rest = &text[token.len() - tail.len()..];
        match (parts, count) {
            // 1999.008: a year and the day of the year.
            ([year, day, _], 2) if day.len() == 3 && year.len() >= 3 => {
                let (year, day): (i32, i32) = (number(year)?, number(day)?);
                if !(1..=366).contains(&day) {
                    return Err(Refusal::Field);
                }
                self.set_date(days_from_civil(year, 1, 1).saturating_add(day - 1))?;
            }
            (parts, 3) => {
                for part in parts {
                    if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                        let month = index_of(&MONTHS, part).ok_or(Refusal::Syntax)?;
                        self.name_month(month)?;
                    }
                }
                for part in parts.iter().filter(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
                    self.place(part, context)?;
                }
            }
            _ => return Err(Refusal::Syntax),
        }
        Ok(rest)
    }

    fn name_month(&mut self, index: usize) -> Result<(), Refusal> {
        // In "1 January 1999" with month-first order, the 1 was taken for a month.
        if let Some(number) = self.month.take() {
            if self.month_by_name || self.day.is_some() {
                return Err(Refusal::Syntax);
            }
            self.day = Some(number);
        }
        self.month = u32::try_from(index + 1).ok();
        self.month_by_name = true;
        Ok(())
    }

    fn set_date(&mut self, days: i32) -> Result<(), Refusal> {
        if self.date.is_some() || self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return Err(Refusal::Syntax);
        }
        self.date = Some(days);
        Ok(())
    }

    /// Assigns a number of a date to year, month or day.
    fn place(&mut self, digits: &str, context: &TextContext) -> Result<(), Refusal> {
        let long = digits.len() >= 3;
        let year_first = long || context.date_order == DateOrder::Ymd;
        let is_year = match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (true, true, true) => return Err(Refusal::Syntax),
            (false, false, false) => year_first,
            (false, true, false) if self.month_by_name => year_first,
            (false, true, true) => true,
            // The first number decided the order; a long number later can only be the year.
            _ => false,
        };
        if is_year {
            self.year = Some((number(digits)?, digits.len()));
            return Ok(());
        }
        let value = Some(number(digits)?);
        match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (false, false, false) if context.date_order == DateOrder::Dmy => self.day = value,
            (_, false, _) => self.month = value,
            // As in "8 99 January": with a named month, the number that was taken as the year was the day.
            (true, true, false) if long && self.month_by_name => {
                let (day, len) = self.year.take().expect("matched above");
                if len >= 3 {
                    return Err(Refusal::Syntax);
                }
                self.day = Some(day.unsigned_abs());
                self.year = Some((number(digits)?, digits.len()));
            }
            (_, true, _) => self.day = value,
        }
        Ok(())
    }

    fn plain_number(&mut self, digits: &str, context: &TextContext) -> Result<(), Refusal> {
        let time_wanted = self.has_date() && self.time.is_none();
        match digits.len() {
            // yyyymmdd, yymmdd; after a date hhmmss, hhmm.
            8 if !self.has_date() => {
                self.year = Some((number(&digits[..4])?, 4));
                (self.month, self.day) = (Some(number(&digits[4..6])?), Some(number(&digits[6..])?));
                Ok(())
            }
            6 | 4 if time_wanted => self.joined_digits(digits, ""),
            6 if !self.has_date() => {
                self.year = Some((number(&digits[..2])?, 2));
                (self.month, self.day) = (Some(number(&digits[2..4])?), Some(number(&digits[4..])?));
                Ok(())
            }
            _ => self.place(digits, context),
        }
    }

    /// Reads hhmmss or hhmm, with a fraction of the seconds.
    fn joined_digits(&mut self, digits: &str, fraction: &str) -> Result<(), Refusal> {
        if self.time.is_some() {
            return Err(Refusal::Syntax);
        }
        let seconds = if digits.len() == 6 { number(&digits[4..])? } else { 0 };
        self.set_time(number(&digits[..2])?, number(&digits[2..4])?, seconds, fraction)
    }

    fn sign_first<'a>(&mut self, text: &'a str) -> Result<&'a str, Refusal> {
        if let Some(after) = text.strip_prefix("-infinity") {
            return self.set_special(Special::NegInfinity, after);
        }
        let (offset, after) = span(&text[1..], |byte| byte.is_ascii_digit() || byte == b':');
        if self.offset.is_some() || (self.time.is_none() && !self.has_date()) {
            return Err(Refusal::Syntax);
        }
        self.offset = Some(match parse_offset(&text[..=offset.len()]) {
            Ok(offset) => offset,
            Err(OffsetError::Range) => return Err(Refusal::Zone),
            Err(OffsetError::Syntax) => return Err(Refusal::Syntax),
        });
        Ok(after)
    }

    fn set_special<'a>(&mut self, special: Special, after: &'a str) -> Result<&'a str, Refusal> {
        if self.special.replace(special).is_some() {
            return Err(Refusal::Syntax);
        }
        Ok(after)
    }

    fn word_first<'a>(&mut self, text: &'a str, context: &TextContext) -> Result<&'a str, Refusal> {
        let (word, after) = span(text, |byte| byte.is_ascii_alphabetic());
        let today = || timestamp_to_date(context.now.saturating_add(local_us(context)));
        match word {
            "infinity" => return self.set_special(Special::Infinity, after),
            "epoch" => return self.set_special(Special::Epoch, after),
            "now" => return self.set_special(Special::Now, after),
            "today" => self.set_date(today())?,
            "tomorrow" => self.set_date(today().saturating_add(1))?,
            "yesterday" => self.set_date(today().saturating_sub(1))?,
            "allballs" if self.time.is_none() => (self.time, self.offset) = (Some((0, 0, 0)), Some(0)),
            "am" | "pm" if self.afternoon.is_none() => self.afternoon = Some(word == "pm"),
            "bc" => self.before_christ = true,
            "ad" | "at" | "on" => {}
            // The ISO separator between date and time; it may also stand before a time alone.
            "t" if self.time.is_none() && after.starts_with(|c: char| c.is_ascii_digit()) => {
                let (digits, rest) = span(after, |byte| byte.is_ascii_digit());
                if matches!(digits.len(), 4 | 6) && !rest.starts_with(':') {
                    let (fraction, rest) = match rest.strip_prefix('.') {
                        Some(rest) => span(rest, |byte| byte.is_ascii_digit()),
                        None => ("", rest),
                    };
                    self.joined_digits(digits, fraction)?;
                    return Ok(rest);
                }
            }
            "j" if !self.has_date() && after.starts_with(|c: char| c.is_ascii_digit()) => {
                let (digits, rest) = span(after, |byte| byte.is_ascii_digit());
                let julian: i32 = number(digits)?;
                self.set_date(julian.checked_add(DATE_MIN).ok_or(Refusal::Field)?)?;
                return Ok(rest);
            }
            _ => {
                if let Some(month) = index_of(&MONTHS, word) {
                    if after.starts_with(['-', '/', '.']) && after[1..].starts_with(|c: char| c.is_ascii_digit()) {
                        return self.joined_date(text, context);
                    }
                    self.name_month(month)?;
                } else if index_of(&WEEKDAYS, word).is_none() {
                    return self.zone_name(text);
                }
            }
        }
        Ok(after)
    }

    fn zone_name<'a>(&mut self, text: &'a str) -> Result<&'a str, Refusal> {
        let (name, after) = span(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_'));
        if self.offset.is_some() {
            return Err(Refusal::Syntax);
        }
        match offset_of_name(name) {
            Some(offset) => self.offset = Some(offset),
            None if name.contains('/') => return Err(Refusal::UnknownZone(name.to_owned())),
            None => return Err(Refusal::Syntax),
        }
        Ok(after)
    }

    /// Returns the day that the fields give; `None` if they give none.
    fn date(&self) -> Result<Option<i32>, Refusal> {
        if let Some(date) = self.date {
            return Ok(Some(date));
        }
        let (Some((year, digits)), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            let none = self.year.is_none() && self.month.is_none() && self.day.is_none();
            return if none { Ok(None) } else { Err(Refusal::Syntax) };
        };
        let year = match (self.before_christ, year) {
            (_, 0) if self.before_christ || digits > 2 => return Err(Refusal::Field),
            (true, _) => 1 - year,
            (false, 0..70) if digits <= 2 => year + 2000,
            (false, 70..100) if digits <= 2 => year + 1900,
            (false, _) => year,
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Refusal::MonthOrDay);
        }
        if day > days_in_month(year, month) {
            return Err(Refusal::Field);
        }
        Ok(Some(days_from_civil(year, month, day)))
    }

    /// Returns the time of day that the fields give; `None` if they give none.
    fn time(&self) -> Result<Option<i64>, Refusal> {
        let Some((mut hours, minutes, us)) = self.time else {
            return if self.afternoon.is_some() { Err(Refusal::Syntax) } else { Ok(None) };
        };
        match self.afternoon {
            Some(_) if hours > 12 => return Err(Refusal::Field),
            Some(false) if hours == 12 => hours = 0,
            Some(true) if hours < 12 => hours += 12,
            _ => {}
        }
        Ok(Some((hours * 60 + minutes) * 60 * SECOND_US + us))
    }

    /// Returns the local timestamp of date and time of day; `None` if it is beyond 64 bits.
    fn timestamp(&self) -> Result<Option<i64>, Refusal> {
        let date = self.date()?.ok_or(Refusal::Syntax)?;
        let time = self.time()?.unwrap_or(0);
        Ok(i64::from(date).checked_mul(DAY_US).and_then(|us| us.checked_add(time)))
    }
}

fn local_us(context: &TextContext) -> i64 {
    i64::from(context.zone.east_s) * SECOND_US
}

fn out_of_range(what: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

/// Reads a date; a time of day in the text is ignored.
///
/// # Errors
/// 22007 if the text is not a date; 22008 if the date is out of range; 22009 and 22023 for time zones.
pub fn parse_date(text: &str, context: &TextContext) -> Result<i32> {
    let refuse = |refusal: Refusal| refusal.report("date", text);
    let fields = Fields::read(text, context).map_err(refuse)?;
    let date = match fields.special {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::NegInfinity) => return Ok(i32::MIN),
        Some(Special::Epoch) => return Ok(UNIX_EPOCH_DAYS),
        Some(Special::Now) => timestamp_to_date(context.now.saturating_add(local_us(context))),
        None => {
            fields.time().map_err(refuse)?;
            fields.date().map_err(refuse)?.ok_or_else(|| refuse(Refusal::Syntax))?
        }
    };
    if (DATE_MIN..DATE_END).contains(&date) { Ok(date) } else { Err(out_of_range("date", text)) }
}

/// Reads a time of day; a date and a time zone in the text are ignored.
///
/// # Errors
/// 22007 if the text is not a time; 22008 if the time is out of range; 22009 and 22023 for time zones.
pub fn parse_time(text: &str, context: &TextContext) -> Result<i64> {
    let refuse = |refusal: Refusal| refusal.report("time", text);
    let mut fields = match Fields::read(text, context) {
        // In this type a number alone is hhmmss or hhmm.
        _ if matches!(text.trim().len(), 4 | 6) && text.trim().bytes().all(|byte| byte.is_ascii_digit()) => {
            let mut fields = Fields::default();
            fields.joined_digits(text.trim(), "").map_err(refuse)?;
            fields
        }
        read => read.map_err(refuse)?,
    };
    if matches!(fields.special, Some(Special::Now)) {
        return Ok(timestamp_to_time(context.now.saturating_add(local_us(context))));
    }
    if fields.special.take().is_some() {
        return Err(refuse(Refusal::Syntax));
    }
    fields.date().map_err(refuse)?;
    fields.time().map_err(refuse)?.ok_or_else(|| refuse(Refusal::Syntax))
}

/// Reads a timestamp without time zone; a zone in the text is ignored.
///
/// # Errors
/// 22007 if the text is not a timestamp; 22008 if it is out of range; 22009 and 22023 for time zones.
pub fn parse_timestamp(text: &str, context: &TextContext) -> Result<i64> {
    parse_moment(text, context, "timestamp", |local, _| Some(local), local_us(context))
}

/// Reads a timestamp with time zone; a text without a zone is in the session's zone.
///
/// # Errors
/// 22007 if the text is not a timestamp; 22008 if it is out of range; 22009 and 22023 for time zones.
pub fn parse_timestamptz(text: &str, context: &TextContext) -> Result<i64> {
    let to_utc = |local: i64, offset: Option<i32>| {
        local.checked_sub(i64::from(offset.unwrap_or(context.zone.east_s)) * SECOND_US)
    };
    parse_moment(text, context, "timestamp with time zone", to_utc, 0)
}

fn parse_moment(
    text: &str,
    context: &TextContext,
    type_name: &str,
    place: impl Fn(i64, Option<i32>) -> Option<i64>,
    now_shift: i64,
) -> Result<i64> {
    let refuse = |refusal: Refusal| refusal.report(type_name, text);
    let fields = Fields::read(text, context).map_err(refuse)?;
    let moment = match fields.special {
        Some(Special::Infinity) => return Ok(i64::MAX),
        Some(Special::NegInfinity) => return Ok(i64::MIN),
        Some(Special::Epoch) => return Ok(i64::from(UNIX_EPOCH_DAYS) * DAY_US),
        Some(Special::Now) => context.now.checked_add(now_shift),
        None => fields.timestamp().map_err(refuse)?.and_then(|local| place(local, fields.offset)),
    };
    moment.filter(|us| (TIMESTAMP_MIN..TIMESTAMP_END).contains(us)).ok_or_else(|| out_of_range("timestamp", text))
}
