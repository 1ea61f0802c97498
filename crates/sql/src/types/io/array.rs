//! Text forms of arrays, vectors and rows.
//!
//! The text of an array is `{a,"b c",NULL}`, nested for more dimensions, with a prefix such as `[2:4]=` if a lower
//! bound is not 1.

use std::io::Write;

use super::{TextContext, scalar, text_in, text_out};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::MAX_DIMS;
use crate::types::{Array, ArrayDim, Value, oid};

fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed array literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

/// Parses `1 2 3`, the form of `int2vector` and `oidvector`.
pub(super) fn parse_vector(vector_oid: u32, text: &str) -> Result<Value> {
    let read = |word: &str| match vector_oid {
        oid::INT2VECTOR => scalar::parse_integer(word, "smallint").map(Value::Int2),
        _ => scalar::parse_oid(word).map(Value::Oid),
    };
    let values = text.split_ascii_whitespace().map(read).collect::<Result<Vec<_>>>()?;
    let element = if vector_oid == oid::INT2VECTOR { oid::INT2 } else { oid::OID };
    Ok(Value::Array(Array::with_lower(element, 0, values).into()))
}

pub(super) fn write_vector(array: &Array, out: &mut Vec<u8>) {
    for (nth, value) in array.values.iter().enumerate() {
        if nth > 0 {
            out.push(b' ');
        }
        scalar::write_i64(value.as_i64().unwrap_or(0), out);
    }
}

/// The next token of an array's text.
enum Token {
    Open,
    Close,
    Comma,
    /// An element; `None` is NULL.
    Item(Option<String>),
}

/// Reads tokens from the front of an array's text.
struct Tokens<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Result<Token> {
        self.rest = self.rest.trim_start_matches(is_blank);
        let mut chars = self.rest.chars();
        let token = match chars.next() {
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(',') => Token::Comma,
            Some(_) => return self.item(),
            None => return Err(self.unexpected_end()),
        };
        self.rest = chars.as_str();
        Ok(token)
    }

    fn unexpected_end(&self) -> SqlError {
        malformed(self.whole, "Unexpected end of input.")
    }

    fn item(&mut self) -> Result<Token> {
        let mut item = String::new();
        // Blanks after an unquoted element do not belong to it, unless they are escaped.
        let (mut kept, mut quoted, mut escaped) = (0, false, false);
        let mut chars = self.rest.chars();
        loop {
            let before = chars.as_str();
            match chars.next().ok_or_else(|| self.unexpected_end())? {
                '\\' => {
                    item.push(chars.next().ok_or_else(|| self.unexpected_end())?);
                    kept = item.len();
                    escaped = true;
                }
                '"' if quoted || !item.is_empty() => {
                    return Err(malformed(self.whole, "Unexpected array element."));
                }
                '"' => {
                    quoted = true;
                    loop {
                        match chars.next().ok_or_else(|| self.unexpected_end())? {
                            '"' => break,
                            '\\' => item.push(chars.next().ok_or_else(|| self.unexpected_end())?),
                            c => item.push(c),
                        }
                    }
                    kept = item.len();
                }
                ',' | '}' => {
                    self.rest = before;
                    break;
                }
                '{' => return Err(malformed(self.whole, "Unexpected \"{\" character.")),
                c if is_blank(c) => {
                    if !quoted {
                        item.push(c);
                    }
                }
                _ if quoted => return Err(malformed(self.whole, "Unexpected array element.")),
                c => {
                    item.push(c);
                    kept = item.len();
                }
            }
        }
        item.truncate(kept);
        let null = !quoted && !escaped && item.eq_ignore_ascii_case("null");
        Ok(Token::Item((!null).then_some(item)))
    }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// Parses the dimensions written before `=`, such as `[1:2][0:3]`.
fn parse_bounds<'a>(whole: &str, text: &'a str) -> Result<(Vec<ArrayDim>, &'a str)> {
    let mut dims = Vec::new();
    let mut rest = text;
    while let Some(inner) = rest.strip_prefix('[') {
        let (bounds, after) =
            inner.split_once(']').ok_or_else(|| malformed(whole, "Missing \"]\" after array dimensions."))?;
        let (lower, upper) = bounds.split_once(':').unwrap_or(("1", bounds));
        let read = |text: &str| {
            text.trim()
                .parse::<i32>()
                .map_err(|_| malformed(whole, "\"[\" must introduce explicitly-specified array dimensions."))
        };
        let (lower, upper) = (read(lower)?, read(upper)?);
        let len = i64::from(upper) - i64::from(lower) + 1;
        let Some(len) = u32::try_from(len).ok().filter(|&len| len > 0) else {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        };
        if dims.len() == MAX_DIMS {
            return Err(too_many_dims(dims.len() + 1));
        }
        dims.push(ArrayDim { len, lower });
        rest = after.trim_start_matches(is_blank);
    }
    if dims.is_empty() {
        return Ok((dims, rest));
    }
    let after = rest.strip_prefix('=').ok_or_else(|| malformed(whole, "Missing \"=\" after array dimensions."))?;
    Ok((dims, after.trim_start_matches(is_blank)))
}

fn too_many_dims(dims: usize) -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("number of array dimensions ({dims}) exceeds the maximum allowed ({MAX_DIMS})"),
    )
}

pub(super) fn parse_array(element: u32, typmod: i32, text: &str, context: &TextContext) -> Result<Value> {
    let (declared, body) = parse_bounds(text, text.trim_start_matches(is_blank))?;
    if !body.starts_with('{') {
        return Err(malformed(text, "Array value must start with \"{\" or dimension information."));
    }
    let ragged = || malformed(text, "Multidimensional arrays must have sub-arrays with matching dimensions.");
    let mut tokens = Tokens { whole: text, rest: body };
    let mut values = Vec::new();
    // lens[d] is the number of elements of dimension d, once its first brace is closed; counts[d] is the number so far
    // in the open brace.
    let mut lens: Vec<Option<u32>> = Vec::new();
    let mut counts: Vec<u32> = Vec::new();
    let mut leaf_depth = None;
    let mut want_item = true;
    loop {
        match tokens.next()? {
            Token::Open if want_item => {
                if leaf_depth.is_some_and(|leaf| counts.len() >= leaf) {
                    return Err(malformed(text, "Unexpected \"{\" character."));
                }
                if counts.len() == MAX_DIMS {
                    return Err(too_many_dims(counts.len() + 1));
                }
                counts.push(0);
                if lens.len() < counts.len() {
                    lens.push(None);
                }
            }
            Token::Open => return Err(malformed(text, "Unexpected \"{\" character.")),
            Token::Item(_) if !want_item => return Err(malformed(text, "Unexpected array element.")),
            Token::Item(item) => {
                if *leaf_depth.get_or_insert(counts.len()) != counts.len() {
                    return Err(malformed(text, "Unexpected array element."));
                }
                values.push(match item {
                    Some(item) => text_in(element, typmod, &item, context)?,
                    None => Value::Null,
                });
                if let Some(count) = counts.last_mut() {
                    *count += 1;
                }
                want_item = false;
            }
            Token::Comma if !want_item => want_item = true,
            Token::Comma => return Err(malformed(text, "Unexpected \",\" character.")),
            Token::Close => {
                let depth = counts.len();
                let count = counts.pop().ok_or_else(ragged)?;
                if want_item && (count > 0 || depth > 1) {
                    return Err(malformed(text, "Unexpected \"}\" character."));
                }
                if *lens[depth - 1].get_or_insert(count) != count {
                    return Err(ragged());
                }
                want_item = false;
                match counts.last_mut() {
                    Some(outer) => *outer += 1,
                    None => break,
                }
            }
        }
    }
    if !tokens.rest.trim_matches(is_blank).is_empty() {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    let lens: Vec<u32> = if values.is_empty() { Vec::new() } else { lens.into_iter().flatten().collect() };
    let dims = if declared.is_empty() {
        lens.into_iter().map(|len| ArrayDim { len, lower: 1 }).collect()
    } else if declared.iter().map(|dim| dim.len).eq(lens) {
        declared
    } else {
        return Err(malformed(text, "Specified array dimensions do not match array contents."));
    };
    let array = Array { element_oid: element, dims, values };
    array.check_bounds()?;
    Ok(Value::Array(array.into()))
}

pub(super) fn write_array(array: &Array, context: &TextContext, out: &mut Vec<u8>) {
    if array.dims.iter().any(|dim| dim.lower != 1) {
        for dim in &array.dims {
            let upper = i64::from(dim.lower) + i64::from(dim.len) - 1;
            write!(out, "[{}:{upper}]", dim.lower).expect("a Vec takes every write");
        }
        out.push(b'=');
    }
    if array.dims.is_empty() {
        out.extend_from_slice(b"{}");
        return;
    }
    write_dimension(array, &array.dims, &array.values, context, out);
}

fn write_dimension(array: &Array, dims: &[ArrayDim], values: &[Value], context: &TextContext, out: &mut Vec<u8>) {
    out.push(b'{');
    let (outer, inner) = dims.split_first().expect("one call per dimension");
    let each = values.len() / usize::try_from(outer.len).expect("32 bits fit").max(1);
    for (nth, part) in values.chunks(each.max(1)).enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        match part {
            _ if !inner.is_empty() => write_dimension(array, inner, part, context, out),
            [Value::Null, ..] => out.extend_from_slice(b"NULL"),
            [value, ..] => {
                let start = out.len();
                text_out(value, array.element_oid, context, out);
                let special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || blank_byte(byte);
                let text = &out[start..];
                let quote = text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special);
                if quote {
                    quote_from(start, Escape::Backslash, out);
                }
            }
            [] => {}
        }
    }
    out.push(b'}');
}

fn blank_byte(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

enum Escape {
    Backslash,
    Double,
}

/// Puts the bytes from `start` on into double quotes.
fn quote_from(start: usize, escape: Escape, out: &mut Vec<u8>) {
    let text = out.split_off(start);
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(if matches!(escape, Escape::Double) { byte } else { b'\\' });
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Writes a row: `(1,,"a b")`. Each value prints as the default type of its variant.
pub(super) fn write_record(values: &[Value], context: &TextContext, out: &mut Vec<u8>) {
    out.push(b'(');
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let start = out.len();
        text_out(value, value.natural_oid(), context, out);
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || blank_byte(byte);
        let text = &out[start..];
        if !value.is_null() && (text.is_empty() || text.iter().any(special)) {
            quote_from(start, Escape::Double, out);
        }
    }
    out.push(b')');
}
