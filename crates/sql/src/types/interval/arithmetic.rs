//! Sums, multiples and normal forms of intervals.
//!
//! A fraction of a month becomes days, and a fraction of a day becomes microseconds. Nothing is carried upwards except
//! by the normal forms, and by a product or quotient whose fractions of a day add up to whole days.

use super::{Interval, MONTH_DAYS, out_of_range};
use crate::error::{Result, SqlError, SqlState};
use crate::types::datetime::{DAY_US, SECOND_US};

/// Seconds in a day.
const DAY_SECONDS: f64 = 86_400.0;

/// Rounds to a millionth, so that a product such as `0.1 * 30` is the intended whole day.
fn to_millionths(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// Drops the fraction; `None` if the whole part does not fit an `i32`.
fn whole(value: f64) -> Option<i32> {
    #[expect(clippy::cast_possible_truncation, reason = "within the bounds that are checked first")]
    (value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX)).then_some(value as i32)
}

impl Interval {
    /// Adds field by field.
    ///
    /// # Errors
    /// 22008 if a field overflows.
    pub fn checked_add(self, other: Self) -> Result<Self> {
        self.each(other, i32::checked_add, i64::checked_add)
    }

    /// Subtracts field by field.
    ///
    /// # Errors
    /// 22008 if a field overflows.
    pub fn checked_sub(self, other: Self) -> Result<Self> {
        self.each(other, i32::checked_sub, i64::checked_sub)
    }

    /// Negates each field.
    ///
    /// # Errors
    /// 22008 for the smallest value of a field, which has no positive counterpart.
    pub fn checked_neg(self) -> Result<Self> {
        Self::ZERO.checked_sub(self)
    }

    fn each(
        self,
        other: Self,
        small: impl Fn(i32, i32) -> Option<i32>,
        wide: impl Fn(i64, i64) -> Option<i64>,
    ) -> Result<Self> {
        let sum = || {
            Some(Self {
                months: small(self.months, other.months)?,
                days: small(self.days, other.days)?,
                micros: wide(self.micros, other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// Multiplies by a number.
    ///
    /// # Errors
    /// 22008 if the result is too large, or if `factor` is NaN.
    pub fn checked_mul(self, factor: f64) -> Result<Self> {
        self.scaled(|field| field * factor)
    }

    /// Divides by a number.
    ///
    /// # Errors
    /// 22012 for zero; 22008 if the result is too large, or if `divisor` is NaN.
    pub fn checked_div(self, divisor: f64) -> Result<Self> {
        if divisor == 0.0 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        self.scaled(|field| field / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Self> {
        let scaled = || {
            let (months_exact, days_exact) = (scale(f64::from(self.months)), scale(f64::from(self.days)));
            let (months, mut days) = (whole(months_exact)?, whole(days_exact)?);
            let month_rest_days = to_millionths((months_exact - f64::from(months)) * f64::from(MONTH_DAYS));
            let more_days = whole(month_rest_days)?;
            let day_rest = days_exact - f64::from(days) + month_rest_days - f64::from(more_days);
            let mut seconds = to_millionths(day_rest * DAY_SECONDS);
            if seconds.abs() >= DAY_SECONDS {
                let carried = whole(seconds / DAY_SECONDS)?;
                days = days.checked_add(carried)?;
                seconds -= f64::from(carried) * DAY_SECONDS;
            }
            let micros = (scale(self.micros as f64) + seconds * SECOND_US as f64).round_ties_even();
            // 2^63 itself is a float but not an i64.
            if !(micros >= i64::MIN as f64 && micros < i64::MAX as f64) {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "within the bounds that are checked above")]
            Some(Self { months, days: days.checked_add(more_days)?, micros: micros as i64 })
        };
        scaled().ok_or_else(out_of_range)
    }

    /// Turns every 24 hours into a day, and gives days and microseconds the same sign.
    ///
    /// # Errors
    /// 22008 if the days overflow.
    pub fn justify_hours(self) -> Result<Self> {
        let justified = || {
            let (carried, micros) = (self.micros / DAY_US, self.micros % DAY_US);
            let days = self.days.checked_add(i32::try_from(carried).ok()?)?;
            let (days, micros) = same_sign(days.into(), micros, DAY_US);
            Some(Self { months: self.months, days: i32::try_from(days).ok()?, micros })
        };
        justified().ok_or_else(out_of_range)
    }

    /// Turns every 30 days into a month, and gives months and days the same sign.
    ///
    /// # Errors
    /// 22008 if the months overflow.
    pub fn justify_days(self) -> Result<Self> {
        let justified = || {
            let months = self.months.checked_add(self.days / MONTH_DAYS)?;
            let (months, days) = same_sign(months.into(), (self.days % MONTH_DAYS).into(), MONTH_DAYS.into());
            Some(Self { months: i32::try_from(months).ok()?, days: i32::try_from(days).ok()?, micros: self.micros })
        };
        justified().ok_or_else(out_of_range)
    }

    /// Turns every 24 hours into a day and every 30 days into a month, and gives all fields the same sign.
    ///
    /// # Errors
    /// 22008 if the months overflow.
    pub fn justify_interval(self) -> Result<Self> {
        let justified = || {
            // 64 bits keep the sum of days from overflowing.
            let all_days = i64::from(self.days) + self.micros / DAY_US;
            let mut micros = self.micros % DAY_US;
            let mut months = i64::from(self.months) + all_days / i64::from(MONTH_DAYS);
            let mut days = all_days % i64::from(MONTH_DAYS);
            // PostgreSQL also refuses if the months exceed their range only temporarily.
            i32::try_from(months).ok()?;
            if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
                (months, days) = (months - 1, days + i64::from(MONTH_DAYS));
            } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
                (months, days) = (months + 1, days - i64::from(MONTH_DAYS));
            }
            (days, micros) = same_sign(days, micros, DAY_US);
            Some(Self { months: i32::try_from(months).ok()?, days: i32::try_from(days).ok()?, micros })
        };
        justified().ok_or_else(out_of_range)
    }
}

/// Gives two fields the same sign, where one `large` is `unit` of `small`.
fn same_sign(large: i64, small: i64, unit: i64) -> (i64, i64) {
    if large > 0 && small < 0 {
        (large - 1, small + unit)
    } else if large < 0 && small > 0 {
        (large + 1, small - unit)
    } else {
        (large, small)
    }
}
