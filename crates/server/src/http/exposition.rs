//! [`Exposition`]: figures in Prometheus' text format, version 0.0.4: for each metric a line of help, a line with its
//! kind, and a line for each of its samples.
//!
//! # Invariants
//! - P1. A metric appears once, with all its samples together; one without samples does not appear.
//! - P2. Every figure is a finite number. Times are in seconds, sizes in bytes, log positions in bytes.

use std::{fmt::Write as _, time::Duration};

/// How a metric's value behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The value only grows, until the server is restarted.
    Counter,
    /// The value goes up and down.
    Gauge,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    Count(u64),
    Time(Duration),
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Figure {
    fn from(count: usize) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

/// For numbers that are never negative.
impl From<i64> for Figure {
    fn from(count: i64) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(0))
    }
}

impl From<bool> for Figure {
    fn from(is_so: bool) -> Self {
        Self::Count(u64::from(is_so))
    }
}

impl From<Duration> for Figure {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

/// Returns a number of microseconds, which is never negative, as a time.
pub(super) fn micros(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// A sample: labels with their values, and the value of the sample.
type Sample<'a, const N: usize> = ([(&'static str, &'a str); N], Figure);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Adds a metric with one sample and no labels.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, figure: impl Into<Figure>) {
        self.each(name, kind, help, [([], figure.into())]);
    }

    /// Adds a metric with a sample for each set of labels.
    pub(super) fn each<'a, const N: usize>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = Sample<'a, N>>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return; // P1
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let text = &mut self.0;
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, figure) in samples {
            text.push_str(name);
            for (number, (label, value)) in labels.iter().enumerate() {
                text.push(if number == 0 { '{' } else { ',' });
                let _infallible = write!(text, "{label}=\"");
                for letter in value.chars() {
                    match letter {
                        '\\' => text.push_str("\\\\"),
                        '"' => text.push_str("\\\""),
                        '\n' => text.push_str("\\n"),
                        other => text.push(other),
                    }
                }
                text.push('"');
            }
            if N > 0 {
                text.push('}');
            }
            let _infallible = match figure {
                Figure::Count(count) => writeln!(text, " {count}"),
                Figure::Time(time) => writeln!(text, " {}", seconds(time)),
            };
        }
    }

    /// Returns the text.
    pub(super) fn text(self) -> String {
        self.0
    }
}

/// Returns a time in seconds, to the nanosecond: a binary fraction would show digits that were not measured.
fn seconds(time: Duration) -> String {
    let (whole, nanos) = (time.as_secs(), time.subsec_nanos());
    let text = format!("{whole}.{nanos:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the text conforms to the format, even for label values that contain its special characters, and a metric
    /// without samples is left out. Method: each form once, byte by byte.
    #[test]
    fn text_is_what_the_format_says() {
        let mut figures = Exposition::default();
        figures.one("a_total", Kind::Counter, "So many.", 7_u64);
        figures.one("b_seconds", Kind::Gauge, "So long.", Duration::from_micros(1_500_001));
        let samples = [([("slot", "a\"b\\c\nd"), ("quantile", "0.5")], Figure::from(true))];
        figures.each("c", Kind::Gauge, "Is it so?", samples);
        figures.each("d", Kind::Gauge, "Nobody.", Vec::<Sample<'_, 1>>::new());
        let expected = "# HELP a_total So many.\n# TYPE a_total counter\na_total 7\n\
                        # HELP b_seconds So long.\n# TYPE b_seconds gauge\nb_seconds 1.500001\n\
                        # HELP c Is it so?\n# TYPE c gauge\nc{slot=\"a\\\"b\\\\c\\nd\",quantile=\"0.5\"} 1\n";
        assert_eq!(figures.text(), expected);
        assert_eq!((Figure::from(-3_i64), micros(-3)), (Figure::Count(0), Duration::ZERO));
    }
}
