//! Regular expressions with PostgreSQL's rules: advanced ones (AREs), extended ones (EREs) and literal texts.
//!
//! Not LIKE (`pattern`), and no locale: letters are ASCII's, as in a database with `lc_ctype = C`.
//!
//! A match begins as early as it can. Its end follows from the preference of the whole expression: that of the first
//! quantified atom, longest where that is greedy, shortest where it is not; an expression with `|` prefers the longest.
//! Then each part of the expression gets the longest or shortest piece of the match that leaves a match for what
//! follows, parts to the left first.
//!
//! How: [`parse`] makes a tree ([`ast`]), [`parts`] says which parts have a preference of their own, [`automaton`] makes
//! a lazily built deterministic automaton of any part, and [`search`] finds a match and divides it among the parts.
//!
//! # Invariants
//! - R1. Every loop over a text spends from the budget of its [`Search`], so a match ends after a number of steps that is
//!   linear in the text, with an error if need be: back-references can ask for exponentially many.
//! - R2. The memory of an expression is bounded: by [`automaton::INSTRUCTIONS_MAX`] in all its automata, and by what they
//!   may learn, which they forget when it is too much.
//! - R3. Recursion is bounded by [`parse::DEPTH_MAX`], which limits parentheses, and parts to the double.
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

/// A compiled expression. Finding takes `&self`; what it learns of its automata stays for the next time.
pub(super) struct Regex {
    top: Part,
    /// The automaton that finds where the first match ends, wherever it begins.
    scan: Automaton,
    shared: Shared,
    groups: usize,
    has_back_references: bool,
    /// Whether letters match in either case.
    folds: bool,
}

/// Where a match and its groups lie, in bytes of the text; the first is the whole match.
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

    /// Returns how many groups it has, the whole match not counted.
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

    /// Finds the first match that begins at or after byte `from`; what lies before it counts as context. Without
    /// `with_groups` only the whole match is sure to be told.
    pub(super) fn find(&self, text: &str, from: usize, with_groups: bool) -> Result<Option<Groups>, RegexError> {
        Search::new(self, text).find(from, with_groups)
    }

    /// Keeps R2.
    fn forget_if_full(&self) {
        if self.shared.is_full() {
            self.scan.forget(&self.shared);
            self.top.forget(&self.shared);
            self.shared.forget();
        }
    }
}
