//! `Lexer`: splits an expression into tokens by the rules of its syntax.

use super::ast::Condition;
use super::error::RegexError;

/// The syntax of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::builtin) enum Syntax {
    /// Advanced expressions: extended ones with escapes, non-greedy quantifiers, look-around and more.
    #[default]
    Advanced,
    /// POSIX extended expressions.
    Extended,
    /// Every character stands for itself.
    Literal,
}

/// The options for reading and matching an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::builtin) struct Flags {
    pub(in crate::builtin) syntax: Syntax,
    /// Letters match in either case.
    pub(in crate::builtin) fold: bool,
    /// Blanks and comments between tokens are skipped.
    pub(in crate::builtin) expanded: bool,
    /// `.` and complements do not match a newline.
    pub(in crate::builtin) newline_stops: bool,
    /// `^` and `$` also match next to a newline.
    pub(in crate::builtin) newline_anchors: bool,
}

impl Flags {
    /// Applies the letter of an option; returns `false` if the letter is unknown.
    pub(in crate::builtin) fn apply(&mut self, letter: char) -> bool {
        match letter {
            'c' => self.fold = false,
            'i' => self.fold = true,
            'e' => self.syntax = Syntax::Extended,
            'q' => self.syntax = Syntax::Literal,
            'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            't' => self.expanded = false,
            'x' => self.expanded = true,
            _ => return false,
        }
        true
    }
}

/// A piece of an expression outside of brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    End,
    Plain(char),
    Any,
    /// `[`, and whether it is a complement.
    Bracket(bool),
    /// `\d` and the like: the name of the class, and whether it is a complement.
    Class(&'static str, bool),
    /// `(`, and whether it captures.
    Open(bool),
    Close,
    /// `(?=` and the like: whether it looks ahead, and whether a match is wanted.
    Look(bool, bool),
    Or,
    /// `*`, `+`, `?`: minimum, maximum, and whether it is greedy.
    Quantifier(u16, Option<u16>, bool),
    /// The `{` of bounds.
    Bounds,
    Condition(Condition),
    Back(usize),
}

/// Reads an expression from its start.
pub(super) struct Lexer<'p> {
    rest: std::str::Chars<'p>,
    pub(super) flags: Flags,
    /// Number of groups opened so far, by which `\12` is recognized as a back-reference.
    pub(super) groups: usize,
}

impl<'p> Lexer<'p> {
    /// Starts reading, with the prefixes before the expression proper.
    pub(super) fn new(pattern: &'p str, flags: Flags) -> Result<Self, RegexError> {
        let mut lexer = Self { rest: pattern.chars(), flags, groups: 0 };
        if flags.syntax != Syntax::Literal {
            lexer.prefixes()?;
        }
        Ok(lexer)
    }

    fn prefixes(&mut self) -> Result<(), RegexError> {
        if self.take_text("***") {
            match self.rest.next() {
                Some('=') => {
                    self.flags = Flags { syntax: Syntax::Literal, fold: self.flags.fold, ..Flags::default() };
                    return Ok(());
                }
                Some(':') => self.flags.syntax = Syntax::Advanced,
                Some('?') => return Err(RegexError::Version),
                _ => return Err(RegexError::Operand),
            }
        }
        let after = self.rest.as_str().strip_prefix("(?").and_then(|rest| rest.chars().next());
        if self.flags.syntax == Syntax::Advanced && after.is_some_and(|c| c.is_ascii_alphabetic()) {
            self.take_text("(?");
            loop {
                match self.rest.next() {
                    Some(')') => break,
                    // Basic expressions are not built; they are refused like unknown options.
                    Some(letter) if letter.is_ascii_alphabetic() && self.flags.apply(letter) => {}
                    _ => return Err(RegexError::EmbeddedOption),
                }
            }
            if self.flags.syntax == Syntax::Literal {
                self.flags = Flags { syntax: Syntax::Literal, fold: self.flags.fold, ..Flags::default() };
            }
        }
        Ok(())
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    /// Returns the characters that follow, without reading them.
    pub(super) fn ahead(&self) -> std::str::Chars<'p> {
        self.rest.clone()
    }

    pub(super) fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    pub(super) fn take_text(&mut self, wanted: &str) -> bool {
        match self.rest.as_str().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest.chars();
                true
            }
            None => false,
        }
    }

    pub(super) fn next_char(&mut self) -> Option<char> {
        self.rest.next()
    }

    fn is_advanced(&self) -> bool {
        self.flags.syntax == Syntax::Advanced
    }

    /// Skips blanks and comments in places where they have no meaning.
    pub(super) fn skip(&mut self) {
        if !self.flags.expanded {
            return;
        }
        loop {
            while self.peek().is_some_and(|c| matches!(c, ' ' | '\t'..='\r')) {
                self.rest.next();
            }
            if self.peek() != Some('#') {
                return;
            }
            while self.peek().is_some_and(|c| c != '\n') {
                self.rest.next();
            }
        }
    }

    /// Returns whether a quantifier is greedy; reads the `?` that makes it prefer the shortest match.
    pub(super) fn take_greedy(&mut self) -> bool {
        !(self.is_advanced() && self.take('?'))
    }

    /// Returns the next token outside brackets.
    pub(super) fn next(&mut self) -> Result<Token, RegexError> {
        if self.flags.syntax == Syntax::Literal {
            return Ok(self.rest.next().map_or(Token::End, Token::Plain));
        }
        loop {
            self.skip();
            let Some(c) = self.rest.next() else { return Ok(Token::End) };
            return Ok(match c {
                '|' => Token::Or,
                '*' => Token::Quantifier(0, None, self.take_greedy()),
                '+' => Token::Quantifier(1, None, self.take_greedy()),
                '?' => Token::Quantifier(0, Some(1), self.take_greedy()),
                '{' => {
                    self.skip();
                    if self.peek().is_some_and(|c| c.is_ascii_digit()) { Token::Bounds } else { Token::Plain('{') }
                }
                '(' if self.is_advanced() && self.take('?') => match self.rest.next() {
                    Some(':') => Token::Open(false),
                    Some('#') => {
                        while self.rest.next().is_some_and(|c| c != ')') {}
                        continue;
                    }
                    Some('=') => Token::Look(true, true),
                    Some('!') => Token::Look(true, false),
                    Some('<') => match self.rest.next() {
                        Some('=') => Token::Look(false, true),
                        Some('!') => Token::Look(false, false),
                        _ => return Err(RegexError::Operand),
                    },
                    _ => return Err(RegexError::Operand),
                },
                '(' => Token::Open(true),
                ')' => Token::Close,
                '[' if self.take_text("[:<:]]") => Token::Condition(Condition::WordStart),
                '[' if self.take_text("[:>:]]") => Token::Condition(Condition::WordEnd),
                '[' => Token::Bracket(self.take('^')),
                '.' => Token::Any,
                '^' => Token::Condition(Condition::Start(self.flags.newline_anchors)),
                '$' => Token::Condition(Condition::End(self.flags.newline_anchors)),
                '\\' if self.is_advanced() => self.escape()?,
                '\\' => Token::Plain(self.rest.next().ok_or(RegexError::Escape)?),
                c => Token::Plain(c),
            });
        }
    }

    /// Reads an escape of an advanced expression, after its backslash.
    pub(super) fn escape(&mut self) -> Result<Token, RegexError> {
        let c = self.rest.next().ok_or(RegexError::Escape)?;
        Ok(match c {
            'a' => Token::Plain('\x07'),
            'A' => Token::Condition(Condition::Start(false)),
            'b' => Token::Plain('\x08'),
            'B' => Token::Plain('\\'),
            'c' => {
                let of = self.rest.next().ok_or(RegexError::Escape)?;
                Token::Plain(char::from_u32(u32::from(of) & 0o37).expect("below 32"))
            }
            'd' => Token::Class("digit", false),
            'D' => Token::Class("digit", true),
            'e' => Token::Plain('\x1B'),
            'f' => Token::Plain('\x0C'),
            'm' => Token::Condition(Condition::WordStart),
            'M' => Token::Condition(Condition::WordEnd),
            'n' => Token::Plain('\n'),
            'r' => Token::Plain('\r'),
            's' => Token::Class("space", false),
            'S' => Token::Class("space", true),
            't' => Token::Plain('\t'),
            'u' => self.coded(16, 4, 4)?,
            'U' => self.coded(16, 8, 8)?,
            'v' => Token::Plain('\x0B'),
            'w' => Token::Class("word", false),
            'W' => Token::Class("word", true),
            'x' => self.coded(16, 1, 255)?,
            'y' => Token::Condition(Condition::WordEdge),
            'Y' => Token::Condition(Condition::NoWordEdge),
            'Z' => Token::Condition(Condition::End(false)),
            '1'..='9' => {
                let after = self.rest.clone();
                let digits = after.as_str().bytes().take_while(u8::is_ascii_digit).count();
                let mut number = usize::try_from(u32::from(c) - u32::from('0')).expect("a digit");
                for digit in after.as_str().bytes().take(digits) {
                    number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
                }
                if digits == 0 || number <= self.groups {
                    self.rest = after.as_str()[digits..].chars();
                    Token::Back(number)
                } else {
                    self.octal(c)?
                }
            }
            '0' => self.octal(c)?,
            c if c.is_ascii_alphabetic() => return Err(RegexError::Escape),
            c => Token::Plain(c),
        })
    }

    /// Reads an octal escape of one to three digits, the first of which was read already, as a byte.
    fn octal(&mut self, first: char) -> Result<Token, RegexError> {
        let mut value = first.to_digit(8).ok_or(RegexError::Escape)?;
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)).filter(|digit| value * 8 + digit <= 0xFF) else {
                break;
            };
            value = value * 8 + digit;
            self.rest.next();
        }
        Ok(Token::Plain(char::from_u32(value).expect("a byte")))
    }

    fn coded(&mut self, radix: u32, least: usize, most: usize) -> Result<Token, RegexError> {
        let mut value = 0_u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(radix))
        {
            value = value.checked_mul(radix).and_then(|value| value.checked_add(digit)).ok_or(RegexError::Escape)?;
            self.rest.next();
            digits += 1;
        }
        if digits < least {
            return Err(RegexError::Escape);
        }
        char::from_u32(value).map(Token::Plain).ok_or(RegexError::Escape)
    }
}
