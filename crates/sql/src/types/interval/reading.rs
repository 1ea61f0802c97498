//! `Reading`: the sum of the fields of a text, from which an interval is made.
//!
//! Fractions are carried down: of years to months, of months and weeks to days, of days and smaller units to
//! microseconds.

use super::{Interval, MONTH_DAYS, YEAR_MONTHS};
use crate::types::datetime::DAY_US;

/// Days in a week.
const WEEK_DAYS: i32 = 7;

/// The reason why a text is not an interval. It becomes an error once the whole text is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 22007.
    Syntax,
    /// 22015: a field beyond its bounds.
    Field,
}

/// A number as written: the digits before its point, and the fraction after it, both with its sign.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    pub(super) whole: i64,
    pub(super) fraction: f64,
}

/// The fields added up so far. Years and months are separate because each has its own limit until the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) years: i32,
    pub(super) months: i32,
    pub(super) days: i32,
    pub(super) micros: i64,
}

/// Splits a number into its whole part and its fraction.
fn cut(value: f64) -> (i64, f64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a fraction below 1 of at most 1000 years or a day in microseconds"
    )]
    let whole = value as i64;
    (whole, value - whole as f64)
}

impl Reading {
    /// Adds units of `unit_us` microseconds.
    pub(super) fn add_micros(&mut self, number: Number, unit_us: i64) -> Result<(), Refusal> {
        let sum = number.whole.checked_mul(unit_us).and_then(|us| self.micros.checked_add(us));
        self.micros = sum.ok_or(Refusal::Field)?;
        self.add_fraction(number.fraction, unit_us)
    }

    fn add_fraction(&mut self, fraction: f64, unit_us: i64) -> Result<(), Refusal> {
        let (mut us, rest) = cut(fraction * unit_us as f64);
        if rest > 0.5 {
            us += 1;
        } else if rest < -0.5 {
            us -= 1;
        }
        self.micros = self.micros.checked_add(us).ok_or(Refusal::Field)?;
        Ok(())
    }

    /// Adds days.
    pub(super) fn add_days(&mut self, number: Number) -> Result<(), Refusal> {
        self.days = sum_of(self.days, number.whole, 1)?;
        self.add_fraction(number.fraction, DAY_US)
    }

    /// Adds weeks.
    pub(super) fn add_weeks(&mut self, number: Number) -> Result<(), Refusal> {
        self.days = sum_of(self.days, number.whole, WEEK_DAYS)?;
        self.add_day_fraction(number.fraction, WEEK_DAYS)
    }

    /// Adds months.
    pub(super) fn add_months(&mut self, number: Number) -> Result<(), Refusal> {
        self.months = sum_of(self.months, number.whole, 1)?;
        self.add_day_fraction(number.fraction, MONTH_DAYS)
    }

    fn add_day_fraction(&mut self, fraction: f64, unit_days: i32) -> Result<(), Refusal> {
        let (days, rest) = cut(fraction * f64::from(unit_days));
        self.days = sum_of(self.days, days, 1)?;
        self.add_fraction(rest, DAY_US)
    }

    /// Adds blocks of `unit_years` years. A fraction is rounded to whole months.
    pub(super) fn add_years(&mut self, number: Number, unit_years: i32) -> Result<(), Refusal> {
        self.years = sum_of(self.years, number.whole, unit_years)?;
        let months = number.fraction * f64::from(unit_years) * f64::from(YEAR_MONTHS);
        self.months = sum_of(self.months, cut(months.round_ties_even()).0, 1)?;
        Ok(())
    }

    /// Negates every field.
    pub(super) fn negate(&mut self) -> Result<(), Refusal> {
        let negated = || {
            Some(Self {
                years: self.years.checked_neg()?,
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        *self = negated().ok_or(Refusal::Field)?;
        Ok(())
    }

    /// Returns the interval; `None` if years and months together are too many.
    pub(super) fn finish(self) -> Option<Interval> {
        let months = i64::from(self.years) * i64::from(YEAR_MONTHS) + i64::from(self.months);
        Some(Interval { months: i32::try_from(months).ok()?, days: self.days, micros: self.micros })
    }
}

/// Computes `sum + count * unit`.
fn sum_of(sum: i32, count: i64, unit: i32) -> Result<i32, Refusal> {
    let product = i32::try_from(count).ok().and_then(|count| count.checked_mul(unit));
    product.and_then(|product| sum.checked_add(product)).ok_or(Refusal::Field)
}
