//! Bytes and times as people write them in settings: `64KiB`, `10ms`. The printed text reads back as the same value.

use std::time::Duration;

const BYTE_UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

const TIME_UNITS: [(u128, &str); 5] =
    [(3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "us")];

/// Returns `bytes` in the largest unit of which it is a whole number: `65536` becomes `64KiB`, `65537` stays as it
/// is.
pub fn bytes_text(bytes: u64) -> String {
    match BYTE_UNITS.iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => bytes.to_string(),
    }
}

/// Returns `time` in the largest unit of which it is a whole number: `1500us`, `2h`; 0 becomes `0ms`. Fractions of
/// a microsecond are dropped.
pub fn time_text(time: Duration) -> String {
    let us = time.as_micros();
    match TIME_UNITS.iter().find(|(size, _)| us >= *size && us.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", us / size),
        None => "0ms".to_owned(),
    }
}

/// Parses bytes: a whole number and, if there is one, a unit `B`, `KiB`, `MiB`, `GiB` or `TiB`; returns `None` for any
/// other text.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let size = match unit {
        "" | "B" => 1,
        _ => BYTE_UNITS.iter().find(|(_, known)| *known == unit)?.0,
    };
    number.checked_mul(size)
}

/// Parses a time: a whole number and a unit `us`, `ms`, `s`, `min` or `h`, without one milliseconds; returns `None` for
/// any other text.
pub fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let unit = if unit.is_empty() { "ms" } else { unit };
    let us = TIME_UNITS.iter().find(|(_, known)| *known == unit)?.0;
    Some(Duration::from_micros(number.checked_mul(u64::try_from(us).ok()?)?))
}

/// Splits a whole number from its unit, which may stand apart.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a value is shown in the unit that an operator would write. Method: whole and fractional numbers of
    /// each unit, and zero, which all read back.
    #[test]
    fn quantities_are_shown_in_their_largest_whole_unit() {
        let bytes = [(0, "0"), (1023, "1023"), (1024, "1KiB"), (1536, "1536"), (3 << 20, "3MiB"), (1 << 40, "1TiB")];
        bytes.into_iter().for_each(|(bytes, text)| assert_eq!(bytes_text(bytes), text));
        let times =
            [(0, "0ms"), (1, "1us"), (1500, "1500us"), (2000, "2ms"), (90_000_000, "90s"), (7_200_000_000, "2h")];
        times.into_iter().for_each(|(us, text)| assert_eq!(time_text(Duration::from_micros(us)), text));
        bytes.into_iter().for_each(|(bytes, text)| assert_eq!(parse_bytes(text), Some(bytes)));
        times.into_iter().for_each(|(us, text)| assert_eq!(parse_time(text), Some(Duration::from_micros(us))));
    }

    /// Goal: texts that people write are read, and nothing else. Method: tables of both.
    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!((parse_bytes("12 B"), parse_bytes("2 MiB")), (Some(12), Some(2 << 20)));
        assert_eq!(
            (parse_time("3"), parse_time("3 min")),
            (Some(Duration::from_millis(3)), Some(Duration::from_secs(180)))
        );
        for wrong in ["", "MiB", "-1", "64MB", "64 mib", "1.5GiB", "99999999999GiB", "10 minutes"] {
            assert_eq!((parse_bytes(wrong), parse_time(wrong)), (None, None), "{wrong}");
        }
    }
}
