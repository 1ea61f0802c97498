//! [`one_line`]: makes untrusted text safe to print in a line of a log or on a terminal.

use std::borrow::Cow;

/// Returns whether a character could end a line, move a cursor, or display text in another place.
fn is_unsafe(character: char) -> bool {
    let turns = matches!(character, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Returns `text` with every character escaped (`\n`, `\u{1b}`) that could start another line or control a
/// terminal. So a name with a newline cannot forge a line of a log.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let escaped =
        |character: char| if is_unsafe(character) { character.escape_default().to_string() } else { character.into() };
    Cow::Owned(text.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: characters that could forge a line of a log or control a terminal are escaped, and no others. Method:
    /// one of each.
    #[test]
    fn text_of_others_stays_one_line() {
        for plain in ["", "a name", "caf\u{e9} \u{4e2d} \\n"] {
            assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
        }
        let bad = "a\nerror: b\r\t\u{1b}[2J\u{7}\u{85}\u{2028}\u{202e}\u{7f}";
        assert_eq!(one_line(bad), r"a\nerror: b\r\t\u{1b}[2J\u{7}\u{85}\u{2028}\u{202e}\u{7f}");
    }
}
