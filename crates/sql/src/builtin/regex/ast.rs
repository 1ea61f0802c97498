//! `Ast`: a parsed expression.

use std::rc::Rc;

/// Which of several matches a quantifier prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Longest,
    Shortest,
}

/// How often an atom stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) least: u16,
    /// `None`: any number.
    pub(super) most: Option<u16>,
}

impl Times {
    pub(super) const ONCE: Self = Self { least: 1, most: Some(1) };
}

/// A condition on the characters beside a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The start of the text; `true`: of a line too.
    Start(bool),
    /// The end of the text; `true`: of a line too.
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
    /// One character of the set of this number.
    Set(usize),
    Condition(Condition),
    Look(Look),
    /// One after another; none matches the empty text.
    Branch(Vec<Rc<Ast>>),
    /// Two or more alternatives.
    Either(Vec<Rc<Ast>>),
    /// A quantified atom; the preference is `None` when it is the atom's own (`{m}`).
    Repeat(Rc<Ast>, Times, Option<Preference>),
    /// A group that is told, with its number from 1.
    Group(usize, Rc<Ast>),
    /// What the group of this number matched; the group itself stands for it where an automaton is asked.
    Back(usize, Rc<Ast>),
}
