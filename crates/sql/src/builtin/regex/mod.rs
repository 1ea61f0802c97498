//! Regular expressions with PostgreSQL's rules: advanced ones (AREs), extended ones (EREs) and literal texts.
//!
//! `pattern` has LIKE. There is no locale: letters are those of ASCII, as in a database with `lc_ctype = C`.
//!
//! A match begins as early as possible. Its end follows from the preference of the whole expression, which is that of
//! the first quantified atom: the longest match if the atom is greedy, otherwise the shortest; an expression with `|`
//! prefers the longest. Then each part of the expression gets the longest or shortest piece of the match that leaves a
//! match for the parts after it; parts further left choose first.
//!
//! Method: [`parse`] makes a tree ([`ast`]), [`parts`] finds the parts with a preference of their own, [`automaton`]
//! makes a lazily built deterministic automaton of any part, and [`search`] finds a match and divides it among the
//! parts.
//!
//! # Invariants
//! - R1. Every loop over a text spends from the budget of its [`Search`], so a match ends after a number of steps that
//!   is linear in the text, if necessary with an error: back-references can need exponentially many.
//! - R2. The memory of an expression is bounded by [`automaton::INSTRUCTIONS_MAX`] for all its automata, and by a limit
//!   on the steps that they learn, which they forget beyond it.
//! - R3. Recursion is bounded by [`parse::DEPTH_MAX`] for parentheses, and by twice that for parts.
//!
//! Checked by `regex_tests`, by `tests/sql/regular_expressions.sql` on both servers, and by a comparison of generated
//! expressions with PostgreSQL (`tests/clients/tests/regular_expressions.rs`).

mod ast;
mod automaton;
mod charset;
mod colors;
mod error;
mod lexer;
mod parse;
mod parts;
mod search;

#[cfg(test)]
mod regex_tests;

pub(super) use error::RegexError;
pub(super) use lexer::Flags;

use automaton::{Automaton, Shared};
use colors::Colors;
use parts::Part;
use search::Search;

/// A compiled expression. Searches take `&self`; the steps that its automata learn are kept for the next search.
pub(super) struct Regex {
    top: Part,
    /// The automaton that finds the end of the first match, wherever the match begins.
    scan: Automaton,
    shared: Shared,
    groups: usize,
    has_back_references: bool,
    /// Whether letters match in either case.
    folds: bool,
}

/// Positions of a match and its groups, in bytes of the text; the first entry is the whole match.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

impl Regex {
    /// Compiles an expression.
    pub(super) fn new(pattern: &str, flags: Flags) -> Result<Self, RegexError> {
        let parsed = parse::parse(pattern, flags)?;
        let shared = Shared::new(Colors::new(&parsed.sets)?);
        let top = parts::parts(&parsed.ast, 0)?;
        let scan = Automaton::new(&top.ast, &shared, true)?;
        top.automaton(&shared)?;
        Ok(Self {
            top,
            scan,
            shared,
            groups: parsed.groups,
            has_back_references: parsed.has_back_references,
            folds: parsed.folds,
        })
    }

    /// Returns the number of groups, without the whole match.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Returns whether there is a match.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, RegexError> {
        let mut search = Search::new(self, text);
        match self.has_back_references {
            true => Ok(search.find(0, false)?.is_some()),
            false => Ok(search.scan(0)?.is_some()),
        }
    }

    /// Finds the first match that begins at or after byte `from`; the text before it counts as context. Without
    /// `with_groups`, only the position of the whole match is reliable.
    pub(super) fn find(&self, text: &str, from: usize, with_groups: bool) -> Result<Option<Groups>, RegexError> {
        Search::new(self, text).find(from, with_groups)
    }

    /// Maintains R2.
    fn forget_if_full(&self) {
        if self.shared.is_full() {
            self.scan.forget(&self.shared);
            self.top.forget(&self.shared);
            self.shared.forget();
        }
    }
}
