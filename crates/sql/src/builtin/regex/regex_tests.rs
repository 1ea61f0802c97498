//! Tests of regular expressions alone: limits of time and memory, and context. The scripts of `tests/sql` and the
//! clients' tests compare matches, and their division among groups, with PostgreSQL.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern, Flags::default()).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// Returns the match, group by group.
fn found(pattern: &str, text: &str) -> Result<Option<Vec<Option<String>>>, RegexError> {
    let groups = Regex::new(pattern, Flags::default())?.find(text, 0, true)?;
    let piece = |place: &Option<(usize, usize)>| place.map(|(from, to)| text[from..to].to_owned());
    Ok(groups.map(|groups| groups.iter().map(piece).collect()))
}

fn whole(pattern: &str, text: &str) -> Option<String> {
    found(pattern, text).unwrap_or_else(|error| panic!("{pattern}: {error}"))?.swap_remove(0)
}

/// Goal: the longest match wins whichever alternative comes first, and preferences extend as far as in PostgreSQL.
/// Method: a few patterns whose results PostgreSQL's manual gives.
#[test]
fn preferences_decide_how_long_a_match_is() {
    for (pattern, text, wanted) in [
        ("foo|foobar", "foobar", Some("foobar")),
        ("Y*([0-9]{1,3})", "XY1234Z", Some("Y123")),
        ("Y*?([0-9]{1,3})", "XY1234Z", Some("Y1")),
        ("(?:a|ab)(?:c|bcd)(?:d*)", "abcd", Some("abcd")),
        ("x*", "aaa", Some("")),
        ("b", "aaa", None),
        (r"(\w)\1", "hello", Some("ll")),
        ("(?<=a)b(?!c)", "abcab", Some("b")),
    ] {
        assert_eq!(whole(pattern, text).as_deref(), wanted, "{pattern}");
    }
}

/// Goal: the text before the start of a search counts as context. Method: the same pattern from two starts.
#[test]
fn a_search_from_the_middle_knows_what_is_before_it() {
    let place = |pattern: &str, from| compiled(pattern).find("aba", from, false).unwrap().map(|groups| groups[0]);
    assert_eq!(place("^a", 0), Some(Some((0, 1))));
    assert_eq!(place("^a", 2), None);
    assert_eq!(place("(?<=b)a", 2), Some(Some((2, 3))));
    assert_eq!(place(r"\ma", 2), None);
}

/// Goal: R1: patterns that take exponential time in other engines end, with a result or an error. Method: the known
/// patterns, on texts on which they fail.
#[test]
fn patterns_that_explode_elsewhere_end() {
    let text = "a".repeat(2_000);
    assert_eq!(found("(a*)*b", &text), Ok(None));
    assert_eq!(found("(a|aa)+$b", &text), Ok(None));
    assert_eq!(found("^(([a-z])+.)+[A-Z]([a-z])+$", &text), Ok(None));
    let back = "(a*)(a*)(a*)(a*)(a*)(a*)(a*)(a*)".to_owned() + r"\1\2\3\4\5\6\7\8b\1";
    assert!(matches!(found(&back, &text), Ok(None) | Err(RegexError::TooManySteps)));
    let slow = found(r"^(a|aa|aaa)*?(a*)(a*)\2\3x?\1b?$", &text[..200]);
    assert!(matches!(slow, Ok(_) | Err(RegexError::TooManySteps)), "{slow:?}");
}

/// Goal: R2 and R3: expressions that would need too much memory or recursion are refused. Method: nested bounds,
/// parentheses and groups in a row, each below and above its limit.
#[test]
fn expressions_beyond_the_bounds_are_refused() {
    let refused = |pattern: &str| Regex::new(pattern, Flags::default()).err();
    assert_eq!(refused("((a{255}){255}){255}"), Some(RegexError::TooComplex));
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(refused(&nested(100_000)), Some(RegexError::TooComplex));
    assert_eq!(refused(&nested(parse::DEPTH_MAX)), None);
    assert_eq!(refused(&"(a)".repeat(10_000)), Some(RegexError::TooComplex));
    assert_eq!(refused(&"(a)".repeat(200)), None);
    let mut many = String::new();
    for c in ('\u{4E00}'..'\u{9FFF}').step_by(2) {
        let _ = write!(many, "[{c}]");
    }
    assert_eq!(refused(&many), Some(RegexError::TooComplex));
}

/// Goal: automata forget what they have learned when it is too much, and the result stays right (R2). Method: a pattern
/// with more states than are kept, on a text that visits them.
#[test]
fn forgetting_changes_no_answer() {
    let pattern = "(?:a|b)*a(?:a|b){14}c";
    let mut text = String::new();
    let mut seed = 1_u32;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(if seed & 0x8000 == 0 { 'a' } else { 'b' });
    }
    let regex = compiled(pattern);
    assert_eq!(regex.is_match(&text), Ok(false));
    text.push_str("abbbbbbbbbbbbbbc");
    assert_eq!(regex.find(&text, 0, false).unwrap().map(|groups| groups[0]), Some(Some((0, text.len()))));
}

/// Returns random expressions from the constructs of regular languages.
fn expressions() -> impl Strategy<Value = String> {
    let atom = prop_oneof![Just("a"), Just("b"), Just("."), Just("[ab]"), Just("[^a]")].prop_map(str::to_owned);
    atom.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (inner, prop_oneof![Just("*"), Just("+"), Just("?"), Just("{1,2}")])
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
        ]
    })
}

proptest! {
    /// Goal: another engine agrees on whether there is a match and where the leftmost-longest one lies. Method: random
    /// expressions without groups; the longest end is found by anchoring every prefix.
    #[test]
    fn matches_agree_with_another_engine(pattern in expressions(), text in "[abc]{0,8}") {
        let ours = compiled(&pattern).find(&text, 0, false).unwrap().and_then(|groups| groups[0]);
        let start = regex::Regex::new(&pattern).unwrap().find(&text).map(|found| found.start());
        let anchored = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        let theirs = start.map(|start| {
            let end = (start..=text.len()).rev().find(|end| anchored.is_match(&text[start..*end]));
            (start, end.expect("the other engine found one"))
        });
        prop_assert_eq!(ours, theirs, "{} in {}", pattern, text);
    }

    /// Goal: nothing that a client can send causes a panic or a hang. Method: random texts of the syntax's characters.
    #[test]
    fn any_text_is_an_expression_or_an_error(
        pattern in r"[ab\\()\[\]{}|*+?^$.:=!<>,0-9wdsmyDZ&~-]{0,24}",
        text in "[ab1 -]{0,12}",
    ) {
        if let Ok(regex) = Regex::new(&pattern, Flags::default()) {
            let _ = regex.find(&text, 0, true);
        }
    }
}
