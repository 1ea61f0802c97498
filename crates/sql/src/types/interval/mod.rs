//! `Interval`: a span of time in months, days and microseconds. The three stay separate because the length of a month
//! depends on the month, which is not known here.
//!
//! `builtin` applies intervals to timestamps, which needs a calendar.
//!
//! # Invariants
//! - I1. Months, days and microseconds each have their own sign.
//! - I2. Order, equality and hash follow [`Interval::span_us`], in which a month is 30 days and a day 24 hours: `1 mon`
//!   equals `30 days` but prints differently. So a key does not return the encoded interval; [`Interval::from_span_us`]
//!   gives an equal one.
//! - I3. No arithmetic wraps: a result that does not fit is 22008.

mod arithmetic;
mod format;
mod iso;
pub mod modifier;
mod parse;
mod reading;

#[cfg(test)]
mod interval_tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::datetime::{DAY_US, SECOND_US};
use crate::error::{SqlError, SqlState};

pub use format::write_interval;
pub use parse::parse_interval;

/// Days in a month, if a length has to be assumed.
pub const MONTH_DAYS: i32 = 30;
/// Months in a year.
pub const YEAR_MONTHS: i32 = 12;
/// Microseconds in a minute.
pub const MINUTE_US: i64 = 60 * SECOND_US;
/// Microseconds in an hour.
pub const HOUR_US: i64 = 60 * MINUTE_US;

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// The setting IntervalStyle: the style in which intervals print, and the meaning of a leading sign on input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`. On input, a leading minus sign applies to all fields, unless another field has a sign.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`.
    Iso8601,
}

/// An interval split into the usual units. All fields of one of months, days and microseconds have its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Whole years of the months.
    pub years: i32,
    /// Remaining months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Whole hours of the microseconds.
    pub hours: i64,
    /// Remaining minutes.
    pub minutes: i64,
    /// Remaining seconds.
    pub seconds: i64,
    /// Remaining microseconds.
    pub micros: i64,
}

impl Interval {
    /// The empty interval.
    pub const ZERO: Self = Self { months: 0, days: 0, micros: 0 };

    /// Makes an interval of microseconds only.
    pub const fn of_micros(micros: i64) -> Self {
        Self { months: 0, days: 0, micros }
    }

    /// Returns its length in microseconds, with months of 30 days and days of 24 hours (I2).
    pub fn span_us(self) -> i128 {
        let days = i128::from(self.months) * i128::from(MONTH_DAYS) + i128::from(self.days);
        days * i128::from(DAY_US) + i128::from(self.micros)
    }

    /// Returns an interval of this length, with as many whole months and days as fit; `None` if no interval is so long.
    pub fn from_span_us(span_us: i128) -> Option<Self> {
        let (month_us, day_us) = (i128::from(MONTH_DAYS) * i128::from(DAY_US), i128::from(DAY_US));
        let within = |count: i128| i32::try_from(count).unwrap_or(if count < 0 { i32::MIN } else { i32::MAX });
        let months = within(span_us / month_us);
        let rest = span_us - i128::from(months) * month_us;
        let days = within(rest / day_us);
        let micros = i64::try_from(rest - i128::from(days) * day_us).ok()?;
        Some(Self { months, days, micros })
    }

    /// Splits the interval into units.
    pub fn parts(self) -> Parts {
        Parts {
            years: self.months / YEAR_MONTHS,
            months: self.months % YEAR_MONTHS,
            days: self.days,
            hours: self.micros / HOUR_US,
            minutes: self.micros % HOUR_US / MINUTE_US,
            seconds: self.micros % MINUTE_US / SECOND_US,
            micros: self.micros % SECOND_US,
        }
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.span_us().cmp(&other.span_us())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i128(self.span_us());
    }
}

/// Makes the 22008 error.
#[cold]
pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}
