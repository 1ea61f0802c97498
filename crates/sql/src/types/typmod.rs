//! Type modifiers: their encoding, their text, and their effect on a value.
//!
//! Casts between types are not here: the value already has the target's type.
//!
//! # Encoding (PostgreSQL's)
//! | type                              | typmod |
//! |-----------------------------------|--------|
//! | `varchar(n)`, `char(n)`           | n + 4  |
//! | `numeric(p,s)`                    | (p << 16 or (s and 0x7FF)) + 4; s is signed, 11 bits |
//! | `time(p)`, `timestamp(p)`, ... tz | p      |
//! | `interval`                        | fields and precision, see `interval/modifier.rs` |
//! | none                              | -1     |

use std::sync::Arc;

use super::value::trim_blanks;
use super::{Array, SqlType, Value, interval, oid};
use crate::error::{Result, SqlError, SqlState};

/// Length of the header of a variable-length value in PostgreSQL, which its typmods include.
const HEADER: i32 = 4;
/// Maximum n of `varchar(n)` and `char(n)`.
const LENGTH_MAX: i64 = 10_485_760;
/// Maximum precision, and maximum absolute scale, of `numeric(p,s)`.
const NUMERIC_PRECISION_MAX: i64 = 1_000;
/// Maximum number of digits after the seconds' point.
const FRACTION_DIGITS_MAX: i32 = 6;

/// Returns the text that a modifier adds to its type's name, such as `(10,2)`; empty for none.
pub fn display(oid: u32, typmod: i32) -> String {
    if typmod < 0 {
        return String::new();
    }
    match oid {
        oid::VARCHAR | oid::BPCHAR => length(typmod).map_or_else(String::new, |n| format!("({n})")),
        oid::NUMERIC => numeric_parts(typmod).map_or_else(String::new, |(p, s)| format!("({p},{s})")),
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => format!("({typmod})"),
        oid::INTERVAL => interval::modifier::display(typmod),
        _ => String::new(),
    }
}

/// Returns the n that the modifier of `varchar(n)` or `char(n)` encodes.
pub fn length(typmod: i32) -> Option<i32> {
    (typmod >= HEADER).then_some(typmod - HEADER)
}

/// Returns the precision and scale that the modifier of `numeric(p,s)` encodes.
pub fn numeric_parts(typmod: i32) -> Option<(i32, i32)> {
    if typmod < HEADER {
        return None;
    }
    let bits = typmod - HEADER;
    Some((bits >> 16 & 0xFFFF, ((bits & 0x7FF) ^ 0x400) - 0x400))
}

/// Encodes precision and scale of `numeric(p,s)`; the caller has checked their limits.
pub const fn numeric(precision: i32, scale: i32) -> i32 {
    (precision << 16 | scale & 0x7FF) + HEADER
}

/// Encodes the modifiers as written in SQL: `varchar(10)`, `numeric(10,2)`, `timestamp(3)`; no modifiers give -1.
///
/// # Errors
/// 22023 for a modifier out of range; 42601 for a type without modifiers.
pub fn encode(oid: u32, modifiers: &[i64]) -> Result<i32> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let within = "bounded above";
    if let Some(element) = oid::element_of(oid).filter(|_| oid::is_array(oid)) {
        return encode(element, modifiers);
    }
    match (oid, modifiers) {
        (_, []) => Ok(-1),
        (oid::VARCHAR | oid::BPCHAR, &[n]) => {
            let name = if oid == oid::VARCHAR { "varchar" } else { "char" };
            if n < 1 {
                invalid(format!("length for type {name} must be at least 1"))
            } else if n > LENGTH_MAX {
                invalid(format!("length for type {name} cannot exceed {LENGTH_MAX}"))
            } else {
                Ok(i32::try_from(n).expect(within) + HEADER)
            }
        }
        (oid::NUMERIC, &[precision, ref rest @ ..]) if rest.len() <= 1 => {
            let scale = rest.first().copied().unwrap_or(0);
            let bound = NUMERIC_PRECISION_MAX;
            if !(1..=bound).contains(&precision) {
                invalid(format!("NUMERIC precision {precision} must be between 1 and {bound}"))
            } else if !(-bound..=bound).contains(&scale) {
                invalid(format!("NUMERIC scale {scale} must be between -{bound} and {bound}"))
            } else {
                Ok(numeric(i32::try_from(precision).expect(within), i32::try_from(scale).expect(within)))
            }
        }
        (oid::NUMERIC, _) => invalid("invalid NUMERIC type modifier".to_owned()),
        (oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ, &[p]) => {
            let name = if matches!(oid, oid::TIME | oid::TIMETZ) { "TIME" } else { "TIMESTAMP" };
            let zone = if matches!(oid, oid::TIMETZ | oid::TIMESTAMPTZ) { " WITH TIME ZONE" } else { "" };
            if p < 0 {
                return invalid(format!("{name}({p}){zone} precision must not be negative"));
            }
            Ok(i32::try_from(p).unwrap_or(FRACTION_DIGITS_MAX).min(FRACTION_DIGITS_MAX))
        }
        (oid::INTERVAL, modifiers) => interval::modifier::encode(modifiers),
        (oid::VARCHAR | oid::BPCHAR | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ, _) => {
            invalid("invalid type modifier".to_owned())
        }
        _ => {
            let name = oid::typname(oid).map_or_else(|| oid.to_string(), str::to_owned);
            let message = format!("type modifier is not allowed for type \"{name}\"");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// Makes `value` fit the modifier of `target`, whose type it already has; without a modifier it stays unchanged.
///
/// An `explicit` cast cuts text that is too long. Otherwise text is cut only if it loses nothing but blanks; other text
/// is refused.
///
/// # Errors
/// 22001 for text that is too long; 22003 for a number with too many digits.
pub fn apply(value: Value, target: SqlType, explicit: bool) -> Result<Value> {
    if target.typmod < 0 {
        return Ok(value);
    }
    match (target.oid, value) {
        (_, Value::Null) => Ok(Value::Null),
        (oid::VARCHAR | oid::BPCHAR, Value::Text(text)) => fit_text(text, target, explicit).map(Value::Text),
        (oid::NUMERIC, Value::Numeric(number)) => number.apply_typmod(target.typmod).map(Value::Numeric),
        (oid::TIME, Value::Time(us)) => Ok(Value::Time(round_us(us, target.typmod))),
        (oid::TIMESTAMP, Value::Timestamp(us)) => Ok(Value::Timestamp(round_us(us, target.typmod))),
        (oid::INTERVAL, Value::Interval(value)) => Ok(Value::Interval(interval::modifier::apply(value, target.typmod))),
        (oid::TIMESTAMPTZ, Value::TimestampTz(us)) => Ok(Value::TimestampTz(round_us(us, target.typmod))),
        (array, Value::Array(value)) if oid::is_array(array) => {
            let Some(element) = target.element() else { return Ok(Value::Array(value)) };
            let values = value.values.iter().map(|item| apply(item.clone(), element, explicit));
            let values = values.collect::<Result<Vec<_>>>()?;
            Ok(Value::Array(Arc::new(Array { values, dims: value.dims.clone(), ..*value })))
        }
        (_, value) => Ok(value),
    }
}

fn fit_text(text: Arc<str>, target: SqlType, explicit: bool) -> Result<Arc<str>> {
    let Some(limit) = length(target.typmod).and_then(|n| usize::try_from(n).ok()) else { return Ok(text) };
    // Long text is counted only up to one character beyond the limit.
    let chars = if text.len() < limit { text.chars().count() } else { text.chars().take(limit + 1).count() };
    if chars > limit {
        let cut = text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at);
        let (kept, dropped) = text.split_at(cut);
        if !explicit && !trim_blanks(dropped).is_empty() {
            return Err(SqlError::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {}", target.name()),
            ));
        }
        return Ok(Arc::from(kept));
    }
    if target.oid == oid::BPCHAR && chars < limit {
        let mut padded = String::with_capacity(text.len() + limit - chars);
        padded.push_str(&text);
        padded.extend(std::iter::repeat_n(' ', limit - chars));
        return Ok(Arc::from(padded));
    }
    Ok(text)
}

/// Rounds microseconds to `digits` places after the seconds' point, halves away from zero; infinities stay unchanged.
pub(super) fn round_us(us: i64, digits: i32) -> i64 {
    let Ok(dropped) = u32::try_from(FRACTION_DIGITS_MAX - digits) else { return us };
    if us == i64::MIN || us == i64::MAX || dropped > 6 {
        return us;
    }
    let unit = 10_i64.pow(dropped);
    let half = if us < 0 { -(unit / 2) } else { unit / 2 };
    us.checked_add(half).map_or(us, |us| us / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(oid: u32, typmod: i32, value: Value, explicit: bool) -> String {
        match apply(value, SqlType::with_typmod(oid, typmod), explicit) {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    /// Goal: text is made to fit as in PostgreSQL. Method: its answers for assignment and explicit casts.
    #[test]
    fn text_is_cut_padded_or_refused_as_its_type_says() {
        for (oid, n, text, explicit, expected) in [
            (oid::VARCHAR, 3, "abcd", true, "Text(\"abc\")"),
            (oid::VARCHAR, 3, "abcd", false, "22001: value too long for type character varying(3)"),
            (oid::VARCHAR, 3, "abc  ", false, "Text(\"abc\")"),
            (oid::VARCHAR, 3, "ab", false, "Text(\"ab\")"),
            (oid::VARCHAR, 3, "\u{e9}\u{e9}\u{e9}", false, "Text(\"\u{e9}\u{e9}\u{e9}\")"),
            (oid::BPCHAR, 3, "a", false, "Text(\"a  \")"),
            (oid::BPCHAR, 3, "abcd", false, "22001: value too long for type character(3)"),
            (oid::BPCHAR, 3, "\u{e9}b ", false, "Text(\"\u{e9}b \")"),
        ] {
            assert_eq!(fit(oid, n + 4, Value::text(text), explicit), expected, "{text}");
        }
    }

    /// Goal: fractions of seconds are rounded to the declared digits. Method: both sides of a half and of zero.
    #[test]
    fn timestamps_round_to_their_digits() {
        for (digits, us, expected) in [
            (0, 1_500_000, 2_000_000),
            (0, -1_500_000, -2_000_000),
            (3, 1_499, 1_000),
            (6, 7, 7),
            (0, i64::MAX, i64::MAX),
        ] {
            assert_eq!(round_us(us, digits), expected);
        }
    }

    /// Goal: encoding refuses the same modifiers as PostgreSQL, with its texts. Method: a table, then round trips.
    #[test]
    fn modifiers_are_checked_and_round_trip() {
        for (oid, modifiers, expected) in [
            (oid::VARCHAR, &[0][..], "22023: length for type varchar must be at least 1"),
            (oid::BPCHAR, &[10_485_761], "22023: length for type char cannot exceed 10485760"),
            (oid::NUMERIC, &[0], "22023: NUMERIC precision 0 must be between 1 and 1000"),
            (oid::NUMERIC, &[5, 1001], "22023: NUMERIC scale 1001 must be between -1000 and 1000"),
            (oid::NUMERIC, &[5, 1, 1], "22023: invalid NUMERIC type modifier"),
            (oid::TIMESTAMPTZ, &[-1], "22023: TIMESTAMP(-1) WITH TIME ZONE precision must not be negative"),
            (oid::INT4, &[3], "42601: type modifier is not allowed for type \"int4\""),
        ] {
            assert_eq!(format!("{:?}", encode(oid, modifiers).unwrap_err()), expected);
        }
        for (precision, scale) in [(1, 0), (1000, 1000), (5, -1000), (38, -1)] {
            assert_eq!(numeric_parts(numeric(precision, scale)), Some((precision, scale)));
        }
        assert_eq!(encode(oid::NUMERIC, &[10, 2]).unwrap(), 655_366);
        assert_eq!(encode(oid::VARCHAR_ARRAY, &[10]).unwrap(), 14);
        assert_eq!(encode(oid::TIMESTAMP, &[9]).unwrap(), 6);
    }
}
