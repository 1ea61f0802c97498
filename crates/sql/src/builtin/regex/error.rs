//! `RegexError`: the reasons why an expression cannot be compiled, or why a match was given up.

use thiserror::Error;

/// The reason why an expression is invalid, or the limit that was exceeded. Its text is PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(in crate::builtin) enum RegexError {
    /// `***?`, which asks for the version.
    #[error("invalid regexp (reg version 0.8)")]
    Version,
    /// `***` before an unknown character, or a quantifier without an operand.
    #[error("quantifier operand invalid")]
    Operand,
    /// `[. .]` or `[= =]` names no character.
    #[error("invalid collating element")]
    CollatingElement,
    /// `[: :]` names no class.
    #[error("invalid character class")]
    CharacterClass,
    /// A backslash before a character with which it has no meaning, or at the end.
    #[error("invalid escape \\ sequence")]
    Escape,
    /// A back-reference to a group that does not exist, or one inside a look-around.
    #[error("invalid backreference number")]
    BackReference,
    /// `[` without `]`.
    #[error("brackets [] not balanced")]
    Brackets,
    /// `(` without `)`, or `)` without `(`.
    #[error("parentheses () not balanced")]
    Parentheses,
    /// `{` without `}`.
    #[error("braces {{}} not balanced")]
    Braces,
    /// Too many repetitions, or a maximum below the minimum.
    #[error("invalid repetition count(s)")]
    Repetition,
    /// A range of characters that ends before it begins.
    #[error("invalid character range")]
    Range,
    /// Unknown letters after `(?` at the start.
    #[error("invalid embedded option")]
    EmbeddedOption,
    /// It would take more memory than an expression may use, or it is nested too deeply.
    #[error("regular expression is too complex")]
    TooComplex,
    /// The match took more steps than allowed.
    #[error("regular expression takes too many steps")]
    TooManySteps,
}
