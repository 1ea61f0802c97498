//! `Utc`: a time as people read it, in errors and in descriptions of log records.

use std::fmt;

/// A time in microseconds since 1970, displayed as `2026-01-02 03:04:05.000006+00`.
pub(crate) struct Utc(pub(crate) i64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_US: i64 = 86_400_000_000;
        let (days, us) = (self.0.div_euclid(DAY_US), self.0.rem_euclid(DAY_US));
        // Years begin in March, in eras of 400 years, so that the leap day is the last day of its year.
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + i64::from(month <= 2);
        let (second, us) = (us / 1_000_000, us % 1_000_000);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}+00")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a time is displayed in the usual form. Method: both sides of a leap day, of a year, of 1970, and far
    /// years.
    #[test]
    fn times_are_displayed_by_the_calendar() {
        for (wall_us, shown) in [
            (0, "1970-01-01 00:00:00.000000+00"),
            (-1, "1969-12-31 23:59:59.999999+00"),
            (951_782_399_999_999, "2000-02-28 23:59:59.999999+00"),
            (951_782_400_000_000, "2000-02-29 00:00:00.000000+00"),
            (951_868_800_000_001, "2000-03-01 00:00:00.000001+00"),
            (1_767_323_045_000_006, "2026-01-02 03:04:05.000006+00"),
            (4_107_542_400_000_000, "2100-03-01 00:00:00.000000+00"),
        ] {
            assert_eq!(Utc(wall_us).to_string(), shown);
        }
        assert!(!Utc(i64::MAX).to_string().is_empty() && !Utc(i64::MIN).to_string().is_empty());
    }
}
