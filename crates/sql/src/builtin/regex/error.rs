//! `RegexError`: the reasons why an expression cannot be compiled, or why a match was given up.

use std::fmt;

/// The reason why an expression is invalid, or the limit that was exceeded. Its text is PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builtin) enum RegexError {
    /// `***?`, which asks for the version.
    Version,
    /// `***` before an unknown character, or a quantifier without an operand.
    Operand,
    /// `[. .]` or `[= =]` names no character.
    CollatingElement,
    /// `[: :]` names no class.
    CharacterClass,
    /// A backslash before a character with which it has no meaning, or at the end.
    Escape,
    /// A back-reference to a group that does not exist, or one inside a look-around.
    BackReference,
    /// `[` without `]`.
    Brackets,
    /// `(` without `)`, or `)` without `(`.
    Parentheses,
    /// `{` without `}`.
    Braces,
    /// Too many repetitions, or a maximum below the minimum.
    Repetition,
    /// A range of characters that ends before it begins.
    Range,
    /// Unknown letters after `(?` at the start.
    EmbeddedOption,
    /// It would take more memory than an expression may use, or it is nested too deeply.
    TooComplex,
    /// The match took more steps than allowed.
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
