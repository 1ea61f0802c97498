//! Pattern matching: LIKE and ILIKE, regular expressions, and what is built on them.
//!
//! Both run in time linear in the text for regular expressions (crate `regex`) and without recursion for LIKE. Regular
//! expressions with back-references or look-around are 0A000.
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::cell::RefCell;

use collie_base::Map;
use regex::{Regex, RegexBuilder};

use super::args::{int4, invalid_parameter, new_text, text};
use super::context::{EvalContext, Rows};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Value, oid};

/// Compiled expressions a thread keeps; beyond it they are all dropped and made again.
const REGEX_CACHE_MAX: usize = 64;
/// Bytes a compiled expression may take.
const REGEX_BYTES_MAX: usize = 4 << 20;

thread_local! {
    /// By whether case is folded, then by pattern.
    static COMPILED: RefCell<[Map<String, Regex>; 2]> = RefCell::default();
}

#[cold]
fn ends_in_escape() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Returns whether all of `subject` matches a LIKE pattern whose escape character is the backslash.
///
/// One `%` is ever retried, the last one met: a later one makes the choices of those before it irrelevant. So the cost
/// is at most the product of the lengths.
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
            // Only `%` matches the end.
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

/// Bytes of the UTF-8 character that starts with `first`.
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

/// Rewrites a pattern with another escape character, or none, to one with the backslash.
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

#[cold]
fn invalid_expression(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {what}"))
}

/// Translates an advanced regular expression of PostgreSQL to the syntax of crate `regex`.
fn translated(pattern: &str) -> Result<String> {
    if let Some(literal) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut bracket = false;
    let mut depth = 0_usize;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                None => return Err(invalid_expression("invalid escape \\ sequence")),
                Some('1'..='9') if !bracket => {
                    return Err(SqlError::unsupported("a back-reference in a regular expression"));
                }
                Some('y') => out.push_str("\\b"),
                Some('Y') => out.push_str("\\B"),
                Some('m') => out.push_str("\\b{start}"),
                Some('M') => out.push_str("\\b{end}"),
                Some('Z') => out.push_str("\\z"),
                Some(c) => out.extend(['\\', c]),
            },
            '(' if !bracket && rest.peek() == Some(&'?') => {
                let after = rest.clone().nth(1);
                if matches!(after, Some('=' | '!' | '<')) {
                    return Err(SqlError::unsupported("look-around in a regular expression"));
                }
                depth += 1;
                out.push(c);
            }
            '(' if !bracket => {
                depth += 1;
                out.push(c);
            }
            ')' if !bracket => {
                depth = depth.checked_sub(1).ok_or_else(|| invalid_expression("parentheses () not balanced"))?;
                out.push(c);
            }
            '[' if bracket => {
                // Only [:class:] nests; the others mean themselves, which crate `regex` wants escaped.
                out.push_str(if rest.peek() == Some(&':') { "[" } else { "\\[" });
                if rest.peek() == Some(&':') {
                    for c in rest.by_ref() {
                        out.push(c);
                        if c == ']' {
                            break;
                        }
                    }
                }
            }
            '[' => {
                bracket = true;
                out.push(c);
                if let Some(c) = rest.next_if_eq(&'^') {
                    out.push(c);
                }
                if rest.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            ']' if bracket => {
                bracket = false;
                out.push(c);
            }
            // Set operators of crate `regex`, plain characters here.
            '&' | '~' if bracket => out.extend(['\\', c]),
            // A brace that opens no repetition is plain.
            '{' if !bracket && !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    match (bracket, depth) {
        (true, _) => Err(invalid_expression("brackets [] not balanced")),
        (_, 1..) => Err(invalid_expression("parentheses () not balanced")),
        _ => Ok(out),
    }
}

/// Runs `with` on the compiled expression, from this thread's cache if it is there.
fn with_regex<T>(pattern: &str, fold: bool, with: impl FnOnce(&Regex) -> T) -> Result<T> {
    COMPILED.with_borrow_mut(|caches| {
        let cache = &mut caches[usize::from(fold)];
        if let Some(regex) = cache.get(pattern) {
            return Ok(with(regex));
        }
        let regex = compiled(pattern, fold)?;
        let result = with(&regex);
        if cache.len() >= REGEX_CACHE_MAX {
            cache.clear();
        }
        cache.insert(pattern.to_owned(), regex);
        Ok(result)
    })
}

fn compiled(pattern: &str, fold: bool) -> Result<Regex> {
    RegexBuilder::new(&translated(pattern)?)
        .case_insensitive(fold)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => invalid_expression("regular expression is too complex"),
            _ => invalid_expression("it cannot be parsed"),
        })
}

macro_rules! regexes {
    ($($name:ident: fold $fold:literal, wanted $wanted:literal;)*) => {$(
        fn $name(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
            let matched = with_regex(text(&args[1]), $fold, |regex| regex.is_match(text(&args[0])))?;
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
    fold: bool,
    global: bool,
}

fn flags(text: &str) -> Result<Flags> {
    let mut flags = Flags::default();
    if let Some(unknown) = text.chars().find(|&c| !"icgstebqmnpwx".contains(c)) {
        return Err(invalid_parameter(format!("invalid regular expression option: \"{unknown}\"")));
    }
    for c in text.chars() {
        match c {
            'i' => flags.fold = true,
            'c' => flags.fold = false,
            'g' => flags.global = true,
            'b' | 'q' | 'm' | 'n' | 'p' | 'w' | 'x' => {
                return Err(SqlError::unsupported(format!("regular expression option \"{c}\"")));
            }
            // What is the case anyway.
            _ => {}
        }
    }
    Ok(flags)
}

/// The first match, or what its first parentheses matched.
fn substring(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let subject = text(&args[0]);
    with_regex(text(&args[1]), false, |regex| {
        let captures = regex.captures(subject)?;
        captures.get(usize::from(regex.captures_len() > 1)).map(|found| new_text(found.as_str()))
    })
    .map(|found| found.unwrap_or(Value::Null))
}

/// Appends a replacement text, in which `\1` to `\9` and `\&` stand for what matched.
fn replacement(out: &mut String, text: &str, captures: &regex::Captures<'_>) {
    let group = |n: usize| captures.get(n).map_or("", |found| found.as_str());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
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
}

fn replace(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (subject, by) = (text(&args[0]), text(&args[2]));
    let Flags { fold, global } = flags(args.get(3).map_or("", text))?;
    let replaced = with_regex(text(&args[1]), fold, |regex| {
        let mut out = String::new();
        let mut at = 0;
        for captures in regex.captures_iter(subject).take(if global { usize::MAX } else { 1 }) {
            let whole = captures.get(0).expect("a match has group 0");
            out.push_str(&subject[at..whole.start()]);
            replacement(&mut out, by, &captures);
            at = whole.end();
        }
        out.push_str(&subject[at..]);
        out
    })?;
    Ok(new_text(replaced))
}

/// What the parentheses of a match matched, or the match when there are none.
fn groups(captures: &regex::Captures<'_>) -> Value {
    let first = usize::from(captures.len() > 1);
    let group = |n| captures.get(n).map_or(Value::Null, |found: regex::Match<'_>| new_text(found.as_str()));
    Value::array(oid::TEXT, (first..captures.len()).map(group).collect())
}

fn first_match(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let Flags { fold, global } = flags(args.get(2).map_or("", text))?;
    if global {
        return Err(invalid_parameter("regexp_match() does not support the \"global\" option")
            .hint("Use the regexp_matches function instead."));
    }
    with_regex(text(&args[1]), fold, |regex| regex.captures(text(&args[0])).map_or(Value::Null, |c| groups(&c)))
}

fn matches(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    let Flags { fold, global } = flags(args.get(2).map_or("", text))?;
    let found = with_regex(text(&args[1]), fold, |regex| {
        let all = regex.captures_iter(text(&args[0])).take(if global { usize::MAX } else { 1 });
        all.map(|captures| Ok(groups(&captures))).collect::<Vec<_>>()
    })?;
    Ok(Box::new(found.into_iter()))
}

fn pieces(args: &[Value]) -> Result<Vec<Value>> {
    let Flags { fold, .. } = flags(args.get(2).map_or("", text))?;
    let subject = text(&args[0]);
    with_regex(text(&args[1]), fold, |regex| {
        let mut pieces = Vec::new();
        let mut at = 0;
        // An empty match at either end, or right after another match, splits nothing.
        for found in regex.find_iter(subject).filter(|m| !m.is_empty() || (m.start() > 0 && m.start() < subject.len()))
        {
            if found.is_empty() && found.start() == at {
                continue;
            }
            pieces.push(new_text(&subject[at..found.start()]));
            at = found.end();
        }
        pieces.push(new_text(&subject[at..]));
        pieces
    })
}

fn split_to_array(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    pieces(args).map(|pieces| Value::array(oid::TEXT, pieces))
}

fn split_to_table(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    Ok(Box::new(pieces(args)?.into_iter().map(Ok)))
}

fn count(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let start = args.get(2).map_or(1, int4);
    if start < 1 {
        return Err(invalid_parameter(format!("invalid value for parameter \"start\": {start}")));
    }
    let subject = super::text::slice(text(&args[0]), start, None)?;
    let Flags { fold, .. } = flags(args.get(3).map_or("", text))?;
    let count = with_regex(text(&args[1]), fold, |regex| regex.find_iter(subject).count())?;
    Ok(Value::Int4(i32::try_from(count).expect("a text has fewer than 2^31 characters")))
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Scalar:
        "textlike" => text_like, "namelike" => text_like,
        "textnlike" => text_not_like, "namenlike" => text_not_like,
        "texticlike" => text_like_folded, "nameiclike" => text_like_folded,
        "texticnlike" => text_not_like_folded, "nameicnlike" => text_not_like_folded,
        "like_escape" => like_escape,
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
