//! Functions that build text from text: concatenation, case, slices, padding, trimming, replacement, quoting. `pattern`
//! has pattern matching; `chars` has single characters and conversions between the string types.
//!
//! Positions and lengths count characters. Case folding affects only ASCII, as in the C collation.
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{array, int4, invalid_parameter, new_text, text};
use super::cast::{cast_to_text, text_of};
use super::context::{EvalContext, list_bytes};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Value, oid};

fn concatenated(parts: &[&str], context: &EvalContext<'_>) -> Result<Value> {
    context.check_length(parts.iter().map(|part| part.len()).sum())?;
    Ok(new_text(parts.concat()))
}

fn concatenate(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    concatenated(&[text(&args[0]), text(&args[1])], context)
}

/// Computes `||` of text and a value of any type, on either side.
fn concatenate_any(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    let parts = [cast_to_text(&args[0], types[0], context)?, cast_to_text(&args[1], types[1], context)?];
    concatenated(&[&parts[0], &parts[1]], context)
}

/// Joins the arguments that are not NULL.
fn join(args: &[Value], types: &[u32], separator: &str, context: &EvalContext<'_>) -> Result<Value> {
    let mut joined = String::new();
    let mut first = true;
    for (arg, &oid) in args.iter().zip(types) {
        if arg.is_null() {
            continue;
        }
        if !std::mem::take(&mut first) {
            joined.push_str(separator);
        }
        joined.push_str(&text_of(arg, oid, context)?);
    }
    context.check_length(joined.len())?;
    Ok(new_text(joined))
}

fn concat(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    join(args, types, "", context)
}

fn concat_ws(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    match &args[0] {
        Value::Null => Ok(Value::Null),
        separator => join(&args[1..], &types[1..], text(separator), context),
    }
}

fn lower(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(text(&args[0]).to_ascii_lowercase()))
}

fn upper(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(text(&args[0]).to_ascii_uppercase()))
}

fn initcap(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let mut inside = false;
    let cased = text(&args[0]).chars().map(|c| {
        let cased = if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
        inside = c.is_ascii_alphanumeric();
        cased
    });
    Ok(new_text(cased.collect::<String>()))
}

/// Returns the byte offset of the character with this number, or of the end.
fn offset(text: &str, characters: usize) -> usize {
    if text.is_ascii() {
        return characters.min(text.len());
    }
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

/// Returns the characters `from..from + length` of `text`, counted from 1; positions outside the text are ignored.
pub(super) fn slice(text: &str, from: i32, length: Option<i32>) -> Result<&str> {
    let from = i64::from(from);
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => from + i64::from(length),
        None => i64::MAX,
    };
    let at = |position: i64| offset(text, usize::try_from(position - 1).unwrap_or(0));
    Ok(if end <= from.max(1) { "" } else { &text[at(from)..at(end)] })
}

fn substring(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(slice(text(&args[0]), int4(&args[1]), args.get(2).map(int4))?))
}

/// Computes `left`: keeps so many characters at the start, or with a negative number drops so many at the end.
fn left(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let text = text(&args[0]);
    Ok(new_text(&text[..boundary(text, int4(&args[1]))]))
}

/// Computes `right`: keeps so many characters at the end, or with a negative number drops so many at the start.
fn right(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let text = text(&args[0]);
    let n = int4(&args[1]);
    let from = if n == 0 || n == i32::MIN { text.len() } else { boundary(text, -n) };
    Ok(new_text(&text[from..]))
}

/// Returns the byte offset after `n` characters, or before the last `-n`.
fn boundary(text: &str, n: i32) -> usize {
    let kept = if n >= 0 { i64::from(n) } else { characters(text) + i64::from(n) };
    offset(text, usize::try_from(kept).unwrap_or(0))
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).expect("a text has fewer than 2^63 characters")
}

fn pad(args: &[Value], at_start: bool, context: &EvalContext<'_>) -> Result<Value> {
    let subject = text(&args[0]);
    let fill = args.get(2).map_or(" ", text);
    let width = usize::try_from(int4(&args[1])).unwrap_or(0);
    context.check_length(width.saturating_mul(fill.chars().map(char::len_utf8).max().unwrap_or(0)))?;
    let kept = &subject[..offset(subject, width)];
    if fill.is_empty() {
        return Ok(new_text(kept));
    }
    let missing = width - kept.chars().count();
    let padding: String = fill.chars().cycle().take(missing).collect();
    if at_start { concatenated(&[&padding, kept], context) } else { concatenated(&[kept, &padding], context) }
}

fn pad_left(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    pad(args, true, context)
}

fn pad_right(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    pad(args, false, context)
}

/// Trims the characters of the second argument; without one, blanks.
fn trimmed(args: &[Value], start: bool, end: bool) -> Value {
    let mut rest = text(&args[0]);
    let set = args.get(1).map_or(" ", text);
    if start {
        rest = rest.trim_start_matches(|c| set.contains(c));
    }
    if end {
        rest = rest.trim_end_matches(|c| set.contains(c));
    }
    new_text(rest)
}

fn trim(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(trimmed(args, true, true))
}

fn trim_left(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(trimmed(args, true, false))
}

fn trim_right(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(trimmed(args, false, true))
}

fn position(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (text, part) = (text(&args[0]), text(&args[1]));
    let at = text.find(part).map_or(0, |at| text[..at].chars().count() + 1);
    Ok(Value::Int4(i32::try_from(at).expect("a text has fewer than 2^31 characters")))
}

fn replace(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (subject, from, to) = (text(&args[0]), text(&args[1]), text(&args[2]));
    if from.is_empty() {
        return Ok(args[0].clone());
    }
    let count = subject.matches(from).count();
    context.check_length(subject.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(new_text(subject.replace(from, to)))
}

fn translate(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (from, to): (Vec<char>, Vec<char>) = (text(&args[1]).chars().collect(), text(&args[2]).chars().collect());
    let translated = text(&args[0]).chars().filter_map(|c| match from.iter().position(|&f| f == c) {
        Some(at) => to.get(at).copied(),
        None => Some(c),
    });
    Ok(new_text(translated.collect::<String>()))
}

fn overlay(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (subject, part, from) = (text(&args[0]), text(&args[1]), int4(&args[2]));
    let length = match args.get(3) {
        Some(length) => int4(length),
        None => i32::try_from(part.chars().count()).expect("a text has fewer than 2^31 characters"),
    };
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let after = from.checked_add(length).ok_or_else(|| super::args::out_of_range("integer"))?;
    concatenated(&[slice(subject, 1, Some(from - 1))?, part, slice(subject, after, None)?], context)
}

fn repeat(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let count = usize::try_from(int4(&args[1])).unwrap_or(0);
    let unit = text(&args[0]);
    context.check_length(unit.len().saturating_mul(count))?;
    Ok(new_text(unit.repeat(count)))
}

fn reverse(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(text(&args[0]).chars().rev().collect::<String>()))
}

fn split_part(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (subject, separator, n) = (text(&args[0]), text(&args[1]), int4(&args[2]));
    if n == 0 {
        return Err(invalid_parameter("field position must not be zero"));
    }
    if subject.is_empty() {
        return Ok(new_text(""));
    }
    if separator.is_empty() {
        return Ok(new_text(if n == 1 || n == -1 { subject } else { "" }));
    }
    let nth = usize::try_from(n.unsigned_abs() - 1).expect("32 bits fit in a usize");
    let field = if n > 0 {
        subject.split(separator).nth(nth)
    } else {
        let fields: Vec<&str> = subject.split(separator).collect();
        fields.len().checked_sub(nth + 1).map(|at| fields[at])
    };
    Ok(new_text(field.unwrap_or("")))
}

fn starts_with(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(text(&args[0]).starts_with(text(&args[1]))))
}

fn string_to_array(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let Value::Text(subject) = &args[0] else { return Ok(Value::Null) };
    let null = match args.get(2) {
        None | Some(Value::Null) => None,
        Some(null) => Some(text(null)),
    };
    let element = |field: &str| if null == Some(field) { Value::Null } else { new_text(field) };
    let separators = match &args[1] {
        Value::Null => subject.chars().count(),
        separator if text(separator).is_empty() => 0,
        separator => subject.matches(text(separator)).count(),
    };
    context.check_length(list_bytes(subject, separators + 1))?;
    let fields: Vec<Value> = match &args[1] {
        _ if subject.is_empty() => Vec::new(),
        Value::Null => subject.chars().map(|c| element(c.encode_utf8(&mut [0; 4]))).collect(),
        separator if text(separator).is_empty() => vec![element(subject)],
        separator => subject.split(text(separator)).map(element).collect(),
    };
    Ok(Value::array(oid::TEXT, fields))
}

/// Writes `name` as an identifier, in quotes if the parser would otherwise read it differently.
pub(crate) fn quoted_identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !super::chars::is_keyword(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Writes `text` as a string constant.
pub(crate) fn quoted_literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\'', "''").replace('\\', "\\\\"))
}

fn quote_ident(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(quoted_identifier(text(&args[0]))))
}

fn quote_literal(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(quoted_literal(text(&args[0]))))
}

fn quote_literal_any(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(quoted_literal(&cast_to_text(&args[0], types[0], context)?)))
}

fn quote_nullable(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(new_text(if args[0].is_null() { "NULL".to_owned() } else { quoted_literal(text(&args[0])) }))
}

fn quote_nullable_any(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    let quoted =
        if args[0].is_null() { "NULL".to_owned() } else { quoted_literal(&cast_to_text(&args[0], types[0], context)?) };
    Ok(new_text(quoted))
}

/// Joins an array's elements; NULL elements are left out, or written as the third argument.
fn array_to_string(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Value::Null);
    }
    let (array, separator) = (array(&args[0]), text(&args[1]));
    let null = match args.get(2) {
        None | Some(Value::Null) => None,
        Some(null) => Some(text(null)),
    };
    let mut joined = String::new();
    let mut first = true;
    for value in &array.values {
        let element = match (value, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => std::borrow::Cow::Borrowed(null),
            (value, _) => text_of(value, array.element_oid, context)?,
        };
        if !std::mem::take(&mut first) {
            joined.push_str(separator);
        }
        joined.push_str(&element);
    }
    Ok(new_text(joined))
}

fn null_count(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(args.iter().filter(|arg| arg.is_null()).count()).expect("arguments are few")))
}

fn non_null_count(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(args.iter().filter(|arg| !arg.is_null()).count()).expect("arguments are few")))
}

/// Returns the type of the argument as a regtype.
fn type_of(_: &[Value], types: &[u32], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Oid(types[0]))
}

/// Computes `format`: `%s`, `%I`, `%L` and `%%`, with `n$` positions and widths.
fn format(args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Value> {
    let Value::Text(pattern) = &args[0] else { return Ok(Value::Null) };
    let mut out = String::new();
    let mut next = 1;
    let mut rest = pattern.chars().peekable();
    let ended = || invalid_parameter("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".");
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut number = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            number.push(digit);
        }
        if rest.next_if_eq(&'$').is_some() {
            next =
                number.parse::<usize>().ok().filter(|&n| n > 0).ok_or_else(|| {
                    invalid_parameter("format specifies argument 0, but arguments are numbered from 1")
                })?;
            number.clear();
        }
        let to_left = rest.next_if_eq(&'-').is_some();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            number.push(digit);
        }
        let width = if number.is_empty() {
            0
        } else {
            let too_long = || SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large");
            number.parse::<usize>().ok().filter(|&n| n < 1 << 20).ok_or_else(too_long)?
        };
        let kind = rest.next().ok_or_else(ended)?;
        if kind == '*' {
            return Err(SqlError::unsupported("format() with a width taken from an argument"));
        }
        let (Some(arg), Some(&oid)) = (args.get(next), types.get(next)) else {
            return Err(invalid_parameter("too few arguments for format()"));
        };
        next += 1;
        let plain = if arg.is_null() { "".into() } else { text_of(arg, oid, context)? };
        let piece = match kind {
            's' => plain.into_owned(),
            'I' if arg.is_null() => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            'I' => quoted_identifier(&plain),
            'L' if arg.is_null() => "NULL".to_owned(),
            'L' => quoted_literal(&plain),
            other => {
                return Err(invalid_parameter(format!("unrecognized format() type specifier \"{other}\""))
                    .hint("For a single \"%\" use \"%%\"."));
            }
        };
        let padding = " ".repeat(width.saturating_sub(piece.chars().count()));
        let (before, after) = if to_left { ("", padding.as_str()) } else { (padding.as_str(), "") };
        out.extend([before, piece.as_str(), after]);
    }
    Ok(new_text(out))
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Scalar:
        "textcat" => concatenate, "lower" => lower, "upper" => upper, "initcap" => initcap,
        "text_substr" => substring, "text_substr_no_len" => substring, "text_left" => left, "text_right" => right,
        "lpad" => pad_left, "lpad(text, integer)" => pad_left, "rpad" => pad_right, "rpad(text, integer)" => pad_right,
        "btrim" => trim, "btrim1" => trim, "ltrim" => trim_left, "ltrim1" => trim_left,
        "rtrim" => trim_right, "rtrim1" => trim_right,
        "textpos" => position, "replace_text" => replace, "translate" => translate,
        "textoverlay" => overlay, "textoverlay_no_len" => overlay, "repeat" => repeat, "text_reverse" => reverse,
        "split_part" => split_part, "text_starts_with" => starts_with,
        "text_to_array" => string_to_array, "text_to_array_null" => string_to_array,
        "array_to_text" => array_to_string, "array_to_text_null" => array_to_string,
        "quote_ident" => quote_ident, "quote_literal" => quote_literal, "quote_nullable" => quote_nullable,
        "pg_num_nulls" => null_count, "pg_num_nonnulls" => non_null_count,
    },
    entries! { Typed:
        "anytextcat(anynonarray, text)" => concatenate_any, "textanycat(text, anynonarray)" => concatenate_any,
        "text_concat" => concat, "text_concat_ws" => concat_ws,
        "quote_literal(anyelement)" => quote_literal_any, "quote_nullable(anyelement)" => quote_nullable_any,
        "text_format" => format, "text_format_nv" => format, "pg_typeof" => type_of,
    },
];
