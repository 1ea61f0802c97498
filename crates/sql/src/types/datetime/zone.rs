//! Time zones as offsets from UTC: the names and abbreviations that are one.
//!
//! Not zones with rules (`Europe/Berlin`): their offset depends on the date.

use crate::error::{Result, SqlError, SqlState};

/// The largest hours in an offset.
const HOURS_MAX: i32 = 15;

/// Abbreviations that PostgreSQL's default set knows, in seconds east of UTC.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acdt", 37_800),
    ("acst", 34_200),
    ("aest", 36_000),
    ("akst", -32_400),
    ("akdt", -28_800),
    ("ast", -14_400),
    ("adt", -10_800),
    ("bst", 3_600),
    ("cdt", -18_000),
    ("cest", 7_200),
    ("cet", 3_600),
    ("cst", -21_600),
    ("edt", -14_400),
    ("eest", 10_800),
    ("eet", 7_200),
    ("est", -18_000),
    ("gmt", 0),
    ("hst", -36_000),
    ("jst", 32_400),
    ("kst", 32_400),
    ("mdt", -21_600),
    ("mest", 7_200),
    ("met", 3_600),
    ("msk", 10_800),
    ("mst", -25_200),
    ("nzdt", 46_800),
    ("nzst", 43_200),
    ("pdt", -25_200),
    ("pst", -28_800),
    ("sgt", 28_800),
    ("ut", 0),
    ("utc", 0),
    ("wet", 0),
    ("wetdst", 3_600),
    ("z", 0),
    ("zulu", 0),
];

/// Names of zones without an offset.
const UTC_NAMES: &[&str] = &[
    "etc/utc",
    "etc/gmt",
    "etc/uct",
    "etc/zulu",
    "etc/universal",
    "etc/greenwich",
    "universal",
    "greenwich",
    "uct",
    "gmt0",
];

/// Looks up a lower-case abbreviation or name; seconds east of UTC.
pub(super) fn offset_of_name(lower: &str) -> Option<i32> {
    if UTC_NAMES.contains(&lower) {
        return Some(0);
    }
    ABBREVIATIONS.iter().find(|(name, _)| *name == lower).map(|(_, offset)| *offset)
}

/// What is wrong with a numeric offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OffsetError {
    /// It is not one.
    Syntax,
    /// It has too many hours, minutes or seconds.
    Range,
}

/// Reads `+hh`, `-hhmm`, `+hh:mm` or `+hh:mm:ss`; seconds east of UTC.
pub(super) fn parse_offset(text: &str) -> Result<i32, OffsetError> {
    let (sign, body) = match text.as_bytes().first() {
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return Err(OffsetError::Syntax),
    };
    if body.is_empty() || body.len() > 8 || !body.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return Err(OffsetError::Syntax);
    }
    let number = |text: &str| text.parse::<i32>().map_err(|_| OffsetError::Syntax);
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or_default();
    let (hours, minutes, seconds) = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) if first.len() > 4 => {
            let (rest, seconds) = first.split_at(first.len() - 2);
            let (hours, minutes) = rest.split_at(rest.len() - 2);
            (number(hours)?, number(minutes)?, number(seconds)?)
        }
        (None, ..) if first.len() > 2 => {
            let (hours, minutes) = first.split_at(first.len() - 2);
            (number(hours)?, number(minutes)?, 0)
        }
        (None, ..) => (number(first)?, 0, 0),
        (Some(minutes), None, _) => (number(first)?, number(minutes)?, 0),
        (Some(minutes), Some(seconds), None) => (number(first)?, number(minutes)?, number(seconds)?),
        _ => return Err(OffsetError::Syntax),
    };
    if hours > HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(OffsetError::Range);
    }
    Ok(sign * (hours * 3_600 + minutes * 60 + seconds))
}

/// Reads the value of the setting TimeZone or of AT TIME ZONE: UTC and kin, an abbreviation, or an offset; returns
/// seconds east of UTC.
///
/// An offset written with a name or alone as a POSIX zone (`UTC+3`, `+3` in AT TIME ZONE) counts west, as PostgreSQL's
/// does; a bare number, as in `SET TIME ZONE 3`, counts hours east.
///
/// # Errors
/// 22023 for a name that is not known.
pub fn parse_zone(text: &str) -> Result<i32> {
    let lower = text.trim().to_ascii_lowercase();
    let unknown = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{text}\" not recognized"));
    if let Some(offset) = offset_of_name(&lower) {
        return Ok(offset);
    }
    if let Some(hours) = lower.parse::<f64>().ok().filter(|hours| hours.abs() < 168.0)
        && !lower.starts_with('+')
    {
        #[expect(clippy::cast_possible_truncation, reason = "the bound above keeps it small")]
        return Ok((hours * 3_600.0) as i32);
    }
    let quoted = if lower.starts_with('<') { lower.find('>').unwrap_or(0) } else { 0 };
    let at = lower[quoted..].find(['+', '-']).ok_or_else(unknown)?;
    let (name, offset) = lower.split_at(quoted + at);
    let plain = name.is_empty() || (name.starts_with('<') && name.ends_with('>'));
    if !plain && (name.len() < 3 || !name.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        return Err(unknown());
    }
    parse_offset(offset).map(|east| -east).map_err(|_| unknown())
}
