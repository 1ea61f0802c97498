//! Time zones as offsets from UTC: names and abbreviations of zones with one offset.
//!
//! Zones with rules (`Europe/Berlin`) are not supported: their offset depends on the date.

use std::fmt;

use super::SECOND_US;
use crate::error::{SqlError, SqlState};
use crate::types::IntervalStyle;
use crate::types::interval::parse_interval;

/// Maximum number of hours in an offset.
const HOURS_MAX: i32 = 15;

/// Abbreviations from PostgreSQL's default set, in seconds east of UTC.
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

/// Names of zones whose offset is zero.
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

/// Looks up a lower-case abbreviation or name; returns seconds east of UTC.
pub(super) fn offset_of_name(lower: &str) -> Option<i32> {
    if UTC_NAMES.contains(&lower) {
        return Some(0);
    }
    ABBREVIATIONS.iter().find(|(name, _)| *name == lower).map(|(_, offset)| *offset)
}

/// The error in a numeric offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OffsetError {
    /// It is not an offset.
    Syntax,
    /// It has too many hours, minutes or seconds.
    Range,
}

/// Parses `+hh`, `-hhmm`, `+hh:mm` or `+hh:mm:ss`; returns seconds east of UTC.
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

/// The name of a zone as values show it after a time: at most 15 ASCII characters, possibly none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ZoneName {
    length: u8,
    bytes: [u8; ZONE_NAME_MAX],
}

const ZONE_NAME_MAX: usize = 15;

impl ZoneName {
    fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; ZONE_NAME_MAX];
        bytes.get_mut(..name.len()).filter(|_| name.is_ascii())?.copy_from_slice(name.as_bytes());
        Some(Self { length: u8::try_from(name.len()).ok()?, bytes })
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("checked when it was made")
    }
}

impl Default for ZoneName {
    fn default() -> Self {
        Self::new("UTC").expect("short")
    }
}

impl fmt::Debug for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A zone with one offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Zone {
    /// Seconds east of UTC.
    pub east_s: i32,
    /// The name that values show.
    pub name: ZoneName,
}

/// The reason why a text is not a value of the setting TimeZone.
#[derive(Debug, PartialEq, Eq)]
pub enum ZoneError {
    /// It names no known zone.
    Unknown,
    /// Its offset has seconds.
    LeapSeconds,
    /// Its offset is too large.
    Range,
    /// It is an interval with months or days; the text is PostgreSQL's DETAIL.
    Interval(&'static str),
}

/// Zones of the time zone database with one offset: name, seconds east of UTC, abbreviation.
const FILES: &[(&str, i32, &str)] = &[
    ("UTC", 0, "UTC"),
    ("UCT", 0, "UTC"),
    ("Universal", 0, "UTC"),
    ("Zulu", 0, "UTC"),
    ("Etc/UTC", 0, "UTC"),
    ("Etc/UCT", 0, "UTC"),
    ("Etc/Universal", 0, "UTC"),
    ("Etc/Zulu", 0, "UTC"),
    ("GMT", 0, "GMT"),
    ("GMT0", 0, "GMT"),
    ("GMT+0", 0, "GMT"),
    ("GMT-0", 0, "GMT"),
    ("Greenwich", 0, "GMT"),
    ("Etc/GMT", 0, "GMT"),
    ("Etc/GMT0", 0, "GMT"),
    ("Etc/GMT+0", 0, "GMT"),
    ("Etc/GMT-0", 0, "GMT"),
    ("Etc/Greenwich", 0, "GMT"),
    ("EST", -18_000, "EST"),
    ("MST", -25_200, "MST"),
    ("HST", -36_000, "HST"),
];
/// The zones from `Etc/GMT+1` up to this number, west of UTC, and from `Etc/GMT-1` up to the next one, east of it.
const ETC_WEST_MAX: i32 = 12;
const ETC_EAST_MAX: i32 = 14;

impl Zone {
    /// Finds a zone by its name in the time zone database, in any case, and returns it with the usual form of the name.
    fn of_file(name: &str) -> Option<(Self, String)> {
        if let Some((name, east_s, shown)) = FILES.iter().find(|(file, ..)| file.eq_ignore_ascii_case(name)) {
            return Some((Self { east_s: *east_s, name: ZoneName::new(shown)? }, (*name).to_owned()));
        }
        let prefix = name.get(..7).filter(|prefix| prefix.eq_ignore_ascii_case("Etc/GMT"))?;
        let number = &name[prefix.len()..];
        let west: i32 = number.parse().ok()?;
        if west == 0 || !(-ETC_EAST_MAX..=ETC_WEST_MAX).contains(&west) || number != format!("{west:+}") {
            return None;
        }
        let zone = Self { east_s: -west * 3_600, name: ZoneName::new(&format!("{:+03}", -west))? };
        Some((zone, format!("Etc/GMT{west:+}")))
    }

    /// Parses a POSIX zone without daylight-saving time, such as `EST5` or `<+0130>-1:30`. Its offset counts west. The
    /// name may be empty, so `+02:00` is two hours west.
    fn of_posix(text: &str) -> Option<Self> {
        let (name, offset) = match text.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>')?,
            None => text.split_at(text.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+'))?),
        };
        let (sign, digits) = match offset.as_bytes().first()? {
            b'-' => (1, &offset[1..]),
            b'+' => (-1, &offset[1..]),
            _ => (-1, offset),
        };
        let mut parts = digits.split(':');
        let mut part = |most: i32| match parts.next() {
            None => Some(0),
            Some(digits) => {
                let plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|value| plain && *value <= most)
            }
        };
        let (hours, minutes, seconds) = (part(POSIX_HOURS_MAX)?, part(59)?, part(60)?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { east_s: sign * (hours * 3_600 + minutes * 60 + seconds), name: ZoneName::new(name)? })
    }

    /// Makes the zone of a numeric offset; also returns the POSIX zone as which it is shown.
    fn of_offset(east_s: i32) -> Option<(Self, String)> {
        let seconds = east_s.unsigned_abs();
        let mut clock = format!("{:02}", seconds / 3_600);
        if !seconds.is_multiple_of(3_600) {
            clock += &format!(":{:02}", seconds / 60 % 60);
        }
        if !seconds.is_multiple_of(60) {
            clock += &format!(":{:02}", seconds % 60);
        }
        let (east, west) = if east_s < 0 { ('-', '+') } else { ('+', '-') };
        let shown = format!("<{east}{clock}>{west}{clock}");
        Some((Self::of_posix(&shown)?, shown))
    }

    /// Parses a value of the setting TimeZone; returns the zone, and the form in which the setting is shown, which
    /// reads as the same zone.
    ///
    /// A number (`5.5`) and an interval (`INTERVAL '02:00'`) count hours east. A name is that of the time zone
    /// database, or a POSIX zone, whose offset counts west: `+02:00` is such a zone, with an empty name.
    ///
    /// # Errors
    /// The reason why the text is not a zone. Zones with daylight-saving time are unknown.
    pub fn of_setting(text: &str) -> Result<(Self, String), ZoneError> {
        if let Some(interval) = text.get(..8).filter(|word| word.eq_ignore_ascii_case("interval")) {
            let quoted =
                text[interval.len()..].trim_start().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
            let quoted = quoted.filter(|inner| !inner.contains('\'')).ok_or(ZoneError::Unknown)?;
            let read = parse_interval(quoted, -1, IntervalStyle::Postgres).map_err(|_| ZoneError::Unknown)?;
            if read.months != 0 {
                return Err(ZoneError::Interval("Cannot specify months in time zone interval."));
            }
            if read.days != 0 {
                return Err(ZoneError::Interval("Cannot specify days in time zone interval."));
            }
            let east_s = i32::try_from(read.micros / SECOND_US).map_err(|_| ZoneError::Range)?;
            return Self::of_offset(east_s).ok_or(ZoneError::Range);
        }
        if let Some(hours) = number_of_hours(text) {
            #[expect(clippy::cast_possible_truncation, reason = "a cast of a float stops at the limits")]
            return Self::of_offset((hours * 3_600.0) as i32).ok_or(ZoneError::Range);
        }
        if let Some(found) = Self::of_file(text) {
            return Ok(found);
        }
        // C reads these as numbers, too.
        if matches!(text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan") {
            return Err(ZoneError::Range);
        }
        let upper = text.to_ascii_uppercase();
        let zone = Self::of_posix(&upper).ok_or(ZoneError::Unknown)?;
        if zone.east_s % 60 == 0 { Ok((zone, upper)) } else { Err(ZoneError::LeapSeconds) }
    }
}

impl Zone {
    /// Parses the form in which the setting TimeZone is shown; its offset may have seconds.
    pub fn of_shown(text: &str) -> Option<Self> {
        Self::of_file(text).map(|(zone, _)| zone).or_else(|| Self::of_posix(text))
    }
}

/// Maximum number of hours of a POSIX zone.
const POSIX_HOURS_MAX: i32 = 167;

/// Reads the whole text as a decimal number.
fn number_of_hours(text: &str) -> Option<f64> {
    let number = text.trim_start();
    let decimal = number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    number.parse().ok().filter(|_| decimal)
}

/// Parses the zone of AT TIME ZONE, which is an abbreviation, a name, or a POSIX zone; returns seconds east of UTC.
///
/// The offset of a POSIX zone counts west, even if its name is empty: `5` and `+05:00` are five hours west.
///
/// # Errors
/// 22023 for an unknown name.
pub fn parse_zone(text: &str) -> Result<i32, SqlError> {
    let lower = text.to_ascii_lowercase();
    if let Some((_, offset)) = ABBREVIATIONS.iter().find(|(name, _)| *name == lower) {
        return Ok(*offset);
    }
    Zone::of_file(text)
        .map(|(zone, _)| zone)
        .or_else(|| Zone::of_posix(&lower))
        .map(|zone| zone.east_s)
        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{text}\" not recognized")))
}
