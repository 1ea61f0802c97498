//! `Interval`: a span of time as months, days and microseconds, which are kept apart: how long a month is depends on
//! which one, and nothing here knows.
//!
//! Not what an interval does to a moment (`builtin`): that needs a calendar.
//!
//! # Invariants
//! - I1. Months, days and microseconds each have a sign of their own.
//! - I2. Order, equality and hash go by [`Interval::span_us`], in which a month is 30 days and a day 24 hours: `1 mon`
//!   equals `30 days`, and prints otherwise. So a key does not give back what went in; [`Interval::from_span_us`] gives
//!   an equal one.
//! - I3. No arithmetic wraps: what does not fit is 22008.

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

/// Days in a month, where one has to be assumed.
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

/// How intervals print, and what a sign in front of one is for when it is read (the setting IntervalStyle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`. Read, a sign in front is for all fields, unless another has one.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`.
    Iso8601,
}

/// An interval taken apart as people count it. All fields of one of months, days and microseconds have its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Whole years of the months.
    pub years: i32,
    /// Months left.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Whole hours of the microseconds.
    pub hours: i64,
    /// Minutes left.
    pub minutes: i64,
    /// Seconds left.
    pub seconds: i64,
    /// Microseconds left.
    pub micros: i64,
}

impl Interval {
    /// No time at all.
    pub const ZERO: Self = Self { months: 0, days: 0, micros: 0 };

    /// Makes one of microseconds alone.
    pub const fn of_micros(micros: i64) -> Self {
        Self { months: 0, days: 0, micros }
    }

    /// Returns its length in microseconds, with months of 30 days and days of 24 hours (I2).
    pub fn span_us(self) -> i128 {
        let days = i128::from(self.months) * i128::from(MONTH_DAYS) + i128::from(self.days);
        days * i128::from(DAY_US) + i128::from(self.micros)
    }

    /// Returns an interval of that length, in as many whole months and days as there are; `None` when none is so long.
    pub fn from_span_us(span_us: i128) -> Option<Self> {
        let (month_us, day_us) = (i128::from(MONTH_DAYS) * i128::from(DAY_US), i128::from(DAY_US));
        let within = |count: i128| i32::try_from(count).unwrap_or(if count < 0 { i32::MIN } else { i32::MAX });
        let months = within(span_us / month_us);
        let rest = span_us - i128::from(months) * month_us;
        let days = within(rest / day_us);
        let micros = i64::try_from(rest - i128::from(days) * day_us).ok()?;
        Some(Self { months, days, micros })
    }

    /// Takes it apart.
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

/// 22008.
#[cold]
pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}
