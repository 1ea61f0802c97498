//! Modifiers of `interval` in PostgreSQL's encoding: the fields that it has (`interval day to second`) and the number
//! of digits of its seconds (`interval(3)`).
//!
//! A modifier is `range << 16 | precision`. The range is a set of bits, one for each field, or [`FULL_RANGE`]; the
//! precision is 0 to 6, or [`FULL_PRECISION`].

use super::{HOUR_US, Interval, MINUTE_US, YEAR_MONTHS};
use crate::error::{Result, SqlError, SqlState};
use crate::types::typmod::round_us;

const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;
/// All fields.
const FULL_RANGE: i32 = 0x7FFF;
/// All digits.
const FULL_PRECISION: i32 = 0xFFFF;
/// Maximum number of digits after the seconds' point.
const PRECISION_MAX: i32 = 6;

/// The ranges that SQL can name, with the lowest field of each.
const RANGES: &[(i32, &str, Lowest)] = &[
    (YEAR, " year", Lowest::Year),
    (MONTH, " month", Lowest::Month),
    (DAY, " day", Lowest::Day),
    (HOUR, " hour", Lowest::Hour),
    (MINUTE, " minute", Lowest::Minute),
    (SECOND, " second", Lowest::Second),
    (YEAR | MONTH, " year to month", Lowest::Month),
    (DAY | HOUR, " day to hour", Lowest::Hour),
    (DAY | HOUR | MINUTE, " day to minute", Lowest::Minute),
    (DAY | HOUR | MINUTE | SECOND, " day to second", Lowest::Second),
    (HOUR | MINUTE, " hour to minute", Lowest::Minute),
    (HOUR | MINUTE | SECOND, " hour to second", Lowest::Second),
    (MINUTE | SECOND, " minute to second", Lowest::Second),
];

/// The lowest field of a range: the unit of a number without one. All fields below it are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowest {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// The fields that a modifier names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range(i32);

impl Range {
    /// Returns the range of a modifier; without a modifier, all fields.
    pub(super) fn of(typmod: i32) -> Self {
        Self(if typmod < 0 { FULL_RANGE } else { typmod >> 16 & 0x7FFF })
    }

    fn row(self) -> Option<&'static (i32, &'static str, Lowest)> {
        RANGES.iter().find(|(range, ..)| *range == self.0)
    }

    /// Returns the lowest field.
    pub(super) fn lowest(self) -> Lowest {
        self.row().map_or(Lowest::Second, |(_, _, lowest)| *lowest)
    }

    /// Returns whether two numbers with a colon between them are minutes and seconds.
    pub(super) fn is_minute_to_second(self) -> bool {
        self.0 == MINUTE | SECOND
    }
}

fn precision(typmod: i32) -> Option<i32> {
    Some(typmod & 0xFFFF).filter(|&precision| typmod >= 0 && precision != FULL_PRECISION)
}

/// Returns the fields that a modifier names, such as ` day to second`; empty for all fields.
pub fn field_names(typmod: i32) -> &'static str {
    Range::of(typmod).row().map_or("", |(_, name, _)| name)
}

/// Returns the text that a modifier adds to the type's name, such as ` day to second(3)`; empty for none.
pub fn display(typmod: i32) -> String {
    let digits = precision(typmod).map_or_else(String::new, |precision| format!("({precision})"));
    format!("{}{digits}", field_names(typmod))
}

/// Returns the number of digits that the seconds may have after their point.
pub fn digits(typmod: i32) -> i32 {
    precision(typmod).unwrap_or(PRECISION_MAX)
}

/// Encodes the modifiers from the grammar: the range, then the precision. A precision above 6 becomes 6.
///
/// # Errors
/// 22023 for invalid modifiers.
pub fn encode(modifiers: &[i64]) -> Result<i32> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let known = |range: i64| {
        let range = i32::try_from(range).ok()?;
        (range == FULL_RANGE || Range(range).row().is_some()).then_some(range)
    };
    let (range, precision) = match *modifiers {
        [range] => (known(range), None),
        [range, precision] => (known(range), Some(precision)),
        _ => (None, None),
    };
    match (range, precision) {
        (None, _) => invalid("invalid INTERVAL type modifier".to_owned()),
        (Some(FULL_RANGE), None) => Ok(-1),
        (Some(range), None) => Ok(range << 16 | FULL_PRECISION),
        (_, Some(precision)) if precision < 0 => {
            invalid(format!("INTERVAL({precision}) precision must not be negative"))
        }
        (Some(range), Some(precision)) => {
            Ok(range << 16 | i32::try_from(precision).unwrap_or(PRECISION_MAX).min(PRECISION_MAX))
        }
    }
}

/// Cuts off the fields below a modifier's range, and rounds the seconds to its precision.
pub fn apply(interval: Interval, typmod: i32) -> Interval {
    let Interval { months, days, micros } = interval;
    let cut = match Range::of(typmod).row().map(|(_, _, lowest)| *lowest) {
        None | Some(Lowest::Second) => interval,
        Some(Lowest::Minute) => Interval { micros: micros / MINUTE_US * MINUTE_US, ..interval },
        Some(Lowest::Hour) => Interval { micros: micros / HOUR_US * HOUR_US, ..interval },
        Some(Lowest::Day) => Interval { months, days, micros: 0 },
        Some(Lowest::Month) => Interval { months, days: 0, micros: 0 },
        Some(Lowest::Year) => Interval { months: months / YEAR_MONTHS * YEAR_MONTHS, days: 0, micros: 0 },
    };
    match precision(typmod) {
        Some(digits) => Interval { micros: round_us(cut.micros, digits), ..cut },
        None => cut,
    }
}
