//! `RegexError`: why an expression cannot be compiled, or a match was given up.

use std::fmt;

/// Why an expression is none, or what was too much. Its text is PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builtin) enum RegexError {
    /// `***?`, which asks for the version.
    Version,
    /// `***` before something unknown, or a quantifier without an operand.
    Operand,
    /// `[. .]` or `[= =]` names no character.
    CollatingElement,
    /// `[: :]` names no class.
    CharacterClass,
    /// A backslash before what it means nothing with, or at the end.
    Escape,
    /// A back-reference to a group that is not there, or inside of a look-around.
    BackReference,
    /// `[` without `]`.
    Brackets,
    /// `(` without `)`, or the other way round.
    Parentheses,
    /// `{` without `}`.
    Braces,
    /// Too many repetitions, or fewer at the most than at the least.
    Repetition,
    /// A range of characters that ends before it begins.
    Range,
    /// Letters after `(?` at the start that mean nothing.
    EmbeddedOption,
    /// It would take more memory than an expression may have, or is nested too deeply.
    TooComplex,
    /// The match took more steps than it may.
    TooManySteps,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "invalid regexp (reg version 0.8)",
            Self::Operand => "quantifier operand invalid",
            Self::CollatingElement => "invalid collating element",
            Self::CharacterClass => "invalid character class",
            Self::Escape => "invalid escape \\ sequence",
            Self::BackReference => "invalid backreference number",
            Self::Brackets => "brackets [] not balanced",
            Self::Parentheses => "parentheses () not balanced",
            Self::Braces => "braces {} not balanced",
            Self::Repetition => "invalid repetition count(s)",
            Self::Range => "invalid character range",
            Self::EmbeddedOption => "invalid embedded option",
            Self::TooComplex => "regular expression is too complex",
            Self::TooManySteps => "regular expression takes too many steps",
        })
    }
}
