//! Functions over bytea. Comparisons are in `compare`, input and output in `types::io`.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{bytea, int4, invalid_parameter, new_text, text};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

fn new_bytea(bytes: Vec<u8>) -> Value {
    Value::Bytea(bytes.into())
}

fn concatenate(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    context.check_length(bytea(&args[0]).len() + bytea(&args[1]).len())?;
    Ok(new_bytea([bytea(&args[0]), bytea(&args[1])].concat()))
}

fn length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(bytea(&args[0]).len()).expect("a bytea has fewer than 2^31 bytes")))
}

fn substring(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (bytes, from) = (bytea(&args[0]), i64::from(int4(&args[1])));
    let end = match args.get(2).map(int4) {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => from + i64::from(length),
        None => i64::MAX,
    };
    let at = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    Ok(new_bytea(if end <= from.max(1) { Vec::new() } else { bytes[at(from)..at(end)].to_vec() }))
}

fn position(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (bytes, part) = (bytea(&args[0]), bytea(&args[1]));
    let at = if part.is_empty() { 1 } else { bytes.windows(part.len()).position(|w| w == part).map_or(0, |at| at + 1) };
    Ok(Value::Int4(i32::try_from(at).expect("a bytea has fewer than 2^31 bytes")))
}

fn hex_digit(byte: u8) -> Result<u8> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        other => Err(invalid_parameter(format!("invalid hexadecimal digit: \"{}\"", char::from(other)))),
    }
}

#[cold]
fn unknown_encoding(name: &str) -> SqlError {
    match name.to_ascii_lowercase().as_str() {
        "base64" | "escape" => SqlError::unsupported(format!("encoding \"{name}\"")),
        _ => invalid_parameter(format!("unrecognized encoding: \"{name}\"")),
    }
}

fn encode(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match text(&args[1]).to_ascii_lowercase().as_str() {
        "hex" => {
            let digits = bytea(&args[0]).iter().flat_map(|byte| [byte >> 4, byte & 15]);
            Ok(new_text(digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>()))
        }
        _ => Err(unknown_encoding(text(&args[1]))),
    }
}

fn decode(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    match text(&args[1]).to_ascii_lowercase().as_str() {
        "hex" => {
            let digits = text(&args[0]).bytes().filter(|byte| !byte.is_ascii_whitespace()).map(hex_digit);
            let digits = digits.collect::<Result<Vec<u8>>>()?;
            if digits.len() % 2 != 0 {
                return Err(invalid_parameter("invalid hexadecimal data: odd number of digits"));
            }
            Ok(new_bytea(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
        }
        _ => Err(unknown_encoding(text(&args[1]))),
    }
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "byteacat" => concatenate, "byteaoctetlen" => length, "bytea_substr" => substring,
    "bytea_substr_no_len" => substring, "byteapos" => position, "binary_encode" => encode, "binary_decode" => decode,
}];
