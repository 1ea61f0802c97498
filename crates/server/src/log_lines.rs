//! Lines of the server's log, on standard error: `2026-11-28 04:31:35.123 UTC WARNING:  text`.
//!
//! | level | for |
//! |---|---|
//! | LOG | actions of the server, its own and requested ones |
//! | WARNING | events that need an operator's attention |
//!
//! The error that ends the process is the program's last line, and its answer to the caller: `error: text`.
//!
//! # Invariants
//! - G1. An event is one line, whatever names and texts of clients it contains.

use std::{
    fmt,
    io::{self, Write as _},
};

use collie_base::one_line;
use collie_env::{Clock as _, RealClock};
use collie_sql::types::datetime::{UNIX_EPOCH_DAYS, civil_from_days};

const DAY_MS: i64 = 86_400_000;

/// Logs an action of the server.
pub fn note(text: &dyn fmt::Display) {
    write("LOG", text);
}

/// Logs an event that needs an operator's attention.
pub fn warn(text: &dyn fmt::Display) {
    write("WARNING", text);
}

/// Returns the text of a line of the log; of another program's line, the whole line.
pub fn text_of(line: &str) -> &str {
    let text = |level| line.split_once(level).map(|(_, text)| text);
    text(" UTC LOG:  ").or_else(|| text(" UTC WARNING:  ")).unwrap_or(line)
}

fn write(level: &str, text: &dyn fmt::Display) {
    let line = line(RealClock.wall_us(), level, text);
    // If standard error is closed, there is no place to report that.
    let _closed = io::stderr().lock().write_all(line.as_bytes());
}

/// Returns a line; `wall_us` is in microseconds since 1970.
fn line(wall_us: i64, level: &str, text: &dyn fmt::Display) -> String {
    let wall_ms = wall_us.div_euclid(1_000);
    let (days, of_day) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let since_2000 = i32::try_from(days).unwrap_or(i32::MAX).saturating_add(UNIX_EPOCH_DAYS);
    let (year, month, day) = civil_from_days(since_2000);
    let (seconds, ms) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let text = text.to_string();
    let text = one_line(&text);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03} UTC {level}:  {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: G1: a line has its time in UTC, its level and its text, and a text with a line end is one line (T266).
    /// Method: moments at both ends of a day, and before 1970.
    #[test]
    fn line_has_its_time_and_level() {
        for (wall_us, expected) in [
            (0, "1970-01-01 00:00:00.000 UTC LOG:  a\\nWARNING:  b\n"),
            (951_868_799_999_999, "2000-02-29 23:59:59.999 UTC LOG:  a\\nWARNING:  b\n"),
            (-1, "1969-12-31 23:59:59.999 UTC LOG:  a\\nWARNING:  b\n"),
        ] {
            assert_eq!(line(wall_us, "LOG", &"a\nWARNING:  b"), expected);
            assert_eq!(text_of(expected.trim_end()), "a\\nWARNING:  b");
        }
        assert_eq!(text_of("error: UTC"), "error: UTC");
    }
}
