//! Parses ISO 8601 intervals: with units, `P1Y2M3DT4H5M6S` and `P1W`, and in the alternative format,
//! `P0001-02-03T04:05:06` and `P00010203T040506`.

use super::reading::{Number, Reading, Refusal};
use super::{HOUR_US, MINUTE_US};
use crate::types::datetime::SECOND_US;

/// The largest value of a field.
const NUMBER_MAX: f64 = 1e15;

/// The rest of a text.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Reads a number; also returns the number of digits that it begins with.
    fn number(&mut self) -> Result<(Number, usize), Refusal> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(self.0.starts_with('-'));
        let width = digits(&self.0[sign..]);
        let mut len = sign + width;
        let mut all = width;
        if self.0[len..].starts_with('.') {
            let behind = digits(&self.0[len + 1..]);
            all += behind;
            len += 1 + behind;
        }
        if all == 0 {
            return Err(Refusal::Syntax);
        }
        if let Some(exponent) = self.0[len..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let behind = digits(&exponent[sign..]);
            if behind > 0 {
                len += 1 + sign + behind;
            }
        }
        let (text, rest) = self.0.split_at(len);
        let value: f64 = text.parse().map_err(|_| Refusal::Syntax)?;
        if value.is_infinite() {
            return Err(Refusal::Syntax);
        }
        if value.abs() > NUMBER_MAX {
            return Err(Refusal::Field);
        }
        self.0 = rest;
        #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
        let whole = value.trunc() as i64;
        Ok((Number { whole, fraction: value - whole as f64 }, width))
    }

    /// Reads a letter or punctuation mark; `None` at the end.
    fn mark(&mut self) -> Option<char> {
        let mark = self.0.chars().next()?;
        self.0 = &self.0[mark.len_utf8()..];
        Some(mark)
    }
}

fn whole(whole: i64) -> Number {
    Number { whole, fraction: 0.0 }
}

/// Parses an interval.
pub(super) fn read(text: &str) -> Result<Reading, Refusal> {
    let mut reading = Reading::default();
    let mut rest = Rest(text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Refusal::Syntax)?);
    // Whether this part has had fields with units, after which the alternative format is not allowed.
    let (mut in_time, mut has_field) = (false, false);
    while !rest.0.is_empty() {
        if let Some(after) = rest.0.strip_prefix('T') {
            (rest, in_time, has_field) = (Rest(after), true, false);
            continue;
        }
        let (number, width) = rest.number()?;
        let mark = rest.mark();
        match (in_time, mark) {
            (false, Some('Y')) => reading.add_years(number, 1)?,
            (false, Some('M')) => reading.add_months(number)?,
            (false, Some('W')) => reading.add_weeks(number)?,
            (false, Some('D')) => reading.add_days(number)?,
            (true, Some('H')) => reading.add_micros(number, HOUR_US)?,
            (true, Some('M')) => reading.add_micros(number, MINUTE_US)?,
            (true, Some('S')) => reading.add_micros(number, SECOND_US)?,
            (false, Some('-' | 'T') | None) => {
                if width == 8 && !has_field && mark != Some('-') {
                    // yyyymmdd
                    reading.add_years(whole(number.whole / 10_000), 1)?;
                    reading.add_months(whole(number.whole / 100 % 100))?;
                    reading.add_days(Number { whole: number.whole % 100, fraction: number.fraction })?;
                } else if has_field {
                    return Err(Refusal::Syntax);
                } else {
                    alternative_date(&mut reading, &mut rest, number, mark)?;
                }
                if mark != Some('-') {
                    in_time = true;
                }
            }
            (true, None) if width == 6 && !has_field => {
                // hhmmss
                reading.add_micros(whole(number.whole / 10_000), HOUR_US)?;
                reading.add_micros(whole(number.whole / 100 % 100), MINUTE_US)?;
                reading.add_micros(whole(number.whole % 100), SECOND_US)?;
                // PostgreSQL counts the fraction in microseconds, not in seconds.
                reading.add_micros(Number { whole: 0, fraction: number.fraction }, 1)?;
            }
            (true, Some(':') | None) if !has_field => {
                alternative_time(&mut reading, &mut rest, number, mark)?;
            }
            _ => return Err(Refusal::Syntax),
        }
        // After a mark that ends a part, the next part begins without fields.
        has_field = !matches!(mark, Some('T' | '-'));
    }
    Ok(reading)
}

/// Reads `yyyy`, `yyyy-mm` or `yyyy-mm-dd`, of which the year and the mark after it were read already. It ends the text
/// or stands before a time.
fn alternative_date(
    reading: &mut Reading,
    rest: &mut Rest<'_>,
    years: Number,
    mark: Option<char>,
) -> Result<(), Refusal> {
    reading.add_years(years, 1)?;
    if mark != Some('-') {
        return Ok(());
    }
    reading.add_months(rest.number()?.0)?;
    if let Some(after) = rest.0.strip_prefix('-') {
        rest.0 = after;
        reading.add_days(rest.number()?.0)?;
    }
    if rest.0.is_empty() || rest.0.starts_with('T') { Ok(()) } else { Err(Refusal::Syntax) }
}

/// Reads `hh`, `hh:mm` or `hh:mm:ss`, of which the hours and the mark after them were read already. It ends the text.
fn alternative_time(
    reading: &mut Reading,
    rest: &mut Rest<'_>,
    hours: Number,
    mark: Option<char>,
) -> Result<(), Refusal> {
    reading.add_micros(hours, HOUR_US)?;
    if mark.is_none() {
        return Ok(());
    }
    reading.add_micros(rest.number()?.0, MINUTE_US)?;
    if let Some(after) = rest.0.strip_prefix(':') {
        rest.0 = after;
        reading.add_micros(rest.number()?.0, SECOND_US)?;
    }
    if rest.0.is_empty() { Ok(()) } else { Err(Refusal::Syntax) }
}
