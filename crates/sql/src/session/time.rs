//! A time as a setting holds it: whole milliseconds, read and shown as PostgreSQL does.
//!
//! It is not an SQL interval. Checked by the tests below.

use crate::error::{Result, SqlError, SqlState};

/// Units from the longest to the shortest: name and milliseconds.
const UNITS: [(&str, f64); 6] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0), ("ms", 1.0), ("us", 0.001)];
/// Longest time of a setting, in milliseconds: PostgreSQL's settings have 32 bits.
const MS_MAX: f64 = 2_147_483_647.0;

/// Reads a time. Without a unit it is in milliseconds; fractions of a millisecond are rounded.
///
/// # Errors
/// 22023 for a bad number, a bad unit, or a time out of range.
pub(super) fn read_ms(name: &str, text: &str) -> Result<u64> {
    let invalid = || {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{text}\""))
    };
    let trimmed = text.trim();
    let end = trimmed
        .char_indices()
        .find(|(at, c)| match c {
            '0'..='9' | '.' | '+' | '-' => false,
            // An exponent, if digits follow.
            'e' | 'E' => !trimmed[at + 1..].trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()),
            _ => true,
        })
        .map_or(trimmed.len(), |(at, _)| at);
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.parse().map_err(|_| invalid())?;
    let unit = unit.trim_start();
    let factor = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1.0,
        None => {
            return Err(
                invalid().hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
            );
        }
    };
    let ms = (number * factor).round_ties_even();
    if !(-MS_MAX - 1.0..=MS_MAX).contains(&ms) {
        return Err(invalid().hint("Value exceeds integer range."));
    }
    if ms < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{ms} ms is outside the valid range for parameter \"{name}\" (0 .. {MS_MAX})"),
        ));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of 31 bits")]
    Ok(ms as u64)
}

/// Returns a time as text in the longest unit of which it is a whole multiple.
pub(super) fn show_ms(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
    match units.iter().find(|(_, length)| ms > 0 && ms.is_multiple_of(*length)) {
        Some((unit, length)) => format!("{}{unit}", ms / length),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times are read and shown as PostgreSQL's settings are. Method: a table of texts and the output of SHOW.
    #[test]
    fn times_are_read_and_shown_as_postgresql_does() {
        for (text, shown) in [
            ("0", "0"),
            ("100", "100ms"),
            (" 2s ", "2s"),
            ("2 s", "2s"),
            ("90s", "90s"),
            ("1min", "1min"),
            ("120s", "2min"),
            ("1.5s", "1500ms"),
            ("1e3", "1s"),
            ("600us", "1ms"),
            ("1d", "1d"),
            ("2147483647", "2147483647ms"),
        ] {
            assert_eq!(read_ms("x", text).map(show_ms).ok().as_deref(), Some(shown), "{text}");
        }
        for text in ["", "s", "-1", "-1s", "2 weeks", "1S", "1ss", "2147483648", "25d", "1e400", "nan", "1.2.3"] {
            let error = read_ms("x", text).expect_err(text);
            assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE, "{text}");
        }
    }
}
