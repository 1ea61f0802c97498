//! Text forms of booleans, integers, OIDs, transaction ids, log positions, floats, `"char"` and bytea.

use std::io::Write;

use collie_base::Lsn;

use super::{ByteaOutput, invalid};
use crate::error::{Result, SqlError, SqlState};

/// Returns `text` without the blanks at both ends, as C's `isspace` defines them.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

fn out_of_range(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {type_name}"),
    )
}

pub(super) fn parse_integer<T: TryFrom<i64>>(text: &str, type_name: &str) -> Result<T> {
    let (negative, digits) = match trimmed(text).as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid(type_name, text));
    }
    // Counting down reaches i64::MIN, which has no positive counterpart.
    digits
        .iter()
        .try_fold(0_i64, |value, digit| value.checked_mul(10)?.checked_sub(i64::from(digit - b'0')))
        .and_then(|value| if negative { Some(value) } else { value.checked_neg() })
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| out_of_range(type_name, text))
}

/// Parses a transaction id; refuses an id that no transaction ever has.
pub(super) fn parse_xid8(text: &str) -> Result<i64> {
    let value: i64 = parse_integer(text, "xid8")?;
    if value < 0 { Err(out_of_range("xid8", text)) } else { Ok(value) }
}

/// Parses a log position: the two numbers only, without blanks.
pub(super) fn parse_lsn(text: &str) -> Result<Lsn> {
    text.parse().map_err(|_| invalid("pg_lsn", text))
}

pub(super) fn write_lsn(lsn: Lsn, out: &mut Vec<u8>) {
    write!(out, "{lsn}").expect("a Vec takes every write");
}

pub(super) fn parse_oid(text: &str) -> Result<u32> {
    if trimmed(text) == "-" {
        return Ok(0);
    }
    let value: i64 = parse_integer(text, "oid")?;
    // As in PostgreSQL, a negative number stands for the OID with the same 32 bits.
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(i32::cast_unsigned))
        .map_err(|_| out_of_range("oid", text))
}

pub(super) fn parse_bool(text: &str) -> Result<bool> {
    let mut buffer = [0_u8; 5];
    let word = trimmed(text).as_bytes();
    let lower = match buffer.get_mut(..word.len()) {
        Some(slice) if !word.is_empty() => {
            slice.copy_from_slice(word);
            slice.make_ascii_lowercase();
            &*slice
        }
        _ => return Err(invalid("boolean", text)),
    };
    match lower {
        b"1" | b"on" => Ok(true),
        b"0" | b"of" | b"off" => Ok(false),
        _ if b"true".starts_with(lower) || b"yes".starts_with(lower) => Ok(true),
        _ if b"false".starts_with(lower) || b"no".starts_with(lower) => Ok(false),
        _ => Err(invalid("boolean", text)),
    }
}

/// Returns whether a number that was read as 0 has digits other than 0.
fn underflowed(text: &str) -> bool {
    text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| matches!(byte, b'1'..=b'9'))
}

macro_rules! parse_float {
    ($name:ident, $type:ty, $type_name:literal) => {
        pub(super) fn $name(text: &str) -> Result<$type> {
            let body = trimmed(text);
            let value: $type = body.parse().map_err(|_| invalid($type_name, text))?;
            let named = body.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
            if (value.is_infinite() && !named) || (value == 0.0 && underflowed(body)) {
                return Err(SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{body}\" is out of range for type {}", $type_name),
                ));
            }
            Ok(value)
        }
    };
}

parse_float!(parse_float4, f32, "real");
parse_float!(parse_float8, f64, "double precision");

pub(super) fn write_i64(value: i64, out: &mut Vec<u8>) {
    let mut buffer = [0_u8; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    out.extend_from_slice(&buffer[at..]);
}

macro_rules! write_float {
    ($name:ident, $type:ty, $plain_below:literal, $exact_below:literal) => {
        fn $name(value: $type, out: &mut Vec<u8>) {
            let mut buffer = [0_u8; 32];
            let mut rest = &mut buffer[..];
            write!(rest, "{value:e}").expect("the shortest form fits");
            let mut used = 32 - rest.len();
            // Above 2^53 (2^24) neighbouring floats are integers, and a decimal can be halfway between two of them.
            if value.abs() >= $exact_below && value.abs() < 1e38 {
                #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^127")]
                let exact = |value: $type| value.abs() as u128;
                let gap = exact(value.abs().next_up()) - exact(value);
                let mut digits = 0;
                while digits < 17 && is_halfway(&buffer[..used], exact(value), gap) {
                    // 17 digits distinguish every float from its neighbours.
                    digits += 1;
                    let mut rest = &mut buffer[..];
                    write!(rest, "{value:.digits$e}").expect("17 digits fit");
                    used = 32 - rest.len();
                }
            }
            write_shortest(&buffer[..used], $plain_below, out);
        }
    };
}

write_float!(write_float4, f32, 6, 16_777_216.0);
write_float!(write_float8, f64, 15, 9_007_199_254_740_992.0);

/// Appends a float with at most this many significant digits, like C's `%g`.
fn write_digits(value: impl std::fmt::LowerExp, digits: i32, out: &mut Vec<u8>) {
    let digits = digits.max(1);
    let text = format!("{value:.fraction$e}", fraction = usize::try_from(digits - 1).expect("not negative"));
    let shortened = match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    };
    write_shortest(shortened.as_bytes(), digits, out);
}

/// Appends a float4: if `extra` is above 0, in the shortest form that reads back unchanged; otherwise with `extra`
/// digits more than the 6 that are always exact.
pub(super) fn write_float4_with(value: f32, extra: i8, out: &mut Vec<u8>) {
    if extra > 0 { write_float4(value, out) } else { write_digits(value, 6 + i32::from(extra), out) }
}

/// Appends a float8 like [`write_float4_with`]; here 15 digits are always exact.
pub(super) fn write_float8_with(value: f64, extra: i8, out: &mut Vec<u8>) {
    if extra > 0 { write_float8(value, out) } else { write_digits(value, 15 + i32::from(extra), out) }
}

/// Returns whether the decimal `text` of the float `exact` is at least halfway to a neighbour at distance `gap`.
/// PostgreSQL does not rely on how readers round such decimals and prints more digits.
fn is_halfway(text: &[u8], exact: u128, gap: u128) -> bool {
    let read = || {
        let text = std::str::from_utf8(text).ok()?;
        let (digits, exponent) = text.trim_start_matches('-').split_once('e')?;
        let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let value: u128 = digits.replace('.', "").parse().ok()?;
        let power = exponent.parse::<u32>().ok()?.checked_sub(u32::try_from(fraction).ok()?)?;
        value.checked_mul(10_u128.checked_pow(power)?)
    };
    read().is_some_and(|value| value.abs_diff(exact) * 2 >= gap)
}

/// Converts Rust's shortest form (`-1.25e-7`, `inf`, `NaN`) to PostgreSQL's, which is plain for exponents in
/// -4..`plain_below`.
fn write_shortest(text: &[u8], plain_below: i32, out: &mut Vec<u8>) {
    let body = match text {
        [b'-', rest @ ..] => {
            out.push(b'-');
            rest
        }
        rest => rest,
    };
    let Some(at) = body.iter().position(|&byte| byte == b'e') else {
        out.extend_from_slice(if body == b"inf" { b"Infinity" } else { b"NaN" });
        return;
    };
    let exponent = std::str::from_utf8(&body[at + 1..]).ok().and_then(|digits| digits.parse::<i32>().ok());
    let exponent = exponent.expect("the exponent is an integer");
    let lead = &body[..1];
    let fraction = body.get(2..at).unwrap_or_default();
    if !(-4..plain_below).contains(&exponent) {
        out.extend_from_slice(&body[..at]);
        write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
            .expect("a Vec takes every write");
        return;
    }
    let zeros = |count: usize| std::iter::repeat_n(b'0', count);
    match usize::try_from(exponent) {
        Ok(places) => {
            let whole = places.min(fraction.len());
            out.extend_from_slice(lead);
            out.extend_from_slice(&fraction[..whole]);
            out.extend(zeros(places - whole));
            if fraction.len() > whole {
                out.push(b'.');
                out.extend_from_slice(&fraction[whole..]);
            }
        }
        Err(_) => {
            out.extend_from_slice(b"0.");
            out.extend(zeros(usize::try_from(-exponent - 1).expect("the exponent is negative")));
            out.extend_from_slice(lead);
            out.extend_from_slice(fraction);
        }
    }
}

pub(super) fn parse_char(text: &str) -> Result<u8> {
    Ok(match text.as_bytes() {
        // The lower eight of the nine bits are kept, as in PostgreSQL.
        [b'\\', a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7'] => (a & 3) << 6 | (b & 7) << 3 | (c & 7),
        [first, ..] => *first,
        [] => 0,
    })
}

pub(super) fn write_char(value: u8, out: &mut Vec<u8>) {
    match value {
        0 => {}
        1..=127 => out.push(value),
        128.. => write!(out, "\\{value:03o}").expect("a Vec takes every write"),
    }
}

pub(super) fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    let bad = || SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest
            }
            [b'\\', ..] => return Err(bad()),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

fn parse_hex(hex: &str) -> Result<Vec<u8>> {
    let refuse = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut chars = hex.chars();
    let digit = |c: char| {
        c.to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .ok_or_else(|| refuse(format!("invalid hexadecimal digit: \"{c}\"")))
    };
    while let Some(high) = chars.next() {
        if matches!(high, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(high)?;
        let low = chars.next().ok_or_else(|| refuse("invalid hexadecimal data: odd number of digits".to_owned()))?;
        bytes.push(high << 4 | digit(low)?);
    }
    Ok(bytes)
}

pub(super) fn write_bytea(bytes: &[u8], style: ByteaOutput, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match style {
        ByteaOutput::Hex => {
            out.reserve(2 + bytes.len() * 2);
            out.extend_from_slice(b"\\x");
            for byte in bytes {
                out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
        ByteaOutput::Escape => {
            for &byte in bytes {
                match byte {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    0x20..=0x7E => out.push(byte),
                    _ => write!(out, "\\{byte:03o}").expect("a Vec takes every write"),
                }
            }
        }
    }
}
