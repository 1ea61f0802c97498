//! Parses an expression to its tree.

use std::rc::Rc;

use collie_base::Map;

use super::ast::{Ast, Look, Preference, Times};
use super::charset::CharSet;
use super::error::RegexError;
use super::lexer::{Flags, Lexer, Syntax, Token};

/// Maximum nesting depth of parentheses; that of parts is twice as much.
pub(super) const DEPTH_MAX: usize = 256;
/// Maximum number of repetitions in bounds.
const REPETITIONS_MAX: u16 = 255;

/// A parsed expression.
pub(super) struct Parsed {
    pub(super) ast: Rc<Ast>,
    /// The sets of characters, by number.
    pub(super) sets: Vec<CharSet>,
    /// Number of groups.
    pub(super) groups: usize,
    pub(super) has_back_references: bool,
    pub(super) folds: bool,
}

struct Parser<'p> {
    lexer: Lexer<'p>,
    /// The current token.
    token: Token,
    sets: Vec<CharSet>,
    set_numbers: Map<CharSetKey, usize>,
    /// Completed groups, by number minus one.
    complete: Vec<Option<Rc<Ast>>>,
    looks: usize,
    has_back_references: bool,
    /// Whether the parser is inside a look-around, where nothing captures.
    in_look: bool,
    depth: usize,
}

type CharSetKey = Vec<(u32, u32)>;

/// Parses an expression.
pub(super) fn parse(pattern: &str, flags: Flags) -> Result<Parsed, RegexError> {
    let mut lexer = Lexer::new(pattern, flags)?;
    let token = lexer.next()?;
    let mut parser = Parser {
        lexer,
        token,
        sets: Vec::new(),
        set_numbers: Map::default(),
        complete: Vec::new(),
        looks: 0,
        has_back_references: false,
        in_look: false,
        depth: 0,
    };
    let ast = parser.alternatives()?;
    if parser.token != Token::End {
        return Err(RegexError::Parentheses);
    }
    Ok(Parsed {
        ast,
        sets: parser.sets,
        groups: parser.complete.len(),
        has_back_references: parser.has_back_references,
        folds: parser.lexer.flags.fold,
    })
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<(), RegexError> {
        self.token = self.lexer.next()?;
        Ok(())
    }

    fn is_nested(&self) -> bool {
        self.depth > 0
    }

    /// Parses branches up to the closing parenthesis or the end.
    fn alternatives(&mut self) -> Result<Rc<Ast>, RegexError> {
        let mut branches = vec![self.branch()?];
        while self.token == Token::Or {
            self.advance()?;
            branches.push(self.branch()?);
        }
        let single = if branches.len() == 1 { branches.pop() } else { None };
        Ok(single.unwrap_or_else(|| Rc::new(Ast::Either(branches))))
    }

    fn branch(&mut self) -> Result<Rc<Ast>, RegexError> {
        let mut items = Vec::new();
        loop {
            match self.token {
                Token::End | Token::Or => break,
                Token::Close if self.is_nested() => break,
                _ => {}
            }
            items.push(self.item()?);
        }
        Ok(Rc::new(Ast::Branch(items)))
    }

    /// Parses an atom with its quantifier, or a condition, which takes none.
    fn item(&mut self) -> Result<Rc<Ast>, RegexError> {
        let atom = match self.token {
            Token::Condition(condition) => {
                self.advance()?;
                return Ok(Rc::new(Ast::Condition(condition)));
            }
            Token::Look(is_ahead, is_wanted) => {
                let outer = std::mem::replace(&mut self.in_look, true);
                let inner = self.parenthesized()?;
                self.in_look = outer;
                let number = self.looks;
                self.looks += 1;
                return Ok(Rc::new(Ast::Look(Look { is_ahead, is_wanted, inner, number })));
            }
            Token::Quantifier(..) | Token::Bounds => return Err(RegexError::Operand),
            // A plain character in extended expressions, by a mistake in the standard.
            Token::Close if self.lexer.flags.syntax == Syntax::Extended => self.literal(')')?,
            Token::Close => return Err(RegexError::Parentheses),
            Token::Plain(c) => self.literal(c)?,
            Token::Any => {
                let mut all = CharSet::default().complement();
                if self.lexer.flags.newline_stops {
                    all.remove(u32::from('\n'));
                }
                self.set(all)?
            }
            Token::Class(name, is_complement) => {
                let mut set = CharSet::default();
                set.add_class(name, self.lexer.flags.fold)?;
                set.normalize();
                self.set(if is_complement { set.complement() } else { set })?
            }
            Token::Bracket(is_complement) => {
                let set = self.bracket(is_complement)?;
                self.set(set)?
            }
            Token::Back(number) => {
                let group = number.checked_sub(1).and_then(|at| self.complete.get(at)?.clone());
                let group = group.filter(|_| !self.in_look).ok_or(RegexError::BackReference)?;
                self.has_back_references = true;
                self.advance()?;
                Rc::new(Ast::Back(number, group))
            }
            Token::Open(captures) if captures && !self.in_look => {
                self.complete.push(None);
                let number = self.complete.len();
                self.lexer.groups = number;
                let inner = self.parenthesized()?;
                self.complete[number - 1] = Some(Rc::clone(&inner));
                Rc::new(Ast::Group(number, inner))
            }
            Token::Open(_) => self.parenthesized()?,
            Token::End | Token::Or => unreachable!("ends a branch"),
        };
        self.quantified(atom)
    }

    /// Parses parentheses and their content; the current token is the opening one.
    fn parenthesized(&mut self) -> Result<Rc<Ast>, RegexError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(RegexError::TooComplex);
        }
        self.advance()?;
        let inner = self.alternatives()?;
        if self.token != Token::Close {
            return Err(RegexError::Parentheses);
        }
        self.depth -= 1;
        self.advance()?;
        Ok(inner)
    }

    fn quantified(&mut self, atom: Rc<Ast>) -> Result<Rc<Ast>, RegexError> {
        let greedy = |is_greedy| Some(if is_greedy { Preference::Longest } else { Preference::Shortest });
        let (times, preference) = match self.token {
            Token::Quantifier(least, most, is_greedy) => (Times { least, most }, greedy(is_greedy)),
            Token::Bounds => {
                let least = self.bound()?;
                let (most, is_range) = match self.lexer.take(',') {
                    false => (Some(least), false),
                    true => {
                        self.lexer.skip();
                        let is_number = self.lexer.peek().is_some_and(|c| c.is_ascii_digit());
                        (if is_number { Some(self.bound()?) } else { None }, true)
                    }
                };
                if most.is_some_and(|most| most < least) {
                    return Err(RegexError::Repetition);
                }
                match self.lexer.peek() {
                    None => return Err(RegexError::Braces),
                    Some('}') => self.lexer.take('}'),
                    Some(_) => return Err(RegexError::Repetition),
                };
                // Bounds of one number leave the preference to the atom, even if a `?` follows them.
                let is_greedy = self.lexer.take_greedy();
                (Times { least, most }, if is_range { greedy(is_greedy) } else { None })
            }
            _ => return Ok(atom),
        };
        self.advance()?;
        Ok(Rc::new(Ast::Repeat(atom, times, preference)))
    }

    /// Parses a number of bounds and skips blanks and comments after it.
    fn bound(&mut self) -> Result<u16, RegexError> {
        let mut value = 0_u16;
        while let Some(digit) = self.lexer.peek().and_then(|c| c.to_digit(10)) {
            self.lexer.next_char();
            value = value * 10 + u16::try_from(digit).expect("a digit");
            if value > REPETITIONS_MAX {
                return Err(RegexError::Repetition);
            }
            self.lexer.skip();
        }
        Ok(value)
    }

    fn literal(&mut self, c: char) -> Result<Rc<Ast>, RegexError> {
        let mut set = CharSet::one(u32::from(c));
        if self.lexer.flags.fold {
            set.fold();
            set.normalize();
        }
        self.set(set)
    }

    /// Makes an atom of a normalized set and advances to the next token.
    fn set(&mut self, set: CharSet) -> Result<Rc<Ast>, RegexError> {
        let next = self.sets.len();
        let number = *self.set_numbers.entry(set.ranges().to_vec()).or_insert(next);
        if number == next {
            self.sets.push(set);
        }
        self.advance()?;
        Ok(Rc::new(Ast::Set(number)))
    }

    /// Parses a bracket expression through its closing bracket; the opening one was read already.
    fn bracket(&mut self, is_complement: bool) -> Result<CharSet, RegexError> {
        let fold = self.lexer.flags.fold;
        let mut set = CharSet::default();
        let mut is_first = true;
        loop {
            let piece = self.bracket_piece(is_first)?;
            is_first = false;
            let first = match piece {
                Piece::End => break,
                Piece::Dash => return Err(RegexError::Range),
                Piece::Class(name, false) => {
                    set.add_class(&name, fold).map_err(|error| self.sooner(error))?;
                    continue;
                }
                Piece::Class(name, true) => {
                    let mut class = CharSet::default();
                    class.add_class(&name, fold)?;
                    class.normalize();
                    set.add_all(&class.complement());
                    continue;
                }
                Piece::Equivalents(c) => {
                    set.add(u32::from(c), u32::from(c));
                    continue;
                }
                Piece::Char(c) => u32::from(c),
            };
            let mut last = first;
            if self.lexer.peek() == Some('-') && !self.ends_after_dash() {
                self.lexer.next_char();
                last = match self.bracket_piece(false)? {
                    Piece::Char(c) => u32::from(c),
                    Piece::Dash => u32::from('-'),
                    _ => return Err(RegexError::Range),
                };
                if last < first {
                    return Err(self.sooner(RegexError::Range));
                }
            }
            set.add(first, last);
        }
        if fold {
            set.fold();
        }
        set.normalize();
        if is_complement {
            set = set.complement();
            if self.lexer.flags.newline_stops {
                set.remove(u32::from('\n'));
            }
        }
        Ok(set)
    }

    /// Returns the error that PostgreSQL finds first: it reads the next piece of a bracket expression before it judges
    /// this one.
    fn sooner(&mut self, error: RegexError) -> RegexError {
        match self.bracket_piece(false) {
            Err(sooner @ (RegexError::Brackets | RegexError::Escape)) => sooner,
            _ => error,
        }
    }

    /// Returns whether the next character, a dash, stands before the closing bracket and so for itself.
    fn ends_after_dash(&self) -> bool {
        let mut ahead = self.lexer.ahead();
        ahead.next();
        ahead.next() == Some(']')
    }

    fn bracket_piece(&mut self, is_first: bool) -> Result<Piece, RegexError> {
        let c = self.lexer.next_char().ok_or(RegexError::Brackets)?;
        Ok(match c {
            ']' if !is_first => Piece::End,
            '-' if !is_first && self.lexer.peek() != Some(']') => Piece::Dash,
            '\\' if self.lexer.flags.syntax == Syntax::Advanced => match self.lexer.escape()? {
                Token::Plain(c) => Piece::Char(c),
                Token::Class(name, is_complement) => Piece::Class(name.to_owned(), is_complement),
                _ => return Err(RegexError::Escape),
            },
            '[' => match self.lexer.peek() {
                None => return Err(RegexError::Brackets),
                Some(kind @ (':' | '.' | '=')) => {
                    self.lexer.next_char();
                    let name = self.named(kind)?;
                    if kind == ':' {
                        Piece::Class(name, false)
                    } else {
                        let c = element(&name)?;
                        if kind == '.' { Piece::Char(c) } else { Piece::Equivalents(c) }
                    }
                }
                Some(_) => Piece::Char('['),
            },
            c => Piece::Char(c),
        })
    }

    /// Reads a name up to `:]`, `.]` or `=]`.
    fn named(&mut self, kind: char) -> Result<String, RegexError> {
        let mut name = String::new();
        loop {
            let c = self.lexer.next_char().ok_or(RegexError::Brackets)?;
            if c == kind && self.lexer.take(']') {
                return Ok(name);
            }
            name.push(c);
        }
    }
}

/// A piece of a bracket expression.
enum Piece {
    End,
    Dash,
    Char(char),
    Class(String, bool),
    Equivalents(char),
}

/// Returns the character that a collating element names: a character, or one of POSIX's names.
fn element(name: &str) -> Result<char, RegexError> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Ok(c);
    }
    let found = ELEMENTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, c)| *c).ok_or(RegexError::CollatingElement)
}

/// POSIX's names for characters of the portable set, other than the characters themselves.
const ELEMENTS: &[(&str, char)] = &[
    ("NUL", '\0'),
    ("alert", '\x07'),
    ("backspace", '\x08'),
    ("tab", '\t'),
    ("newline", '\n'),
    ("vertical-tab", '\x0B'),
    ("form-feed", '\x0C'),
    ("carriage-return", '\r'),
    ("ESC", '\x1B'),
    ("space", ' '),
    ("exclamation-mark", '!'),
    ("quotation-mark", '"'),
    ("number-sign", '#'),
    ("dollar-sign", '$'),
    ("percent-sign", '%'),
    ("ampersand", '&'),
    ("apostrophe", '\''),
    ("left-parenthesis", '('),
    ("right-parenthesis", ')'),
    ("asterisk", '*'),
    ("plus-sign", '+'),
    ("comma", ','),
    ("hyphen", '-'),
    ("hyphen-minus", '-'),
    ("period", '.'),
    ("full-stop", '.'),
    ("slash", '/'),
    ("solidus", '/'),
    ("zero", '0'),
    ("one", '1'),
    ("two", '2'),
    ("three", '3'),
    ("four", '4'),
    ("five", '5'),
    ("six", '6'),
    ("seven", '7'),
    ("eight", '8'),
    ("nine", '9'),
    ("colon", ':'),
    ("semicolon", ';'),
    ("less-than-sign", '<'),
    ("equals-sign", '='),
    ("greater-than-sign", '>'),
    ("question-mark", '?'),
    ("commercial-at", '@'),
    ("left-square-bracket", '['),
    ("backslash", '\\'),
    ("reverse-solidus", '\\'),
    ("right-square-bracket", ']'),
    ("circumflex", '^'),
    ("circumflex-accent", '^'),
    ("underscore", '_'),
    ("low-line", '_'),
    ("grave-accent", '`'),
    ("left-brace", '{'),
    ("left-curly-bracket", '{'),
    ("vertical-line", '|'),
    ("right-brace", '}'),
    ("right-curly-bracket", '}'),
    ("tilde", '~'),
    ("DEL", '\x7F'),
];
