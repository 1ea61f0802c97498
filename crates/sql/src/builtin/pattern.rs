//! Pattern matching: LIKE and ILIKE, SIMILAR TO, and the functions of regular expressions.
//!
//! `regex` has the expressions themselves. LIKE runs without recursion.
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::{cell::RefCell, ops::ControlFlow};

use collie_base::Map;

use super::args::{int4, invalid_parameter, new_text, text};
use super::context::{ELEMENT_BYTES, EvalContext, Rows, list_bytes};
use super::implementation::{Entry, entries};
use super::regex::{Flags as RegexFlags, Groups, Regex, RegexError};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Value, oid};

/// Maximum number of compiled expressions that a thread keeps; beyond it all are dropped and compiled again on use.
const REGEX_CACHE_MAX: usize = 64;

thread_local! {
    /// Compiled expressions by flags, then by pattern.
    static COMPILED: RefCell<Map<RegexFlags, Map<String, Regex>>> = RefCell::default();
}

#[cold]
fn ends_in_escape() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Returns whether all of `subject` matches a LIKE pattern whose escape character is the backslash.
///
/// Only the last `%` seen is ever retried: it makes the choices of earlier ones irrelevant. So the cost is at most the
/// product of the lengths.
pub(crate) fn like(subject: &str, pattern: &str, fold: bool) -> Result<bool> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let same = |a: u8, b: u8| if fold { a.eq_ignore_ascii_case(&b) } else { a == b };
    let (mut s, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            Some(b'%') => {
                retry = Some((p + 1, s));
                p += 1;
                if p == pattern.len() {
                    return Ok(true);
                }
                continue;
            }
            None if s == subject.len() => return Ok(true),
            None => false,
            // At the end of the subject only `%` can match.
            Some(_) if s == subject.len() => return Ok(false),
            Some(b'_') => {
                s += character_bytes(subject[s]);
                p += 1;
                true
            }
            Some(b'\\') => {
                let literal = *pattern.get(p + 1).ok_or_else(ends_in_escape)?;
                let matched = same(subject[s], literal);
                if matched {
                    (s, p) = (s + 1, p + 2);
                }
                matched
            }
            Some(&literal) => {
                let matched = same(subject[s], literal);
                if matched {
                    (s, p) = (s + 1, p + 1);
                }
                matched
            }
        };
        if !matched {
            let Some((after, from)) = retry else { return Ok(false) };
            if from >= subject.len() {
                return Ok(false);
            }
            let from = from + character_bytes(subject[from]);
            retry = Some((after, from));
            (s, p) = (from, after);
        }
    }
}

/// Returns the length in bytes of the UTF-8 character that starts with `first`.
fn character_bytes(first: u8) -> usize {
    match first {
        0..=0xBF => 1,
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

macro_rules! likes {
    ($($name:ident: fold $fold:literal, wanted $wanted:literal;)*) => {$(
        fn $name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            Ok(Value::Bool(like(text(&args[0]), text(&args[1]), $fold)? == $wanted))
        }
    )*};
}

likes! {
    text_like: fold false, wanted true;
    text_not_like: fold false, wanted false;
    text_like_folded: fold true, wanted true;
    text_not_like_folded: fold true, wanted false;
}

/// Rewrites a pattern that has another escape character, or none, to one whose escape character is the backslash.
fn like_escape(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (pattern, escape) = (text(&args[0]), text(&args[1]));
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    if escape == Some('\\') {
        return Ok(args[0].clone());
    }
    let mut out = String::with_capacity(pattern.len());
    let mut after_escape = false;
    for c in pattern.chars() {
        if Some(c) == escape && !after_escape {
            out.push('\\');
            after_escape = true;
            continue;
        }
        if c == '\\' && !after_escape {
            out.push('\\');
        }
        out.push(c);
        after_escape = false;
    }
    Ok(new_text(out))
}

/// Translates a pattern of SIMILAR TO to a regular expression. The escape character before a double quote separates the
/// parts of a pattern whose middle part is the result.
fn similar_expression(pattern: &str, escape: &str) -> Result<String> {
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::with_capacity(pattern.len() + 6);
    out.push_str("^(?:");
    let (mut after_escape, mut in_brackets, mut separators) = (false, false, 0);
    for c in pattern.chars() {
        match c {
            '"' if after_escape && !in_brackets => {
                out.push_str(match separators {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        return Err(SqlError::new(
                            SqlState::INVALID_USE_OF_ESCAPE_CHARACTER,
                            "SQL regular expression may not contain more than two escape-double-quote separators",
                        ));
                    }
                });
                separators += 1;
                after_escape = false;
            }
            c if after_escape => {
                out.extend(['\\', c]);
                after_escape = false;
            }
            c if Some(c) == escape => after_escape = true,
            c if in_brackets => {
                if c == '\\' {
                    out.push('\\');
                }
                out.push(c);
                in_brackets = c != ']';
            }
            '[' => {
                out.push(c);
                in_brackets = true;
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn similar_to_escape(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    similar_expression(text(&args[0]), args.get(1).map_or("\\", text)).map(new_text)
}

/// Computes `substring(text SIMILAR pattern ESCAPE escape)`.
fn similar_substring(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    substring_by(text(&args[0]), &similar_expression(text(&args[1]), text(&args[2]))?)
}

#[cold]
fn invalid_expression(error: RegexError) -> SqlError {
    match error {
        RegexError::TooManySteps => SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())
            .hint("Back-references and nested repetitions can make a short expression take very long."),
        _ => SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {error}")),
    }
}

/// Runs `with` on the compiled expression, which is taken from this thread's cache if it is there.
fn with_regex<T>(pattern: &str, flags: RegexFlags, with: impl FnOnce(&Regex) -> Result<T, RegexError>) -> Result<T> {
    COMPILED.with_borrow_mut(|compiled| {
        let cache = compiled.entry(flags).or_default();
        if let Some(regex) = cache.get(pattern) {
            return with(regex).map_err(invalid_expression);
        }
        let regex = Regex::new(pattern, flags).map_err(invalid_expression)?;
        let result = with(&regex).map_err(invalid_expression);
        if compiled.values().map(Map::len).sum::<usize>() >= REGEX_CACHE_MAX {
            compiled.clear();
        }
        compiled.entry(flags).or_default().insert(pattern.to_owned(), regex);
        result
    })
}

macro_rules! regexes {
    ($($name:ident: fold $fold:literal, wanted $wanted:literal;)*) => {$(
        fn $name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let flags = RegexFlags { fold: $fold, ..RegexFlags::default() };
            let matched = with_regex(text(&args[1]), flags, |regex| regex.is_match(text(&args[0])))?;
            Ok(Value::Bool(matched == $wanted))
        }
    )*};
}

regexes! {
    regex: fold false, wanted true;
    not_regex: fold false, wanted false;
    regex_folded: fold true, wanted true;
    not_regex_folded: fold true, wanted false;
}

/// Flags of the regexp functions.
#[derive(Default)]
struct Flags {
    regex: RegexFlags,
    global: bool,
}

fn flags(text: &str) -> Result<Flags> {
    let mut flags = Flags::default();
    for c in text.chars() {
        match c {
            'g' => flags.global = true,
            // In PostgreSQL "e" also selects basic expressions, by a mistake in its flags.
            'b' | 'e' => return Err(SqlError::unsupported(format!("regular expression option \"{c}\""))),
            _ if flags.regex.apply(c) => {}
            _ => return Err(invalid_parameter(format!("invalid regular expression option: \"{c}\""))),
        }
    }
    Ok(flags)
}

/// Parses flags and refuses the flag `g`, which has no meaning for this function.
fn flags_without_global(text: &str, function: &str) -> Result<RegexFlags> {
    let Flags { regex, global } = flags(text)?;
    if global { Err(no_global(function)) } else { Ok(regex) }
}

#[cold]
fn no_global(function: &str) -> SqlError {
    invalid_parameter(format!("{function}() does not support the \"global\" option"))
}

fn piece(subject: &str, place: Option<(usize, usize)>) -> Option<&str> {
    place.map(|(from, to)| &subject[from..to])
}

/// Calls `found` for the first match from byte `from` on, or for each match in turn if `global`, until `found` breaks.
/// After an empty match the search continues one character further on.
fn each_match(
    regex: &Regex,
    subject: &str,
    from: usize,
    global: bool,
    with_groups: bool,
    mut found: impl FnMut(&Groups) -> ControlFlow<()>,
) -> Result<(), RegexError> {
    let mut at = from;
    while let Some(groups) = regex.find(subject, at, with_groups)? {
        if found(&groups).is_break() {
            break;
        }
        let (start, end) = groups[0].expect("a match has a place");
        if !global || end == subject.len() && start == end {
            break;
        }
        at = if start < end { end } else { end + character_bytes(subject.as_bytes()[end]) };
    }
    Ok(())
}

/// Returns the first match, or the text matched by its first parentheses.
fn substring(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    substring_by(text(&args[0]), text(&args[1]))
}

fn substring_by(subject: &str, pattern: &str) -> Result<Value> {
    let found = with_regex(pattern, RegexFlags::default(), |regex| {
        let first = usize::from(regex.groups() > 0);
        Ok(regex.find(subject, 0, true)?.and_then(|groups| piece(subject, groups[first])))
    })?;
    Ok(found.map_or(Value::Null, new_text))
}

/// Breaks if the result so far is longer than a value may be.
fn go_on_below(bytes: usize, bytes_max: usize) -> ControlFlow<()> {
    if bytes > bytes_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Appends a replacement text, in which `\1` to `\9` and `\&` stand for matched text, until `out` exceeds `bytes_max`.
fn replacement(out: &mut String, text: &str, subject: &str, groups: &Groups, bytes_max: usize) -> ControlFlow<()> {
    let group = |n: usize| piece(subject, groups.get(n).copied().flatten()).unwrap_or("");
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        go_on_below(out.len(), bytes_max)?;
        match (c, rest.peek().copied()) {
            ('\\', Some('&')) => out.push_str(group(0)),
            ('\\', Some(digit @ '1'..='9')) => out.push_str(group(usize::from(digit as u8 - b'0'))),
            ('\\', Some('\\')) => out.push('\\'),
            (c, _) => {
                out.push(c);
                continue;
            }
        }
        rest.next();
    }
    go_on_below(out.len(), bytes_max)
}

fn replace(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (subject, by) = (text(&args[0]), text(&args[2]));
    let Flags { regex, global } = flags(args.get(3).map_or("", text))?;
    let replaced = with_regex(text(&args[1]), regex, |regex| {
        let mut out = String::new();
        let mut at = 0;
        each_match(regex, subject, 0, global, by.contains('\\'), |groups| {
            let (start, end) = groups[0].expect("a match has a place");
            out.push_str(&subject[at..start]);
            at = end;
            replacement(&mut out, by, subject, groups, context.bytes_max())
        })?;
        out.push_str(&subject[at..]);
        Ok(out)
    })?;
    context.check_length(replaced.len())?;
    Ok(new_text(replaced))
}

/// Returns the texts matched by the parentheses, or the whole match if there are none.
fn told(subject: &str, groups: &Groups) -> Value {
    let first = usize::from(groups.len() > 1);
    let values = groups[first..].iter().map(|place| piece(subject, *place).map_or(Value::Null, new_text));
    Value::array(oid::TEXT, values.collect())
}

fn first_match(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let Flags { regex: flags, global } = flags(args.get(2).map_or("", text))?;
    if global {
        return Err(no_global("regexp_match").hint("Use the regexp_matches function instead."));
    }
    let subject = text(&args[0]);
    let found = with_regex(text(&args[1]), flags, |regex| regex.find(subject, 0, true))?;
    Ok(found.map_or(Value::Null, |groups| told(subject, &groups)))
}

fn matches(args: &[Value], context: &EvalContext<'_>) -> Result<Rows> {
    let Flags { regex, global } = flags(args.get(2).map_or("", text))?;
    let subject = text(&args[0]);
    let (found, bytes) = with_regex(text(&args[1]), regex, |regex| {
        let mut found = Vec::new();
        let mut bytes = 0;
        each_match(regex, subject, 0, global, true, |groups| {
            found.push(Ok(told(subject, groups)));
            let matched = groups.iter().flatten().map(|(start, end)| end - start + ELEMENT_BYTES);
            bytes += ELEMENT_BYTES + matched.sum::<usize>();
            go_on_below(bytes, context.bytes_max())
        })?;
        Ok((found, bytes))
    })?;
    context.check_length(bytes)?;
    Ok(Box::new(found.into_iter()))
}

fn pieces(args: &[Value], function: &str, context: &EvalContext<'_>) -> Result<Vec<Value>> {
    let flags = flags_without_global(args.get(2).map_or("", text), function)?;
    let subject = text(&args[0]);
    let pieces = with_regex(text(&args[1]), flags, |regex| {
        let mut pieces = Vec::new();
        let (mut at, mut last_end) = (0, 0);
        each_match(regex, subject, 0, true, false, |groups| {
            let (start, end) = groups[0].expect("a match has a place");
            // An empty match at either end, or directly after another match, splits nothing.
            if start < subject.len() && end > last_end {
                pieces.push(new_text(&subject[at..start]));
                at = end;
            }
            last_end = end;
            go_on_below(list_bytes(subject, pieces.len()), context.bytes_max())
        })?;
        pieces.push(new_text(&subject[at..]));
        Ok(pieces)
    })?;
    context.check_length(list_bytes(subject, pieces.len()))?;
    Ok(pieces)
}

fn split_to_array(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    pieces(args, "regexp_split_to_array", context).map(|pieces| Value::array(oid::TEXT, pieces))
}

fn split_to_table(args: &[Value], context: &EvalContext<'_>) -> Result<Rows> {
    Ok(Box::new(pieces(args, "regexp_split_to_table", context)?.into_iter().map(Ok)))
}

fn count(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let start = args.get(2).map_or(1, int4);
    let before = match usize::try_from(start) {
        Ok(start) if start > 0 => start - 1,
        _ => return Err(invalid_parameter(format!("invalid value for parameter \"start\": {start}"))),
    };
    let flags = flags_without_global(args.get(3).map_or("", text), "regexp_count")?;
    let subject = text(&args[0]);
    let from = subject.char_indices().map(|(at, _)| at).chain([subject.len()]).nth(before);
    let Some(from) = from else { return Ok(Value::Int4(0)) };
    let count = with_regex(text(&args[1]), flags, |regex| {
        let mut count = 0;
        each_match(regex, subject, from, true, false, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    })?;
    Ok(Value::Int4(count))
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Scalar:
        "textlike" => text_like, "namelike" => text_like,
        "textnlike" => text_not_like, "namenlike" => text_not_like,
        "texticlike" => text_like_folded, "nameiclike" => text_like_folded,
        "texticnlike" => text_not_like_folded, "nameicnlike" => text_not_like_folded,
        "like_escape" => like_escape,
        "similar_to_escape_1" => similar_to_escape, "similar_to_escape_2" => similar_to_escape,
        "substring(text, text, text)" => similar_substring,
        "textregexeq" => regex, "nameregexeq" => regex,
        "textregexne" => not_regex, "nameregexne" => not_regex,
        "texticregexeq" => regex_folded, "nameicregexeq" => regex_folded,
        "texticregexne" => not_regex_folded, "nameicregexne" => not_regex_folded,
        "textregexsubstr" => substring, "textregexreplace" => replace, "textregexreplace_noopt" => replace,
        "regexp_match" => first_match, "regexp_match_no_flags" => first_match,
        "regexp_split_to_array" => split_to_array, "regexp_split_to_array_no_flags" => split_to_array,
        "regexp_count" => count, "regexp_count_no_start" => count, "regexp_count_no_flags" => count,
    },
    entries! { Set:
        "regexp_matches" => matches, "regexp_matches_no_flags" => matches,
        "regexp_split_to_table" => split_to_table, "regexp_split_to_table_no_flags" => split_to_table,
    },
];
