//! The memory that parsing and planning a long text takes: [`text_bytes`] estimates it, and [`TextMemory`] holds it on
//! the account of a statement.
//!
//! # Invariants
//! - T1. A long text is on the account from before it is parsed until its statements have run, so R1 of
//!   `resource_limits.rs` holds for trees too.
//!
//! The estimate counts tokens: trees, bound expressions and plans together took between 400 and 1,300 bytes for each
//! token (lists of rows, IN lists, casts, conditions), plus about ten bytes for each byte of the text.

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{Held, Kept},
    session::resource_limits::ResourceLimits,
};

const TOKEN_BYTES: usize = 600;
const BYTE_BYTES: usize = 10;

/// The account of a text. Dropping it gives the memory back.
pub(super) struct TextMemory(#[expect(dead_code, reason = "it is there to be dropped")] Held);

impl TextMemory {
    /// Makes an account for a text.
    ///
    /// # Errors
    /// 53200 beyond the limits.
    pub(super) fn of(limits: &ResourceLimits, text: &str) -> Result<Self> {
        let mut held = limits.account();
        let refused = Kept::by("the parser").bytes(&mut held, text_bytes(text));
        refused.map(|()| Self(held)).map_err(|error| {
            let message = format!("out of memory for parsing and planning a text of {} bytes", text.len());
            let error = SqlError::new(SqlState::OUT_OF_MEMORY, message).detail(error.report().detail.clone().unwrap_or_default());
            error.hint("Split the text, load rows with COPY, give the values as an array parameter, or raise server.statement_memory and server.query_memory.")
        })
    }
}

/// Returns the estimated memory of a text's statements while they are parsed, planned and run, in bytes.
fn text_bytes(text: &str) -> usize {
    tokens(text.as_bytes()).saturating_mul(TOKEN_BYTES).saturating_add(text.len().saturating_mul(BYTE_BYTES))
}

/// Counts words, numbers, quoted texts, and each other character that is not white space.
fn tokens(text: &[u8]) -> usize {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..);
    let (mut count, mut before, mut quote) = (0, b' ', None);
    for &byte in text {
        match quote {
            Some(open) => {
                if byte == open {
                    quote = None;
                }
            }
            None if matches!(byte, b'\'' | b'"') => {
                quote = Some(byte);
                // A quote right after a closing one is a doubled quote, and continues the same text.
                count += usize::from(before != byte);
            }
            None if byte.is_ascii_whitespace() || is_word(byte) && is_word(before) => {}
            None => count += 1,
        }
        before = if quote.is_some() { b'\'' } else { byte };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: tokens are counted about as the parser finds them, and a long literal is one. Method: a few texts.
    #[test]
    fn tokens_are_words_and_signs() {
        for (text, expected) in [
            ("", 0),
            ("  SELECT\n1 ", 2),
            ("SELECT 1.5+x_1", 4),
            ("VALUES (1,'a b','it''s')", 8),
            ("\"a b\".caf\u{e9}", 2),
            ("'unfinished, and long", 1),
        ] {
            assert_eq!(tokens(text.as_bytes()), expected, "{text}");
        }
    }
}
