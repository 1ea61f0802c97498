//! Lengths, single characters, and conversions between the string types. `text` has the functions that build text.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{boolean, char, int, int4, invalid_parameter, new_text, text};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// Maximum length of a name in bytes, without PostgreSQL's closing NUL.
const NAME_BYTES_MAX: usize = 63;

/// The words that need quotes as identifiers in some places, in order.
const KEYWORDS: &str = "\
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
cast char character check coalesce collate collation column concurrently constraint create cross
current_catalog current_date current_role current_schema current_time current_timestamp current_user dec
decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign
freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect
interval into is isnull join lateral leading least left like limit localtime localtimestamp national natural
nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay
placing position precision primary real references returning right row select session_user setof similar
smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union
unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement
xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// Returns whether `word` (in lower case) needs quotes as an identifier.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.split_ascii_whitespace().any(|keyword| keyword == word)
}

fn count(length: usize) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(length).expect("a text has fewer than 2^31 bytes")))
}

fn length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    count(text(&args[0]).chars().count())
}

/// Returns the length of a `char(n)`, without the blanks at its end.
fn blank_padded_length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    count(text(&args[0]).trim_end_matches(' ').chars().count())
}

fn octet_length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    count(text(&args[0]).len())
}

fn bit_length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    count(text(&args[0]).len() * 8)
}

fn ascii(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let code = text(&args[0]).chars().next().map_or(0, u32::from);
    Ok(Value::Int4(i32::try_from(code).expect("a code point has 21 bits")))
}

fn chr(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let code = int4(&args[0]);
    let refused = || {
        let why = if code > 0x10_FFFF { "too large" } else { "not valid" };
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("requested character {why} for encoding: {code}"))
    };
    match u32::try_from(code) {
        Ok(0) => Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted")),
        Ok(code) => {
            Ok(new_text(std::primitive::char::from_u32(code).ok_or_else(refused)?.encode_utf8(&mut [0; 4]) as &str))
        }
        Err(_) => Err(invalid_parameter("character number must be positive")),
    }
}

fn hex32(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(format!("{:x}", int4(&args[0]))))
}

fn hex64(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(format!("{:x}", int(&args[0]))))
}

fn same(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(args[0].clone())
}

/// Cuts text to the length of a name, at a character boundary.
fn to_name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let name = text(&args[0]);
    Ok(if name.len() <= NAME_BYTES_MAX {
        args[0].clone()
    } else {
        new_text(&name[..name.floor_char_boundary(NAME_BYTES_MAX)])
    })
}

fn blank_padded_to_name(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    to_name(&[new_text(text(&args[0]).trim_end_matches(' '))], context)
}

fn bool_to_text(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(if boolean(&args[0]) { "true" } else { "false" }))
}

/// Converts a `"char"` to text; one above 127 prints as a backslash and three octal digits.
fn char_to_text(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(match char(&args[0]) {
        0 => new_text(""),
        c @ 1..=127 => new_text(std::primitive::char::from(c).encode_utf8(&mut [0; 4]) as &str),
        c => new_text(format!("\\{c:03o}")),
    })
}

fn text_to_char(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let bytes = text(&args[0]).as_bytes();
    Ok(Value::Char(match *bytes {
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'),
        [first, ..] => first,
        [] => 0,
    }))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "textlen" => length, "bpcharlen" => blank_padded_length,
    "textoctetlen" => octet_length, "bpcharoctetlen" => octet_length, "bit_length(text)" => bit_length,
    "ascii" => ascii, "chr" => chr, "to_hex32" => hex32, "to_hex64" => hex64,
    "name_text" => same, "text_name" => to_name, "bpchar_name" => blank_padded_to_name, "name_bpchar" => same,
    "booltext" => bool_to_text, "char_text" => char_to_text, "char_bpchar" => char_to_text, "text_char" => text_to_char,
}];
