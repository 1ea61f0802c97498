//! `NormalForm`: a statement's text with literals replaced by parameters, so that texts that differ only in them share
//! a plan.
//!
//! It is not a parser: it reads tokens and returns `None` whenever it is not sure. If the form cannot be planned, the
//! caller runs the text itself instead, which also gives errors their positions.
//!
//! # Which literals
//! A literal is replaced if that cannot change the meaning of the statement: an operand of a common operator, an end of
//! BETWEEN, a value in a row of VALUES. An integer is declared `integer` or `bigint`, a decimal `numeric`, as
//! PostgreSQL
//! reads them; a string stays of unknown type. All other literals stay: ordinals in ORDER BY, counts in LIMIT, lengths
//! of
//! types, arguments, and literals next to a cast or a keyword of the grammar.
//!
//! # Invariants
//! - F1. Planned with the declared types and run with the literals as parameters, the form gives the result of the
//!   text.
//! - F2. Two texts of one form differ at most in literals that are parameters of the form.
//!
//! Checked by the tests below and by the SQL scripts, which also run with plans made at the first sight of a form.

use std::{borrow::Cow, ops::Range};

use super::scan::Tokens;
use crate::types::oid;

/// Maximal length of a text that is examined, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Maximal number of replaced literals.
const LITERALS_MAX: usize = 64;

/// A literal that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal<'a> {
    /// Its declared type: `integer`, `bigint`, `numeric`, or 0 for a string.
    pub ty: u32,
    /// Its value as text.
    pub text: Cow<'a, str>,
}

/// The form of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalForm<'a> {
    /// The text with `$1`, `$2`, ... in place of the literals.
    pub text: String,
    /// The replaced literals, in order.
    pub literals: Vec<Literal<'a>>,
}

/// The kind of what precedes a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The end of an operand: a name, a literal, a closing parenthesis.
    Operand,
    /// Something after which a literal may be replaced.
    Place,
    /// Anything else.
    Other,
}

/// Returns the form of a text that holds one statement; `None` if there is no useful one.
pub fn normal_form(text: &str) -> Option<NormalForm<'_>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut reader = Reader {
        text,
        tokens: Tokens::new(text),
        before: Before::Other,
        depth: 0,
        values: None,
        form: NormalForm { text: String::with_capacity(text.len() + 16), literals: Vec::new() },
        copied: 0,
    };
    reader.read()?;
    Some(reader.form)
}

struct Reader<'a> {
    text: &'a str,
    tokens: Tokens<'a>,
    before: Before,
    /// The number of open parentheses.
    depth: usize,
    /// The number that were open at VALUES, while its rows are read.
    values: Option<usize>,
    form: NormalForm<'a>,
    /// The length of the part of the text that was copied to the form.
    copied: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Option<()> {
        let first = self.tokens.next_span()?;
        if !begins(&self.text[first.clone()]) {
            return None;
        }
        self.word(first)?;
        while let Some(span) = self.tokens.next_span() {
            match self.text.as_bytes()[span.start] {
                b';' => {
                    if self.tokens.next_span().is_some() {
                        return None;
                    }
                    return self.finish(span.start);
                }
                b'$' => return None,
                b'(' | b'[' => {
                    self.depth += 1;
                    let row = self.values.is_some_and(|values| self.depth == values + 1);
                    self.before = if row { Before::Place } else { Before::Other };
                }
                b')' | b']' => {
                    self.depth = self.depth.checked_sub(1)?;
                    if self.values.is_some_and(|values| self.depth < values) {
                        self.values = None;
                    }
                    self.before = Before::Operand;
                }
                b',' => {
                    let row = self.values.is_some_and(|values| self.depth == values + 1);
                    self.before = if row { Before::Place } else { Before::Other };
                }
                b'\'' => self.string(span)?,
                b'"' => self.before = Before::Operand,
                b'0'..=b'9' => self.number(span)?,
                b'.' => self.before = Before::Other,
                first if is_operator(first) => self.operator(span.start),
                _ => self.word(span)?,
            }
        }
        self.finish(self.tokens.end())
    }

    /// Copies the rest and ends.
    fn finish(&mut self, end: usize) -> Option<()> {
        self.form.text.push_str(self.text[self.copied..end].trim_end());
        (self.form.literals.len() <= LITERALS_MAX && self.depth == 0).then_some(())
    }

    fn word(&mut self, span: Range<usize>) -> Option<()> {
        let word = &self.text[span];
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        self.before = Before::Operand;
        match word.len() {
            // An expression of GROUP BY or DISTINCT is found again in the select list only while its text stays the
            // same.
            5 if is("group") => return None,
            6 if is("having") => return None,
            8 if is("distinct") => return None,
            2 if is("by") => self.before = Before::Other,
            3 if is("and") => self.before = Before::Place,
            7 if is("between") => self.before = Before::Place,
            6 if is("values") => {
                self.values = Some(self.depth);
                self.before = Before::Other;
            }
            // The end of the rows.
            _ if self.values == Some(self.depth) => self.values = None,
            _ => {}
        }
        Some(())
    }

    /// Reads an operator that starts at `start`, splitting a run of operator characters as PostgreSQL does.
    fn operator(&mut self, start: usize) {
        let bytes = self.text.as_bytes();
        let mut end = start;
        while bytes.get(end).copied().is_some_and(is_operator)
            && !bytes[end..].starts_with(b"--")
            && !bytes[end..].starts_with(b"/*")
        {
            end += 1;
        }
        let end = end.max(start + 1);
        let run = &self.text[start..end];
        let mut len = run.len();
        if !run.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']) {
            while len > 1 && matches!(run.as_bytes()[len - 1], b'+' | b'-') {
                len -= 1;
            }
        }
        self.tokens.seek(start + len);
        self.before = match &run[..len] {
            // A sign does not change the place: `ORDER BY -1` is an ordinal.
            "-" | "+" if self.before != Before::Operand => self.before,
            "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" | "+" | "-" | "*" | "/" | "%" | "||" => Before::Place,
            _ => Before::Other,
        };
    }

    fn number(&mut self, span: Range<usize>) -> Option<()> {
        let digits = &self.text[span.clone()];
        let ty = number_type(digits);
        match ty {
            Some(ty) if self.replaces() => self.replace(span, ty, Cow::Borrowed(digits)),
            _ => self.before = Before::Operand,
        }
        Some(())
    }

    fn string(&mut self, span: Range<usize>) -> Option<()> {
        if !self.replaces() {
            self.before = Before::Operand;
            return Some(());
        }
        let inner = self.text[span.clone()].strip_prefix('\'')?.strip_suffix('\'')?;
        let text = if inner.contains('\'') { Cow::Owned(inner.replace("''", "'")) } else { Cow::Borrowed(inner) };
        self.replace(span, 0, text);
        Some(())
    }

    /// Returns whether a literal may be replaced, by its place and by what follows it.
    fn replaces(&self) -> bool {
        if self.before != Before::Place {
            return false;
        }
        // A cast reads the literal itself; a string after a string continues it.
        let next = self.tokens.clone().next_span();
        next.is_none_or(|next| !matches!(self.text.as_bytes()[next.start], b':' | b'\''))
    }

    fn replace(&mut self, span: Range<usize>, ty: u32, text: Cow<'a, str>) {
        use std::fmt::Write;
        self.form.text.push_str(&self.text[self.copied..span.start]);
        self.copied = span.end;
        self.form.literals.push(Literal { ty, text });
        write!(self.form.text, "${}", self.form.literals.len()).expect("writing to a String never fails");
        self.before = Before::Operand;
    }
}

/// Returns whether a statement that starts with this word is worth a plan, or is kept as a tree.
fn begins(word: &str) -> bool {
    const WORDS: [&str; 10] =
        ["select", "insert", "update", "delete", "values", "begin", "commit", "end", "rollback", "with"];
    WORDS.iter().any(|name| word.eq_ignore_ascii_case(name))
}

fn is_operator(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
}

/// Returns the type that PostgreSQL gives a number without a sign; `None` for forms that are not replaced.
fn number_type(digits: &str) -> Option<u32> {
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((whole, fraction)) = digits.split_once('.') {
        return (plain(whole) && plain(fraction)).then_some(oid::NUMERIC);
    }
    if !plain(digits) {
        return None;
    }
    // The least integer has no positive counterpart: its digits alone are of the next wider type.
    match digits.parse::<i64>().ok()? {
        0..=0x7fff_ffff => Some(oid::INT4),
        0x8000_0000 => None,
        _ => Some(oid::INT8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<(String, Vec<String>)> {
        let found = normal_form(text)?;
        Some((found.text, found.literals.iter().map(|l| format!("{}:{}", l.ty, l.text)).collect()))
    }

    /// Goal: literals are replaced exactly where that cannot change the meaning (F1). Method: a table of texts.
    #[test]
    fn literals_are_replaced_where_they_are_operands() {
        let table: &[(&str, &str, &[&str])] = &[
            ("SELECT a FROM t WHERE id = 42;", "SELECT a FROM t WHERE id = $1", &["23:42"]),
            ("UPDATE t SET a = a + -936 WHERE id = 7", "UPDATE t SET a = a + -$1 WHERE id = $2", &["23:936", "23:7"]),
            ("update t set a=a-1", "update t set a=a-$1", &["23:1"]),
            ("select 1 where a=-1", "select 1 where a=-$1", &["23:1"]),
            (
                "INSERT INTO t (a, b) VALUES (1, 'it''s'), (3000000000, 2.50) RETURNING 5",
                "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) RETURNING 5",
                &["23:1", "0:it's", "20:3000000000", "1700:2.50"],
            ),
            ("insert into t values (f(1, 2), 3)", "insert into t values (f(1, 2), $1)", &["23:3"]),
            ("select * from t where a between 1 and 9", "select * from t where a between $1 and $2", &["23:1", "23:9"]),
            ("select a from t order by 1, -1 limit 3 offset 2", "select a from t order by 1, -1 limit 3 offset 2", &[]),
            ("select a from t order by -1", "select a from t order by -1", &[]),
            ("select 'a' || 'b'", "select 'a' || $1", &["0:b"]),
            ("select a = '5'::int4 from t", "select a = '5'::int4 from t", &[]),
            ("select a = 5 :: int8 from t", "select a = 5 :: int8 from t", &[]),
            ("select a = 'x'\n'y'", "select a = 'x'\n'y'", &[]),
            ("select a = e'x', b = date '2020-01-01'", "select a = e'x', b = date '2020-01-01'", &[]),
            ("select a = 1e5, b = 0x1f, c = 1_0", "select a = 1e5, b = 0x1f, c = 1_0", &[]),
            ("select a = -2147483648", "select a = -2147483648", &[]),
            ("select a -> 1, b ->> 'x', c ~ 'y'", "select a -> 1, b ->> 'x', c ~ 'y'", &[]),
            ("select a in (1, 2), cast(b as char(3))", "select a in (1, 2), cast(b as char(3))", &[]),
            ("select a --1\n = /* 5 */ 6", "select a --1\n = /* 5 */ $1", &["23:6"]),
            ("BEGIN;", "BEGIN", &[]),
            ("select \"=\" from t where x = 1", "select \"=\" from t where x = $1", &["23:1"]),
        ];
        for (text, expected, literals) in table {
            let found = form(text).unwrap_or_else(|| panic!("{text}: no form"));
            assert_eq!(found.0, *expected, "{text}");
            assert_eq!(found.1, *literals, "{text}");
        }
    }

    /// Goal: a text that is not one statement of a common kind has no form. Method: a table of texts.
    #[test]
    fn other_texts_have_no_form() {
        let table = [
            "",
            "select 1; select 2",
            "select $1",
            "select a = $$x$$",
            "create table t (a int)",
            "select a + 1 from t group by a + 1",
            "select distinct a + 1 from t",
            "select (1 = 1",
            "select 1) = 1",
        ];
        for text in table {
            assert_eq!(form(text), None, "{text}");
        }
        assert_eq!(form(&format!("select a = 1 {}", " ".repeat(TEXT_BYTES_MAX))), None);
        assert!(form(&format!("select a{}", " + 1".repeat(LITERALS_MAX))).is_some());
        assert_eq!(form(&format!("select a{}", " + 1".repeat(LITERALS_MAX + 1))), None);
    }

    proptest::proptest! {
        /// Goal: any text gets an answer, and the pieces of the form are the pieces of the text (F2). Method: random
        /// tokens;
        /// putting the literals back gives the text.
        #[test]
        fn form_and_literals_make_the_text(words in proptest::collection::vec(
            proptest::sample::select(vec![
                "select", "values", "(", ")", ",", "=", "-", "+", "'a'", "'it''s'", "12", "1.5", "x", "and", "between",
                ";", "::", "e'\\''", "--", "\n", "/*", "*/", "\"q\"", "order by", "\u{e9}", "||", "<=-", ".", "[", "]",
            ]),
            0..24,
        )) {
            let text = format!("select {}", words.join(" "));
            if let Some(form) = normal_form(&text) {
                let mut back = form.text.clone();
                for (place, literal) in form.literals.iter().enumerate().rev() {
                    let quoted = if literal.ty == 0 {
                        format!("'{}'", literal.text.replace('\'', "''"))
                    } else {
                        literal.text.to_string()
                    };
                    let name = format!("${}", place + 1);
                    let at = back.rfind(&name).expect("each parameter stands in the form");
                    back.replace_range(at..at + name.len(), &quoted);
                }
                proptest::prop_assert!(text.trim_end().starts_with(back.trim_end()), "{text} -> {back}");
            }
        }
    }
}
