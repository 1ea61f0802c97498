//! Scanner: reads the tokens of a text once and bounds the depth of the tree that the grammar will make of it.
//!
//! It is not the grammar's lexer and does not judge syntax: for a text with a syntax error any answer is fine, since
//! the
//! grammar then makes no tree. It knows strings, comments and quoted names as PostgreSQL does
//! (`standard_conforming_strings` on), and a few words.
//!
//! # The bound
//! A level is opened by a parenthesis, bracket or CASE, and closed by the matching one or END. Within a level, AND, OR,
//! commas, semicolons and, in a CASE, its WHEN, THEN and ELSE separate segments. The nodes above a node of a segment
//! that
//! belong to the same level are: nodes with a token in that segment, the level's AND and OR list, and the level's joins
//! and set operations, which nest to the left across segments. So:
//!
//! `depth(level) = max over segments (tokens + depth of the deepest level opened in it) + joins + set operations + 2`
//!
//! The AND of BETWEEN separates nothing: the parts before and after it are one operand list. Every token counts one, so
//! for
//! ordinary text the bound is far above the depth, which costs nothing below the threshold.
//!
//! # Invariants
//! - S1. For every text that the grammar accepts, `Shape::depth` is at least the depth that `convert` meets.
//! - S2. `Shape::expansion` is at least the bytes of text that the grammar produces, including repetitions.
//!
//! Checked by `parse/tests/depth.rs` on generated statements.

use std::ops::Range;

/// The properties of a text that are known before it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Upper bound on the levels of any of its statements.
    pub(super) depth: u64,
    /// Upper bound on the bytes of text in the grammar's tree; repeated parts count as often as they are repeated.
    pub(super) expansion: u64,
    /// The number of its tokens.
    pub(super) tokens: u64,
}

/// The kind of token that opened a level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opener {
    Text,
    Bracket,
    Case,
}

/// An open level.
struct Level {
    opener: Opener,
    /// Tokens of the current segment.
    tokens: u64,
    /// Depth of the deepest level that was closed in the current segment.
    inner: u64,
    /// The largest `tokens + inner` of the previous segments.
    peak: u64,
    /// Joins and set operations.
    leaning: u64,
    /// Commas of the level.
    commas: u64,
    /// BETWEENs whose AND has not been read yet.
    betweens: u64,
    /// The number of times the grammar repeats this level.
    repeats: u64,
    /// The number of times it repeats the current segment within the level.
    segment_repeats: u64,
}

impl Level {
    fn new(opener: Opener, repeats: u64) -> Self {
        let (tokens, inner, peak, leaning, commas, betweens) = (0, 0, 0, 0, 0, 0);
        Self { opener, tokens, inner, peak, leaning, commas, betweens, repeats, segment_repeats: 1 }
    }

    fn cut(&mut self) {
        self.peak = self.peak.max(self.tokens + self.inner);
        (self.tokens, self.inner) = (0, 0);
    }

    fn depth(&self) -> u64 {
        // Two for the level's AND list and OR list.
        self.peak.max(self.tokens + self.inner) + self.leaning + 2
    }
}

/// The words and signs that matter, and one value for all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Comma,
    Semicolon,
    Dot,
    Equals,
    And,
    Or,
    Between,
    Leaning,
    Case,
    Arm,
    End,
    As,
    Other,
}

/// Bounds the depth and the expansion of `text`.
pub(super) fn shape(text: &str) -> Shape {
    let mut tokens = Tokens::new(text);
    let mut levels = Vec::with_capacity(16);
    levels.push(Level::new(Opener::Text, 1));
    let mut shape = Shape { depth: 0, expansion: 0, tokens: 0 };
    let (mut last, mut closed_items) = (Token::Semicolon, 1);
    let mut start = 0;
    while let Some(token) = tokens.next() {
        let bottom = levels.len() == 1;
        let Some(level) = levels.last_mut() else { break };
        level.tokens += 1;
        shape.tokens += 1;
        let bytes = u64::try_from(tokens.at - start).unwrap_or(u64::MAX);
        shape.expansion =
            shape.expansion.saturating_add(bytes.saturating_mul(level.repeats).saturating_mul(level.segment_repeats));
        start = tokens.at;
        match token {
            Token::And if level.betweens > 0 => level.betweens -= 1,
            Token::And | Token::Or => level.cut(),
            Token::Comma => {
                level.cut();
                (level.betweens, level.segment_repeats) = (0, 1);
                level.commas += 1;
            }
            Token::Semicolon => {
                level.cut();
                (level.betweens, level.segment_repeats) = (0, 1);
                if bottom {
                    shape.depth = shape.depth.max(level.depth());
                    *level = Level::new(Opener::Text, 1);
                }
            }
            Token::Between => level.betweens += 1,
            Token::Leaning => level.leaning += 1,
            Token::Equals if last == Token::Close => level.segment_repeats = closed_items,
            Token::Open => {
                let repeats = level.repeats.saturating_mul(level.segment_repeats);
                levels.push(Level::new(Opener::Bracket, repeats));
            }
            // `t.case` is a column.
            Token::Case if last != Token::Dot => {
                let repeats = level.repeats.saturating_mul(level.segment_repeats);
                levels.push(Level::new(Opener::Case, repeats));
            }
            // The arms of a CASE are siblings. `t.when` and `AS when` are names.
            Token::Arm if level.opener == Opener::Case && last != Token::Dot && last != Token::As => level.cut(),
            // `t.end` and `AS end` are names, too.
            Token::End if level.opener == Opener::Case && last != Token::Dot && last != Token::As => {
                close(&mut levels);
            }
            Token::Close => {
                // A CASE without END inside parentheses is a name, or a syntax error.
                while levels.last().is_some_and(|level| level.opener == Opener::Case) {
                    close(&mut levels);
                }
                if levels.len() > 1 {
                    closed_items = close(&mut levels);
                }
            }
            _ => {}
        }
        last = token;
    }
    while levels.len() > 1 {
        close(&mut levels);
    }
    shape.depth = shape.depth.max(levels.first().map_or(0, Level::depth));
    shape
}

/// Closes the innermost level into the one around it and returns the number of items that its commas separate.
fn close(levels: &mut Vec<Level>) -> u64 {
    let Some(level) = levels.pop() else { return 1 };
    if let Some(outer) = levels.last_mut() {
        outer.inner = outer.inner.max(level.depth());
    }
    level.commas + 1
}

/// The tokens of a text.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the beginning of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    /// Returns the range of the next token and advances past it. A run of operator characters gives one token each.
    pub(super) fn next_span(&mut self) -> Option<Range<usize>> {
        self.skip_blanks();
        let start = self.at;
        self.next()?;
        Some(start..self.at)
    }

    /// Continues at `at`, the end of a token.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the end of the last token.
    pub(super) fn end(&self) -> usize {
        self.at
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Option<Token> {
        self.skip_blanks();
        let first = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match first {
            b'(' | b'[' => Token::Open,
            b')' | b']' => Token::Close,
            b',' => Token::Comma,
            b';' => Token::Semicolon,
            b'.' if !self.peek(0).is_ascii_digit() => Token::Dot,
            b'=' => Token::Equals,
            b'\'' => {
                self.skip_quoted(b'\'', false);
                Token::Other
            }
            b'"' => {
                self.skip_quoted(b'"', false);
                Token::Other
            }
            b'$' => {
                self.skip_dollar();
                Token::Other
            }
            b'0'..=b'9' | b'.' => {
                while self.peek(0).is_ascii_alphanumeric() || matches!(self.peek(0), b'_' | b'.') {
                    self.at += 1;
                }
                Token::Other
            }
            _ if is_word(first) => self.word(),
            _ => Token::Other,
        })
    }

    /// Skips whitespace and comments. Comments nest.
    fn skip_blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'-', b'-') => {
                    while !matches!(self.peek(0), b'\n' | b'\r' | 0) {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    let mut open = 1;
                    while open > 0 && self.at < self.bytes.len() {
                        match (self.peek(0), self.peek(1)) {
                            (b'/', b'*') => (open, self.at) = (open + 1, self.at + 2),
                            (b'*', b'/') => (open, self.at) = (open - 1, self.at + 2),
                            _ => self.at += 1,
                        }
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips past the closing quote. A doubled quote is part of the text, and so is a quote after a backslash.
    fn skip_quoted(&mut self, quote: u8, backslashes: bool) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            if byte == quote {
                if self.peek(0) != quote {
                    return;
                }
                self.at += 1;
            } else if byte == b'\\' && backslashes {
                self.at += 1;
            }
        }
    }

    /// Skips `$1` or `$tag$ ... $tag$`, after the first `$`.
    fn skip_dollar(&mut self) {
        let start = self.at - 1;
        if self.peek(0).is_ascii_digit() {
            while self.peek(0).is_ascii_digit() {
                self.at += 1;
            }
            return;
        }
        let mut end = self.at;
        while self.bytes.get(end).is_some_and(|&byte| is_word(byte) || byte.is_ascii_digit()) {
            end += 1;
        }
        if self.bytes.get(end) != Some(&b'$') {
            return;
        }
        let tag = self.bytes.get(start..=end).unwrap_or_default();
        let mut at = end + 1;
        while at < self.bytes.len() {
            if self.bytes.get(at) == Some(&b'$') && self.bytes.get(at..).is_some_and(|rest| rest.starts_with(tag)) {
                self.at = at + tag.len();
                return;
            }
            at += 1;
        }
        self.at = self.bytes.len();
    }

    fn word(&mut self) -> Token {
        let start = self.at - 1;
        while is_word(self.peek(0)) || self.peek(0).is_ascii_digit() || self.peek(0) == b'$' {
            self.at += 1;
        }
        let word = self.bytes.get(start..self.at).unwrap_or_default();
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("e") && self.peek(0) == b'\'' {
            self.at += 1;
            self.skip_quoted(b'\'', true);
            return Token::Other;
        }
        match word.len() {
            2 if is("or") => Token::Or,
            2 if is("as") => Token::As,
            3 if is("and") => Token::And,
            3 if is("end") => Token::End,
            4 if is("case") => Token::Case,
            4 if is("when") || is("then") || is("else") => Token::Arm,
            4 if is("join") => Token::Leaning,
            5 if is("union") => Token::Leaning,
            6 if is("except") => Token::Leaning,
            7 if is("between") => Token::Between,
            9 if is("intersect") => Token::Leaning,
            _ => Token::Other,
        }
    }
}

/// Returns whether a name can start with this byte.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}
