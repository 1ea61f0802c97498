//! Parses intervals in common notations: `1 day 02:03:04`, `1-2`, `@ 3 mons ago`, `1d2h`, and, through
//! [`iso`](super::iso), `P1DT2H`.
//!
//! Fields are read from right to left, since a unit follows its number. No field may occur twice. A number without a
//! unit has the lowest field of the type's range as its unit, or days if a time of day follows it.

use super::modifier::{Lowest, Range};
use super::reading::{Number, Reading, Refusal};
use super::{HOUR_US, Interval, IntervalStyle, MINUTE_US, YEAR_MONTHS, iso, out_of_range};
use crate::error::{Result, SqlError, SqlState};
use crate::types::datetime::SECOND_US;

/// Maximum number of fields of a text, as in PostgreSQL.
const TOKENS_MAX: usize = 25;
/// Maximum number of bytes of all fields, each counted with one byte for its end, as in PostgreSQL.
const BYTES_MAX: usize = 256;
/// Number of significant bytes of a word.
const WORD_BYTES: usize = 10;

/// A token of a text, classified by its first character and its content.
#[derive(Clone, Copy, Debug)]
enum Token<'a> {
    /// Digits, a colon, and more digits and colons, and points.
    Clock(&'a str),
    /// A sign followed by digits, colons, points and hyphens.
    Signed { negative: bool, body: &'a str },
    /// A number, or text that begins like one.
    Number(&'a str),
    /// Letters.
    Word(&'a str),
    /// Text that has no meaning in an interval.
    Nonsense,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Not known yet: the lowest field of the range applies.
    Unsaid,
    /// A word before which no number may stand.
    None,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// Finds the unit that a word names.
    fn named(word: &str) -> Option<Self> {
        Some(match word.get(..WORD_BYTES).unwrap_or(word) {
            "us" | "usec" | "usecs" | "useconds" | "usecond" | "microsecon" => Self::Microsecond,
            "ms" | "msec" | "msecs" | "mseconds" | "msecond" | "millisecon" => Self::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Hour,
            "d" | "day" | "days" => Self::Day,
            "w" | "week" | "weeks" => Self::Week,
            "mon" | "mons" | "month" | "months" => Self::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Self::Year,
            "dec" | "decs" | "decade" | "decades" => Self::Decade,
            "c" | "cent" | "century" | "centuries" => Self::Century,
            "mil" | "mils" | "millennium" | "millennia" => Self::Millennium,
            "qtr" | "quarter" | "timezone" => Self::None,
            _ => return None,
        })
    }

    /// Returns the bit that marks a field as seen.
    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// Returns the bits of the fields of a time of day.
fn clock_bits() -> u16 {
    [Unit::Hour, Unit::Minute, Unit::Second, Unit::Millisecond, Unit::Microsecond].iter().map(|unit| unit.bit()).sum()
}

/// Splits `text` after the bytes at its start that satisfy `wanted`.
fn span(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len()))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Splits off the first token of `text`, which begins with a digit, a point or a lower-case letter.
fn token(text: &str) -> (Token<'_>, &str) {
    match text.as_bytes()[0] {
        b'0'..=b'9' => {
            let (digits, rest) = span(text, is_digit);
            match rest.bytes().next() {
                Some(b':') => {
                    let (clock, rest) = span(text, |byte| is_digit(byte) || byte == b':' || byte == b'.');
                    (Token::Clock(clock), rest)
                }
                Some(joint @ (b'-' | b'/' | b'.')) => {
                    let (behind, _) = span(&rest[1..], is_digit);
                    let mut len = digits.len() + 1 + behind.len();
                    let after = text.as_bytes().get(len).copied();
                    if behind.is_empty() {
                        len += span(&text[len..], |byte| byte.is_ascii_alphanumeric() || byte == joint).0.len();
                    } else if after == Some(joint) {
                        len += span(&text[len..], |byte| is_digit(byte) || byte == joint).0.len();
                    }
                    let (number, rest) = text.split_at(len);
                    (Token::Number(number), rest)
                }
                _ => (Token::Number(digits), rest),
            }
        }
        b'.' => {
            let (number, rest) = text.split_at(1 + span(&text[1..], is_digit).0.len());
            (Token::Number(number), rest)
        }
        _ => {
            let (word, rest) = span(text, |byte| byte.is_ascii_alphabetic());
            // These words may stand directly before a number; other words do not end there and are invalid.
            let ends = matches!(word, "d" | "dec" | "h" | "m" | "mon" | "s" | "y");
            let runs_on = match rest.bytes().next() {
                Some(b'-' | b'/' | b'.') => true,
                Some(b'+' | b'0'..=b'9') => !ends,
                _ => false,
            };
            if !runs_on {
                return (Token::Word(word), rest);
            }
            let more = |byte: u8| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte);
            (Token::Nonsense, span(rest, more).1)
        }
    }
}

/// Splits a text into tokens. Blanks may follow a sign; other punctuation only separates.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, Refusal> {
    let is_blank = |byte: u8| byte.is_ascii_whitespace() || byte == b'\x0b';
    let mut found = Vec::new();
    let mut used = 0;
    let mut rest = text;
    loop {
        rest = span(rest, is_blank).1;
        let Some(first) = rest.bytes().next() else { break };
        if found.len() >= TOKENS_MAX {
            return Err(Refusal::Syntax);
        }
        if matches!(first, b'+' | b'-') {
            let behind = span(&rest[1..], is_blank).1;
            let (body, after) = match behind.bytes().next() {
                // A point is not accepted here: PostgreSQL refuses -.5.
                Some(b'0'..=b'9') => span(behind, |byte| is_digit(byte) || b":.-".contains(&byte)),
                Some(b'a'..=b'z') => span(behind, |byte| byte.is_ascii_alphabetic()),
                _ => return Err(Refusal::Syntax),
            };
            let is_word = body.starts_with(|c: char| c.is_ascii_alphabetic());
            found.push(if is_word { Token::Nonsense } else { Token::Signed { negative: first == b'-', body } });
            used += body.len() + 2;
            rest = after;
        } else if first == b'.' || first.is_ascii_alphanumeric() {
            let (token, after) = token(rest);
            found.push(token);
            used += rest.len() - after.len() + 1;
            rest = after;
        } else if first.is_ascii_punctuation() {
            rest = &rest[1..];
        } else {
            return Err(Refusal::Syntax);
        }
        if used > BYTES_MAX {
            return Err(Refusal::Syntax);
        }
    }
    Ok(found)
}

/// Reads digits as a number with this sign.
fn integer(negative: bool, digits: &str) -> Result<i64, Refusal> {
    // Counting down reaches i64::MIN, which has no positive counterpart.
    let digit = |value: i64, digit: u8| value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'));
    let value = digits.bytes().try_fold(0_i64, digit);
    value.and_then(|value| if negative { Some(value) } else { value.checked_neg() }).ok_or(Refusal::Field)
}

/// Reads a sign and digits as a 32-bit number like C's `strtol`: without a digit it returns 0 and consumes nothing.
fn small(text: &str) -> Result<(i32, &str), Refusal> {
    let (digits, rest) = span(text.strip_prefix(['+', '-']).unwrap_or(text), is_digit);
    if digits.is_empty() {
        return Ok((0, text));
    }
    Ok((narrow(integer(text.starts_with('-'), digits)?)?, rest))
}

fn narrow(value: i64) -> Result<i32, Refusal> {
    i32::try_from(value).map_err(|_| Refusal::Field)
}

/// Reads a point and the digits after it; a point alone is 0.
fn fraction(text: &str) -> Result<f64, Refusal> {
    match text.strip_prefix('.') {
        Some("") => Ok(0.0),
        Some(digits) if digits.bytes().all(is_digit) => format!("0.{digits}").parse().map_err(|_| Refusal::Syntax),
        _ => Err(Refusal::Syntax),
    }
}

/// Reads a fraction of a second, in microseconds.
fn fraction_us(text: &str) -> Result<i64, Refusal> {
    #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
    fraction(text).map(|fraction| (fraction * 1e6).round_ties_even() as i64)
}

/// Reads a time of day of any length, in microseconds: `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`, `mm:ss.fff`, or `mm:ss` if
/// the type's range is minute to second.
fn clock(text: &str, range: Range) -> Result<i64, Refusal> {
    let (digits, rest) = span(text, is_digit);
    let first = integer(false, digits)?;
    let (second, rest) = small(rest.strip_prefix(':').ok_or(Refusal::Syntax)?)?;
    let (hours, minutes, seconds, us) = match rest.bytes().next() {
        None if range.is_minute_to_second() => (0, narrow(first)?, second, 0),
        None => (first, second, 0, 0),
        Some(b'.') => {
            let us = fraction_us(rest)?;
            (0, narrow(first)?, second, us)
        }
        Some(b':') => {
            let (third, rest) = small(&rest[1..])?;
            (first, second, third, if rest.is_empty() { 0 } else { fraction_us(rest)? })
        }
        Some(_) => return Err(Refusal::Syntax),
    };
    if !(0..60).contains(&minutes) || !(0..=60).contains(&seconds) {
        return Err(Refusal::Field);
    }
    let below = i64::from(minutes) * MINUTE_US + i64::from(seconds) * SECOND_US + us;
    hours.checked_mul(HOUR_US).and_then(|us| us.checked_add(below)).ok_or(Refusal::Field)
}

/// Fields as they are read from the right.
struct Fields {
    reading: Reading,
    /// Bits of the fields seen so far.
    seen: u16,
    /// The unit of the next number.
    unit: Unit,
    range: Range,
    /// Whether a leading minus sign applies to all fields.
    all_negative: bool,
    ago: bool,
}

impl Fields {
    fn read(text: &str, range: Range, style: IntervalStyle) -> Result<Reading, Refusal> {
        let tokens = tokens(text)?;
        let minus_first = matches!(tokens.first(), Some(Token::Signed { negative: true, .. }));
        let more_signs = tokens.iter().skip(1).any(|token| matches!(token, Token::Signed { .. }));
        let mut fields = Self {
            reading: Reading::default(),
            seen: 0,
            unit: Unit::Unsaid,
            range,
            all_negative: style == IntervalStyle::SqlStandard && minus_first && !more_signs,
            ago: false,
        };
        for token in tokens.iter().rev() {
            let came = fields.take(*token)?;
            if came & fields.seen != 0 {
                return Err(Refusal::Syntax);
            }
            fields.seen |= came;
        }
        if fields.seen == 0 {
            return Err(Refusal::Syntax);
        }
        if fields.ago {
            fields.reading.negate()?;
        }
        Ok(fields.reading)
    }

    /// Reads a token; returns the bits of the fields that it sets.
    fn take(&mut self, token: Token<'_>) -> Result<u16, Refusal> {
        match token {
            Token::Clock(text) => {
                let us = clock(text, self.range)?;
                self.set_clock(us, false)
            }
            Token::Signed { negative, body } if body.contains(':') => {
                let us = clock(body, self.range).map_err(|_| Refusal::Syntax)?;
                self.set_clock(us, negative)
            }
            Token::Signed { negative, body } => self.number(negative, body),
            Token::Number(text) => self.number(false, text),
            Token::Word("ago") => {
                (self.ago, self.unit) = (true, Unit::None);
                Ok(0)
            }
            Token::Word(word) => {
                self.unit = Unit::named(word).ok_or(Refusal::Syntax)?;
                Ok(0)
            }
            Token::Nonsense => Err(Refusal::Syntax),
        }
    }

    /// Sets the time of day. As in PostgreSQL, it replaces the microseconds of the fields to its right.
    fn set_clock(&mut self, us: i64, negative: bool) -> Result<u16, Refusal> {
        let us = if negative { us.checked_neg().ok_or(Refusal::Field)? } else { us };
        self.reading.micros = if self.all_negative && us > 0 { -us } else { us };
        self.unit = Unit::Day;
        Ok(clock_bits())
    }

    fn number(&mut self, negative: bool, text: &str) -> Result<u16, Refusal> {
        if self.unit == Unit::Unsaid {
            self.unit = match self.range.lowest() {
                Lowest::Year => Unit::Year,
                Lowest::Month => Unit::Month,
                Lowest::Day => Unit::Day,
                Lowest::Hour => Unit::Hour,
                Lowest::Minute => Unit::Minute,
                Lowest::Second => Unit::Second,
            };
        }
        let (digits, rest) = span(text, is_digit);
        let whole = integer(negative, digits)?;
        let mut number = match rest.bytes().next() {
            None => Number { whole, fraction: 0.0 },
            Some(b'.') => {
                let fraction = fraction(rest)?;
                Number { whole, fraction: if negative { -fraction } else { fraction } }
            }
            // Years and months in SQL's form.
            Some(b'-') => {
                let (months, rest) = small(&rest[1..])?;
                if !(0..YEAR_MONTHS).contains(&months) {
                    return Err(Refusal::Field);
                }
                if !rest.is_empty() {
                    return Err(Refusal::Syntax);
                }
                self.unit = Unit::Month;
                let years = whole.checked_mul(i64::from(YEAR_MONTHS));
                let sum = years.and_then(|sum| sum.checked_add(i64::from(if negative { -months } else { months })));
                Number { whole: sum.ok_or(Refusal::Field)?, fraction: 0.0 }
            }
            Some(_) => return Err(Refusal::Syntax),
        };
        if self.all_negative {
            let whole = if number.whole > 0 { -number.whole } else { number.whole };
            number = Number { whole, fraction: -number.fraction.abs() };
        }
        self.add(number)
    }

    fn add(&mut self, number: Number) -> Result<u16, Refusal> {
        let (reading, unit) = (&mut self.reading, self.unit);
        match unit {
            Unit::Unsaid | Unit::None => return Err(Refusal::Syntax),
            Unit::Microsecond => reading.add_micros(number, 1)?,
            Unit::Millisecond => reading.add_micros(number, 1_000)?,
            Unit::Second => reading.add_micros(number, SECOND_US)?,
            Unit::Minute => reading.add_micros(number, MINUTE_US)?,
            Unit::Hour => {
                reading.add_micros(number, HOUR_US)?;
                self.unit = Unit::Day;
            }
            Unit::Day => reading.add_days(number)?,
            Unit::Week => reading.add_weeks(number)?,
            Unit::Month => reading.add_months(number)?,
            Unit::Year => reading.add_years(number, 1)?,
            Unit::Decade => reading.add_years(number, 10)?,
            Unit::Century => reading.add_years(number, 100)?,
            Unit::Millennium => reading.add_years(number, 1_000)?,
        }
        // Seconds with a fraction also count as milliseconds and microseconds.
        if unit == Unit::Second && number.fraction != 0.0 {
            return Ok(unit.bit() | Unit::Millisecond.bit() | Unit::Microsecond.bit());
        }
        Ok(unit.bit())
    }
}

/// Parses an interval for a type with this modifier, which decides the unit of a number without one. The modifier is
/// not applied.
///
/// # Errors
/// 22007 if the text is not an interval; 22015 if a field is out of range; 22008 if years and months together are.
pub fn parse_interval(text: &str, typmod: i32, style: IntervalStyle) -> Result<Interval> {
    let lower = text.to_ascii_lowercase();
    let read = match Fields::read(&lower, Range::of(typmod), style) {
        Err(Refusal::Syntax) => iso::read(text),
        read => read,
    };
    match read {
        Ok(reading) => reading.finish().ok_or_else(out_of_range),
        Err(Refusal::Syntax) => Err(SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        )),
        Err(Refusal::Field) => {
            Err(SqlError::new(SqlState(*b"22015"), format!("interval field value out of range: \"{text}\"")))
        }
    }
}
