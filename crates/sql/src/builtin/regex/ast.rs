//! `Ast`: a parsed expression.

use std::rc::Rc;

/// The match that a quantifier prefers among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Longest,
    Shortest,
}

/// The number of repetitions of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) least: u16,
    /// `None` means any number.
    pub(super) most: Option<u16>,
}

impl Times {
    pub(super) const ONCE: Self = Self { least: 1, most: Some(1) };
}

/// A condition on the characters on either side of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The start of the text; with `true`, also of a line.
    Start(bool),
    /// The end of the text; with `true`, also of a line.
    End(bool),
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// A look-around.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) is_ahead: bool,
    pub(super) is_wanted: bool,
    pub(super) inner: Rc<Ast>,
    /// Its number in the expression.
    pub(super) number: usize,
}

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Ast {
    /// One character of the set with this number.
    Set(usize),
    Condition(Condition),
    Look(Look),
    /// One item after another; no items match the empty text.
    Branch(Vec<Rc<Ast>>),
    /// Two or more alternatives.
    Either(Vec<Rc<Ast>>),
    /// A quantified atom. The preference is `None` if the atom's own applies (`{m}`).
    Repeat(Rc<Ast>, Times, Option<Preference>),
    /// A capturing group, with its number from 1.
    Group(usize, Rc<Ast>),
    /// A back-reference to the group with this number. Automata use the group's expression in its place.
    Back(usize, Rc<Ast>),
}
